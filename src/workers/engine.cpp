// The table of tasks (entering and ending them), and the functions that a pool's user calls.
#include "workers/engine.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/log.h"
#include "os/clock.h"

namespace forklift::inline abi_0_1::workers {
namespace {

constexpr std::uint32_t kGenerationMask = (std::uint32_t{1} << (kTaskBits - kPlaceBits)) - 1;
// The most tasks that are submitted before a worker is woken.
constexpr std::uint32_t kMostQuiet = 128;

}  // namespace

JobPtr Engine::make_job(JobOptions options) {
  auto job = std::make_shared<Job>();
  job->bulk = options.bulk;
  job->cancellable = options.cancellable;
  job->on_end = std::move(options.on_end);
  return job;
}

Engine::Task* Engine::find_locked(std::uint64_t task) noexcept {
  const std::uint64_t place = task & kPlaceMask;
  if (place >= entries_.size()) return nullptr;
  Task& entry = entries_[place];
  return entry.job && entry.generation == task >> kPlaceBits ? &entry : nullptr;
}

Status Engine::admit_locked() const {
  if (!broken_) return broken_;
  if (mode_ == Mode::kTerminating) return {Code::kClosed, "the pool was terminated"};
  if (closing_) return {Code::kClosed, "the pool is closed: it takes no more tasks"};
  return {};
}

Result<std::uint64_t> Engine::enter_locked(const JobPtr& job, std::uint64_t index,
                                           const TaskOptions& options) {
  if (free_ == 0) {
    if (entries_.size() > kPlaceMask)
      return {Code::kNoSpace, std::to_string(entries_.size()) + " tasks of the pool have not ended"};
    entries_.emplace_back();
    free_ = static_cast<std::uint32_t>(entries_.size());
  }
  const std::uint64_t place = free_ - 1;
  Task& entry = entries_[place];
  free_ = entry.next_free;
  entry.generation = (entry.generation + 1) & kGenerationMask;
  if (entry.generation == 0) entry.generation = 1;  // so that no task has the number 0
  entry.job = job;
  entry.index = index;
  entry.retries = options.retries;
  entry.time_ns = options.time_ns;
  entry.cancelled = false;
  const std::uint64_t task = (std::uint64_t{entry.generation} << kPlaceBits) | place;
  ++job->running;
  ++outstanding_;
  if (!job->bulk) ++urgent_;
  if (job->cancellable) {
    if (job->tasks.size() <= index) job->tasks.resize(index + 1);
    job->tasks[index] = task;
  }
  if (options.time_ns > 0) ++times_[options.time_ns];
  return task;
}

void Engine::free_locked(std::uint64_t task, After& after) {
  Task& entry = entries_[task & kPlaceMask];
  after.dropped.push_back(std::move(entry.job));
  entry.job.reset();
  entry.retained.reset();
  entry.next_free = free_;
  free_ = static_cast<std::uint32_t>(task & kPlaceMask) + 1;
}

void Engine::end_job_locked(Job& job, After& after) {
  if (job.on_end) {
    calls_.push_back(std::exchange(job.on_end, nullptr));
    after.calls = true;
  }
  if (job.eager) --eager_;
  job.eager = false;
}

// The one place where a task ends. The caller keeps its entry only if its message is still in the channel.
void Engine::end_locked(std::uint64_t task, Answer answer, After& after) {
  Task& entry = *find_locked(task);
  Job& job = *entry.job;
  answer.index = entry.index;
  --outstanding_;
  if (!job.bulk) --urgent_;
  if (entry.time_ns > 0) {
    const auto at = times_.find(entry.time_ns);
    if (--at->second == 0) times_.erase(at);
  }
  if (job.cancellable) job.tasks[entry.index] = 0;
  entry.cancelled = answer.ending == Ending::kCancelled;
  job.answer_bytes += answer.bytes();
  job.all_bytes += answer.bytes();
  job.answers.push_back(std::move(answer));
  ++job.ended;
  if (--job.running == 0 && job.sealed) end_job_locked(job, after);
  if (closing_ && outstanding_ == 0) after.mind = true;
}

void Engine::end_all_locked(Ending ending, After& after) {
  for (std::uint64_t place = 0; place < entries_.size(); ++place) {
    const Task& entry = entries_[place];
    if (!entry.job || entry.cancelled) continue;
    const std::uint64_t task = (std::uint64_t{entry.generation} << kPlaceBits) | place;
    end_locked(task, {.ending = ending}, after);
    free_locked(task, after);
  }
  after.others = true;
}

// Takes in one message of a worker: an answer, or that it cannot work.
void Engine::take_in_locked(const Job* mine, After& after) {
  const auto ending = static_cast<Ending>(incoming_.tag() >> kTaskBits);
  const std::uint64_t task = incoming_.tag() & kTaskMask;
  if (ending == Ending::kBadStart) {
    last_words_ = std::make_unique<channel::Incoming>(incoming_.extract());
    return;
  }
  if (ending == Ending::kUnreadable && task == 0) {
    const std::span<const std::byte> text = incoming_.bytes();
    broken_ =
        Status(Code::kCorrupt, "a worker of the pool has lost a task: " +
                                   std::string(reinterpret_cast<const char*>(text.data()), text.size()));
    end_all_locked(Ending::kStopped, after);
    return;
  }
  Task* const entry = find_locked(task);
  if (entry == nullptr) return;  // the task ended in another way: stopped, or over its deadline
  if (entry->cancelled) {
    table_.forget_cancelled(task);
  } else {
    after.others |= entry->job.get() != mine || mine->waiters > 1;
    end_locked(task, {.ending = ending, .payload = incoming_.extract()}, after);
  }
  free_locked(task, after);
}

void Engine::drain_locked(const Job* mine, After& after) {
  // Only the answers that are there now: workers that answer meanwhile could keep this loop busy for ever.
  for (std::uint32_t left = answers_->size(); left > 0; --left) {
    Status got = answers_->get(incoming_, os::Deadline::after_ns(0));
    if (got) {
      take_in_locked(mine, after);
      incoming_.clear();
    } else if (got.code() == Code::kCorrupt) {
      broken_ = Status(Code::kCorrupt, "an answer of a worker was lost: " + std::string(got.what()));
      end_all_locked(Ending::kStopped, after);
    } else {
      return;
    }
  }
}

Status Engine::submit(const JobPtr& job, std::uint64_t index, const channel::Outgoing& message,
                      const TaskOptions& options, bool more) {
  std::unique_ptr<Retained> retained;
  if (options.retries > 0) {
    if (Status kept = retain(message, retained); !kept) return kept;
  }
  After after;
  std::uint64_t task = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (Status admitted = admit_locked(); !admitted) return admitted;
    if (job->on_end && !job->eager) {
      if (Status there = need_collector_locked(*job); !there) return there;
    }
    Result<std::uint64_t> entered = enter_locked(job, index, options);
    if (!entered) return entered.status();
    task = *entered;
    if (wanted_ < options_.workers && outstanding_ > wanted_) {
      ++wanted_;
      after.mind = true;
    }
    find_locked(task)->retained = std::move(retained);
    if (options.time_ns > 0) {
      const std::int64_t earliest = os::Deadline::after_ns(options.time_ns).when_ns();
      if (earliest < check_ns_) {
        check_ns_ = earliest;
        after.mind = true;
      }
    }
    // A thread waits for several answers of a bulk job at once; this task's answer must wake it at once.
    if (!job->bulk && table_.header().answers_wanted.load(std::memory_order_relaxed) > 1) {
      table_.header().answers_wanted.store(1, std::memory_order_seq_cst);
      after.others = true;
    }
  }
  channel::Outgoing sent = message;
  sent.tag = task | (options.time_ns > 0 ? kTimedTask : 0) | (options.retries > 0 ? kRetainedTask : 0);
  sent.quiet = more;
  Status put = tasks_->put(sent, os::Deadline::never());
  if (!put) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (find_locked(task) == nullptr) {
      put = Status();  // the task has ended already, with the pool
    } else {
      end_locked(task, {}, after);
      job->answers.pop_back();
      --job->ended;
      free_locked(task, after);
    }
  }
  if (more && quiet_.fetch_add(1, std::memory_order_relaxed) + 1 < kMostQuiet) {
    finish(after);
    return put;
  }
  flush();
  finish(after);
  return put;
}

void Engine::flush() noexcept {
  const std::uint32_t quiet = quiet_.exchange(0, std::memory_order_relaxed);
  if (quiet != 0) tasks_->items().notify(static_cast<int>(std::min(quiet, options_.workers)));
}

void Engine::seal(const JobPtr& job) {
  After after;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job->sealed = true;
    if (job->running == 0) end_job_locked(*job, after);
    after.others = job->running == 0;  // wait_end()
  }
  finish(after);
}

Status Engine::after(const JobPtr& job, std::function<void()> on_end) {
  After after;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (job->running != 0) {
      if (Status there = need_collector_locked(*job); !there) return there;
    }
    job->sealed = true;
    job->on_end = std::move(on_end);
    if (job->running == 0) end_job_locked(*job, after);
  }
  finish(after);
  return {};
}

bool Engine::is_claimed(std::uint64_t task) const noexcept {
  bool claimed = false;
  for (std::size_t worker_slot = 0; worker_slot < table_.worker_slots(); ++worker_slot) {
    const channel::Claim& claim = table_.worker_slot(worker_slot).claim;
    claimed |= claim.place.load(std::memory_order_acquire) != 0 &&
               (claim.tag.load(std::memory_order_relaxed) & kTaskMask) == task;
  }
  return claimed;
}

bool Engine::has_begun(Job& job, std::uint64_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t task = index < job.tasks.size() ? job.tasks[index] : 0;
  return task != 0 && is_claimed(task);
}

bool Engine::cancel(Job& job, std::uint64_t index) {
  After after;
  bool cancelled = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::uint64_t task = index < job.tasks.size() ? job.tasks[index] : 0;
    if (task == 0 || !table_.enter_cancelled(task)) return false;
    sync::full_fence();
    bool begun = is_claimed(task);
    if (!begun) {
      // The task may have been answered, so that no claim names it any more.
      drain_locked(&job, after);
      begun = job.tasks[index] != task;
    }
    if (begun) {
      table_.forget_cancelled(task);
    } else {
      end_locked(task, {.ending = Ending::kCancelled}, after);
      after.others = true;
      cancelled = true;
    }
  }
  finish(after);
  return cancelled;
}

void Engine::cancel_all(Job& job) {
  std::vector<std::uint64_t> indices;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::uint64_t index = job.tasks.size(); index > 0; --index) {
      if (job.tasks[index - 1] != 0) indices.push_back(index - 1);
    }
  }
  for (const std::uint64_t index : indices) (void)cancel(job, index);
}

void Engine::finish(After& after) {
  if (after.others) wake();
  if (after.mind) mind();
  if (after.calls) make_calls();
  after.dropped.clear();
}

void Engine::make_calls() {
  const std::lock_guard<std::recursive_mutex> order(calling_);
  for (;;) {
    std::function<void()> call;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (calls_.empty()) return;
      call = std::move(calls_.front());
      calls_.pop_front();
    }
    try {
      call();
    } catch (const std::exception& error) {
      log(Severity::kError, std::string("what follows a pool's job failed: ") + error.what());
    } catch (...) {
      log(Severity::kError, "what follows a pool's job failed");
    }
  }
}

void Engine::wake() noexcept {
  news_.fetch_add(1, std::memory_order_seq_cst);
  answers_->items().notify(INT_MAX);
  tasks_->space().notify(INT_MAX);
}

void Engine::close() {
  bool idle = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    idle = outstanding_ == 0;
  }
  wake();  // wait_for_room()
  if (idle) mind();
}

void Engine::terminate() {
  After after;
  after.mind = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    mode_ = Mode::kTerminating;
    drain_locked(nullptr, after);
    end_all_locked(Ending::kStopped, after);
  }
  finish(after);
}

Status Engine::health(channel::Incoming* last_words) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (last_words != nullptr && last_words_) *last_words = std::move(*std::exchange(last_words_, nullptr));
  return broken_;
}

std::vector<pid_t> Engine::pids() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pids_;
}

std::uint64_t Engine::ended(const Job& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return job.ended;
}

std::uint64_t Engine::outstanding() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return outstanding_;
}

}  // namespace forklift::inline abi_0_1::workers
