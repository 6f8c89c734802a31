// The memory nodes of the machine (NUMA): which processor lies on which, and fresh pages of a memory file on one of them.
//
//   const os::MemoryNodes nodes = os::MemoryNodes::of_machine();
//   const int node = nodes.of_cpu(cpu);
//   os::prefer_node(window.data(), window.size(), node);     // pages that come to exist from here on lie there
//   ...
//   os::prefer_node(window.data(), window.size(), os::kAnyNode);
//
// On a shared mapping of a memory file such a preference belongs to the file's range, for all processes and beyond the
// mapping's end. It is also a property of the mapping, which the kernel splits for it, so it is given through a window: a
// mapping of its own. It is taken back through the same one: for a mapping that has none the kernel does nothing.
//
// Thread safety: all functions may be called from any thread; MemoryNodes does not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace forklift::inline abi_0_1::os {

inline constexpr int kAnyNode = -1;

class MemoryNodes {
 public:
  // One node, of which nothing needs to be known.
  MemoryNodes() = default;
  // What the files in this folder say. One node, too, where a file is missing or says nonsense, and where not two nodes
  // have both processors and memory.
  static MemoryNodes of_machine(const std::string& folder = "/sys/devices/system/node");

  bool several() const noexcept { return !node_of_cpu_.empty(); }
  // kAnyNode: there is one node, or the processor is unknown, or its node has no memory.
  int of_cpu(int cpu) const noexcept {
    return cpu >= 0 && static_cast<std::size_t>(cpu) < node_of_cpu_.size()
               ? node_of_cpu_[static_cast<std::size_t>(cpu)]
               : kAnyNode;
  }

 private:
  std::vector<std::int16_t> node_of_cpu_;  // empty: one node
};

// Pages of the range that come to exist from now on lie on this node while it has memory left, and on others then; those
// that exist stay where they are. kAnyNode: where the kernel otherwise puts them. 0, or an errno.
int prefer_node(void* begin, std::size_t bytes, int node) noexcept;

// Has somebody chosen for this thread where its memory lies (numactl, set_mempolicy)? 0: nobody. Above 0: yes. Below: minus
// an errno.
int thread_has_policy() noexcept;

}  // namespace forklift::inline abi_0_1::os
