// Which part of each block this process has in its page table, so that pages are mapped in bulk and once.
//
// A hint only: a page that was punched meanwhile faults in by itself. Forget everything in a forked child,
// since fork copies no page tables of shared mappings.
//
// Not thread-safe: guarded by the arena's process-private lock.
#pragma once

#include <cstdint>
#include <vector>

namespace forklift::inline abi_0_1::arena {

class Residency {
 public:
  // Is [0, bytes) of the block not known to be mapped? Marks it as mapped.
  bool misses(std::uint32_t block, std::uint64_t bytes) {
    const auto pages = static_cast<std::uint32_t>((bytes + 4095) / 4096);
    if (block >= mapped_pages_.size()) mapped_pages_.resize(block + 64);
    if (mapped_pages_[block] >= pages) return false;
    mapped_pages_[block] = pages;
    return true;
  }
  void forget() { mapped_pages_.clear(); }
  void forget(std::uint32_t block) {
    if (block < mapped_pages_.size()) mapped_pages_[block] = 0;
  }

 private:
  std::vector<std::uint32_t> mapped_pages_;
};

}  // namespace forklift::inline abi_0_1::arena
