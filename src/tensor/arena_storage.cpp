#include "tensor/arena_storage.h"

#include <cstring>
#include <utility>

#include "arena/recycler.h"
#include "channel/hub.h"

namespace forklift {
namespace {

class ArenaStorage final : public Storage {
 public:
  explicit ArenaStorage(arena::LeasePtr lease) noexcept
      : Storage(lease->data(), lease->size()), lease_(std::move(lease)) {}

  const void* arena_lease() const noexcept override {
    return lease_->kind() == arena::Kind::kShare ? &lease_ : nullptr;
  }

 private:
  arena::LeasePtr lease_;
};

// Memory for so many bytes in the process's own arena; none where none is needed.
Result<std::shared_ptr<Storage>> own_memory(std::int64_t bytes, bool zeroed) {
  if (bytes == 0) return std::shared_ptr<Storage>();
  const Result<channel::Hub*> hub = channel::Hub::current();
  if (!hub) return hub.status();
  return tensor::arena_storage((*hub)->arena(), static_cast<std::size_t>(bytes), zeroed);
}

// Elements in C order. `make` is the constructor, which only members may call: nothing is left to check.
template <class Make>
Result<Tensor> in_arena(Dims shape, DType dtype, bool zeroed, Make&& make) {
  const std::size_t item = item_size(dtype);
  const Result<std::int64_t> bytes = byte_count(shape, item);
  if (!bytes) return bytes.status();
  Result<std::shared_ptr<Storage>> memory = own_memory(*bytes, zeroed);
  if (!memory) return memory.status();
  if (*bytes == 0) return Tensor::wrap(nullptr, dtype, std::move(shape));
  Dims strides = c_strides(shape);
  return make(*std::move(memory), *bytes / static_cast<std::int64_t>(item), std::move(shape),
              std::move(strides));
}

}  // namespace

Result<Tensor> Tensor::empty(Dims shape, DType dtype) {
  return in_arena(
      std::move(shape), dtype, false, [dtype](auto memory, auto count, Dims&& its, Dims&& strides) {
        return Tensor(std::move(memory), 0, count, std::move(its), std::move(strides), dtype, false);
      });
}

Result<Tensor> Tensor::zeros(Dims shape, DType dtype) {
  return in_arena(
      std::move(shape), dtype, true, [dtype](auto memory, auto count, Dims&& its, Dims&& strides) {
        return Tensor(std::move(memory), 0, count, std::move(its), std::move(strides), dtype, false);
      });
}

}  // namespace forklift

namespace forklift::tensor {

std::shared_ptr<Storage> storage_over(arena::LeasePtr lease) {
  return std::allocate_shared<ArenaStorage>(arena::Recycler<ArenaStorage>(), std::move(lease));
}

Result<std::shared_ptr<Storage>> received_storage(arena::LeasePtr lease) {
  if (lease->kind() == arena::Kind::kShare) return storage_over(std::move(lease));
  if (lease->size() <= kHeapCopyBytes) {
    Result<std::shared_ptr<Storage>> heap = Storage::heap(lease->size());
    if (heap) std::memcpy((*heap)->data(), lease->data(), lease->size());
    return heap;
  }
  if (Status status = lease->arena().privatise(*lease); !status) return status;
  return storage_over(std::move(lease));
}

Result<std::shared_ptr<Storage>> arena_storage(arena::Arena& arena, std::size_t bytes, bool zeroed) {
  if (bytes == 0) return std::shared_ptr<Storage>();
  Result<arena::LeasePtr> lease = arena.allocate(arena::Kind::kShare, bytes, zeroed);
  if (!lease) return lease.status();
  return storage_over(*std::move(lease));
}

}  // namespace forklift::tensor
