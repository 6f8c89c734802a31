// Pi by Monte Carlo on all nodes of an MPI job. Workers may die: their tasks run again.
//
//   mpirun -n 4 ./monte_carlo_mpi [TASKS = 200] [POINTS = 100000] [--deaths]
//
// With --deaths every tenth task kills its worker at the first attempt, as a bug in a native library does. The random
// numbers of a task follow from its number, so the result depends neither on the nodes nor on which workers die:
//
//   pi is 3.14151, of 20000000 points by 4 workers on 1 node; 20 tasks ran a second time
//
// Built by examples/CMakeLists.txt where forklift::mpi is built; by itself with find_package(forklift COMPONENTS mpi).
#include <forklift/mpi/job.h>
#include <forklift/mpi/pool.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <tuple>
#include <vector>

// How many of some random points of the unit square are in the circle. `notes`: a folder that all nodes see, in which each
// death is noted; empty: nobody dies.
std::int64_t hits(std::uint64_t task, std::int64_t points, const std::string& notes) {
  if (!notes.empty() && task % 10 == 3) {
    const std::filesystem::path note = std::filesystem::path(notes) / std::to_string(task);
    if (!std::filesystem::exists(note)) {
      std::ofstream(note).put('x').flush();
      ::raise(SIGKILL);
    }
  }
  std::mt19937_64 random(task);
  std::uniform_real_distribution<double> place(0, 1);
  std::int64_t inside = 0;
  for (std::int64_t i = 0; i < points; ++i) {
    const double x = place(random), y = place(random);
    inside += x * x + y * y <= 1 ? 1 : 0;
  }
  return inside;
}
static const forklift::Registered<&hits> registered_hits{"monte_carlo_mpi: hits"};

int estimate(forklift::mpi::Job& job, std::uint64_t tasks, std::int64_t points, bool deaths) {
  std::filesystem::path notes;
  if (deaths) {
    notes = std::filesystem::current_path() / ("monte_carlo_mpi-" + std::to_string(::getpid()));
    std::filesystem::create_directory(notes);
  }
  std::vector<std::tuple<std::uint64_t, std::int64_t, std::string>> turns;
  for (std::uint64_t task = 0; task < tasks; ++task) turns.emplace_back(task, points, notes.string());

  forklift::mpi::Pool pool(job);
  std::int64_t inside = 0;
  for (const std::int64_t each : pool.with({.retries = 3}).starmap(hits, turns)) inside += each;

  std::size_t workers = 0, died = 0;
  for (const forklift::mpi::Node& node : job.nodes()) workers += static_cast<std::size_t>(node.workers);
  if (deaths) died = std::filesystem::remove_all(notes) - 1;
  const double pi =
      4 * static_cast<double>(inside) / (static_cast<double>(tasks) * static_cast<double>(points));
  std::printf("pi is %.5f, of %ld points by %zu workers on %zu node%s; %zu tasks ran a second time\n", pi,
              static_cast<long>(tasks) * points, workers, job.nodes().size(),
              job.nodes().size() == 1 ? "" : "s", died);
  return pi > 3.1 && pi < 3.2 ? 0 : 1;
}

int main(int argc, char** argv) {
  try {
    forklift::mpi::Job job(argc, argv);
    if (!job.is_driver()) return job.serve();
    const bool deaths = argc > 1 && std::strcmp(argv[argc - 1], "--deaths") == 0;
    const int numbers = argc - 1 - (deaths ? 1 : 0);
    const std::uint64_t tasks = numbers > 0 ? std::strtoull(argv[1], nullptr, 10) : 200;
    const std::int64_t points = numbers > 1 ? std::strtoll(argv[2], nullptr, 10) : 100'000;
    return estimate(job, tasks, points, deaths);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "monte_carlo_mpi: %s\n", error.what());
    return 1;
  }
}
