// Putting a message on a topic: the slot is made free first, then written; one store commits.
#include <algorithm>
#include <climits>
#include <cstring>
#include <string>

#include "channel/plan.h"
#include "channel/waiting.h"
#include "topic/topic.h"
#include "topic/topics.h"

namespace forklift::inline abi_0_1::topic {

struct Topic::Plan {
  explicit Plan(const channel::Outgoing& outgoing) : message(outgoing) {}
  const channel::Outgoing& message;
  SlotHeader header{};
  arena::LeasePtr spill;  // holds handles and bytes when they do not fit into the slot
};

Status Topic::plan_put(const channel::Outgoing& message, Plan& plan) {
  SlotHeader& header = plan.header;
  header.codec = message.codec;
  header.tag = message.tag;
  if (Status status = channel::check_leases(message.leases, table_.arena()); !status) return status;
  const std::size_t body = message.leases.size() * sizeof(arena::Handle) + message.bytes.size();
  if (sizeof header + body <= row_.slot_bytes.load(std::memory_order_relaxed)) {
    header.bytes = static_cast<std::uint32_t>(message.bytes.size());
    header.handles = static_cast<std::uint16_t>(message.leases.size());
    return {};
  }
  Result<arena::LeasePtr> spilled = channel::spill(message, table_.arena());
  if (!spilled) return spilled.status();
  plan.spill = *std::move(spilled);
  header.handles = 1;
  header.spilled = 1;
  return {};
}

bool Topic::has_room() const noexcept {
  const std::uint64_t oldest = row_.oldest.load(std::memory_order_acquire);
  const std::uint64_t tail = row_.tail.load(std::memory_order_acquire);
  return tail - oldest < row_.capacity.load(std::memory_order_relaxed) || when_slow() != WhenSlow::kWait ||
         table_.lowest(row_) > oldest || finished();
}

// With the lock. Where the ring is full, drops the messages that all have seen, but for those that are kept;
// at least one. False: there is a reader to wait for.
bool Topic::make_room(std::uint64_t tail) {
  const std::uint64_t oldest = row_.oldest.load(std::memory_order_relaxed);
  if (tail - oldest < row_.capacity.load(std::memory_order_relaxed)) return true;
  const std::uint64_t seen = table_.lowest(row_);
  if (seen <= oldest && when_slow() == WhenSlow::kWait) return false;
  const std::uint64_t keep = row_.keep.load(std::memory_order_relaxed);
  const std::uint64_t unkept = tail + 1 - std::min(keep, tail + 1);
  (void)table_.drop(id_.index, std::max(oldest + 1, std::min(seen, unkept)));
  return true;
}

void Topic::write(const Plan& plan, std::uint64_t sequence) {
  std::byte* const slot = table_.slot(row_, sequence);
  const arena::Holder message = arena::Holder::topic(id_.index, sequence);
  std::byte* out = slot + sizeof(SlotHeader);
  if (plan.spill) {
    write_racing(out, &plan.spill->handle(), sizeof(arena::Handle));
    table_.arena().give(*plan.spill, message);
  } else {
    for (const arena::LeasePtr& lease : plan.message.leases) {
      write_racing(out, &lease->handle(), sizeof(arena::Handle));
      out += sizeof(arena::Handle);
    }
    write_racing(out, plan.message.bytes.data(), plan.message.bytes.size());
  }
  SlotHeader header = plan.header;
  header.sequence = sequence;
  write_racing(slot, &header, sizeof header);
  for (const arena::LeasePtr& lease : plan.message.leases) table_.arena().give(*lease, message);
}

Status Topic::try_put(const Plan& plan, bool* done, std::uint64_t* number) {
  Topics& topics = table_;
  const sync::LockGuard guard = topics.lock(id_.index);
  if (!guard.ok()) return guard.status();
  if (!topics.whole(id_.index)) return unrepaired();
  if (finished())
    return {Code::kClosed, sync::labelled("the topic", row_.label) + " is closed: nothing more can be put"};
  const std::uint64_t tail = row_.tail.load(std::memory_order_relaxed);
  if (!make_room(tail)) return {};
  write(plan, tail);
  domain::note_cpu(row_.put_cpu);
  sync::crash_fence();
  row_.tail.store(tail + 1, std::memory_order_release);
  sync::crash_fence();
  *done = true;
  if (number != nullptr) *number = tail + 1;
  // Drop what nobody will ever see, and what is no longer one of the newest that are kept.
  if (!any_reader() || row_.keep.load(std::memory_order_relaxed) != 0) (void)topics.trim(id_.index);
  return {};
}

// Looks whether a reader that holds a writer up is dead, and reaps it now, not at the next regular check.
void Topic::look_after_readers() {
  const std::uint64_t oldest = row_.oldest.load(std::memory_order_acquire);
  for (const ReaderPlace& place : row_.readers) {
    const std::uint64_t owner = place.owner.load(std::memory_order_acquire);
    if (owner == 0 || place.position.load(std::memory_order_acquire) > oldest) continue;
    const domain::SlotRef slot{static_cast<std::uint32_t>(owner >> 32) & 0x3fffffffU,
                               static_cast<std::uint32_t>(owner)};
    if (slot.index < domain::kSlotCount && table_.domain().is_dead(slot)) table_.domain().try_reap();
  }
}

Status Topic::put(const channel::Outgoing& message, os::Deadline deadline, WaitHooks* hooks,
                  std::uint64_t* number) {
  if (!table_.domain().attached()) return table_.domain().not_attached();
  trace::Tracer& tracer = table_.domain().tracer();
  const std::int64_t traced = tracer.begin(trace::Category::kMessages);
  Plan plan(message);
  if (Status status = plan_put(message, plan); !status) return status;
  std::uint64_t behind = 0;
  const domain::WaitPoint at{row_.space, row_.space_spinner, domain::kUnknownCpu, sync::kSpinNs,
                             &spin_policy_};
  const auto roomy = [this] { return has_room(); };
  for (bool spun = false;;) {
    bool done = false;
    if (Status status = try_put(plan, &done, &behind); !status) return status;
    if (done) {
      if (!message.quiet) row_.items.notify_after_unlock(INT_MAX);
      if (number != nullptr) *number = behind;
      tracer.span(trace::EventKind::kPublish, traced,
                  trace::row_and_sequence(id_.index, static_cast<std::uint32_t>(behind - 1)),
                  message.bytes.size() + message.copied_bytes);
      return {};
    }
    look_after_readers();
    if (roomy()) continue;
    if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
    if (!std::exchange(spun, true) && domain::spin_at(at, roomy, table_.domain())) continue;
    if (Status status = domain::sleep_at(at, roomy, table_.domain(), deadline, hooks); !status) return status;
  }
}

}  // namespace forklift::inline abi_0_1::topic
