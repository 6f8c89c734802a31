// The ranks of a job as they describe themselves, and the nodes that they make up.
//
//   std::vector<RankInfo> ranks = ...;                       // of all ranks, in order
//   Result<std::vector<Node>> nodes = grouped(ranks, 0);      // 0: the ranks of a machine are a node
//
// Thread safety: pure functions.
#pragma once

#include <sched.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "forklift/mpi/job.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::mpi {

// Bytes, since it travels as such.
struct RankInfo {
  int rank = 0;
  int machine = 0;  // the lowest rank of the machine
  int pid = 0;
  std::array<char, 64> host{};
  std::array<char, 16> version{};  // of Forklift
  cpu_set_t cpus{};                // that the process may use
};

// This process. `rank` and `machine` are the caller's to set.
RankInfo this_rank() noexcept;
// "rank 2 (process 4711 on host)"
std::string described(const RankInfo& rank);

// FORKLIFT_MPI_NODE_RANKS: how many ranks of a machine are a node; 0: all. kInvalid: it is no positive number.
Result<int> node_ranks(const char* text);
// FORKLIFT_MPI_SILENCE: after how many seconds a rank counts as lost. kInvalid.
Result<double> silence(const char* text);
// So often a rank gives a sign of life.
inline constexpr double kBeatSeconds = 2;

// The nodes, the driver's first.
std::vector<Node> grouped(const std::vector<RankInfo>& ranks, int node_ranks);
// The processors of all ranks of a node: a launcher may have bound each to one.
cpu_set_t cpus_of(const Node& node, const std::vector<RankInfo>& ranks) noexcept;

}  // namespace forklift::inline abi_0_1::mpi
