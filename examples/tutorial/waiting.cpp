// waiting: one call that waits for a queue, an event, a lock and a future; a loop of one's own on descriptors.
#include <forklift/multiprocessing.h>
#include <forklift/pool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

int square(int x) { return x * x; }
static const forklift::Registered<&square> registered_square{"waiting: square"};

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  forklift::Queue<int> jobs;
  forklift::Event stop;
  forklift::Lock printer;
  auto boss = forklift::Process::fork([&] {
                const std::scoped_lock printing(printer);
                for (int job : {1, 2}) jobs.put(job);
                stop.set();
              }).start();
  for (bool stopped = false; !stopped || !jobs.empty();) {
    for (const std::size_t ready : forklift::wait_any({jobs, stop})) {
      if (ready == 1) stopped = true;
      if (ready == 0) std::printf("job %d\n", jobs.get());
    }
  }
  (void)forklift::wait_any({printer});  // free: the boss has let go of it, or has died
  boss.join();

  // Futures and processes have descriptors, for epoll and whatever is built on it.
  forklift::Pool pool({.workers = 1});
  auto answer = pool.submit(square, 7);
  const int loop = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event interest{.events = EPOLLIN, .data = {.fd = answer.fileno()}};
  if (loop < 0 || ::epoll_ctl(loop, EPOLL_CTL_ADD, answer.fileno(), &interest) != 0) return 1;
  epoll_event happened{};
  if (::epoll_wait(loop, &happened, 1, -1) != 1) return 1;
  std::printf("the square of 7 is %d\n", answer.get());
  ::close(loop);
}
