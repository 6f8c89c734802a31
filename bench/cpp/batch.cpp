// cpp-batch-8B: messages of 8 bytes in batches of 64, put by put_many() and got by get_many(), one producer and one
// consumer; cpp-batch-8B-2p2c: two of each. The time of one message, all processes together.
//
// Beside it: the same through put() and get(); a pipe(2), one write and one read a batch; and, as the floor, a ring of
// one cache line a message without locks, whose ends are published once a batch. It has one producer and one consumer.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cpp/case.h"
#include "cpp/ours.h"
#include "cpp/peers.h"

namespace bench {
namespace {

constexpr std::size_t kBatch = 64;
using Words = std::array<std::uint64_t, kBatch>;
using Span = std::span<std::uint64_t>;

struct Batched {
  forklift::Queue<std::uint64_t> queue;
  void send(const Words& words) { queue.put_many(words); }
  std::size_t receive(Span words) { return queue.get_many(words); }
};

struct Single {
  forklift::Queue<std::uint64_t> queue;
  void send(const Words& words) {
    for (const std::uint64_t word : words) queue.put(word);
  }
  std::size_t receive(Span words) {
    for (std::uint64_t& word : words) word = queue.get();
    return words.size();
  }
};

struct PipeBatches {
  Pipe pipe;
  void send(const Words& words) { pipe.send(std::as_bytes(std::span(words))); }
  std::size_t receive(Span words) {
    pipe.receive(std::as_writable_bytes(words));
    return words.size();
  }
};

class LineRing {
 public:
  void send(const Words& words) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    while (tail + kBatch - head_.load(std::memory_order_acquire) > kSlots) relax();
    for (std::size_t i = 0; i < kBatch; ++i) slots_[(tail + i) % kSlots].word = words[i];
    tail_.store(tail + kBatch, std::memory_order_release);
  }
  std::size_t receive(Span words) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    while (tail_.load(std::memory_order_acquire) == head) relax();
    for (std::size_t i = 0; i < kBatch; ++i) words[i] = slots_[(head + i) % kSlots].word;
    head_.store(head + kBatch, std::memory_order_release);
    return kBatch;
  }

 private:
  static constexpr std::size_t kSlots = 1024;
  struct alignas(64) Line {
    std::uint64_t word;
  };
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::array<Line, kSlots> slots_{};
};

template <class Carrier>
double batches_ns(const Run& run, Carrier& carrier, std::size_t full, std::size_t pairs) {
  const std::size_t each = run.count(full) / pairs / kBatch;
  const auto send = [&carrier](std::size_t batches) {
    const Words words{};
    for (std::size_t i = 0; i < batches; ++i) carrier.send(words);
  };
  // Each takes as many as one producer sends, and no more.
  const auto receive = [&carrier](std::size_t batches) {
    Words words{};
    for (std::size_t left = batches * kBatch; left != 0;) {
      left -= carrier.receive(std::span(words).first(std::min(left, kBatch)));
      keep(words.data());
    }
  };
  std::vector<Worker> workers;
  for (std::size_t i = 0; i < pairs; ++i) {
    workers.push_back({.warm_up = [=] { send(each / 5 + 1); }, .work = [=] { send(each); }});
    workers.push_back({.warm_up = [=] { receive(each / 5 + 1); }, .work = [=] { receive(each); }});
  }
  return race(workers, run.pin) / static_cast<double>(each * kBatch * pairs);
}

template <class Carrier, std::size_t Pairs>
double through(const Run& run, std::size_t full) {
  Carrier carrier;
  return batches_ns(run, carrier, full, Pairs);
}

template <std::size_t Pairs>
bool enter(const char* row) {
  const auto add = [&](const char* contender, Role role, double (*measure)(const Run&, std::size_t),
                       std::size_t full) {
    cases().push_back({row, contender, role, "ns", [=](const Run& run) { return measure(run, full); }});
  };
  add("forklift", Role::kOurs, through<Batched, Pairs>, 30'000'000);
  add("put and get", Role::kPart, through<Single, Pairs>, 3'000'000);
  add("pipe", Role::kPeer, through<PipeBatches, Pairs>, 10'000'000);
  return true;
}

const bool entered = enter<1>("cpp-batch-8B") && enter<2>("cpp-batch-8B-2p2c");
const Contender lines{"cpp-batch-8B", "ring of lines", Role::kFloor, "ns", [](const Run& run) {
                        Shared<LineRing> ring;
                        return batches_ns(run, *ring, 30'000'000, 1);
                      }};

}  // namespace
}  // namespace bench
