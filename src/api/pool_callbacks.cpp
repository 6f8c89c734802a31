#include "api/pool_callbacks.h"

#include <exception>
#include <string>
#include <utility>

#include "base/log.h"
#include "os/thread.h"

namespace forklift::inline abi_0_1::detail {
namespace {

void run_one(const std::function<void()>& call) noexcept {
  try {
    call();
  } catch (const std::exception& error) {
    log(Severity::kError, std::string("the callback of a pool's task failed: ") + error.what());
  } catch (...) {
    log(Severity::kError, "the callback of a pool's task threw what is no std::exception");
  }
}

}  // namespace

Status Callbacks::start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (started_ || finished_) return {};
  Status status = os::start_thread(thread_, [this] { run(); }, "a pool's callbacks");
  started_ = status.ok();
  return status;
}

void Callbacks::add(std::function<void()> call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (started_ && !finished_) {
      calls_.push_back(std::move(call));
      added_.notify_one();
      return;
    }
  }
  run_one(call);
}

bool Callbacks::wait(os::Deadline deadline, const std::stop_token& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!started_ || is_here()) return true;
  const auto empty = [this] { return calls_.empty(); };
  if (deadline.is_never()) return emptied_.wait(lock, stop, empty);
  return emptied_.wait_for(lock, stop, std::chrono::nanoseconds(deadline.left_ns(INT64_MAX)), empty);
}

void Callbacks::finish() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    finished_ = true;
    added_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Callbacks::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    added_.wait(lock, [this] { return !calls_.empty() || finished_; });
    if (calls_.empty()) return;
    std::function<void()> call = std::move(calls_.front());
    lock.unlock();
    run_one(call);
    call = nullptr;  // it may hold the last future of a task
    lock.lock();
    calls_.pop_front();
    if (calls_.empty()) emptied_.notify_all();
  }
}

}  // namespace forklift::inline abi_0_1::detail
