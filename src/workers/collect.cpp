// Taking in answers, which the waiting threads do for all jobs. And messages that may be sent again.
#include <algorithm>

#include "os/clock.h"
#include "os/thread.h"
#include "workers/engine.h"

namespace forklift::inline abi_0_1::workers {
namespace {

// A thread that wants all answers of many tasks is woken once for at most this many,
constexpr std::uint32_t kMostWanted = 64;
// and checks after this time in any case, so that no answer is later than that.
constexpr std::int64_t kLookNs = 1'000'000;
// If answers come faster than this, waiting for several at once pays.
constexpr std::int64_t kFastNs = 50'000;

}  // namespace

std::uint32_t Engine::pace_locked(const Job* job) const noexcept {
  if (job == nullptr || !job->bulk || urgent_ != 0 || eager_ != 0) return 1;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(job->wanted, job->running));
}

// Waits for twice as many answers if they come fast, for one at a time if they do not.
void Engine::learn_pace(Job& job, std::uint32_t least, bool came, std::int64_t waited_ns) noexcept {
  const bool fast = came && waited_ns < kFastNs * least;
  job.wanted = fast ? std::min(least * 2, kMostWanted) : 1;
}

// Counts a thread that waits for a job: the thread that takes in answers wakes the others.
class Engine::Waiting {
 public:
  Waiting(Engine& engine, Job* job) : engine_(engine), job_(job) { add(1); }
  ~Waiting() { add(~std::uint32_t{0}); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  void add(std::uint32_t number) {
    if (job_ == nullptr) return;
    const std::lock_guard<std::mutex> lock(engine_.mutex_);
    job_->waiters += number;
  }
  Engine& engine_;
  Job* job_;
};

// Waits until `done_locked()` holds, which is called with the lock held, after the answers that are there
// were taken in.
template <class Done>
Status Engine::await(Done&& done_locked, Job* job, os::Deadline deadline, channel::WaitHooks* hooks) {
  flush();  // a thread that waits submits nothing more
  const Waiting waiting(*this, job);
  Word& wanted = table_.header().answers_wanted;
  std::uint32_t seen = news_.load(std::memory_order_acquire);
  for (;;) {
    After after;
    const std::uint32_t seen_before = seen;
    std::uint32_t least = 1;
    bool done = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      drain_locked(job, after);
      seen = news_.load(std::memory_order_acquire);
      done = done_locked();
      least = pace_locked(job);
      if (!done && least > 1) wanted.store(least, std::memory_order_seq_cst);
    }
    finish(after);
    if (done) return {};
    // Another thread called wake(): perhaps for the caller's own hooks.
    if (hooks != nullptr && seen != seen_before) {
      if (Status asked = hooks->poll(); !asked) return asked;
    }
    if (least <= 1) {
      const std::int64_t begin = job != nullptr && job->bulk ? os::now_ns() : 0;
      Status waited = answers_->wait_messages(1, news_, seen, deadline, hooks);
      if (!waited) return waited;
      if (begin != 0) learn_pace(*job, 1, true, os::now_ns() - begin);
      continue;
    }
    const std::int64_t begin = os::now_ns();
    const std::int64_t look = std::min(deadline.when_ns(), begin + kLookNs);
    Status waited = answers_->wait_messages(least, news_, seen, os::Deadline::at_ns(look), hooks);
    wanted.store(1, std::memory_order_seq_cst);
    const bool late = waited.code() == Code::kTimeout;
    if (!waited && (!late || deadline.passed())) return waited;
    learn_pace(*job, least, !late, os::now_ns() - begin);
  }
}

Status Engine::collect(Job& job, std::vector<Answer>& into, std::size_t most, os::Deadline deadline,
                       channel::WaitHooks* hooks, std::uint64_t most_bytes) {
  into.clear();
  const auto take = [&] {
    const std::size_t there = std::min(most, job.answers.size() - job.collected);
    std::size_t count = 0;
    for (std::uint64_t bytes = 0; count < there && bytes < most_bytes; ++count) {
      Answer& answer = job.answers[job.collected + count];
      bytes += answer.bytes();
      job.answer_bytes -= answer.bytes();
      into.push_back(std::move(answer));
    }
    job.collected += count;
    if (job.collected == job.answers.size()) {
      job.answers.clear();
      job.collected = 0;
    }
    return count != 0 || job.running == 0;
  };
  return await(take, &job, deadline, hooks);
}

Engine::Progress Engine::progress(Job& job) {
  After after;
  Progress now;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    drain_locked(nullptr, after);  // nullptr: threads that wait for this very job are woken, too
    now = {job.ended, job.answer_bytes, job.all_bytes};
  }
  finish(after);
  return now;
}

Status Engine::wait_progress(Job& job, std::uint64_t seen, os::Deadline deadline, channel::WaitHooks* hooks) {
  return await([&] { return job.ended > seen || job.running == 0; }, &job, deadline, hooks);
}

Status Engine::wait(Job& job, os::Deadline deadline, channel::WaitHooks* hooks) {
  return await([&] { return job.running == 0; }, &job, deadline, hooks);
}

Status Engine::wait_end(Job& job, os::Deadline deadline, channel::WaitHooks* hooks) {
  Status ended = await([&] { return job.sealed && job.running == 0; }, &job, deadline, hooks);
  // Another thread may have seen the end first, and be making the calls.
  if (ended) make_calls();
  return ended;
}

Status Engine::wait_for_room(std::uint32_t most, os::Deadline deadline, channel::WaitHooks* hooks) {
  flush();
  for (;;) {
    const std::uint32_t seen = news_.load(std::memory_order_acquire);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (Status admitted = admit_locked(); !admitted) return admitted;
    }
    if (tasks_->size() <= most) return {};
    if (Status status = tasks_->wait_drained(most, news_, seen, deadline, hooks); !status) return status;
  }
}

void Engine::want_worker() {
  After after;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    after.mind = wanted_ < options_.workers;
    if (after.mind) ++wanted_;
  }
  finish(after);
}

Status Engine::wait_started(os::Deadline deadline, channel::WaitHooks* hooks) {
  return await([this] { return pids_.size() >= wanted_ || !broken_.ok() || mode_ != Mode::kRunning; },
               nullptr, deadline, hooks);
}

Status Engine::join(os::Deadline deadline, channel::WaitHooks* hooks) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closing_) return {Code::kInvalid, "the pool is still running: close or terminate it first"};
  }
  Status joined = await([&] { return supervisor_ended_; }, nullptr, deadline, hooks);
  // The thread that took in the last answers may not have called the `on_end`s that follow them yet: it does
  // so without the engine's lock. A caller of join() relies on every `on_end` having been called.
  if (joined) make_calls();
  return joined;
}

// Starts the collector if there is none yet: a thread that only waits, for jobs that have an `on_end`.
Status Engine::need_collector_locked(Job& job) {
  if (!collector_.joinable()) {
    Status status = os::start_thread(collector_, [this] { run_collector(); }, "a pool's collector");
    if (!status) return status;
  }
  job.eager = true;
  ++eager_;
  collector_bell_.notify_one();
  return {};
}

void Engine::run_collector() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    collector_bell_.wait(lock, [this] { return eager_ != 0 || collector_ends_; });
    if (collector_ends_) return;
    lock.unlock();
    Status waited =
        await([this] { return eager_ == 0 || collector_ends_; }, nullptr, os::Deadline::never(), nullptr);
    lock.lock();
    if (!waited && broken_.ok()) {
      // A stopped process holds a lock, or this process lost its domain: without this, no caller would ever
      // learn of it.
      After after;
      broken_ = std::move(waited);
      end_all_locked(Ending::kStopped, after);
      lock.unlock();
      finish(after);
      lock.lock();
    }
  }
}

Status Engine::retain(const channel::Outgoing& message, std::unique_ptr<Retained>& into) const {
  auto kept = std::make_unique<Retained>();
  kept->bytes.assign(message.bytes.begin(), message.bytes.end());
  kept->codec = message.codec;
  for (const arena::LeasePtr& lease : message.leases) {
    Result<arena::LeasePtr> another = node_.arena().another(lease);
    if (!another) return another.status();
    kept->leases.push_back(*std::move(another));
  }
  into = std::move(kept);
  return {};
}

// Called for a task whose worker has died. False: the task cannot be sent again, so it has to end.
bool Engine::send_again_locked(std::uint64_t task, Task& entry) {
  if (entry.retries == 0 || !entry.retained || mode_ == Mode::kTerminating || !broken_.ok()) return false;
  std::unique_ptr<Retained> next;
  Retained& kept = *entry.retained;
  const channel::Outgoing message{.bytes = kept.bytes,
                                  .leases = kept.leases,
                                  .codec = kept.codec,
                                  .tag = task | kRetainedTask | (entry.time_ns > 0 ? kTimedTask : 0)};
  if (entry.retries > 1 && !retain(message, next)) return false;
  --entry.retries;
  if (!tasks_->put(message, os::Deadline::never())) return false;
  tasks_->count_sent_again();
  entry.retained = std::move(next);
  if (entry.time_ns > 0) check_ns_ = std::min(check_ns_, os::Deadline::after_ns(entry.time_ns).when_ns());
  return true;
}

}  // namespace forklift::inline abi_0_1::workers
