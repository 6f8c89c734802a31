// On which memory node fresh pages lie: at their reader, where the machine has several nodes and the reader's is known.
//
//   const int node = page_nodes.elsewhere(cpu_of_reader);      // kAnyNode: here is as good
//   {
//     const PageNodes::Preference preference(page_nodes, file, offset, bytes, node);
//     make_pages_exist(file, offset, bytes);                  // on that node while it has memory left
//   }                                                         // the range prefers none again
//
// Pages that exist are not moved: a recycled block stays where it is. The range's preference is taken back at once, so that
// whoever makes pages there later gets them as ever. A process killed in between leaves it until the range is placed anew:
// pages lie on another node then, which is slower to reach, and no more.
//
// Off for good, at the cost of a branch, on a machine with one node; and for the rest of the process once the kernel has
// refused (seccomp, a cpuset). Where the program chose for the calling thread where its memory lies, that stands.
//
// Thread safety: all functions may be called from any thread, but use().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "os/fd.h"
#include "os/mapping.h"
#include "os/memory_nodes.h"
#include "os/proc.h"

namespace forklift::inline abi_0_1::arena {

using os::kAnyNode;

// What is asked of the kernel. Tests have another one.
class PageNodeCalls {
 public:
  virtual ~PageNodeCalls() = default;
  // Of a mapping of [offset, offset + bytes) of the file, see os::prefer_node(). 0, or an errno.
  virtual int prefer(void* window, std::uint64_t offset, std::uint64_t bytes, int node) noexcept;
  // See os::thread_has_policy().
  virtual int thread_has_policy() noexcept;
};

class PageNodes {
 public:
  // From here on pages are made in bulk, by a call. Those of smaller blocks appear as they are written, which no preference
  // that is taken back covers, and cost less than the calls.
  static constexpr std::uint64_t kFrom = 64 * 1024;

  PageNodes() : PageNodes(os::MemoryNodes::of_machine(), std::make_unique<PageNodeCalls>()) {}
  PageNodes(os::MemoryNodes nodes, std::unique_ptr<PageNodeCalls> calls) {
    use(std::move(nodes), std::move(calls));
  }

  // Another machine. Before anybody else uses the arena.
  void use(os::MemoryNodes nodes, std::unique_ptr<PageNodeCalls> calls) {
    nodes_ = std::move(nodes);
    calls_ = std::move(calls);
    active_.store(nodes_.several(), std::memory_order_relaxed);
  }

  // Can it matter where memory lies?
  bool active() const noexcept { return active_.load(std::memory_order_relaxed); }
  // The node of this processor, if the calling thread runs on another node now; else kAnyNode.
  int elsewhere(int cpu) const noexcept {
    if (!active()) [[likely]]
      return kAnyNode;
    const int node = nodes_.of_cpu(cpu);
    const int here = nodes_.of_cpu(os::current_cpu());
    return here == kAnyNode || node == here ? kAnyNode : node;
  }

  // While it lives, pages of [from, to) of the file that come to exist lie on the node. One thread each.
  class Preference {
   public:
    Preference(const PageNodes& page_nodes, const os::Fd& file, std::uint64_t from, std::uint64_t to,
               int node) {
      if (node != kAnyNode && to > from && to - from >= kFrom) [[unlikely]]
        give(page_nodes, file, from, to, node);
    }
    ~Preference() {
      if (calls_ != nullptr) [[unlikely]]
        (void)calls_->prefer(window_.data(), offset_, window_.size(), kAnyNode);
    }
    Preference(const Preference&) = delete;
    Preference& operator=(const Preference&) = delete;

   private:
    void give(const PageNodes& page_nodes, const os::Fd& file, std::uint64_t from, std::uint64_t to,
              int node);

    PageNodeCalls* calls_ = nullptr;  // nullptr: nothing to take back
    std::uint64_t offset_ = 0;
    os::Mapping window_;
  };

 private:
  // Did the kernel refuse? Then it does so again.
  bool refused(int error) const noexcept;

  os::MemoryNodes nodes_;
  std::unique_ptr<PageNodeCalls> calls_;
  mutable std::atomic<bool> active_{false};
};

}  // namespace forklift::inline abi_0_1::arena
