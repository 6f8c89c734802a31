// Which part of each block this process has in its page table, so that pages are mapped in bulk and once.
//
// A hint only: a page that was punched meanwhile faults in by itself. Forget everything in a forked child,
// since fork copies no page tables of shared mappings.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace forklift::arena {

class Residency {
 public:
  // Is [0, bytes) of the block not known to be mapped? Marks it as mapped.
  bool misses(std::uint32_t block, std::uint64_t bytes) {
    const auto pages = static_cast<std::uint32_t>((bytes + 4095) / 4096);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (block >= mapped_pages_.size()) mapped_pages_.resize(block + 64);
    if (mapped_pages_[block] >= pages) return false;
    mapped_pages_[block] = pages;
    return true;
  }
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    mapped_pages_.clear();
  }
  void forget(std::uint32_t block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (block < mapped_pages_.size()) mapped_pages_[block] = 0;
  }
  void freeze() { mutex_.lock(); }
  void thaw() { mutex_.unlock(); }
  // In a forked child. Without locking anew: the arenas of other domains are still frozen, in their order.
  void forget_and_thaw() {
    mapped_pages_.clear();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint32_t> mapped_pages_;
};

}  // namespace forklift::arena
