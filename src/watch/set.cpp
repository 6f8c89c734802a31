#include "watch/set.h"

#include <string>

#include "os/local_socket.h"

namespace forklift::inline abi_0_1::watch {

Result<std::unique_ptr<Set>> Set::make(Watches& watches) {
  Result<std::uint32_t> row = watches.claim_set();
  if (!row) return row.status();
  return std::unique_ptr<Set>(new Set(watches, *row));
}

Set::~Set() {
  if (!mine()) return;
  std::vector<bool> gone(members_, false);
  for (const std::uint32_t member : free_) gone[member] = true;
  for (std::uint32_t member = 0; member < members_; ++member) {
    if (!gone[member]) watches_.remove(watch_of_[member]);
  }
  watches_.release_set(row_);
}

Result<std::uint32_t> Set::add(sync::EventCount& event) {
  if (!mine()) return watches_.domain().not_attached();
  if (free_.empty() && members_ == kMembers)
    return Status(Code::kNoSpace, "a wait set has at most " + std::to_string(kMembers) +
                                      " members in shared memory: use a second one, and wait for its "
                                      "descriptor");
  const std::uint32_t member = free_.empty() ? static_cast<std::uint32_t>(members_) : free_.back();
  Result<std::uint32_t> watch = watches_.add(event, row_, member);
  if (!watch) return watch.status();
  if (free_.empty()) {
    watch_of_.push_back(*watch);
    ++members_;
    free_.reserve(members_);
  } else {
    free_.pop_back();
    watch_of_[member] = *watch;
  }
  watches_.mark(row_, member);
  return member;
}

void Set::remove(std::uint32_t member) noexcept {
  if (!mine()) return;
  watches_.remove(watch_of_[member]);
  free_.push_back(member);
}

bool Set::spin() {
  const auto marked = [this] { return any_marked(); };
  return marked() || domain::spin_at(place(), marked, watches_.domain());
}

Status Set::wait(os::Deadline deadline, domain::WaitHooks* hooks) {
  if (!mine()) return watches_.domain().not_attached();
  const auto woken = [this] { return any_marked() || woken_.load(std::memory_order_acquire); };
  if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  Status status;
  if (!domain::spin_at(place(), woken, watches_.domain(), domain::most_spin_ns(deadline))) {
    const std::int64_t asleep = os::now_ns();
    status = domain::sleep_at(place(), woken, watches_.domain(), deadline, hooks);
    if (status && any_marked()) spin_policy_.note_sleep(os::now_ns() - asleep);
  }
  woken_.store(false, std::memory_order_relaxed);
  return status;
}

Result<int> Set::descriptor() {
  if (!mine()) return watches_.domain().not_attached();
  if (socket_.valid()) return socket_.get();
  Result<os::ByteSocket> made = os::open_byte_socket();
  if (!made) return made.status();
  socket_ = std::move(made->socket);
  row().address.store(made->address, std::memory_order_release);
  if (!arm()) watches_.deliver_to(row_);
  return socket_.get();
}

bool Set::arm() noexcept {
  if (any_marked()) return false;
  // Armed already: whoever sends a byte takes the 1 before.
  if (row().armed.load(std::memory_order_acquire) != 0) return true;
  os::drain_bytes(socket_.get());
  row().armed.store(1, std::memory_order_seq_cst);
  sync::full_fence();
  if (!any_marked()) return true;
  // It was marked meanwhile, perhaps by a notifier that still found the set not armed.
  if (row().armed.exchange(0, std::memory_order_seq_cst) != 0) watches_.deliver_to(row_);
  return true;
}

}  // namespace forklift::inline abi_0_1::watch
