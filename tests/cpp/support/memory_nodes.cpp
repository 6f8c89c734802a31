#include "support/memory_nodes.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace forklift::test {

NodeFolder::NodeFolder(const std::vector<std::string>& cpus_of_nodes) {
  char name[] = "/tmp/forklift-nodes-XXXXXX";
  if (::mkdtemp(name) == nullptr) throw std::runtime_error(name);
  path_ = name;
  const std::string all = cpus_of_nodes.size() == 1 ? "0" : "0-" + std::to_string(cpus_of_nodes.size() - 1);
  write("online", all);
  write("has_memory", all);
  for (std::size_t node = 0; node < cpus_of_nodes.size(); ++node) {
    const std::string folder = "node" + std::to_string(node);
    std::filesystem::create_directory(path_ + "/" + folder);
    write(folder + "/cpulist", cpus_of_nodes[node]);
  }
}

NodeFolder::~NodeFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void NodeFolder::write(const std::string& file, const std::string& text) const {
  write_raw(file, text + "\n");
}

void NodeFolder::write_raw(const std::string& file, const std::string& text) const {
  std::ofstream(path_ + "/" + file) << text;
}

void NodeFolder::remove(const std::string& file) const { std::filesystem::remove(path_ + "/" + file); }

os::MemoryNodes nodes_with_all_cpus_on(int node) {
  const std::string here = "0-" + std::to_string(kOtherCpu - 1);
  const std::string elsewhere = std::to_string(kOtherCpu);
  return os::MemoryNodes::of_machine(
      NodeFolder(node == 0 ? std::vector{here, elsewhere} : std::vector{elsewhere, here}).path());
}

int LoggedPageNodes::prefer(void*, std::uint64_t offset, std::uint64_t bytes, int node) noexcept {
  log_->asked.push_back({offset, bytes, node});
  return log_->answer;
}

int LoggedPageNodes::thread_has_policy() noexcept {
  ++log_->policies_asked;
  return log_->policy;
}

std::optional<std::pair<int, int>> two_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
  int first = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) continue;
    if (first >= 0) return std::pair(first, cpu);
    first = cpu;
  }
  return std::nullopt;
}

Pinned::Pinned(int cpu) {
  CPU_ZERO(&before_);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  if (::sched_getaffinity(0, sizeof before_, &before_) != 0 || ::sched_setaffinity(0, sizeof one, &one) != 0)
    throw std::runtime_error("sched_setaffinity");
}

Pinned::~Pinned() { (void)::sched_setaffinity(0, sizeof before_, &before_); }

std::string why_no_preference() {
  constexpr std::size_t kBytes = std::size_t{1} << 16;
  void* const range = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (range == MAP_FAILED) return "no memory";
  const unsigned long first = 1;
  int mode = 0;
  std::string why;
  if (::syscall(SYS_mbind, range, kBytes, MPOL_PREFERRED, &first, 64UL, 0U) != 0) {
    why = std::string("mbind on node 0: ") + std::strerror(errno);
  } else if (::syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) != 0) {
    why = std::string("get_mempolicy: ") + std::strerror(errno);
  } else if (mode != MPOL_DEFAULT) {
    why = "these tests run under a memory policy of their own";
  }
  ::munmap(range, kBytes);
  return why;
}

}  // namespace forklift::test
