#include "mpi/node_layout.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "forklift/version.h"

namespace forklift::inline abi_0_1::mpi {

RankInfo this_rank() noexcept {
  RankInfo info;
  info.pid = ::getpid();
  (void)::gethostname(info.host.data(), info.host.size() - 1);
  const std::string_view version = kVersion;
  std::memcpy(info.version.data(), version.data(), std::min(version.size(), info.version.size() - 1));
  (void)::sched_getaffinity(0, sizeof info.cpus, &info.cpus);
  return info;
}

std::string described(const RankInfo& rank) {
  return "rank " + std::to_string(rank.rank) + " (process " + std::to_string(rank.pid) + " on " +
         rank.host.data() + ")";
}

Result<int> node_ranks(const char* text) {
  const std::string_view given = text != nullptr ? text : "";
  if (given.empty()) return 0;
  int ranks = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), ranks);
  if (error != std::errc() || end != given.data() + given.size() || ranks < 1)
    return Status(Code::kInvalid,
                  "FORKLIFT_MPI_NODE_RANKS must be the number of ranks of a node, 1 or more, not \"" +
                      std::string(given) + "\"");
  return ranks;
}

Result<double> silence(const char* text) {
  const std::string given = text != nullptr ? text : "";
  if (given.empty()) return 60.0;
  char* end = nullptr;
  const double seconds = std::strtod(given.c_str(), &end);
  if (*end != '\0' || !(seconds > 2 * kBeatSeconds))
    return Status(Code::kInvalid,
                  "FORKLIFT_MPI_SILENCE must be a number of seconds above 4, not \"" + given + "\"");
  return seconds;
}

cpu_set_t cpus_of(const Node& node, const std::vector<RankInfo>& ranks) noexcept {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const int rank : node.ranks) CPU_OR(&all, &all, &ranks[static_cast<std::size_t>(rank)].cpus);
  return all;
}

std::vector<Node> grouped(const std::vector<RankInfo>& ranks, int node_ranks) {
  std::map<int, std::vector<int>> machines;
  for (const RankInfo& each : ranks) machines[each.machine].push_back(each.rank);
  std::vector<Node> nodes;
  for (const auto& [machine, members] : machines) {
    const std::size_t step = node_ranks != 0 ? static_cast<std::size_t>(node_ranks) : members.size();
    for (std::size_t begin = 0; begin < members.size(); begin += step) {
      Node& node = nodes.emplace_back();
      node.host = ranks[static_cast<std::size_t>(members[begin])].host.data();
      const auto first = members.begin() + static_cast<std::ptrdiff_t>(begin);
      node.ranks.assign(first, first + static_cast<std::ptrdiff_t>(std::min(step, members.size() - begin)));
    }
  }
  std::ranges::sort(nodes, {}, [](const Node& node) { return node.ranks.front(); });
  for (Node& node : nodes) {
    const cpu_set_t cpus = cpus_of(node, ranks);
    node.workers = node.ranks.size() > 1 ? static_cast<int>(node.ranks.size()) : CPU_COUNT(&cpus);
    const bool lone = node.ranks.size() == 1 || node.ranks.front() != 0;
    node.agent = lone ? node.ranks.front() : node.ranks[1];
  }
  return nodes;
}

}  // namespace forklift::inline abi_0_1::mpi
