#include "os/memory_nodes.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <optional>
#include <string_view>

#include "os/fd.h"

namespace forklift::inline abi_0_1::os {

namespace {

// More than any kernel is built for. What is beyond them is taken for nonsense.
constexpr int kMostNodes = 1024;
constexpr int kMostCpus = 1 << 16;

// As a whole: the list of a node's processors may be longer than what read_proc() reads.
std::optional<std::string> read_whole(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{64} << 10;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::string text;
  char buffer[1024];
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || text.size() > kMost) return std::nullopt;
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

std::optional<int> number_at(std::string_view& text, int most) {
  int number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || number < 0 || number >= most) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// A list as the kernel writes it: "0-3,8,10-11", or nothing, and a line's end.
std::optional<std::vector<int>> read_list(const std::string& path, int most) {
  const std::optional<std::string> read = read_whole(path);
  if (!read || read->empty() || read->back() != '\n') return std::nullopt;
  std::string_view text(*read);
  text.remove_suffix(1);
  std::vector<int> numbers;
  while (!text.empty()) {
    const std::optional<int> first = number_at(text, most);
    if (!first) return std::nullopt;
    std::optional<int> last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = number_at(text, most);
      if (!last || *last < *first) return std::nullopt;
    }
    for (int number = *first; number <= *last; ++number) numbers.push_back(number);
    if (text.empty()) break;
    if (!text.starts_with(',') || text.size() == 1) return std::nullopt;
    text.remove_prefix(1);
  }
  return numbers;
}

}  // namespace

MemoryNodes MemoryNodes::of_machine(const std::string& folder) {
  const std::optional<std::vector<int>> online = read_list(folder + "/online", kMostNodes);
  // The usual machine: it costs this one file.
  if (!online || online->size() < 2) return {};
  const std::optional<std::vector<int>> with_memory = read_list(folder + "/has_memory", kMostNodes);
  if (!with_memory) return {};
  MemoryNodes found;
  int useful = 0;
  for (const int node : *online) {
    const std::optional<std::vector<int>> cpus =
        read_list(folder + "/node" + std::to_string(node) + "/cpulist", kMostCpus);
    if (!cpus) return {};
    bool has_memory = false;
    for (const int other : *with_memory) has_memory = has_memory || other == node;
    // No processor's own memory (CXL), or processors without memory of their own.
    if (!has_memory || cpus->empty()) continue;
    ++useful;
    for (const int cpu : *cpus) {
      const auto at = static_cast<std::size_t>(cpu);
      if (at >= found.node_of_cpu_.size()) found.node_of_cpu_.resize(at + 1, kAnyNode);
      if (found.node_of_cpu_[at] != kAnyNode) return {};  // on two nodes
      found.node_of_cpu_[at] = static_cast<std::int16_t>(node);
    }
  }
  return useful < 2 ? MemoryNodes() : found;
}

int prefer_node(void* begin, std::size_t bytes, int node) noexcept {
  constexpr unsigned kBits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, kMostNodes / kBits> mask{};
  if (node >= kMostNodes) return EINVAL;
  if (node >= 0) mask[static_cast<unsigned>(node) / kBits] = 1UL << (static_cast<unsigned>(node) % kBits);
  // The kernel takes one bit less than it is told of.
  const long refused = node < 0 ? ::syscall(SYS_mbind, begin, bytes, MPOL_DEFAULT, nullptr, 0UL, 0U)
                                : ::syscall(SYS_mbind, begin, bytes, MPOL_PREFERRED, mask.data(),
                                            static_cast<unsigned long>(kMostNodes) + 1, 0U);
  return refused == 0 ? 0 : errno;
}

int thread_has_policy() noexcept {
  int mode = 0;
  if (::syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) != 0) return -errno;
  return mode == MPOL_DEFAULT ? 0 : 1;
}

}  // namespace forklift::inline abi_0_1::os
