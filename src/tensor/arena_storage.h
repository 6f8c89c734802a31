// Tensor memory in the arena: a Storage that keeps a lease.
//
//   Result<std::shared_ptr<Storage>> shared = tensor::arena_storage(node.arena(), 1 << 20);
//   if (const arena::LeasePtr* lease = tensor::share_lease(**shared)) ...   // travels as a handle
//
// Memory of the share kind is seen by all holders and shows its lease (Storage::arena_lease). Memory of the
// private kind is one receiver's own copy: it shows none, so sending it again copies it.
//
// Thread safety: as any Storage. Fork: the child is a second holder of the lease.
#pragma once

#include <cstddef>
#include <memory>

#include "arena/arena.h"
#include "forklift/status.h"
#include "forklift/tensor.h"

namespace forklift::inline abi_0_1::tensor {

// Private payloads up to this are copied to the heap on receipt: no lease, no view, nothing to isolate on
// fork.
inline constexpr std::size_t kHeapCopyBytes = 16 * 1024;

// Over a lease that the caller holds, whatever its kind; the memory as the lease shows it.
std::shared_ptr<Storage> storage_over(arena::LeasePtr lease);

// What a receiver makes of a message's lease: share kind as it is, private kind as its own copy.
Result<std::shared_ptr<Storage>> received_storage(arena::LeasePtr lease);

// A new block of the share kind. Zero bytes are no block: null.
Result<std::shared_ptr<Storage>> arena_storage(arena::Arena& arena, std::size_t bytes, bool zeroed = false);

// A tensor in a new block of this process's arena, elements in C order: Tensor::empty and Tensor::zeros.
Result<Tensor> in_arena(const Dims& shape, DType dtype, bool zeroed);

// The lease with which memory is sent: of the arena, or of a device, where its first use makes it. Null: memory that
// has to be copied into a block.
Result<const arena::LeasePtr*> sendable_lease(const Storage& storage);

// The lease that memory has, if it can be sent as a handle; null for any other.
inline const arena::LeasePtr* share_lease(const Storage& storage) noexcept {
  return static_cast<const arena::LeasePtr*>(storage.arena_lease());
}

}  // namespace forklift::inline abi_0_1::tensor
