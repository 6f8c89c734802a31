// loops: a wait set over many queues; coroutines on a small loop; a queue's descriptor in a loop of one's own.
#include <forklift/event_loop.h>
#include <forklift/multiprocessing.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <deque>

using namespace std::chrono_literals;

// Takes numbers until they end, and answers their sum.
forklift::Task<int> sum(forklift::Reactor& loop, forklift::Queue<int> numbers) {
  int total = 0;
  try {
    for (;;) total += co_await numbers.async_get(loop);
  } catch (const forklift::Closed&) {
  }
  co_return total;
}

forklift::Task<> print_sum(forklift::Reactor& loop, forklift::Queue<int> numbers) {
  std::printf("the sum is %d\n", co_await sum(loop, numbers));
}

forklift::Task<> tick(forklift::Reactor& loop, forklift::Event done, forklift::Queue<int> silent) {
  int ticks = 0;
  while (auto number = co_await silent.async_try_get(loop, 1ms)) ++ticks;  // none comes: the time ends it
  co_await done.async_wait(loop);
  std::printf("done, after %d numbers\n", ticks);
}

int main(int argc, char** argv) {
  forklift::init(argc, argv);

  // Many queues: a wait costs what is ready.
  std::deque<forklift::Queue<int>> cameras(500);
  forklift::WaitSet set;
  for (auto& camera : cameras) set.add(camera);
  auto one = forklift::Process::fork([&] { cameras[123].put(7); }).start();
  for (const auto key : set.wait()) std::printf("camera %d: %d\n", static_cast<int>(key), cameras[key].get());
  one.join();

  // Coroutines.
  forklift::Queue<int> numbers, silent;
  forklift::Event done;
  forklift::EventLoop loop;
  loop.spawn(print_sum(loop, numbers));
  loop.spawn(tick(loop, done, silent));
  auto counter = forklift::Process::fork([&] {
                   for (int i = 1; i <= 100; ++i) numbers.put(i);
                   numbers.close();
                   done.set();
                 }).start();
  loop.run();
  counter.join();

  // A descriptor, for a loop that is there already.
  forklift::Queue<int> jobs;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event interest{.events = EPOLLIN, .data = {.fd = jobs.fileno()}};
  if (epoll < 0 || ::epoll_ctl(epoll, EPOLL_CTL_ADD, jobs.fileno(), &interest) != 0) return 1;
  auto boss = forklift::Process::fork([&] { jobs.put(42); }).start();
  for (int got = 0; got == 0;) {
    epoll_event happened{};
    if (::epoll_wait(epoll, &happened, 1, -1) < 0) return 1;
    while (auto job = jobs.try_get()) {  // empties it: then the descriptor is quiet
      std::printf("job %d\n", *job);
      ++got;
    }
  }
  boss.join();
  ::close(epoll);
}
