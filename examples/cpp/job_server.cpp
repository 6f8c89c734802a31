// Job server: workers that crash, a supervisor that starts new ones, and no job is lost.
//
//   ./job_server [JOBS = 5000]
//
// Jobs are in a queue that delivers at least once. A worker claims one, writes the answer into shared memory, and the
// claim's end acknowledges it; a claim whose worker was killed is claimed by another. Every fiftieth job kills the
// worker that tries it first, and every hundredth throws each time: after three tries it is a dead letter. Meanwhile the
// server tells how things stand to any program that asks (Service).
//
//   5000 jobs: 4950 done, 50 failed three times, 0 lost; 100 workers were replaced
//   halfway: the service said 2530 done
//   queue with acknowledgement: 608083 jobs/s
//   socket pair: 403756 jobs/s
//   socket pair with the same accidents: 100 lost
//
// The alternative (job_server_alternative.cpp) is the usual one: workers read jobs from a socket. What a worker had read
// when it crashed is gone.
//
// Built by examples/CMakeLists.txt: with the library, or by itself with find_package(forklift).
#include "job_server.h"

#include <forklift/multiprocessing.h>
#include <forklift/service.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include "measure.h"

using std::chrono::seconds;
using Jobs = forklift::Queue<Job, forklift::Delivery::kAtLeastOnce>;
using Answers = forklift::SharedArray<std::int64_t>;

struct Status {
  std::int64_t done, replaced;  // jobs, workers
};
using StatusService = forklift::Service<int, Status>;

// What all processes share: each has copies of these handles.
struct Server {
  explicit Server(std::int64_t count) : answers(static_cast<std::size_t>(count)) {}
  forklift::Queue<Job> failed;
  Jobs jobs{{.tries = 3, .dead_letters = failed}};
  Answers answers;  // by the job's number, so that a job that is done twice does no harm
  forklift::SharedCounter done, replaced;
};

void consume(Server& server, bool with_accidents) {
  try {
    for (;;) {
      // A claim: acknowledged at the end of this turn, given back if this process dies.
      auto job = server.jobs.get();
      try {
        server.answers[static_cast<std::size_t>(job->number)] = work(*job, job.tries(), with_accidents);
        server.done.add();
      } catch (const std::runtime_error&) {
        job.give_back();
      }
    }
  } catch (const forklift::Closed&) {  // nothing is left, and nothing is claimed
  }
}

// Starts a worker in the place of each that was killed, until all have left because there is nothing more to do.
void supervise(Server& server, int count, bool with_accidents) {
  const auto start = [&] {
    return forklift::Process::fork([&] { consume(server, with_accidents); }).set_daemon(true).start();
  };
  std::vector<forklift::Process> workers;
  workers.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) workers.push_back(start());
  while (!workers.empty()) {
    const std::vector<forklift::Waitable> waits(workers.begin(), workers.end());
    const std::size_t ended = forklift::wait_any(waits).front();
    workers[ended].join();
    if (workers[ended].exitcode() == 0) {
      workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(ended));
    } else {
      workers[ended] = start();
      server.replaced.add();
    }
  }
}

void serve(Server& server, std::int64_t jobs, int workers, bool with_accidents) {
  for (std::int64_t number = 0; number < jobs; ++number) server.jobs.put({number});
  server.jobs.close();
  supervise(server, workers, with_accidents);
}

// With accidents, and a service that tells another program how things stand. Is everything as it should be?
bool serve_with_accidents(std::int64_t count, int workers) {
  auto domain = forklift::Domain::own();
  Server server(count);
  forklift::Queue<Status> halfway;
  auto status = forklift::Process::fork([&] {
    const auto tell = [&](int) { return Status{server.done.value(), server.replaced.value()}; };
    StatusService::serve(domain, "status").run(tell);
  });
  auto monitor = forklift::Process::fork([&] {
    auto client = StatusService::connect(domain, "status", seconds(60));
    server.done.wait_for(count / 2);
    halfway.put(client.call(0));
  });
  status.set_daemon(true).start();
  monitor.set_daemon(true).start();
  serve(server, count, workers, true);
  monitor.join();
  status.kill();
  status.join();

  std::int64_t done = 0;
  for (std::int64_t number = 0; number < count; ++number)
    done += server.answers[static_cast<std::size_t>(number)] == answer_to({number}) ? 1 : 0;
  const auto failed = static_cast<std::int64_t>(server.failed.size());
  const std::int64_t lost = count - done - failed;
  std::printf("%ld jobs: %ld done, %ld failed three times, %ld lost; %ld workers were replaced\n", count,
              done, failed, lost, server.replaced.value());
  const std::int64_t half = halfway.get().done;
  std::printf("halfway: the service said %ld done\n", half);
  return lost == 0 && half >= count / 2;
}

int main(int argc, char** argv) {
  try {
    forklift::init(argc, argv);
    const std::int64_t jobs = example::argument(argc, argv, 1, 5000, 10);
    constexpr int kWorkers = 3;
    const bool good = serve_with_accidents(jobs, kWorkers);
    const double queue_time = example::seconds([&] {
      Server server(jobs);
      serve(server, jobs, kWorkers, false);
    });
    std::int64_t done = 0;
    const double sockets_time = example::seconds([&] { done = with_sockets(jobs, kWorkers, false); });
    example::print_rate("queue with acknowledgement", jobs, queue_time, "jobs");
    example::print_rate("socket pair", jobs, sockets_time, "jobs");
    std::int64_t lost = jobs - with_sockets(jobs, kWorkers, true);
    for (std::int64_t number = 0; number < jobs; ++number) lost -= fails({number}) ? 1 : 0;
    std::printf("socket pair with the same accidents: %ld lost\n", lost);
    return good && done == jobs ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "job_server: %s\n", error.what());
    return 1;
  }
}
