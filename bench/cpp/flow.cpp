// cpp-mpmc: messages of 8 bytes through an unbounded, crash-safe queue, one producer and one consumer;
// cpp-mpmc-2P2C: two of each; cpp-mpmc-alone: put and get by one process, with no other process.
// cpp-claim: as cpp-mpmc, each message claimed and acknowledged, by a loop over the queue and one by one; beside it, the
// plain get.
// cpp-oneway-64B, -4K, -1M, -16M: a flow of copied messages, from the sender's buffer into the receiver's.
// The time of one message, all processes together.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "cpp/case.h"
#include "cpp/iceoryx.h"
#include "cpp/ours.h"
#include "cpp/peers.h"
#include "cpp/zeromq.h"

namespace bench {
namespace {

constexpr std::size_t kKilo = 1024;
constexpr std::size_t kMega = 1024 * kKilo;
constexpr std::size_t kSmall = 8;

template <class Queue>
void send_all(Queue& queue, std::size_t bytes, std::size_t count) {
  const std::vector<std::byte> message(bytes, std::byte{1});
  for (std::size_t i = 0; i < count; ++i) queue.send(message);
}

template <class Queue>
void receive_all(Queue& queue, std::size_t bytes, std::size_t count) {
  std::vector<std::byte> message(bytes);
  for (std::size_t i = 0; i < count; ++i) queue.receive(message);
}

// `pairs` producers and as many consumers, each moving count / pairs messages.
template <class Queue>
double flow_ns(const Run& run, Queue& queue, std::size_t bytes, std::size_t count, std::size_t pairs = 1) {
  const std::size_t each = count / pairs;
  const std::size_t warm = each / 5 + 1;
  const std::function<void()> finish = leaving(queue);
  std::vector<Worker> workers;
  for (std::size_t i = 0; i < pairs; ++i) {
    workers.push_back({.warm_up = [&, warm] { send_all(queue, bytes, warm); },
                       .work = [&, each] { send_all(queue, bytes, each); },
                       .finish = finish});
    workers.push_back({.warm_up = [&, warm] { receive_all(queue, bytes, warm); },
                       .work = [&, each] { receive_all(queue, bytes, each); },
                       .finish = finish});
  }
  return race(workers, run.pin) / static_cast<double>(each * pairs);
}

// --- cpp-mpmc

template <std::size_t Pairs, class Queue = OurQueue<kSmall>>
double ours_mpmc(const Run& run) {
  Queue queue;
  return flow_ns(run, queue, kSmall, run.count(3'000'000), Pairs);
}

template <std::size_t Pairs, class Ring = RobustRing>
double ring_mpmc(const Run& run) {
  Shared<Ring> ring;
  return flow_ns(run, *ring, kSmall, run.count(3'000'000), Pairs);
}

template <std::size_t Pairs>
double pipe_mpmc(const Run& run) {
  Pipe pipe;
  return flow_ns(run, pipe, kSmall, run.count(500'000), Pairs);
}

template <class Queue>
double alone_ns(Queue& queue, std::size_t count) {
  std::byte message[kSmall]{};
  const auto both = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
      queue.send(message);
      queue.receive(message);
    }
  };
  both(count / 10);
  const std::int64_t begin = now_ns();
  both(count);
  return static_cast<double>(now_ns() - begin) / static_cast<double>(count);
}

const Contender ours_1p1c{"cpp-mpmc", "forklift", Role::kOurs, "ns", ours_mpmc<1>};
const Contender ours_2p2c{"cpp-mpmc-2P2C", "forklift", Role::kOurs, "ns", ours_mpmc<2>};
const Contender channel_1p1c{"cpp-mpmc", "channel", Role::kPart, "ns", ours_mpmc<1, OurChannel>};
const Contender channel_2p2c{"cpp-mpmc-2P2C", "channel", Role::kPart, "ns", ours_mpmc<2, OurChannel>};
const Contender pipe_1p1c{"cpp-mpmc", "pipe", Role::kPeer, "ns", pipe_mpmc<1>};
const Contender pipe_2p2c{"cpp-mpmc-2P2C", "pipe", Role::kPeer, "ns", pipe_mpmc<2>};
const Contender ring_1p1c{"cpp-mpmc", "ring, robust mutexes", Role::kFloor, "ns", ring_mpmc<1>};
const Contender ring_2p2c{"cpp-mpmc-2P2C", "ring, robust mutexes", Role::kFloor, "ns", ring_mpmc<2>};
const Contender plain_1p1c{"cpp-mpmc", "ring, plain mutexes", Role::kPart, "ns", ring_mpmc<1, PlainRing>};
const Contender plain_2p2c{"cpp-mpmc-2P2C", "ring, plain mutexes", Role::kPart, "ns",
                           ring_mpmc<2, PlainRing>};
const Contender ours_alone{"cpp-mpmc-alone", "forklift", Role::kOurs, "ns", [](const Run& run) {
                             OurQueue<kSmall> queue;
                             return alone_ns(queue, run.count(3'000'000));
                           }};
const Contender channel_alone{"cpp-mpmc-alone", "channel", Role::kPart, "ns", [](const Run& run) {
                                OurChannel queue;
                                return alone_ns(queue, run.count(3'000'000));
                              }};
const Contender ring_alone{"cpp-mpmc-alone", "ring, robust mutexes", Role::kFloor, "ns", [](const Run& run) {
                             Shared<RobustRing> ring;
                             return alone_ns(*ring, run.count(5'000'000));
                           }};

const Contender claim_loop{"cpp-claim", "forklift", Role::kOurs, "ns", ours_mpmc<1, OurClaimLoop<kSmall>>};
const Contender claimed{"cpp-claim", "one by one", Role::kPart, "ns", ours_mpmc<1, OurClaimedQueue<kSmall>>};
const Contender got{"cpp-claim", "get", Role::kFloor, "ns", ours_mpmc<1>};

// --- cpp-oneway

struct Size {
  const char* row;
  const char* unit;
  double unit_ns;
  std::size_t cheap;  // messages in half a second by copying in user space,
  std::size_t dear;   // through the kernel or locks that sleep
};

template <std::size_t Bytes>
constexpr Size size_of() {
  if constexpr (Bytes == 16 * kMega) return {"cpp-oneway-16M", "us", 1e3, 150, 50};
  if constexpr (Bytes == kMega) return {"cpp-oneway-1M", "us", 1e3, 5'000, 1'000};
  if constexpr (Bytes == 4 * kKilo) return {"cpp-oneway-4K", "ns", 1, 500'000, 200'000};
  return {"cpp-oneway-64B", "ns", 1, 3'000'000, 500'000};
}

// How many messages may be in the queue: large ones must not evict each other from the caches.
template <std::size_t Bytes>
constexpr std::size_t kDepth = Bytes == 16 * kMega  ? 2
                               : Bytes == kMega     ? 4
                               : Bytes == 4 * kKilo ? 32
                                                    : 256;

template <std::size_t Bytes, class Queue>
double ours_oneway(const Run& run) {
  constexpr Size size = size_of<Bytes>();
  Queue queue(static_cast<std::uint32_t>(kDepth<Bytes>));
  return flow_ns(run, queue, Bytes, run.count(size.cheap)) / size.unit_ns;
}

template <std::size_t Bytes>
double pipe_oneway(const Run& run) {
  constexpr Size size = size_of<Bytes>();
  Pipe pipe;
  return flow_ns(run, pipe, Bytes, run.count(size.dear)) / size.unit_ns;
}

template <std::size_t Bytes>
double ring_oneway(const Run& run) {
  constexpr Size size = size_of<Bytes>();
  Shared<SpscRing<Bytes, kDepth<Bytes>>> ring;
  return flow_ns(run, *ring, Bytes, run.count(size.cheap)) / size.unit_ns;
}

// What the two ends of a flow do anyway, without the flow: each copies between buffers of its own. One end
// alone has the shared cache and the clock to itself, which no end of a flow has.
template <std::size_t Bytes, std::size_t Ends>
double copy_oneway(const Run& run) {
  constexpr Size size = size_of<Bytes>();
  const std::size_t count = run.count(size.cheap);
  std::vector<std::byte> from(Bytes);
  std::vector<std::byte> to(Bytes);
  const auto copy = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
      copy_bytes(to.data(), from.data(), Bytes);
      keep(to.data());
    }
  };
  const auto warm_up = [&] {
    std::fill(from.begin(), from.end(), std::byte{1});  // from here on the pages are this process's own
    copy(count / 5 + 1);
  };
  const Worker end{.warm_up = warm_up, .work = [&] { copy(count); }};
  return race(std::vector<Worker>(Ends, end), run.pin) / static_cast<double>(count) / size.unit_ns;
}

#if FORKLIFT_BENCH_BOOST
template <std::size_t Bytes>
double boost_oneway(const Run& run) {
  constexpr Size size = size_of<Bytes>();
  BoostQueue queue(kDepth<Bytes>, Bytes);
  return flow_ns(run, queue, Bytes, run.count(size.dear)) / size.unit_ns;
}

template <std::size_t Pairs>
double boost_mpmc(const Run& run) {
  BoostQueue queue(4096, kSmall);
  return flow_ns(run, queue, kSmall, run.count(500'000), Pairs);
}

const Contender boost_1p1c{"cpp-mpmc", "boost message_queue", Role::kPeer, "ns", boost_mpmc<1>};
const Contender boost_2p2c{"cpp-mpmc-2P2C", "boost message_queue", Role::kPeer, "ns", boost_mpmc<2>};
#endif

#if FORKLIFT_BENCH_ICEORYX
template <std::size_t Bytes>
double iceoryx_oneway(const Run& run) {
  constexpr Size size = size_of<Bytes>();
  IceoryxQueue queue(Bytes, kDepth<Bytes>);
  return flow_ns(run, queue, Bytes, run.count(size.dear)) / size.unit_ns;
}

const Contender iceoryx_1p1c{"cpp-mpmc", "iceoryx", Role::kPeer, "ns", [](const Run& run) {
                               IceoryxQueue queue(kSmall, 256);
                               return flow_ns(run, queue, kSmall, run.count(500'000));
                             }};
#endif

#if FORKLIFT_BENCH_ZEROMQ
template <std::size_t Bytes>
double zeromq_oneway(const Run& run) {
  constexpr Size size = size_of<Bytes>();
  ZeroQueue queue(kDepth<Bytes>);
  return flow_ns(run, queue, Bytes, run.count(size.dear)) / size.unit_ns;
}

const Contender zeromq_1p1c{"cpp-mpmc", "zeromq", Role::kPeer, "ns", [](const Run& run) {
                              ZeroQueue queue(4096);
                              return flow_ns(run, queue, kSmall, run.count(500'000));
                            }};
#endif

template <std::size_t Bytes>
bool enter_oneway() {
  constexpr Size size = size_of<Bytes>();
  const auto enter = [&](const char* contender, Role role, double (*measure)(const Run&)) {
    cases().push_back({size.row, contender, role, size.unit, measure});
  };
  using Ours = std::conditional_t<Bytes >= kMega, OurVectorQueue, OurQueue<Bytes>>;
  enter("forklift", Role::kOurs, ours_oneway<Bytes, Ours>);
  enter("channel", Role::kPart, ours_oneway<Bytes, OurChannel>);
  enter("pipe", Role::kPeer, pipe_oneway<Bytes>);
#if FORKLIFT_BENCH_BOOST
  enter("boost message_queue", Role::kPeer, boost_oneway<Bytes>);
#endif
#if FORKLIFT_BENCH_ICEORYX
  // The daemon's largest pool (iceoryx.cpp) has pieces of 1 MB.
  if constexpr (Bytes <= kMega) enter("iceoryx", Role::kPeer, iceoryx_oneway<Bytes>);
#endif
#if FORKLIFT_BENCH_ZEROMQ
  enter("zeromq", Role::kPeer, zeromq_oneway<Bytes>);
#endif
  enter("SPSC ring", Role::kFloor, ring_oneway<Bytes>);
  enter("memcpy", Role::kFloor, copy_oneway<Bytes, 1>);
  enter("memcpy at both ends", Role::kFloor, copy_oneway<Bytes, 2>);
  return true;
}

const bool oneway_entered =
    enter_oneway<64>() && enter_oneway<4 * kKilo>() && enter_oneway<kMega>() && enter_oneway<16 * kMega>();

}  // namespace
}  // namespace bench
