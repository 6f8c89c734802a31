// SharedVector and SharedMap.
#include "forklift/detail/container.h"

#include "api/attached.h"
#include "container/map.h"
#include "container/vector.h"
#include "tensor/arena_storage.h"

namespace forklift::inline abi_0_1::detail {

namespace {

container::Shape shape_of(const ContainerKind& kind, std::uint64_t capacity) {
  return {kind.is_map ? container::Kind::kMap : container::Kind::kVector, kind.type, capacity, kind.key_bytes,
          kind.item_bytes};
}

// The domain that the memory is of: a process can have memory of one that it inherited.
domain::Domain& domain_of(const Tensor& memory) {
  const arena::LeasePtr* lease = memory.storage() ? tensor::share_lease(*memory.storage()) : nullptr;
  if (lease == nullptr)
    throw TypeMismatch({Code::kCorrupt, "a shared container that is not in shared memory"});
  return (*lease)->arena().domain();
}

std::span<std::byte> bytes_of(const Tensor& memory) { return {memory.raw(), memory.nbytes()}; }

}  // namespace

ContainerBase::ContainerBase(const ContainerKind& kind, std::size_t capacity)
    : memory_(shared_memory(value_or_throw(container::bytes_for(shape_of(kind, capacity))), 1)),
      block_(value_or_throw(container::Block::make(bytes_of(memory_), memory_.storage(),
                                                   shape_of(kind, capacity), domain_of(memory_)))) {}

ContainerBase::ContainerBase(const ContainerKind& kind, Tensor memory) : memory_(std::move(memory)) {
  if (memory_.dtype() != DType::kUInt8 || memory_.readonly() || !memory_.is_contiguous())
    throw TypeMismatch({Code::kInvalid, "this memory holds no shared container"});
  Result<container::BlockPtr> block =
      container::Block::open(bytes_of(memory_), memory_.storage(), shape_of(kind, 0), domain_of(memory_));
  if (!block) throw TypeMismatch(block.status());
  block_ = *std::move(block);
}

std::size_t ContainerBase::size() const { return block_->size(); }
std::size_t ContainerBase::capacity() const { return block_->shape().capacity; }

ContainerWriter::ContainerWriter(container::Block& block) : writer_(new(memory_) container::Writer(block)) {
  static_assert(sizeof(container::Writer) <= sizeof memory_ && alignof(container::Writer) <= 8);
  if (writer_->ok()) [[likely]]
    return;
  const Status why = writer_->status();
  writer_->~Writer();
  throw_if_failed(why);
}
ContainerWriter::~ContainerWriter() { writer_->~Writer(); }

void vector_push_back(container::Writer& writer, const void* item) {
  throw_if_failed(container::push_back(writer, item));
}
bool vector_pop_back(container::Writer& writer, void* item) { return container::pop_back(writer, item); }
bool vector_replace(container::Writer& writer, std::size_t index, const void* item) {
  return container::replace(writer, index, item);
}
bool vector_item(container::Writer& writer, std::size_t index, void* item) {
  return container::item_at(writer, index, item);
}
void vector_clear(container::Writer& writer) { container::clear_vector(writer); }
bool vector_get(container::Block& block, std::size_t index, void* item) {
  bool found = false;
  throw_if_failed(container::get(block, index, item, found));
  return found;
}
void vector_copy(container::Block& block, ContainerRoom room, void* context) {
  throw_if_failed(container::copy_all(block, room, context));
}

bool map_put(container::Writer& writer, const void* key, const void* value, MapPut how) {
  bool was_there = false;
  const container::If when = how == MapPut::kInsert   ? container::If::kAbsent
                             : how == MapPut::kUpdate ? container::If::kPresent
                                                      : container::If::kAny;
  throw_if_failed(container::assign(writer, key, value, when, was_there));
  return was_there;
}
bool map_erase(container::Writer& writer, const void* key) {
  bool was_there = false;
  throw_if_failed(container::erase(writer, key, was_there));
  return was_there;
}
bool map_item(container::Writer& writer, const void* key, void* value) {
  bool found = false;
  throw_if_failed(container::find_locked(writer, key, value, found));
  return found;
}
void map_clear(container::Writer& writer) { throw_if_failed(container::clear_map(writer)); }
bool map_find(container::Block& block, const void* key, void* value) {
  bool found = false;
  throw_if_failed(container::find(block, key, value, found));
  return found;
}
void map_copy(container::Block& block, ContainerRoom room, void* context) {
  throw_if_failed(container::copy_elements(block, room, context));
}

}  // namespace forklift::inline abi_0_1::detail
