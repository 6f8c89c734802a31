#include "arena/page_nodes.h"

#include <cerrno>

namespace forklift::inline abi_0_1::arena {

int PageNodeCalls::prefer(void* window, std::uint64_t, std::uint64_t bytes, int node) noexcept {
  return os::prefer_node(window, bytes, node);
}

int PageNodeCalls::thread_has_policy() noexcept { return os::thread_has_policy(); }

bool PageNodes::refused(int error) const noexcept {
  if (error == 0) return false;
  // Short of memory for its books: that passes.
  if (error != ENOMEM) active_.store(false, std::memory_order_relaxed);
  return true;
}

void PageNodes::Preference::give(const PageNodes& page_nodes, const os::Fd& file, std::uint64_t from,
                                 std::uint64_t to, int node) {
  if (!page_nodes.active()) return;
  PageNodeCalls& calls = *page_nodes.calls_;
  const int chosen = calls.thread_has_policy();
  if (chosen > 0 || page_nodes.refused(-chosen)) return;
  // Whole pages, and none of a neighbour's.
  const std::uint64_t page = os::page_size();
  const std::uint64_t first = (from + page - 1) & ~(page - 1);
  const std::uint64_t last = to & ~(page - 1);
  if (first >= last) return;
  Result<os::Mapping> window = os::Mapping::shared(file, first, last - first);
  if (!window) return;  // short of address space: the memory lies where it happens to
  if (page_nodes.refused(calls.prefer(window->data(), first, last - first, node))) return;
  calls_ = &calls;
  offset_ = first;
  window_ = *std::move(window);
}

}  // namespace forklift::inline abi_0_1::arena
