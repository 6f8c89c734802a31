// cpp-rtt-64B: a message of 64 bytes there and back between two processes; the time of one round trip.
// cpp-rtt-64B-apart: the same where each end is bound to a processor of its own. cpp-rtt-64B-together: the same where
// both are bound to one. cpp-rtt-64B-waiting: the same where each end sleeps until its message comes.
#include <vector>

#include "cpp/case.h"
#include "cpp/iceoryx.h"
#include "cpp/ours.h"
#include "cpp/peers.h"
#include "cpp/zeromq.h"

namespace bench {
namespace {

constexpr std::size_t kBytes = 64;
using Cell = SpinCell<kBytes>;
using Ring = SpscRing<kBytes, 256>;

enum class Wait {
  kAsItLikes,
  kBound,     // as it likes, but each end is bound to a processor of its own
  kTogether,  // as it likes, but both ends are bound to one processor
  kAsleep     // asleep, with the ends on the same two processors
};

template <class Out, class In>
void ping(Out& out, In& in, std::size_t count) {
  std::byte message[kBytes]{};
  for (std::size_t i = 0; i < count; ++i) {
    out.send(message);
    in.receive(message);
  }
}

template <class Out, class In>
void pong(Out& out, In& in, std::size_t count) {
  std::byte message[kBytes]{};
  for (std::size_t i = 0; i < count; ++i) {
    in.receive(message);
    out.send(message);
  }
}

template <class Queue>
double round_trip_us(const Run& run, std::size_t count, Queue& there, Queue& back, Wait wait) {
  const bool apart = run.pin || wait != Wait::kAsItLikes;
  const Bound bound = wait == Wait::kTogether ? Bound::kTogether : apart ? Bound::kApart : Bound::kNowhere;
  const std::size_t warm = count / 10 + 1;
  const std::function<void()> finish = leaving(there, back);
  const double ns = race({{.warm_up = [&] { ping(there, back, warm); },
                           .work = [&] { ping(there, back, count); },
                           .finish = finish},
                          {.warm_up = [&] { pong(back, there, warm); },
                           .work = [&] { pong(back, there, count); },
                           .finish = finish}},
                         bound);
  return ns / static_cast<double>(count) / 1e3;
}

template <class Queue>
double ours(const Run& run, Wait wait) {
  Queue there;
  Queue back;
  return round_trip_us(run, run.count(wait == Wait::kAsleep || wait == Wait::kTogether ? 30'000 : 500'000),
                       there, back, wait);
}

// Its getters never spin: they find the spinner's word claimed.
class SleepingChannel : public OurChannel {
 public:
  SleepingChannel() {
    node().channels().unchecked_row(channel().id().index).item_spinner.store(~std::uint64_t{0});
  }
};

double pipe(const Run& run, Wait wait) {
  Pipe there;
  Pipe back;
  return round_trip_us(run, run.count(30'000), there, back, wait);
}

const Contender forklift_adaptive{"cpp-rtt-64B", "forklift", Role::kOurs, "us", [](const Run& run) {
                                    return ours<OurQueue<kBytes>>(run, Wait::kAsItLikes);
                                  }};
const Contender forklift_waiting{"cpp-rtt-64B-waiting", "forklift", Role::kOurs, "us",
                                 [](const Run& run) { return ours<SleepingChannel>(run, Wait::kAsleep); }};
const Contender forklift_bound{"cpp-rtt-64B-apart", "forklift", Role::kOurs, "us",
                               [](const Run& run) { return ours<OurQueue<kBytes>>(run, Wait::kBound); }};
const Contender forklift_unbound{
    "cpp-rtt-64B-apart", "forklift, unbound", Role::kPeer, "us",
    [](const Run& run) { return ours<OurQueue<kBytes>>(run, Wait::kAsItLikes); }};
const Contender forklift_together{"cpp-rtt-64B-together", "forklift", Role::kOurs, "us", [](const Run& run) {
                                    return ours<OurQueue<kBytes>>(run, Wait::kTogether);
                                  }};
const Contender pipe_together{"cpp-rtt-64B-together", "pipe", Role::kPeer, "us",
                              [](const Run& run) { return pipe(run, Wait::kTogether); }};
const Contender ring_bound{"cpp-rtt-64B-apart", "SPSC ring", Role::kFloor, "us", [](const Run& run) {
                             Shared<Ring> there;
                             Shared<Ring> back;
                             return round_trip_us(run, run.count(2'000'000), *there, *back, Wait::kBound);
                           }};
const Contender channel_adaptive{"cpp-rtt-64B", "channel", Role::kPart, "us",
                                 [](const Run& run) { return ours<OurChannel>(run, Wait::kAsItLikes); }};
const Contender pipe_adaptive{"cpp-rtt-64B", "pipe", Role::kPeer, "us",
                              [](const Run& run) { return pipe(run, Wait::kAsItLikes); }};
const Contender pipe_waiting{"cpp-rtt-64B-waiting", "pipe", Role::kPeer, "us",
                             [](const Run& run) { return pipe(run, Wait::kAsleep); }};

#if FORKLIFT_BENCH_BOOST
double boost_queue(const Run& run, Wait wait) {
  BoostQueue there(64, kBytes);
  BoostQueue back(64, kBytes);
  return round_trip_us(run, run.count(30'000), there, back, wait);
}

const Contender boost_adaptive{"cpp-rtt-64B", "boost message_queue", Role::kPeer, "us",
                               [](const Run& run) { return boost_queue(run, Wait::kAsItLikes); }};
const Contender boost_waiting{"cpp-rtt-64B-waiting", "boost message_queue", Role::kPeer, "us",
                              [](const Run& run) { return boost_queue(run, Wait::kAsleep); }};
#endif

#if FORKLIFT_BENCH_ICEORYX
double iceoryx(const Run& run, Wait wait) {
  const auto how = wait == Wait::kAsleep ? IceoryxQueue::Wait::kSleeps : IceoryxQueue::Wait::kPolls;
  IceoryxQueue there(kBytes, 64, how);
  IceoryxQueue back(kBytes, 64, how);
  return round_trip_us(run, run.count(wait == Wait::kAsleep ? 30'000 : 200'000), there, back, wait);
}

const Contender iceoryx_polling{"cpp-rtt-64B", "iceoryx", Role::kPeer, "us",
                                [](const Run& run) { return iceoryx(run, Wait::kAsItLikes); }};
const Contender iceoryx_waiting{"cpp-rtt-64B-waiting", "iceoryx", Role::kPeer, "us",
                                [](const Run& run) { return iceoryx(run, Wait::kAsleep); }};
#endif

#if FORKLIFT_BENCH_ZEROMQ
double zeromq(const Run& run, Wait wait) {
  ZeroQueue there(64);
  ZeroQueue back(64);
  return round_trip_us(run, run.count(10'000), there, back, wait);
}

const Contender zeromq_adaptive{"cpp-rtt-64B", "zeromq", Role::kPeer, "us",
                                [](const Run& run) { return zeromq(run, Wait::kAsItLikes); }};
const Contender zeromq_waiting{"cpp-rtt-64B-waiting", "zeromq", Role::kPeer, "us",
                               [](const Run& run) { return zeromq(run, Wait::kAsleep); }};
#endif

const Contender futex{"cpp-rtt-64B-waiting", "bare futex", Role::kFloor, "us", [](const Run& run) {
                        Shared<FutexCell> there;
                        Shared<FutexCell> back;
                        return round_trip_us(run, run.count(30'000), *there, *back, Wait::kAsleep);
                      }};
const Contender spin{"cpp-rtt-64B", "spin on shared memory", Role::kFloor, "us", [](const Run& run) {
                       Shared<Cell> there;
                       Shared<Cell> back;
                       return round_trip_us(run, run.count(2'000'000), *there, *back, Wait::kAsItLikes);
                     }};
const Contender ring{"cpp-rtt-64B", "SPSC ring", Role::kFloor, "us", [](const Run& run) {
                       Shared<Ring> there;
                       Shared<Ring> back;
                       return round_trip_us(run, run.count(2'000'000), *there, *back, Wait::kAsItLikes);
                     }};

}  // namespace
}  // namespace bench
