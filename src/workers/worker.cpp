#include "workers/worker.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string>

#include "base/log.h"
#include "os/clock.h"
#include "os/limits.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1::workers {
namespace {

// How often a worker checks how much memory it has.
constexpr std::int64_t kMemoryLookNs = 20'000'000;
// How long a worker whose task is over its deadline waits to be killed by the pool. After that the pool
// itself must be gone, and the worker leaves.
constexpr std::int64_t kCondemnedNs = 10'000'000'000;

constexpr std::uint64_t bit_of(std::uint64_t place) noexcept { return std::uint64_t{1} << (place % 64); }

}  // namespace

bool WorkerTable::is_cancelled(std::uint64_t task) const noexcept {
  const WorkerTableHeader& header = this->header();
  const std::uint64_t place = task & kPlaceMask;
  // The claim comes before this fence: either the pool sees that the task has begun, or this worker sees that
  // it must not begin.
  sync::full_fence();
  if (header.cancelled.load(std::memory_order_acquire) == 0 || place >= kCancelPlaces) return false;
  return (header.shall_not_begin[place / 64].load(std::memory_order_acquire) & bit_of(place)) != 0;
}

bool WorkerTable::enter_cancelled(std::uint64_t task) const noexcept {
  WorkerTableHeader& header = this->header();
  const std::uint64_t place = task & kPlaceMask;
  if (place >= kCancelPlaces) return false;
  header.shall_not_begin[place / 64].fetch_or(bit_of(place), std::memory_order_release);
  header.cancelled.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

void WorkerTable::forget_cancelled(std::uint64_t task) const noexcept {
  WorkerTableHeader& header = this->header();
  const std::uint64_t place = task & kPlaceMask;
  if (place >= kCancelPlaces) return;
  const std::uint64_t before =
      header.shall_not_begin[place / 64].fetch_and(~bit_of(place), std::memory_order_relaxed);
  if ((before & bit_of(place)) != 0) header.cancelled.fetch_sub(1, std::memory_order_release);
}

Result<Worker> Worker::open(WorkerSlot worker_slot) {
  if (!worker_slot.tasks || !worker_slot.answers || !worker_slot.table)
    return {Code::kInvalid, "a worker without channels or table"};
  const domain::Domain& domain = worker_slot.tasks->domain();
  if (!domain.attached()) return domain.not_attached();  // the domain has no slot left
  const std::size_t bytes = worker_slot.table->size();
  if (bytes < table_bytes(std::size_t{worker_slot.index} + 1))
    return {Code::kCorrupt, "a table of " + std::to_string(bytes) + " bytes has no worker slot " +
                                std::to_string(worker_slot.index)};
  return Worker(std::move(worker_slot));
}

Worker::Worker(WorkerSlot worker_slot) noexcept
    : worker_slot_(std::move(worker_slot)),
      table_(worker_slot_.table),
      slot_(domain().self()),
      memory_at_open_(worker_slot_.most_memory != 0 ? os::own_memory() : 0) {
  if (InsightsRow* const row = table_.insights(worker_slot_.index)) insights_ = Insights(*row);
}

Status Worker::ready(channel::WaitHooks* hooks) {
  WorkerRow& row = this->row();
  row.state.store(static_cast<std::uint64_t>(WorkerState::kReady), std::memory_order_release);
  const auto opened = [&] { return row.gate.load(std::memory_order_acquire) != 0; };
  if (insights_.on()) insights_.enter(opened() ? Phase::kWaiting : Phase::kNone);
  if (Status status = sleep_until(opened, os::Deadline::never(), hooks); !status) return status;
  return row.gate.load(std::memory_order_acquire) == static_cast<std::uint64_t>(Gate::kOpen) ? Status()
                                                                                             : leave();
}

template <class Ready>
Status Worker::sleep_until(Ready&& ready, os::Deadline deadline, channel::WaitHooks* hooks) {
  sync::Word nobody{0};
  while (!ready()) {
    Status status = domain::sleep_at(
        {.event = row().bell, .spinner = nobody, .peer_cpu = nobody, .kind = domain::WaitKind::kTask}, ready,
        this->domain(), deadline, hooks);
    if (!status) return status;
  }
  return {};
}

Status Worker::fail(std::span<const std::byte> bytes, std::uint8_t codec) {
  Status sent = send(Ending::kBadStart, 0, {.bytes = bytes, .codec = codec});
  row().state.store(static_cast<std::uint64_t>(WorkerState::kFailed), std::memory_order_release);
  return sent;
}

Status Worker::leave() noexcept {
  if (insights_.on()) insights_.enter(Phase::kNone);
  row().state.store(static_cast<std::uint64_t>(WorkerState::kLeaving), std::memory_order_release);
  return {Code::kClosed, "this worker shall leave"};
}

bool Worker::should_leave() noexcept {
  if (worker_slot_.most_tasks != 0 && done_ >= worker_slot_.most_tasks) return true;
  if (worker_slot_.most_memory == 0 || done_ == 0) return false;
  const std::int64_t now = os::now_ns();
  if (memory_seen_ns_ != 0 && now - memory_seen_ns_ < kMemoryLookNs) return false;
  memory_seen_ns_ = now;
  const std::uint64_t memory = os::own_memory();
  return memory > memory_at_open_ && memory - memory_at_open_ > worker_slot_.most_memory;
}

// A worker slot belongs to one process. If a task forks and its copy returns from the task, too, there are
// two: the pool would take the copy's answer for the answer to the next task.
void Worker::end_copy() const noexcept {
  const domain::Domain& domain = this->domain();
  if (domain.attached() && domain.self() == slot_) return;
  log(Severity::kError, "a task forked, and its copy came back from it; the copy ends here");
  ::_exit(1);
}

Status Worker::next(channel::Incoming& task, channel::WaitHooks* hooks) {
  for (;;) {
    Status taken = try_next(task);
    if (taken.code() != Code::kTimeout) return taken;
    tell();
    if (insights_.on() && insights_.phase() != Phase::kWaiting) insights_.enter(Phase::kWaiting);
    bool mine = false;
    taken = take(task, os::Deadline::never(), hooks);
    if (taken) taken = accept(task, &mine);
    if (!taken || mine) return taken;
  }
}

Status Worker::try_next(channel::Incoming& task) {
  end_copy();
  static const Status nothing(Code::kTimeout, "there is no task");
  if (should_leave()) {
    tell();
    return leave();
  }
  for (;;) {
    if (worker_slot_.tasks->empty()) return nothing;
    bool mine = false;
    Status taken = take(task, os::Deadline::after_ns(0), nullptr);
    if (taken) taken = accept(task, &mine);
    if (!taken || mine) return taken;
  }
}

// A malformed message is lost, but its task has to end nevertheless.
Status Worker::take(channel::Incoming& task, os::Deadline deadline, channel::WaitHooks* hooks) {
  for (;;) {
    Status taken = worker_slot_.tasks->get(task, deadline, hooks, &row().claim);
    if (taken.code() != Code::kCorrupt) return taken;
    if (Status refused = refuse_unreadable(taken); !refused) return refused;
  }
}

Status Worker::refuse_unreadable(const Status& why) {
  const std::string text = why.to_string();
  const channel::Outgoing payload{.bytes = std::as_bytes(std::span(text))};
  return row().claim.place.load(std::memory_order_relaxed) != 0 ? answer(Ending::kUnreadable, payload)
                                                                : send(Ending::kUnreadable, 0, payload);
}

// `mine` stays false for a task that was cancelled meanwhile.
Status Worker::accept(channel::Incoming& task, bool* mine) {
  WorkerRow& row = this->row();
  const std::uint64_t tag = task.tag();
  if ((tag & kStopTask) != 0) {
    row.claim.place.store(0, std::memory_order_release);
    return leave();
  }
  const std::uint64_t number = tag & kTaskMask;
  if (table_.is_cancelled(number)) {
    task.clear();
    return answer(Ending::kCancelled, {});
  }
  if ((tag & kTimedTask) != 0) {
    row.began.store(static_cast<std::uint64_t>(os::now_ns()), std::memory_order_relaxed);
    row.fate.store(number, std::memory_order_release);
  }
  if ((tag & kRetainedTask) != 0) {
    if (Status kept = keep_private(task); !kept) {
      task.clear();
      return refuse_unreadable(kept);
    }
  }
  if (insights_.on()) insights_.enter(Phase::kWorking);
  *mine = true;
  trace_begin(number);
  return {};
}

void Worker::trace_begin(std::uint64_t number) noexcept {
  trace::Tracer& tracer = domain().tracer();
  task_began_ns_ = tracer.begin(trace::Category::kTasks);
  task_name_ = 0;
  if (task_began_ns_ == 0) [[likely]]
    return;
  tracer.write(trace::EventKind::kTaskBegan, task_began_ns_, task_began_ns_, traced_task(number), 0);
}

void Worker::trace_end(std::uint64_t number) noexcept {
  if (task_began_ns_ == 0) [[likely]]
    return;
  domain().tracer().span(trace::EventKind::kTask, task_began_ns_, traced_task(number), task_name_);
  task_began_ns_ = 0;
}

std::uint64_t Worker::traced_task(std::uint64_t number) const noexcept {
  return trace::row_and_sequence(worker_slot_.tasks->id().index, static_cast<std::uint32_t>(number));
}

// The pool still holds the same blocks, to send them again, so the task gets copies.
Status Worker::keep_private(channel::Incoming& task) {
  for (arena::LeasePtr& lease : task.leases()) {
    if (lease->kind() != arena::Kind::kPrivate) continue;
    Result<arena::LeasePtr> copy = arena().allocate(arena::Kind::kPrivate, lease->size());
    if (!copy) return copy.status();
    const std::int64_t traced = domain().tracer().begin(trace::Category::kMemory);
    sync::copy_bytes((*copy)->data(), lease->data(), lease->size());
    domain().tracer().span(trace::EventKind::kCopy, traced,
                           static_cast<std::uint64_t>(trace::CopyWay::kWithinArena), lease->size());
    lease = *std::move(copy);
  }
  return {};
}

bool Worker::count_worked(std::uint64_t items, bool listed) noexcept {
  end_copy();
  return insights_.phase() == Phase::kWorking && insights_.worked(items, listed);
}

void Worker::describe(std::string_view text) noexcept {
  if (insights_.on()) insights_.describe(text, static_cast<std::uint64_t>(::getpid()));
}

Status Worker::answer(Ending ending, const channel::Outgoing& payload) {
  end_copy();
  (void)worked();
  WorkerRow& row = this->row();
  const std::uint64_t task = row.claim.tag.load(std::memory_order_relaxed) & kTaskMask;
  std::uint64_t fate = row.fate.load(std::memory_order_relaxed);
  if (fate != 0 && !(fate == task && row.fate.compare_exchange_strong(fate, 0, std::memory_order_acq_rel))) {
    (void)sleep_until([] { return false; }, os::Deadline::after_ns(kCondemnedNs), nullptr);
    return leave();
  }
  trace_end(task);
  if (Status sent = send(ending, task, payload); !sent) return sent;
  row.claim.place.store(0, std::memory_order_release);
  row.done.store(++done_, std::memory_order_relaxed);
  return {};
}

Status Worker::send(Ending ending, std::uint64_t task, const channel::Outgoing& payload) {
  const std::uint64_t wanted = table_.header().answers_wanted.load(std::memory_order_relaxed);
  channel::Outgoing message = payload;
  message.tag = (std::uint64_t{static_cast<std::uint8_t>(ending)} << kTaskBits) | task;
  message.quiet = wanted > 1;
  if (Status sent = worker_slot_.answers->put(message, os::Deadline::never()); !sent) return sent;
  if (!message.quiet) return {};
  untold_ = true;
  // The pool lowers the number before it looks for answers. So either the pool sees this answer, or this
  // worker sees the lower number.
  sync::full_fence();
  const std::uint64_t now_wanted = table_.header().answers_wanted.load(std::memory_order_relaxed);
  if (now_wanted <= 1 || worker_slot_.answers->size() >= now_wanted || worker_slot_.tasks->empty()) tell();
  return {};
}

void Worker::tell() noexcept {
  if (!untold_) return;
  untold_ = false;
  worker_slot_.answers->items().notify(1);
}

}  // namespace forklift::inline abi_0_1::workers
