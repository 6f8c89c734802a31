// Other ways to carry a message: peers and floors, all with the same two calls.
//
//   SpinCell        one message at a time in shared memory, waiting by polling: the floor of a round trip
//   FutexCell       the same, but each end sleeps until its turn: the cost of the kernel's wake-up
//   SpscRing        one producer, one consumer, copy in and out, no lock: the floor of a flow
//   RobustRing      many to many, a robust mutex at each end, nothing repaired after a death: the floor of a
//                   queue whose locks survive
//   PlainRing       the same with mutexes that stop everybody when their owner dies: what that survival costs
//   Pipe            pipe(2)
//   BoostQueue      boost::interprocess::message_queue
//
// They are made before the fork and used after it. All but the last two lie in Shared<>. iceoryx and ZeroMQ
// have headers of their own.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>

#include "cpp/workers.h"

namespace bench {

template <std::size_t Bytes>
class SpinCell {
 public:
  void send(std::span<const std::byte> bytes) {
    SpinPolicy spin_policy;
    while (full_.load(std::memory_order_acquire) != 0) spin_policy.wait();
    copy_bytes(data_, bytes.data(), bytes.size());
    full_.store(1, std::memory_order_release);
  }
  void receive(std::span<std::byte> into) {
    SpinPolicy spin_policy;
    while (full_.load(std::memory_order_acquire) == 0) spin_policy.wait();
    copy_bytes(into.data(), data_, into.size());
    full_.store(0, std::memory_order_release);
  }

 private:
  alignas(64) std::atomic<std::uint32_t> full_{0};
  std::byte data_[Bytes]{};
};

// One word that says whose turn it is, no payload.
class FutexCell {
 public:
  void send(std::span<const std::byte>);
  void receive(std::span<std::byte>);

 private:
  std::atomic<std::uint32_t> full_{0};
};

template <std::size_t Bytes, std::size_t Slots>
class SpscRing {
 public:
  void send(std::span<const std::byte> bytes) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - seen_head_ == Slots) {
      SpinPolicy spin_policy;
      while (tail - (seen_head_ = head_.load(std::memory_order_acquire)) == Slots) spin_policy.wait();
    }
    copy_bytes(slots_[tail % Slots].data(), bytes.data(), bytes.size());
    tail_.store(tail + 1, std::memory_order_release);
  }
  void receive(std::span<std::byte> into) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == seen_tail_) {
      SpinPolicy spin_policy;
      while (head == (seen_tail_ = tail_.load(std::memory_order_acquire))) spin_policy.wait();
    }
    copy_bytes(into.data(), slots_[head % Slots].data(), into.size());
    head_.store(head + 1, std::memory_order_release);
  }

 private:
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t seen_head_ = 0;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t seen_tail_ = 0;
  alignas(64) std::array<std::array<std::byte, Bytes>, Slots> slots_{};
};

class RobustLock {
 public:
  explicit RobustLock(bool robust = true);
  void lock();
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_;
};

class RobustRing {
 public:
  static constexpr std::size_t kSlots = 4096;
  static constexpr std::size_t kBytes = 64;
  explicit RobustRing(bool robust = true) : tail_lock_(robust), head_lock_(robust) {}
  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> into);

 private:
  alignas(64) RobustLock tail_lock_;
  std::atomic<std::uint64_t> tail_{0};
  std::uint64_t seen_head_ = 0;
  alignas(64) RobustLock head_lock_;
  std::atomic<std::uint64_t> head_{0};
  std::uint64_t seen_tail_ = 0;
  alignas(64) std::array<std::array<std::byte, kBytes>, kSlots> slots_{};
};

struct PlainRing : RobustRing {
  PlainRing() : RobustRing(false) {}
};

class Pipe {
 public:
  Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe();
  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> into);

 private:
  int ends_[2];
};

#if FORKLIFT_BENCH_BOOST
class BoostQueue {
 public:
  BoostQueue(std::size_t messages, std::size_t bytes);
  BoostQueue(const BoostQueue&) = delete;
  BoostQueue& operator=(const BoostQueue&) = delete;
  ~BoostQueue();
  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> into);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
#endif

}  // namespace bench
