// Where a process sees the private payloads that it received: mappings of the private half of the data
// segment.
//
// A received array is its receiver's own. While only one process uses the block, a shared mapping serves as
// well as a private one, and its pages are warm. A fork breaks that, since the child would share the pages.
// So before a fork the view's part that holds live payloads is mapped again MAP_PRIVATE, in one call whatever
// their number (block by block would run into max_map_count), and later receipts go to a fresh view, which is
// shared and warms up again. Most forks find no live payload and do nothing.
//
// While a view is private, a payload's pages that were written are this process's copies: they are dropped
// (MADV_DONTNEED) before the lease is given up. Senders write through the arena's shared mapping, never a
// view.
//
// Not thread-safe: guarded by the arena's process-private mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>

#include "arena/residency.h"
#include "os/mapping.h"

namespace forklift::inline abi_0_1::arena {

struct View {
  os::Mapping mapping;
  std::atomic<bool> is_private{false};  // changed under the arena's private mutex, read without it as well
  std::uint64_t private_low = 0;        // while private: the part that is, as offsets in the segment
  std::uint64_t private_high = 0;
  std::size_t live = 0;
  Residency resident;
};

class Views {
 public:
  Views(const os::Fd& file, std::uint64_t begin, std::uint64_t bytes)
      : file_(file), begin_(begin), bytes_(bytes) {}

  // The view for a payload that is received now; fails where no further address space can be had.
  Result<View*> current();
  std::byte* address(View& view, std::uint64_t offset) const {
    return view.mapping.data() + (offset - begin_);
  }
  // A payload leaves the view. The caller has dropped its private pages if the view is private.
  void leave(View& view);

  // Makes [low, high) (offsets in the segment) of the current view private. Called before a fork, when
  // payloads live in it.
  Status isolate(std::uint64_t low, std::uint64_t high);
  View* open_view() noexcept { return current_; }
  void forget_residency();
  std::size_t count() const noexcept { return views_.size(); }
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const View& view : views_) visit(view.mapping);
  }

 private:
  // Each view takes half a data segment of address space. From this many on, payloads are received into a
  // private one.
  static constexpr std::size_t kMostViews = 8;
  Status widen(View& view);
  const os::Fd& file_;
  std::uint64_t begin_;
  std::uint64_t bytes_;
  std::list<View> views_;
  View* current_ = nullptr;
};

}  // namespace forklift::inline abi_0_1::arena
