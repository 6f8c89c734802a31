// cpp-rtt-64B: a message of 64 bytes there and back between two processes; the time of one round trip.
// cpp-rtt-64B-waiting: the same where each end sleeps until its message comes.
#include <vector>

#include "cpp/case.h"
#include "cpp/ours.h"
#include "cpp/peers.h"

namespace bench {
namespace {

constexpr std::size_t kBytes = 64;
using Cell = SpinCell<kBytes>;
using Ring = SpscRing<kBytes, 256>;

enum class Wait {
  kAsItLikes,
  kAsleep
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
  // Who may use one processor only does not spin: that makes ours sleep, and for the others it is the same
  // place to run in.
  const bool pin = run.pin || wait == Wait::kAsleep;
  const std::size_t warm = count / 10 + 1;
  const double ns =
      race({{.warm_up = [&] { ping(there, back, warm); }, .work = [&] { ping(there, back, count); }},
            {.warm_up = [&] { pong(back, there, warm); }, .work = [&] { pong(back, there, count); }}},
           pin);
  return ns / static_cast<double>(count) / 1e3;
}

template <class Queue>
double ours(const Run& run, Wait wait) {
  Queue there;
  Queue back;
  return round_trip_us(run, run.count(wait == Wait::kAsleep ? 30'000 : 500'000), there, back, wait);
}

double pipe(const Run& run, Wait wait) {
  Pipe there;
  Pipe back;
  return round_trip_us(run, run.count(30'000), there, back, wait);
}

const Contender forklift_adaptive{"cpp-rtt-64B", "forklift", Role::kOurs, "us", [](const Run& run) {
                                    return ours<OurQueue<kBytes>>(run, Wait::kAsItLikes);
                                  }};
const Contender forklift_waiting{"cpp-rtt-64B-waiting", "forklift", Role::kOurs, "us",
                                 [](const Run& run) { return ours<OurQueue<kBytes>>(run, Wait::kAsleep); }};
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
