// Makes pages of the data segment exist, before they are touched: whole huge pages of fresh memory as huge pages, all
// others by fallocate.
//
// A block of 2 MiB and more lies at a multiple of its size (A5), so the whole pieces of 2 MiB within the range that it has
// asked for belong to it alone. Only these become huge pages: what a block takes is what is booked for it, blocks far apart
// that are small take small pages, and punching a block's pages takes whole huge ones.
//
// Of either size, they lie on the memory node that is asked for (arena/page_nodes.h).
//
// Neither way can report a shortage of memory; the budget is there to prevent one.
//
// Thread safety: all functions may be called from any thread.
#pragma once

#include <cstdint>

#include "arena/page_nodes.h"
#include "domain/domain.h"
#include "os/huge_pages.h"

namespace forklift::inline abi_0_1::arena {

class Pages {
 public:
  explicit Pages(const domain::Domain& domain) noexcept : domain_(domain) {}

  // Of [from, to), offsets in the data segment, in one block. Nothing where the descriptors were closed behind our back.
  void make_exist(std::uint64_t from, std::uint64_t to, int node = kAnyNode) const;

  // What this domain makes of what the kernel gives. kNone: no memory lies in huge pages.
  os::HugePages huge() const noexcept;

  PageNodes& page_nodes() noexcept { return page_nodes_; }
  const PageNodes& page_nodes() const noexcept { return page_nodes_; }

 private:
  const domain::Domain& domain_;
  PageNodes page_nodes_;
};

}  // namespace forklift::inline abi_0_1::arena
