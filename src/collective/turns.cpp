#include "collective/turns.h"

#include <chrono>

namespace forklift::inline abi_0_1::collective {

// Call with the lock held.
void Turns::skip_given_up() {
  std::uint64_t served = served_.load(std::memory_order_relaxed);
  while (given_up_.erase(served) != 0) {
    interested_.fetch_sub(1, std::memory_order_relaxed);
    served_.store(++served, std::memory_order_release);
  }
}

void Turns::wake() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    skip_given_up();
  }
  changed_.notify_all();
}

Status Turns::wait_long(std::uint64_t turn, const WaitLimits& limits) {
  std::unique_lock<std::mutex> lock(mutex_);
  interested_.fetch_add(1, std::memory_order_seq_cst);
  Status status;
  while (served_.load(std::memory_order_seq_cst) != turn && status) {
    const std::int64_t slice = limits.deadline.left_ns(domain::slice_ns(limits.hooks));
    changed_.wait_for(lock, std::chrono::nanoseconds(slice));
    if (served_.load(std::memory_order_acquire) == turn) break;
    if (limits.deadline.passed())
      status = {Code::kTimeout, "the time was over while another call of this rank was under way"};
    if (status && limits.hooks != nullptr) {
      lock.unlock();  // the hooks may run the program's code
      status = limits.hooks->poll();
      lock.lock();
    }
  }
  if (status || served_.load(std::memory_order_relaxed) == turn) {
    interested_.fetch_sub(1, std::memory_order_relaxed);
    if (status) return {};
    lock.unlock();
    pass(turn);
    return status;
  }
  given_up_.insert(turn);  // interested_ counts it until it is skipped
  return status;
}

}  // namespace forklift::inline abi_0_1::collective
