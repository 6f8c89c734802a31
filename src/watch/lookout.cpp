#include "watch/lookout.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "os/thread.h"
#include "watch/watches.h"

namespace forklift::inline abi_0_1::watch {

namespace {

// One a process. Never destroyed: at-fork handlers outlive main.
class LookoutThread {
 public:
  static LookoutThread& instance() {
    static LookoutThread* const made = [] {
      auto* const fresh = new LookoutThread;
      ::pthread_atfork([] { instance().before_fork(); }, [] { instance().after_fork(false); },
                       [] { instance().after_fork(true); });
      return fresh;
    }();
    return *made;
  }

  Status keep(Watches& watches) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (std::find(kept_.begin(), kept_.end(), &watches) == kept_.end()) kept_.push_back(&watches);
    return thread_ ? Status() : start();
  }

  void leave(Watches& watches) noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    std::erase(kept_, &watches);
    while (kept_.empty() && thread_) stop(lock);
  }

 private:
  static constexpr std::chrono::milliseconds kBetweenLooks{500};

  Status start() {  // with the lock
    auto thread = std::make_unique<std::jthread>();
    const auto body = [this](const std::stop_token& stop) { run(stop); };
    if (Status status = os::start_thread(*thread, body, "looking for deaths"); !status) return status;
    thread_ = std::move(thread);
    return {};
  }

  // Another may have been started when this returns.
  void stop(std::unique_lock<std::mutex>& lock) {
    const std::unique_ptr<std::jthread> thread = std::move(thread_);
    lock.unlock();
    thread->request_stop();
    thread->join();
    lock.lock();
  }

  void run(const std::stop_token& stop) {
    (void)os::set_thread_name("forklift-watch");
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop.stop_requested()) {
      changed_.wait_for(lock, stop, kBetweenLooks, [] { return false; });
      if (stop.stop_requested()) return;
      for (Watches* const watches : kept_) {
        watches->domain().check_deaths();
        watches->deliver();
      }
    }
  }

  void before_fork() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (thread_) stop(lock);
    lock.release();  // until after_fork()
  }

  void after_fork(bool in_child) {
    const std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    if (in_child) {
      kept_.clear();
    } else if (!kept_.empty()) {
      (void)start();
    }
  }

  std::mutex mutex_;  // held across a fork
  std::condition_variable_any changed_;
  std::vector<Watches*> kept_;
  std::unique_ptr<std::jthread> thread_;
};

}  // namespace

Status Lookout::keep(Watches& watches) { return LookoutThread::instance().keep(watches); }

void Lookout::leave(Watches& watches) noexcept { LookoutThread::instance().leave(watches); }

}  // namespace forklift::inline abi_0_1::watch
