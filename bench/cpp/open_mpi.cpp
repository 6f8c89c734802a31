// Open MPI beside the collectives and the flows of large messages: a program of its own (bench/mpi), since its ranks are
// started by mpirun. All goes through its shared memory, as ours does; it is bound to processors where ours is.
#ifdef FORKLIFT_BENCH_MPI
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cpp/case.h"

namespace bench {
namespace {

// As root, Open MPI wants to be told that this is meant. Two virtual processors may be one core to it.
constexpr const char* kMpirun =
    "\"" FORKLIFT_BENCH_MPIRUN "\" --allow-run-as-root --use-hwthread-cpus -n 2 --bind-to ";

double ns(const Run& run, std::size_t bytes, std::size_t count, const char* mode = "") {
  const std::string command = std::string(kMpirun) + (run.pin ? "hwthread" : "none") +
                              " \"" FORKLIFT_BENCH_MPI "\" " + std::to_string(bytes) + " " +
                              std::to_string(count) + " " + mode;
  // NOLINTNEXTLINE(cert-env33-c): the build has written both paths, and mpirun is a script in some installations
  std::FILE* const output = ::popen(command.c_str(), "re");
  if (output == nullptr) throw MissingPeer("mpirun cannot be started");
  std::array<char, 64> line{};
  const bool has_line = std::fgets(line.data(), line.size(), output) != nullptr;
  if (::pclose(output) != 0 || !has_line) throw MissingPeer("Open MPI: `" + command + "` failed");
  return std::strtod(line.data(), nullptr);
}

template <std::size_t Bytes>
double all_reduce(const Run& run) {
  return ns(run, Bytes, run.count(Bytes > 10'000'000 ? 20 : 1'000)) / 1000;
}

template <std::size_t Bytes>
double flow(const Run& run) {
  return ns(run, Bytes, run.count(Bytes > 10'000'000 ? 150 : 5'000), "flow") / 1000;
}

const Contender flow_1m{"cpp-oneway-1M", "Open MPI", Role::kPeer, "us", flow<1'048'576>};
const Contender flow_16m{"cpp-oneway-16M", "Open MPI", Role::kPeer, "us", flow<16'777'216>};
const Contender barrier{"cpp-barrier", "Open MPI", Role::kPeer, "ns",
                        [](const Run& run) { return ns(run, 0, run.count(500'000)); }};
const Contender one{"cpp-all-reduce-1M", "Open MPI", Role::kPeer, "us", all_reduce<1'048'576>};
const Contender large{"cpp-all-reduce-64M", "Open MPI", Role::kPeer, "us", all_reduce<67'108'864>};

}  // namespace
}  // namespace bench
#endif
