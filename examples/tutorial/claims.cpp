// claims: work that is done at least once, whichever worker is killed in the middle of it.
#include <forklift/multiprocessing.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>

struct Job {
  int number;
};
using Jobs = forklift::Queue<Job, forklift::Delivery::kAtLeastOnce>;

void work(const Job& job, unsigned tries) {
  if (job.number == 3 && tries == 1) std::raise(SIGKILL);  // the first worker does not survive this one
  if (job.number == 5) throw std::runtime_error("job 5 always fails");
  std::printf("job %d, try %u\n", job.number, tries);
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  forklift::init(argc, argv);
  forklift::Queue<Job> failed;
  Jobs jobs({.tries = 2, .dead_letters = failed});
  for (int number = 1; number <= 6; ++number) jobs.put({number});
  jobs.close();

  const auto consume = [&] {
    for (bool more = true; more;) {
      try {
        more = false;
        for (const forklift::Claim<Job>& job : jobs)
          work(*job, job.tries());  // done: at the end of each turn
      } catch (const std::runtime_error&) {
        more = true;  // the exception gave the job back
      }
    }
  };
  auto first = forklift::Process::fork(consume).start();
  first.join();
  std::printf("the first worker %s\n", first.exitcode() == -SIGKILL ? "was killed" : "is done");
  std::fflush(stdout);
  auto second = forklift::Process::fork(consume).start();

  jobs.join();  // until each job was done, or became a dead letter
  second.join();
  std::printf("job %d failed\n", failed.get().number);
}
