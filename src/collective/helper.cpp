#include "collective/helper.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <utility>

#include "os/thread.h"

namespace forklift::inline abi_0_1::collective {

Pending::Pending(Request request, std::uint64_t turn)
    : request_(std::move(request)), turn_(turn), process_(::getpid()) {}

void Pending::end(Status status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
  }
  ended_.notify_all();
}

Status Pending::wait(const WaitLimits& limits) {
  if (done()) return status_;
  // Its lock may be held by the parent's thread.
  if (::getpid() != process_)
    return {Code::kBrokenByFork,
            "the collective was under way in this process's parent when this process was forked"};
  std::unique_lock<std::mutex> lock(mutex_);
  while (!done()) {
    if (limits.deadline.passed()) return {Code::kTimeout, "the collective is still under way"};
    ended_.wait_for(lock, std::chrono::nanoseconds(limits.deadline.left_ns(domain::slice_ns(limits.hooks))));
    if (done() || limits.hooks == nullptr) continue;
    lock.unlock();  // the hooks may run the program's code
    if (Status status = limits.hooks->poll(); !status) return status;
    lock.lock();
  }
  return status_;
}

// All helpers of this process, for forks. domain::ForkRegistration is for what enters the child in a domain.
class Helpers {
 public:
  static Helpers& all() {
    static Helpers* const instance = [] {
      auto* made = new Helpers;  // at-fork handlers outlive main
      ::pthread_atfork([] { all().before_fork(); }, [] { all().after_fork(false); },
                       [] { all().after_fork(true); });
      return made;
    }();
    return *instance;
  }
  void add(Helper* helper) {
    const std::lock_guard<std::mutex> lock(mutex_);
    helpers_.insert(helper);
  }
  void remove(Helper* helper) {
    const std::lock_guard<std::mutex> lock(mutex_);
    helpers_.erase(helper);
  }

 private:
  void before_fork() {
    mutex_.lock();
    for (Helper* helper : helpers_) helper->before_fork();
  }
  void after_fork(bool in_child) {
    for (Helper* helper : helpers_) helper->after_fork(in_child);
    mutex_.unlock();
  }

  std::mutex mutex_;  // held across a fork
  std::set<Helper*> helpers_;
};

Helper::Helper(Communicator& communicator) : communicator_(communicator) { Helpers::all().add(this); }

Helper::~Helper() {
  Helpers::all().remove(this);
  std::unique_ptr<std::thread> thread;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    if (busy_ || !queue_.empty()) communicator_.transport().give_up();
    thread = std::move(thread_);
  }
  changed_.notify_all();
  if (thread) thread->join();
}

Result<PendingPtr> Helper::start(Request request) {
  if (Status status = communicator_.transport().check(); !status) return status;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_) {
    auto thread = std::make_unique<std::thread>();
    const auto body = [this, era = era_] { work(era); };
    if (Status status = os::start_thread(*thread, body, "a group's helper"); !status) return status;
    thread_ = std::move(thread);
  }
  // The turn is taken under the lock, so that the queue is in the order of turns.
  auto call = std::make_shared<Pending>(std::move(request), communicator_.issue());
  queue_.push_back(call);
  changed_.notify_all();
  return call;
}

void Helper::work(std::uint64_t era) {
  (void)os::set_thread_name("forklift-group");
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || era_ != era || !queue_.empty(); });
    if (era_ != era || queue_.empty()) return;
    busy_ = true;
    running_ = std::move(queue_.front());
    queue_.pop_front();
    PendingPtr call = running_;
    lock.unlock();
    call->end(communicator_.run_in_turn(call->turn_, call->request_, {}));
    call.reset();
    lock.lock();
    call = std::move(running_);
    lock.unlock();
    call.reset();  // may drop tensors, whose owners may wait
    lock.lock();
    busy_ = false;
  }
}

void Helper::before_fork() {
  std::unique_lock<std::mutex> lock(mutex_);
  // While its end is waited for, another thread may issue a call, and start one anew.
  while (thread_ && !busy_ && queue_.empty()) {
    ++era_;
    const std::unique_ptr<std::thread> thread = std::move(thread_);
    lock.unlock();
    changed_.notify_all();
    thread->join();
    lock.lock();
  }
  lock.release();  // until after_fork()
}

void Helper::after_fork(bool in_child) {
  const std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
  if (!in_child) return;
  // The thread is the parent's. What it may be using stays as it is.
  (void)thread_.release();
  static_cast<void>(new PendingPtr(std::move(running_)));
  static_cast<void>(new std::deque<PendingPtr>(std::move(queue_)));
  queue_.clear();
  busy_ = false;
}

}  // namespace forklift::inline abi_0_1::collective
