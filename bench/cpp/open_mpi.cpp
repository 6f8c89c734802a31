// Open MPI beside the collectives, the flows of large messages and the round trip: a program of its own (bench/mpi),
// since its ranks are started by mpirun. All goes through its shared memory, as ours does; it is bound to processors
// where ours is. It polls while it waits: two ranks on two processors do not make it yield.
//
// "Open MPI" is the one that the system has, "Open MPI 5" the one that tools/setup.sh bench installs apart.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cpp/case.h"

namespace bench {
namespace {

#if defined(FORKLIFT_BENCH_MPI) || defined(FORKLIFT_BENCH_MPI5)

struct Installation {
  const char* name;      // the contender's
  const char* launcher;  // its mpirun
  const char* program;   // bench/mpi/collectives.cpp, built with it
};

enum class Ranks {
  kAsRunSays,
  kApart
};

double ns(const Installation& mpi, const Run& run, std::size_t bytes, std::size_t count,
          const char* mode = "", Ranks ranks = Ranks::kAsRunSays) {
  const bool bound = run.pin || ranks == Ranks::kApart;
  // As root, Open MPI wants to be told that this is meant. Two virtual processors may be one core to it.
  const std::string command = std::string("\"") + mpi.launcher +
                              "\" --allow-run-as-root --use-hwthread-cpus -n 2 --bind-to " +
                              (bound ? "hwthread" : "none") + " \"" + mpi.program + "\" " +
                              std::to_string(bytes) + " " + std::to_string(count) + " " + mode;
  // NOLINTNEXTLINE(cert-env33-c): the build has written both paths, and mpirun is a script in some installations
  std::FILE* const output = ::popen(command.c_str(), "re");
  if (output == nullptr) throw MissingPeer("mpirun cannot be started");
  std::array<char, 64> line{};
  const bool has_line = std::fgets(line.data(), line.size(), output) != nullptr;
  if (::pclose(output) != 0 || !has_line) throw MissingPeer("`" + command + "` failed");
  return std::strtod(line.data(), nullptr);
}

bool enter(const Installation& mpi) {
  const auto row = [&](const char* name, const char* unit, Measure measure) {
    cases().push_back({name, mpi.name, Role::kPeer, unit, std::move(measure)});
  };
  const auto round_trip = [mpi](Ranks ranks) {
    return [=](const Run& run) { return ns(mpi, run, 64, run.count(500'000), "round-trip", ranks) / 1000; };
  };
  const auto flow = [mpi](std::size_t bytes, std::size_t full) {
    return [=](const Run& run) { return ns(mpi, run, bytes, run.count(full), "flow") / 1000; };
  };
  const auto all_reduce = [mpi](std::size_t bytes, std::size_t full) {
    return [=](const Run& run) { return ns(mpi, run, bytes, run.count(full)) / 1000; };
  };
  row("cpp-rtt-64B", "us", round_trip(Ranks::kAsRunSays));
  row("cpp-rtt-64B-apart", "us", round_trip(Ranks::kApart));
  row("cpp-oneway-1M", "us", flow(1'048'576, 5'000));
  row("cpp-oneway-16M", "us", flow(16'777'216, 150));
  row("cpp-barrier", "ns", [mpi](const Run& run) { return ns(mpi, run, 0, run.count(500'000)); });
  row("cpp-all-reduce-1M", "us", all_reduce(1'048'576, 1'000));
  row("cpp-all-reduce-64M", "us", all_reduce(67'108'864, 20));
  return true;
}

// The first one that is there has the goal of a row that has one for its peer.
#ifdef FORKLIFT_BENCH_MPI
const bool system_entered = enter({"Open MPI", FORKLIFT_BENCH_MPIRUN, FORKLIFT_BENCH_MPI});
#endif
#ifdef FORKLIFT_BENCH_MPI5
const bool five_entered = enter({"Open MPI 5", FORKLIFT_BENCH_MPIRUN5, FORKLIFT_BENCH_MPI5});
#endif

#endif

}  // namespace
}  // namespace bench
