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

// Elements in C order in the process's own arena; zero elements need no memory.
Result<Tensor> in_arena(Dims shape, DType dtype, bool zeroed) {
  const Result<std::int64_t> bytes = byte_count(shape, item_size(dtype));
  if (!bytes) return bytes.status();
  std::shared_ptr<Storage> storage;
  if (*bytes != 0) {
    const Result<channel::Hub*> hub = channel::Hub::current();
    if (!hub) return hub.status();
    Result<std::shared_ptr<Storage>> made =
        tensor::arena_storage((*hub)->arena(), static_cast<std::size_t>(*bytes), zeroed);
    if (!made) return made.status();
    storage = *std::move(made);
  }
  return Tensor::wrap(std::move(storage), dtype, std::move(shape));
}

}  // namespace

Result<Tensor> Tensor::empty(Dims shape, DType dtype) { return in_arena(std::move(shape), dtype, false); }

Result<Tensor> Tensor::zeros(Dims shape, DType dtype) { return in_arena(std::move(shape), dtype, true); }

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
