// The supervisor, the thread that looks after a pool's workers: it sleeps until a worker dies, a deadline
// comes, or mind() rings.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "node/node.h"
#include "os/clock.h"
#include "os/thread.h"
#include "workers/engine.h"

namespace forklift::inline abi_0_1::workers {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
// Between SIGTERM and SIGKILL.
constexpr std::int64_t kGraceNs = 1'000'000'000;
// The pause after a worker could not be started.
constexpr std::int64_t kStartAgainNs = 100'000'000;
// The weights of workers that die before they are ready: by themselves, or by a signal from outside, which
// says less about the pool.
constexpr unsigned kOwnFailure = 10;
constexpr unsigned kForeignFailure = 1;
constexpr unsigned kMostFailures = 50;

void clear_row(WorkerRow& row) noexcept {
  for (Word* word :
       {&row.claim.place, &row.claim.tag, &row.began, &row.fate, &row.state, &row.done, &row.gate})
    word->store(0, std::memory_order_relaxed);
}

}  // namespace

Engine::Engine(node::Node& node, const EngineOptions& options, WorkerFactory factory)
    : node_(node),
      options_(options),
      made_ns_(os::now_ns()),
      factory_(std::move(factory)),
      check_ns_(kNever),
      wanted_(options.first == 0 ? options.workers : std::min(options.first, options.workers)),
      signals_(os::SignalMask::current()) {}

Result<std::unique_ptr<Engine>> Engine::create(node::Node& node, const EngineOptions& options,
                                               WorkerFactory factory) {
  if (options.workers == 0) return {Code::kInvalid, "a pool of no workers"};
  if (std::uint64_t{options.workers} + options.spares >= domain::kSlotCount) {
    return {Code::kInvalid, "a pool of " + std::to_string(options.workers) + " workers and " +
                                std::to_string(options.spares) + " spares: a domain holds " +
                                std::to_string(domain::kSlotCount) + " processes"};
  }
  std::unique_ptr<Engine> engine(new Engine(node, options, std::move(factory)));
  if (Status opened = engine->open(); !opened) return opened;
  return engine;
}

Status Engine::open() {
  Result<channel::ChannelPtr> tasks =
      channel::Channel::create(node_.channels(), {.flags = channel::kPortable});
  if (!tasks) return tasks.status();
  Result<channel::ChannelPtr> answers =
      channel::Channel::create(node_.channels(), {.flags = channel::kPortable});
  if (!answers) return answers.status();
  (void)(*tasks)->label().set(channel::kPoolTasks);
  (void)(*answers)->label().set(channel::kPoolAnswers);
  const std::size_t worker_slots = std::size_t{options_.workers} + options_.spares;
  Result<arena::LeasePtr> table =
      node_.arena().allocate(arena::Kind::kShare, table_bytes(worker_slots, options_.insights), true);
  if (!table) return table.status();
  tasks_ = *std::move(tasks);
  answers_ = *std::move(answers);
  table_ = WorkerTable(*std::move(table));
  if (options_.insights) table_.add_insights(worker_slots);
  places_.resize(worker_slots);
  supervisor_bell_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!supervisor_bell_.valid()) return Status::system("eventfd", errno, "a pool's supervisor");
  fill_slots();
  if (!broken_.ok() || retry_ns_ != 0) return start_failure_;
  return os::start_thread(supervisor_, [this] { run_supervisor(); }, "a pool's supervisor");
}

Engine::~Engine() { shut_down(); }

void Engine::shut_down() {
  if (supervisor_.joinable()) {
    terminate();
    supervisor_.join();
  } else if (!supervisor_ended_) {
    // The supervisor never ran: not all workers could be started.
    for (Place& place : places_) {
      if (!place.worker) continue;
      place.worker->signal(SIGKILL);
      (void)place.worker->wait();
      place.worker.reset();
    }
  }
  if (!collector_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    collector_ends_ = true;
  }
  collector_bell_.notify_one();
  wake();
  collector_.join();
}

void Engine::mind() noexcept {
  const std::uint64_t one = 1;
  if (supervisor_bell_.valid()) (void)!::write(supervisor_bell_.get(), &one, sizeof one);
}

void Engine::run_supervisor() {
  std::vector<pollfd> watched;
  for (;;) {
    std::int64_t next = enforce_deadlines();
    Mode mode = Mode::kRunning;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (mode_ == Mode::kRunning && closing_ && outstanding_ == 0) mode_ = Mode::kLeaving;
      mode = mode_;
    }
    if (mode == Mode::kLeaving) tell_to_leave();
    if (mode == Mode::kTerminating) put_down();
    if (mode == Mode::kRunning) fill_slots();
    if (mode != Mode::kRunning && !anybody_left()) break;
    if (kill_ns_ != 0) next = std::min(next, kill_ns_);
    if (retry_ns_ != 0) next = std::min(next, retry_ns_);

    watched.assign(1, {supervisor_bell_.get(), POLLIN, 0});
    for (const Place& place : places_) {
      if (place.worker) watched.push_back({place.worker->sentinel(), POLLIN, 0});
    }
    const std::int64_t left = os::Deadline::at_ns(next).left_ns(kNever);
    const timespec time{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
    ::ppoll(watched.data(), watched.size(), next == kNever ? nullptr : &time, nullptr);
    if (watched.front().revents != 0) {
      std::uint64_t rung = 0;
      (void)!::read(supervisor_bell_.get(), &rung, sizeof rung);
    }
    collect_dead();
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    supervisor_ended_ = true;
  }
  wake();
}

bool Engine::anybody_left() const noexcept {
  return std::any_of(places_.begin(), places_.end(),
                     [](const Place& each) { return each.worker != nullptr; });
}

// --- starting

void Engine::fill_slots() {
  std::size_t wanted = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!broken_.ok()) return;
    wanted = wanted_;
  }
  if (retry_ns_ != 0 && os::now_ns() < retry_ns_) return;
  retry_ns_ = 0;
  std::size_t working = 0;
  std::size_t spares = 0;
  for (const Place& place : places_) {
    if (place.worker) ++(place.spare ? spares : working);
  }
  for (; working < wanted && promote_spare(); ++working) --spares;
  for (std::size_t worker_slot = 0; worker_slot < places_.size() && retry_ns_ == 0; ++worker_slot) {
    if (places_[worker_slot].worker) continue;
    const bool spare = working >= wanted;
    if (spare && spares >= options_.spares) break;
    if (!start(worker_slot, spare)) retry_ns_ = os::now_ns() + kStartAgainNs;
    ++(spare ? spares : working);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pids_.clear();
    for (const Place& place : places_) {
      if (place.worker) pids_.push_back(place.pid);
    }
  }
  if (options_.first != 0) wake();  // wait_started()
}

bool Engine::start(std::size_t worker_slot, bool spare) {
  WorkerRow& row = table_.worker_slot(worker_slot);
  clear_row(row);
  note_start(worker_slot);
  row.gate.store(static_cast<std::uint64_t>(spare ? Gate::kWait : Gate::kOpen), std::memory_order_release);
  Result<std::unique_ptr<WorkerHandle>> started = [&] {
    const os::SignalMask as_the_program(signals_);
    return factory_({tasks_, answers_, table_.block(), static_cast<std::uint32_t>(worker_slot),
                     options_.most_tasks, options_.most_memory});
  }();
  if (!started) {
    After after;
    note_end(worker_slot, false);
    start_failure_ = started.status();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      note_failure_locked(kOwnFailure, "a worker cannot be started: " + started.status().to_string(), after);
    }
    finish(after);
    return false;
  }
  Place& place = places_[worker_slot];
  place = {};
  place.worker = *std::move(started);
  place.pid = place.worker->pid();
  place.spare = spare;
  return true;
}

bool Engine::promote_spare() {
  for (std::size_t worker_slot = 0; worker_slot < places_.size(); ++worker_slot) {
    Place& place = places_[worker_slot];
    WorkerRow& row = table_.worker_slot(worker_slot);
    if (!place.worker || !place.spare) continue;
    if (row.state.load(std::memory_order_acquire) != static_cast<std::uint64_t>(WorkerState::kReady))
      continue;
    place.spare = false;
    row.gate.store(static_cast<std::uint64_t>(Gate::kOpen), std::memory_order_release);
    row.bell.notify(1);
    return true;
  }
  return false;
}

// --- deaths

void Engine::collect_dead() {
  for (std::size_t worker_slot = 0; worker_slot < places_.size(); ++worker_slot) {
    Place& place = places_[worker_slot];
    if (!place.worker) continue;
    pollfd item{place.worker->sentinel(), POLLIN, 0};
    if (::poll(&item, 1, 0) != 1) continue;
    const int exitcode = place.worker->wait();
    place.worker.reset();
    After after;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      settle_death_locked(worker_slot, exitcode, after);
    }
    finish(after);
  }
}

// No process changes the worker slot's row any more, and all answers of the worker are in the channel.
void Engine::settle_death_locked(std::size_t worker_slot, int exitcode, After& after) {
  WorkerRow& row = table_.worker_slot(worker_slot);
  const Place& place = places_[worker_slot];
  std::erase(pids_, place.pid);
  const std::uint64_t tag = row.claim.tag.load(std::memory_order_acquire);
  bool its_own = tasks_->claim_taken(row.claim);
  if ((row.claim.place.load(std::memory_order_relaxed) & channel::Claim::kClaimed) == 0) {
    // It died when it was about to take the task. If another claim names the task, that worker has (or had)
    // it.
    for (std::size_t other = 0; other < table_.worker_slots(); ++other) {
      const channel::Claim& claim = table_.worker_slot(other).claim;
      if (other != worker_slot && claim.place.load(std::memory_order_acquire) != 0 &&
          claim.tag.load(std::memory_order_relaxed) == tag)
        its_own = false;
    }
  }
  drain_locked(nullptr, after);
  const auto state = static_cast<WorkerState>(row.state.load(std::memory_order_relaxed));
  if (mode_ != Mode::kTerminating && state != WorkerState::kLeaving) tasks_->count_death();
  if (breaks_locked(state)) {
    break_locked("worker " + std::to_string(place.pid) +
                     (exitcode < 0 ? " was killed by signal " : " ended with exit code ") +
                     std::to_string(exitcode < 0 ? -exitcode : exitcode),
                 after);
  }
  const std::uint64_t task = tag & kTaskMask;
  Task* const entry = its_own ? find_locked(task) : nullptr;
  note_end(worker_slot, entry != nullptr);
  if (entry != nullptr && entry->cancelled) {
    table_.forget_cancelled(task);
    free_locked(task, after);
  } else if (entry != nullptr && (place.condemned == task || !send_again_locked(task, *entry))) {
    const Ending ending = place.condemned == task ? Ending::kTimedOut : Ending::kDied;
    end_locked(task, {.ending = ending, .pid = place.pid, .exitcode = exitcode}, after);
    free_locked(task, after);
    after.others = true;
  }
  if (state == WorkerState::kReady || state == WorkerState::kLeaving) {
    failures_ = 0;
  } else if (mode_ == Mode::kRunning) {
    const bool foreign = exitcode == -SIGKILL || exitcode == -SIGTERM;
    note_failure_locked(foreign ? kForeignFailure : kOwnFailure,
                        std::string("workers end before they are ready, the last one ") +
                            (exitcode < 0 ? "by signal " : "with exit code ") +
                            std::to_string(exitcode < 0 ? -exitcode : exitcode),
                        after);
  }
  clear_row(row);
}

// Whether the death of a worker in this state breaks the pool.
bool Engine::breaks_locked(WorkerState state) const noexcept {
  if (mode_ != Mode::kRunning || state == WorkerState::kLeaving) return false;
  return options_.replace == Replace::kNone ||
         (options_.replace == Replace::kUnlessBad && state == WorkerState::kFailed);
}

void Engine::break_locked(const std::string& why, After& after) {
  if (broken_.ok()) broken_ = Status(Code::kPeerDied, why);
  closing_ = true;
  mode_ = Mode::kTerminating;
  end_all_locked(Ending::kStopped, after);
}

// Workers are not started anew for ever: a pool whose workers cannot be made ready reports that.
void Engine::note_failure_locked(unsigned weight, const std::string& why, After& after) {
  failures_ += weight;
  if (failures_ < kMostFailures || !broken_.ok()) return;
  broken_ = Status(Code::kPeerDied, why);
  end_all_locked(Ending::kStopped, after);
}

// --- deadlines

// A task's time counts from its start, which its worker records. A task that has not begun cannot reach its
// deadline before the shortest time limit of all tasks has passed.
std::int64_t Engine::enforce_deadlines() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::int64_t now = os::now_ns();
  if (times_.empty()) check_ns_ = kNever;
  if (now < check_ns_) return check_ns_;
  check_ns_ = os::Deadline::after_ns(times_.begin()->first).when_ns();
  for (std::size_t worker_slot = 0; worker_slot < places_.size(); ++worker_slot) {
    if (places_[worker_slot].worker) check_ns_ = std::min(check_ns_, check_deadline_locked(worker_slot, now));
  }
  return check_ns_;
}

// Returns when this worker's task will be over its deadline. If it is over already, kills the worker.
std::int64_t Engine::check_deadline_locked(std::size_t worker_slot, std::int64_t now) {
  Place& place = places_[worker_slot];
  WorkerRow& row = table_.worker_slot(worker_slot);
  const bool claimed = row.claim.place.load(std::memory_order_acquire) != 0;
  const std::uint64_t tag = row.claim.tag.load(std::memory_order_acquire);
  const std::uint64_t task = tag & kTaskMask;
  const Task* const entry = claimed && (tag & kTimedTask) != 0 ? find_locked(task) : nullptr;
  if (entry == nullptr || entry->cancelled || place.condemned == task) return kNever;
  std::uint64_t fate = row.fate.load(std::memory_order_acquire);
  if (fate != task && place.watched != task) {
    place.watched = task;
    place.watched_since = now;
  }
  const std::int64_t since = fate == task
                                 ? static_cast<std::int64_t>(row.began.load(std::memory_order_relaxed))
                                 : place.watched_since;
  if (now - since < entry->time_ns) return since + entry->time_ns;
  // If the exchange succeeds, the task's answer no longer counts; if it fails, the worker has answered.
  if (!row.fate.compare_exchange_strong(fate, task | kCondemned, std::memory_order_acq_rel)) return now;
  place.condemned = task;
  place.worker->signal(SIGKILL);
  return kNever;
}

// --- the end

void Engine::tell_to_leave() {
  for (std::size_t worker_slot = 0; worker_slot < places_.size(); ++worker_slot) {
    Place& place = places_[worker_slot];
    if (!place.worker || place.told_to_leave) continue;
    place.told_to_leave = true;
    if (place.spare) {
      WorkerRow& row = table_.worker_slot(worker_slot);
      row.gate.store(static_cast<std::uint64_t>(Gate::kLeave), std::memory_order_release);
      row.bell.notify(1);
    } else if (!tasks_->put({.tag = kStopTask}, os::Deadline::never())) {
      place.worker->signal(SIGTERM);
    }
  }
}

void Engine::put_down() {
  const std::int64_t now = os::now_ns();
  const bool first = kill_ns_ == 0;
  if (!first && now < kill_ns_) return;
  for (Place& place : places_) {
    if (place.worker) place.worker->signal(first ? SIGTERM : SIGKILL);
  }
  kill_ns_ = now + kGraceNs;
}

}  // namespace forklift::inline abi_0_1::workers
