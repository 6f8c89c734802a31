#include "channel/receipts.h"

#include <algorithm>
#include <cstring>

namespace forklift::inline abi_0_1::channel {

namespace {

ReceiptState state_of(const ReceiptRow& row) noexcept {
  return ReceiptState::unpack(row.state.load(std::memory_order_acquire));
}

}  // namespace

arena::Handle receipts_of(const ChannelRow& channel) noexcept {
  const std::uint64_t block = channel.receipts_block.load(std::memory_order_relaxed);
  arena::Handle handle;
  handle.block = static_cast<std::uint32_t>(block);
  handle.generation = static_cast<std::uint32_t>(block >> 32);
  handle.lease = static_cast<std::uint32_t>(channel.receipts_lease.load(std::memory_order_relaxed));
  handle.offset = channel.receipts_offset.load(std::memory_order_relaxed);
  handle.length =
      Receipts::bytes_for(static_cast<std::uint32_t>(channel.receipts.load(std::memory_order_relaxed)));
  return handle;
}

std::uint32_t Receipts::find_returned(std::uint32_t head_sequence) const noexcept {
  std::uint64_t seen = header_->returned.load(std::memory_order_acquire);
  std::uint32_t found = kNone;
  std::uint32_t found_behind = 0;
  const std::uint32_t used = this->used();
  for (std::uint32_t place = 0; place < used; ++place) {
    if (state_of(rows_[place]).kind != ReceiptState::Kind::kReturned) continue;
    const std::uint32_t behind = (head_sequence - rows_[place].header.sequence) & kSequenceMask;
    if (found != kNone && behind <= found_behind) continue;
    found = place;
    found_behind = behind;
  }
  // A row that was returned since then has changed the word, which stays as it is then.
  if (found == kNone) header_->returned.compare_exchange_strong(seen, 0, std::memory_order_acq_rel);
  return found;
}

std::uint32_t Receipts::count_returned() const noexcept {
  if (header_->returned.load(std::memory_order_acquire) == 0) return 0;
  return static_cast<std::uint32_t>(std::count_if(rows_, rows_ + used(), [](const ReceiptRow& row) {
    return state_of(row).kind == ReceiptState::Kind::kReturned;
  }));
}

// A get sets `in_flight` before the message leaves the channel and clears it after the row is claimed: in this order of
// looks, after a look at the channel's size, no message is missed on its way.
std::uint32_t Receipts::count_in_use() const noexcept {
  const std::uint32_t under_way = header_->in_flight.load(std::memory_order_acquire) != 0 ? 1 : 0;
  return under_way +
         static_cast<std::uint32_t>(std::count_if(rows_, rows_ + used(), [](const ReceiptRow& row) {
           return state_of(row).kind != ReceiptState::Kind::kFree;
         }));
}

bool Receipts::all_are_of(domain::SlotRef slot) const noexcept {
  return std::all_of(rows_, rows_ + capacity_, [&](const ReceiptRow& row) { return state_of(row).of(slot); });
}

// A death between the two: the reaper of the process that is returning the message repeats the second.
void Receipts::put_back(std::uint32_t place, std::uint32_t tries) const noexcept {
  rows_[place].state.store(ReceiptState::returned(tries).pack(), std::memory_order_release);
  sync::crash_fence();
  header_->returned.fetch_add(1, std::memory_order_acq_rel);
}

bool Receipts::release(std::uint32_t place, arena::Arena& arena) const {
  arena::Ledger& ledger = arena.ledger();
  const arena::Holder mine = holder(place);
  const ReceiptRow& row = rows_[place];
  const auto give_up = [&](const arena::Handle& handle) {
    return ledger.check(handle, mine).ok() && ledger.release_row(handle.lease, mine);
  };
  bool all = row.header.handles * sizeof(arena::Handle) <= kReceiptBody;
  for (std::size_t i = 0; all && i < row.header.handles; ++i) {
    arena::Handle handle;
    std::memcpy(&handle, row.body + i * sizeof handle, sizeof handle);
    if (row.header.spilled != 0) {
      all = ledger.check(handle, mine).ok() && handle.segment == arena::kDataSegment &&
            handle.length >= sizeof(SpillHeader);
      if (!all) break;
      const std::byte* spill = arena.shared_data(handle);
      SpillHeader inner{};
      std::memcpy(&inner, spill, sizeof inner);
      all = std::uint64_t{inner.handles} * sizeof handle <= handle.length - sizeof inner;
      for (std::size_t j = 0; all && j < inner.handles; ++j) {
        arena::Handle each;
        std::memcpy(&each, spill + sizeof inner + j * sizeof each, sizeof each);
        all = give_up(each);
      }
    }
    all = all && give_up(handle);
  }
  // Where the row is damaged, or a dead process has released a part, the ledger tells what is left.
  return all || ledger.release_held_by(mine);
}

bool Receipts::reap(domain::SlotRef dead, arena::Arena& arena) const {
  bool all = true;
  const std::uint32_t used = this->used();
  for (std::uint32_t place = 0; place < used; ++place) {
    std::uint64_t word = rows_[place].state.load(std::memory_order_acquire);
    const ReceiptState state = ReceiptState::unpack(word);
    if (!state.of(dead)) continue;
    if (state.kind == ReceiptState::Kind::kClaimed) {
      rows_[place].state.compare_exchange_strong(word, ReceiptState::returned(state.tries).pack(),
                                                 std::memory_order_acq_rel);
    } else if (arena.ledger().release_held_by(holder(place))) {
      rows_[place].state.store(0, std::memory_order_release);
    } else {
      all = false;
    }
  }
  // Also where nothing was found: the dead process, or a reaper that died, may have returned one without saying so.
  sync::crash_fence();
  header_->returned.fetch_add(1, std::memory_order_acq_rel);
  return all;
}

// The get committed if the head has passed the row's message. If its row is not claimed then, the message was taken
// by no live thread: it goes back as if it had not been delivered.
bool Receipts::repair(std::uint32_t head_sequence, arena::Arena& arena) const {
  const std::uint64_t in_flight = header_->in_flight.load(std::memory_order_acquire);
  if (in_flight == 0 || in_flight > capacity_) return true;
  const auto place = static_cast<std::uint32_t>(in_flight - 1);
  const std::uint32_t sequence = rows_[place].header.sequence;
  const bool committed = sequence == ((head_sequence - 1) & kSequenceMask);
  if (committed && rows_[place].state.load(std::memory_order_acquire) == 0) {
    if (!arena.ledger().pass_held_by(arena::Holder::message(channel_, sequence), holder(place))) return false;
    rows_[place].state.store(ReceiptState::returned(0).pack(), std::memory_order_release);
    sync::crash_fence();
  }
  header_->returned.fetch_add(1, std::memory_order_acq_rel);
  sync::crash_fence();
  header_->in_flight.store(0, std::memory_order_release);
  return true;
}

}  // namespace forklift::inline abi_0_1::channel
