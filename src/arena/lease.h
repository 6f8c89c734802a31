// A Lease is this process's right to one object. Its threads share it by pointer.
//
//   LeasePtr lease = ...;                 // from an Arena
//   std::memcpy(lease->data(), source, lease->size());
//   lease.reset();                        // gives the right up
//
// Thread safety: as std::shared_ptr.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "arena/handle.h"
#include "arena/tables.h"

namespace forklift::inline abi_0_1::arena {

class Arena;
class Lease;
struct View;
using LeasePtr = std::shared_ptr<Lease>;

class Lease {
 public:
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Object object() const noexcept { return object_; }
  Kind kind() const noexcept { return kind_; }
  // The bytes as this process should use them; nullptr for objects without memory, for pieces of pools, and for
  // a named segment until it was opened (Arena::open_memory).
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  const Handle& handle() const noexcept { return handle_; }
  Arena& arena() const noexcept { return *arena_; }
  // False once the right was passed on, or in a child that could not be entered as a holder.
  bool held() const noexcept { return row_ != kNoRow; }

 private:
  friend class Arena;
  friend class LeaseList;
  static constexpr std::uint32_t kNoRow = 0xffffffffU;
  Lease() = default;
  // Of no arena yet: dropping it gives nothing up.
  static LeasePtr make_blank();

  Arena* arena_ = nullptr;
  Object object_{};
  Kind kind_ = Kind::kShare;
  // Atomic since a fork in another thread looks at every lease.
  std::atomic<std::uint32_t> row_{kNoRow};
  std::uint32_t child_row_ = kNoRow;  // between prepare and child of a fork
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Handle handle_;
  View* view_ = nullptr;                 // where a received private payload is seen
  std::shared_ptr<const void> mapping_;  // of a named segment, or an open pool
  // The ring of those that share its row (arena/lease_list.h), under the arena's private lock; nullptr:
  // alone.
  bool alone() const noexcept { return next_sharer_.load(std::memory_order_acquire) == nullptr; }
  std::atomic<Lease*> next_sharer_{nullptr};
  Lease* previous_sharer_ = nullptr;
  std::atomic<bool> promised_{false};  // its row is its own and is not shared any more
  Lease* previous_ = nullptr;
  Lease* next_ = nullptr;
};

}  // namespace forklift::inline abi_0_1::arena
