#include "tensor/arena_storage.h"

#include <utility>

#include "arena/cache/thread_cache.h"
#include "node/node.h"
#include "sync/past_caches.h"
#include "tensor/access.h"
#include "tensor/dense.h"
#include "tensor/device_storage.h"
#include "tensor/extent.h"
#include "tensor/operations.h"
#include "tensor/pending.h"
#include "tensor/storage.h"

namespace forklift::inline abi_0_1::tensor {
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

}  // namespace

std::shared_ptr<Storage> storage_over(arena::LeasePtr lease) {
  return std::allocate_shared<ArenaStorage>(arena::ThreadCache<ArenaStorage>(), std::move(lease));
}

Result<std::shared_ptr<Storage>> received_storage(arena::LeasePtr lease) {
  if (lease->object().kind == arena::ObjectKind::kPiece) [[unlikely]]
    return received_on_device(std::move(lease));
  if (lease->kind() == arena::Kind::kShare) {
    if (Status status = lease->arena().open_memory(*lease); !status) return status;
    return storage_over(std::move(lease));
  }
  if (lease->size() <= kHeapCopyBytes) {
    Result<std::shared_ptr<Storage>> heap = heap_storage(lease->size());
    if (heap) sync::copy_bytes((*heap)->data(), lease->data(), lease->size());
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

Result<const arena::LeasePtr*> sendable_lease(const Storage& storage) {
  return storage.on_device() ? share_device_memory(storage) : share_lease(storage);
}

// Elements in C order: once their number is known nothing is left to check.
Result<Tensor> in_arena(const Dims& shape, DType dtype, bool zeroed) {
  const std::size_t item = item_size(dtype);
  std::int64_t strides[Dims::kInline];
  const std::optional<std::int64_t> dense = dense_strides(shape, strides);
  if (!dense || item == 0 || !is_within(*dense, item, 0, INT64_MAX)) [[unlikely]] {
    const Result<std::int64_t> bytes = byte_count(shape, item);
    if (!bytes) return bytes.status();
    if (*bytes == 0) return wrap(nullptr, dtype, shape);
  }
  const Result<node::Node*> node = node::Node::current();
  if (!node) return node.status();
  const std::int64_t count = dense ? *dense : *numel(shape);
  Result<std::shared_ptr<Storage>> memory =
      arena_storage((*node)->arena(), static_cast<std::size_t>(count) * item, zeroed);
  if (!memory) return memory.status();
  detail::StorageAccess::hide(**memory);
  if (!dense) [[unlikely]]
    return wrap(*std::move(memory), dtype, shape);
  const DimSpan filled(strides, shape.size());
  return detail::TensorAccess::make(*std::move(memory), 0, count, shape, filled, dtype, false);
}

}  // namespace forklift::inline abi_0_1::tensor
