// Monte Carlo: a pool of processes whose tasks may die or hang, and the answer is right all the same.
//
//   ./monte_carlo [TASKS = 2000] [POINTS = 20000]
//
// Each task throws points at a square. In a second run every hundredth task kills its process (as a bug in a native
// library does), and two tasks hang. A task that died is run again by the pool (`retries`); one that is over its time is
// killed with its worker, and says so: whether it may run again is the program's to decide, and here it may.
//
// It prints, and checks that every way counts the same points:
//
//   pi is 3.14132, of 40000000 points; with 20 deaths and 2 tasks that hang: the same
//   pool: 8611 tasks/s
//   fork and pipe for each task: 2461 tasks/s
//   std::async: 9224 tasks/s
//
// The alternatives (monte_carlo_alternative.cpp): a process for each task, with a pipe for its answer and poll() for the
// deadlines, which survives the accidents, too; and std::async, where the first of them is the end of the program.
//
// Built by examples/CMakeLists.txt: with the library, or by itself with find_package(forklift).
#include "monte_carlo.h"

#include <forklift/multiprocessing.h>
#include <forklift/pool.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <vector>

#include "measure.h"

using Accidents = forklift::SharedArray<Accident>;

// What each worker has for all of its tasks: the accidents that are to happen.
std::optional<Accidents> planned;
void prepare(const Accidents& accidents) { planned = accidents; }
static const forklift::Registered<&prepare> registered_prepare{"monte_carlo: prepare"};

std::int64_t sample(std::uint64_t task, std::int64_t points) {
  suffer((*planned)[task]);
  return points_inside(task, points);
}
static const forklift::Registered<&sample> registered_sample{"monte_carlo: sample"};

Estimate with_pool(std::int64_t tasks, std::int64_t points, const Accidents& accidents) {
  forklift::Pool pool({.workers = forklift::default_workers()}, prepare, accidents);
  const auto careful = pool.with({.timeout = kDeadline, .retries = 3});
  std::vector<forklift::Future<std::int64_t>> answers;
  for (std::uint64_t task = 0; task < static_cast<std::uint64_t>(tasks); ++task)
    answers.push_back(careful.submit(sample, task, points));
  Estimate estimate;
  for (std::uint64_t task = 0; task < answers.size();) {
    try {
      estimate.inside += answers[task].get();
      ++task;
    } catch (const forklift::TaskTimeoutError&) {
      ++estimate.hung;
      answers[task] = careful.submit(sample, task, points);  // a point more or less does no harm: once more
    }
  }
  return estimate;
}

void plan(const Accidents& accidents) {
  for (std::size_t task = 50; task < accidents.size(); task += 100) accidents[task] = Accident::kDies;
  accidents[accidents.size() / 3] = accidents[accidents.size() / 2 + 1] = Accident::kHangs;
}

int main(int argc, char** argv) {
  try {
    forklift::init(argc, argv);
    const std::int64_t tasks = example::argument(argc, argv, 1, 2000, 4);
    const std::int64_t points = example::argument(argc, argv, 2, 20'000);
    const Accidents accidents(static_cast<std::size_t>(tasks));

    Estimate pool, forks;
    std::int64_t async = 0;
    const double pool_time = example::seconds([&] { pool = with_pool(tasks, points, accidents); });
    const double forks_time = example::seconds([&] { forks = with_forks(tasks, points, accidents.span()); });
    const double async_time = example::seconds([&] { async = with_async(tasks, points); });

    plan(accidents);
    std::int64_t deaths = 0;
    for (const Accident each : accidents.span()) deaths += each == Accident::kDies ? 1 : 0;
    const Estimate hurt_pool = with_pool(tasks, points, accidents);
    plan(accidents);
    const Estimate hurt_forks = with_forks(tasks, points, accidents.span());

    const bool same = pool.inside == async && forks.inside == async && hurt_pool.inside == async &&
                      hurt_forks.inside == async;
    const double pi = 4 * static_cast<double>(hurt_pool.inside) / static_cast<double>(tasks * points);
    std::printf("pi is %.5f, of %ld points; with %ld deaths and 2 tasks that hang: %s\n", pi, tasks * points,
                deaths, same ? "the same" : "not the same");
    example::print_rate("pool", tasks, pool_time, "tasks");
    example::print_rate("fork and pipe for each task", tasks, forks_time, "tasks");
    example::print_rate("std::async", tasks, async_time, "tasks");
    return same && hurt_pool.hung >= 2 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "monte_carlo: %s\n", error.what());
    return 1;
  }
}
