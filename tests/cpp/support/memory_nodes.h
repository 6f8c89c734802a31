// A machine with several memory nodes, as files in a folder that os::MemoryNodes reads; what a PageNodes asks of the kernel;
// threads that stay on a processor.
//
//   const test::NodeFolder folder({"0-3", "4-7"});                // the processors of node 0, of node 1
//   const os::MemoryNodes nodes = os::MemoryNodes::of_machine(folder.path());
#pragma once

#include <sched.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "arena/page_nodes.h"
#include "os/memory_nodes.h"

namespace forklift::test {

class NodeFolder {
 public:
  // All nodes are online and have memory.
  explicit NodeFolder(const std::vector<std::string>& cpus_of_nodes);
  ~NodeFolder();
  NodeFolder(const NodeFolder&) = delete;
  NodeFolder& operator=(const NodeFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  // One file, such as "online" or "node1/cpulist", and a line's end.
  void write(const std::string& file, const std::string& text) const;
  // Without one.
  void write_raw(const std::string& file, const std::string& text) const;
  void remove(const std::string& file) const;

 private:
  std::string path_;
};

// The processors that this machine may have lie on this node of two, those that it has not on the other. kOtherCpu is one
// of these.
inline constexpr int kOtherCpu = 4096;
os::MemoryNodes nodes_with_all_cpus_on(int node);

// What was asked, and what is answered to it.
struct PageNodeLog {
  struct Asked {
    std::uint64_t offset;
    std::uint64_t bytes;
    int node;
    bool operator==(const Asked&) const = default;
    friend void PrintTo(const Asked& asked, std::ostream* out) {
      *out << asked.offset << '+' << asked.bytes << " on " << asked.node;
    }
  };
  std::vector<Asked> asked;
  int policies_asked = 0;
  int answer = 0;  // to a preference: an errno
  int policy = 0;  // of the thread
};

// Asks nothing of the kernel, but the log.
class LoggedPageNodes : public arena::PageNodeCalls {
 public:
  explicit LoggedPageNodes(std::shared_ptr<PageNodeLog> log) : log_(std::move(log)) {}
  int prefer(void* window, std::uint64_t offset, std::uint64_t bytes, int node) noexcept override;
  int thread_has_policy() noexcept override;

 protected:
  std::shared_ptr<PageNodeLog> log_;
};

// Two processors that this thread may run on.
std::optional<std::pair<int, int>> two_cpus();

// While it lives, the calling thread runs on this processor.
class Pinned {
 public:
  explicit Pinned(int cpu);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

// May this process say where its memory lies? "" or why not, found by bare calls: seccomp forbids it in some containers.
std::string why_no_preference();

}  // namespace forklift::test
