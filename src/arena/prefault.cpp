#include "arena/prefault.h"

#include <algorithm>

#include "os/thread.h"

namespace forklift::inline abi_0_1::arena {

Prefault::~Prefault() {
  const std::lock_guard<std::mutex> lock(mutex_);
  end();
}

Status Prefault::start(std::uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  end();
  const std::uint64_t half = std::min((bytes + 1) / 2, std::uint64_t{1} << ledger_.rows().largest_class());
  goals_.fill(half);
  for (std::atomic<std::uint64_t>& left : left_) left.store(half, std::memory_order_relaxed);
  paused_.store(false, std::memory_order_relaxed);
  return half != 0 ? begin() : Status();
}

Status Prefault::begin() {
  auto thread = std::make_unique<std::jthread>();
  const auto body = [this](const std::stop_token& stop) { run(stop); };
  if (Status status = os::start_thread(*thread, body, "making memory warm"); !status) return status;
  thread_ = std::move(thread);
  return {};
}

void Prefault::end() {
  thread_.reset();  // asks it to stop, and joins it
}

void Prefault::start_again() noexcept {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && paused_.exchange(false)) (void)begin();
}

void Prefault::run(const std::stop_token& stop) {
  (void)os::set_thread_name("forklift-warm");
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    std::atomic<std::uint64_t>& left = left_[kind];
    while (const std::uint64_t missing = left.load(std::memory_order_relaxed)) {
      if (stop.stop_requested()) return;
      const std::uint64_t made = make_piece(static_cast<Kind>(kind), missing);
      // Nothing: the budget is used up, or there is no such block, or it is warm already.
      left.store(made != 0 ? missing - std::min(made, missing) : 0, std::memory_order_relaxed);
    }
  }
}

// How many bytes more exist now.
std::uint64_t Prefault::make_piece(Kind kind, std::uint64_t left) {
  if (!ledger_.rows().domain().attached()) return 0;
  const unsigned size_class = std::max(kPageClass, class_for(kind, goals_[static_cast<std::size_t>(kind)]));
  const std::uint64_t page = std::uint64_t{1} << kPageClass;
  const std::uint64_t more = (std::min(left, kPiece) + page - 1) & ~(page - 1);
  Grant got;
  Shortage shortage;
  if (!ledger_.grow(kind, size_class, more, got, shortage)) return 0;
  pages_.make_exist(got.offset + got.fresh_from, got.offset + got.fresh_to);
  return ledger_.put_back(got) ? got.fresh_to - got.fresh_from : 0;
}

void Prefault::before_fork() {
  mutex_.lock();  // until after_fork()
  end();
  const auto unfinished = [](const std::atomic<std::uint64_t>& left) {
    return left.load(std::memory_order_relaxed) != 0;
  };
  paused_.store(std::any_of(left_.begin(), left_.end(), unfinished), std::memory_order_relaxed);
}

void Prefault::after_fork(bool in_child) {
  if (in_child) {
    for (std::atomic<std::uint64_t>& left : left_) left.store(0, std::memory_order_relaxed);
    paused_.store(false, std::memory_order_relaxed);
  }
  mutex_.unlock();
}

}  // namespace forklift::inline abi_0_1::arena
