#include "cpp/peers.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#if FORKLIFT_BENCH_BOOST
#include <boost/interprocess/ipc/message_queue.hpp>
#endif

namespace bench {

RobustLock::RobustLock(bool robust) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  if (pthread_mutex_init(&mutex_, &attributes) != 0) fail("pthread_mutex_init");
  pthread_mutexattr_destroy(&attributes);
}

void RobustLock::lock() {
  // Polls first: sleeping at once would measure futex calls, since critical sections are shorter than one.
  for (int look = 0; look < 100; ++look) {
    const int rc = pthread_mutex_trylock(&mutex_);
    if (rc == 0) return;
    if (rc != EBUSY) fail("pthread_mutex_trylock");
    while (look < 100 && __atomic_load_n(&mutex_.__data.__lock, __ATOMIC_RELAXED) != 0) {
      relax();
      ++look;
    }
  }
  if (pthread_mutex_lock(&mutex_) != 0) fail("pthread_mutex_lock");
}

void RobustRing::send(std::span<const std::byte> bytes) {
  SpinPolicy spin_policy;
  for (;;) {
    tail_lock_.lock();
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - seen_head_ == kSlots) seen_head_ = head_.load(std::memory_order_acquire);
    if (tail - seen_head_ != kSlots) {
      copy_bytes(slots_[tail % kSlots].data(), bytes.data(), bytes.size());
      tail_.store(tail + 1, std::memory_order_release);
      tail_lock_.unlock();
      return;
    }
    tail_lock_.unlock();
    while (tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_relaxed) >= kSlots)
      spin_policy.wait();
  }
}

void RobustRing::receive(std::span<std::byte> into) {
  SpinPolicy spin_policy;
  for (;;) {
    head_lock_.lock();
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == seen_tail_) seen_tail_ = tail_.load(std::memory_order_acquire);
    if (head != seen_tail_) {
      copy_bytes(into.data(), slots_[head % kSlots].data(), into.size());
      head_.store(head + 1, std::memory_order_release);
      head_lock_.unlock();
      return;
    }
    head_lock_.unlock();
    while (tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_relaxed)) spin_policy.wait();
  }
}

void FutexCell::send(std::span<const std::byte>) {
  full_.store(1, std::memory_order_release);
  ::syscall(SYS_futex, &full_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void FutexCell::receive(std::span<std::byte>) {
  while (full_.load(std::memory_order_acquire) == 0)
    ::syscall(SYS_futex, &full_, FUTEX_WAIT, 0, nullptr, nullptr, 0);
  full_.store(0, std::memory_order_relaxed);
}

Pipe::Pipe() {
  if (::pipe(ends_) != 0) fail("pipe");
}

Pipe::~Pipe() {
  ::close(ends_[0]);
  ::close(ends_[1]);
}

void Pipe::send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(ends_[1], bytes.data(), bytes.size());
    if (n <= 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void Pipe::receive(std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t n = ::read(ends_[0], into.data(), into.size());
    if (n <= 0) fail("read");
    into = into.subspan(static_cast<std::size_t>(n));
  }
}

#if FORKLIFT_BENCH_BOOST
namespace ipc = boost::interprocess;

struct BoostQueue::Impl {
  std::string name;
  ipc::message_queue queue;
};

namespace {
std::string fresh_name() {
  static int number = 0;
  return "forklift_bench_" + std::to_string(::getpid()) + "_" + std::to_string(number++);
}
}  // namespace

BoostQueue::BoostQueue(std::size_t messages, std::size_t bytes) {
  std::string name = fresh_name();
  impl_.reset(new Impl{name, {ipc::create_only, name.c_str(), messages, bytes}});
  ipc::message_queue::remove(name.c_str());  // the mapping stays, and forked workers inherit it
}

BoostQueue::~BoostQueue() = default;

void BoostQueue::send(std::span<const std::byte> bytes) { impl_->queue.send(bytes.data(), bytes.size(), 0); }

void BoostQueue::receive(std::span<std::byte> into) {
  ipc::message_queue::size_type received = 0;
  unsigned priority = 0;
  impl_->queue.receive(into.data(), into.size(), received, priority);
  if (received != into.size()) fail("boost: a message of another size");
}
#endif

}  // namespace bench
