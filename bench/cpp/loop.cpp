// Event loops and waiting for many.
//
// waitset-1000: a message comes in one of 1,000 queues, whose wait set wakes; the answer goes back through a queue. The time
// of a round. Beside it the same with 10 queues, and with epoll on 1,000 eventfds.
// asio-rtt: a round trip between two processes that both run Asio: two queues, beside two eventfds.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <deque>
#include <optional>

#include "cpp/case.h"
#include "cpp/workers.h"
#include "forklift/queue.h"
#include "forklift/wait_set.h"
#if defined(FORKLIFT_BENCH_ASIO)
#include "forklift/asio.h"
#endif

namespace bench {
namespace {

// Far apart, so that no cache line serves two rounds.
std::size_t place_of(std::size_t round, std::size_t many) { return round * 37 % many; }

double wait_set_us(const Run& run, std::size_t many) {
  std::deque<forklift::Queue<std::uint64_t>> queues(many);
  forklift::Queue<std::uint64_t> back;
  const std::size_t count = run.count(100'000);
  const std::size_t warm = count / 10 + many;
  const auto ask = [&](std::size_t times) {
    for (std::uint64_t i = 0; i < times; ++i) {
      queues[place_of(i, many)].put(i);
      if (back.get() != i) fail("another round's answer");
    }
  };
  std::optional<forklift::WaitSet> set;  // the answering process's own
  const auto answer = [&](std::size_t times) {
    if (!set) {
      set.emplace();
      for (forklift::Queue<std::uint64_t>& queue : queues) set->add(queue);
    }
    for (std::size_t i = 0; i < times;) {
      for (const auto key : set->wait()) {
        const std::optional<std::uint64_t> got = queues[key].try_get();
        if (!got) continue;
        back.put(*got);
        ++i;
      }
    }
  };
  const double ns = race({{.warm_up = [&] { ask(warm); }, .work = [&] { ask(count); }},
                          {.warm_up = [&] { answer(warm); }, .work = [&] { answer(count); }}},
                         run.pin);
  return ns / static_cast<double>(count) / 1e3;
}

class Bells {
 public:
  explicit Bells(std::size_t many) {
    for (std::size_t i = 0; i < many; ++i) fds_.push_back(::eventfd(0, EFD_CLOEXEC));
    if (fds_.back() < 0) fail("eventfd");
  }
  ~Bells() {
    for (const int fd : fds_) ::close(fd);
  }
  Bells(const Bells&) = delete;
  Bells& operator=(const Bells&) = delete;
  int fd(std::size_t index) const { return fds_[index]; }
  void ring(std::size_t index) const {
    const std::uint64_t one = 1;
    if (::write(fds_[index], &one, sizeof one) != sizeof one) fail("write");
  }
  void take(std::size_t index) const {
    std::uint64_t rung = 0;
    if (::read(fds_[index], &rung, sizeof rung) != sizeof rung) fail("read");
  }

 private:
  std::deque<int> fds_;
};

double epoll_us(const Run& run) {
  constexpr std::size_t kMany = 1000;
  const Bells bells(kMany), back(1);
  const std::size_t count = run.count(100'000);
  const std::size_t warm = count / 10 + kMany;
  const auto ask = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
      bells.ring(place_of(i, kMany));
      back.take(0);
    }
  };
  int epoll = -1;
  const auto answer = [&](std::size_t times) {
    if (epoll < 0) {
      epoll = ::epoll_create1(EPOLL_CLOEXEC);
      for (std::size_t i = 0; i < kMany; ++i) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = i;
        if (::epoll_ctl(epoll, EPOLL_CTL_ADD, bells.fd(i), &event) != 0) fail("epoll_ctl");
      }
    }
    for (std::size_t i = 0; i < times; ++i) {
      epoll_event event{};
      if (::epoll_wait(epoll, &event, 1, -1) != 1) fail("epoll_wait");
      bells.take(event.data.u64);
      back.ring(0);
    }
  };
  const double ns = race({{.warm_up = [&] { ask(warm); }, .work = [&] { ask(count); }},
                          {.warm_up = [&] { answer(warm); }, .work = [&] { answer(count); }}},
                         run.pin);
  return ns / static_cast<double>(count) / 1e3;
}

const Contender thousand{"waitset-1000", "forklift", Role::kOurs, "us",
                         [](const Run& run) { return wait_set_us(run, 1000); }};
const Contender ten{"waitset-1000", "a set of 10", Role::kFloor, "us",
                    [](const Run& run) { return wait_set_us(run, 10); }};
const Contender eventfds{"waitset-1000", "epoll", Role::kPeer, "us", epoll_us};

#if defined(FORKLIFT_BENCH_ASIO) && defined(ASIO_HAS_CO_AWAIT)
// An end of a round trip: its own io_context, what it waits for, and how it answers.
template <class Side>
double asio_us(const Run& run, const Side& side) {
  const std::size_t count = run.count(50'000);
  const std::size_t warm = count / 10 + 1;
  // Each process has its own.
  std::optional<typename Side::Loop> here;
  const auto play = [&](bool asks, std::size_t times) {
    if (!here) here.emplace(side, asks);
    here->context.restart();
    asio::co_spawn(here->context, here->rounds(asks, times), [](const std::exception_ptr& failure) {
      if (failure) fail("a coroutine of Asio's");
    });
    here->context.run();
  };
  const double ns = race({{.warm_up = [&] { play(true, warm); }, .work = [&] { play(true, count); }},
                          {.warm_up = [&] { play(false, warm); }, .work = [&] { play(false, count); }}},
                         run.pin);
  return ns / static_cast<double>(count) / 1e3;
}

struct Queues {
  forklift::Queue<std::uint64_t> there, back;

  struct Loop {
    Loop(const Queues& side, bool asks)
        : source(context.get_executor(), asks ? side.back : side.there), out(asks ? side.there : side.back) {}
    asio::awaitable<void> rounds(bool asks, std::size_t times) {
      for (std::uint64_t i = 0; i < times; ++i) {
        if (asks) out.put(i);
        if (co_await source.async_get() != i) fail("another round's answer");
        if (!asks) out.put(i);
      }
    }
    asio::io_context context{1};
    forklift::AsioSource<forklift::Queue<std::uint64_t>> source;
    forklift::Queue<std::uint64_t> out;
  };
};

struct EventFds {
  Bells bells{2};

  struct Loop {
    Loop(const EventFds& side, bool asks)
        : bells(side.bells), in(asks ? 1 : 0), descriptor(context, ::dup(side.bells.fd(in))) {}
    asio::awaitable<void> rounds(bool asks, std::size_t times) {
      for (std::size_t i = 0; i < times; ++i) {
        if (asks) bells.ring(1 - in);
        co_await descriptor.async_wait(asio::posix::descriptor_base::wait_read, asio::use_awaitable);
        bells.take(in);
        if (!asks) bells.ring(1 - in);
      }
    }
    asio::io_context context{1};
    const Bells& bells;
    std::size_t in;
    asio::posix::stream_descriptor descriptor;
  };
};

const Contender asio_queues{"asio-rtt", "forklift", Role::kOurs, "us",
                            [](const Run& run) { return asio_us(run, Queues()); }};
const Contender asio_bells{"asio-rtt", "eventfd", Role::kFloor, "us",
                           [](const Run& run) { return asio_us(run, EventFds()); }};
#endif

}  // namespace
}  // namespace bench
