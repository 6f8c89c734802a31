// Waits of ends that look for a message or for room, and take nothing while they wait.
#include "channel/waiting.h"

namespace forklift::inline abi_0_1::channel {

Status Channel::wait_messages(std::uint32_t least, const std::atomic<std::uint32_t>& news, std::uint32_t seen,
                              os::Deadline deadline, WaitHooks* hooks) {
  const auto ready = [&] { return size() >= least || news.load(std::memory_order_acquire) != seen; };
  const WaitPoint at = for_message();
  if (ready()) return {};
  if (least <= 1) {
    Status status = wait_until(at, ready, table_.domain(), deadline, hooks);
    if (status) fetch_first();
    return status;
  }
  // No spin: several messages rarely come that soon.
  do {
    if (Status status = domain::sleep_at(at, ready, table_.domain(), deadline, hooks); !status) return status;
  } while (!ready());
  return {};
}

Status Channel::wait_for_message(os::Deadline deadline, WaitHooks* hooks, bool* traced) {
  bool on = false;
  int looks = 0;
  std::uint32_t there = 0;
  const auto ready = [&] {
    ++looks;
    on = are_traced();
    there = size();
    return (receipts_ ? can_claim() : there != 0) || at_end();
  };
  const bool pauses = gather_policy_.pauses() && !deadline.passed();
  if (pauses) gather_policy_.pause();
  Status status = wait_until(for_message(), ready, table_.domain(), deadline, hooks);
  gather_policy_.note(pauses, looks, there);
  ++exchange.waits_ended;
  if (status) exchange.unanswered_bytes = 0;
  if (traced != nullptr) *traced = on;
  return status;
}

Result<int> Channel::message_descriptor(watch::Watches& watches) {
  return message_descriptor_.get(watches, row_.items, [this] { return !empty() || at_end(); });
}

Result<int> Channel::room_descriptor(watch::Watches& watches) {
  return room_descriptor_.get(watches, row_.space, [this] {
    return closed() || taken() != taken_when_full_.load(std::memory_order_acquire);
  });
}

Status Channel::wait_readable(os::Deadline deadline, WaitHooks* hooks) {
  while (size() == 0 && !at_end()) {
    if (Status status = wait_for_message(deadline, hooks); !status) return status;
  }
  row_.items.notify(1);
  return {};
}

std::uint32_t Channel::taken() const noexcept {
  return Position::unpack(row_.head.load(std::memory_order_acquire)).sequence();
}

Status Channel::wait_taken(std::uint32_t seen, os::Deadline deadline, WaitHooks* hooks) {
  const auto ready = [&] { return taken() != seen || closed(); };
  while (!ready()) {
    Status status = wait_until(for_room(), ready, table_.domain(), deadline, hooks);
    if (!status) return status;
  }
  row_.space.notify(1);
  return {};
}

Status Channel::wait_drained(std::uint32_t most, const std::atomic<std::uint32_t>& news, std::uint32_t seen,
                             os::Deadline deadline, WaitHooks* hooks) {
  const auto ready = [&] { return size() <= most || news.load(std::memory_order_acquire) != seen; };
  // The mark only rises: getters notify below it, and a lower one would keep the wake-up from a waiter with a
  // higher one.
  std::uint64_t mark = row_.drain_mark.load(std::memory_order_relaxed);
  while (mark <= most && !row_.drain_mark.compare_exchange_weak(mark, std::uint64_t{most} + 1)) {
  }
  while (!ready()) {
    Status status = wait_until(for_room(), ready, table_.domain(), deadline, hooks);
    if (!status) return status;
  }
  return {};
}

}  // namespace forklift::inline abi_0_1::channel
