#include "service/calls.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>

namespace forklift::inline abi_0_1::service {

Calls::Calls(channel::Channels& channels) : channels_(channels) {
  const std::span<std::byte> region = domain().region(domain::Region::kServices);
  table_ = reinterpret_cast<Table*>(region.data());
  rows_ = reinterpret_cast<Row*>(region.data() + sizeof(Table));
  capacity_ = (region.size() - sizeof(Table)) / sizeof(Row);
  domain().on_reap([this](domain::SlotRef slot, bool) { return reap(slot); });
}

std::uint64_t Calls::used() const noexcept {
  return std::min(table_->rows_used.load(std::memory_order_acquire), capacity_);
}

Result<std::uint32_t> Calls::claim(Role role, channel::ChannelId channel, std::string_view text) {
  if (!domain().attached()) return domain().not_attached();
  const std::uint64_t self = owner_word(domain().self());
  std::uint64_t index = 0;
  for (;; ++index) {
    if (index >= capacity_)
      return {Code::kNoSpace,
              "all " + std::to_string(capacity_) + " places for calls and servers are in use"};
    std::uint64_t used = index;
    if (index >= this->used()) table_->rows_used.compare_exchange_strong(used, index + 1);
    std::uint64_t nobody = 0;
    if (rows_[index].owner.load(std::memory_order_relaxed) == 0 &&
        rows_[index].owner.compare_exchange_strong(nobody, self, std::memory_order_acq_rel))
      break;
  }
  Row& row = rows_[index];
  // A row that was never used has a state of zeros.
  row.state.store(State::open(row.serial.load(std::memory_order_relaxed)).with(State::kOver).word(),
                  std::memory_order_relaxed);
  row.channel.store(channel_word(channel), std::memory_order_relaxed);
  std::array<std::uint64_t, kTextBytes / sizeof(Word)> words{};
  if (!text.empty()) std::memcpy(words.data(), text.data(), std::min(text.size(), kTextBytes));
  for (std::size_t i = 0; i < words.size(); ++i) row.text[i].store(words[i], std::memory_order_relaxed);
  row.role.store(static_cast<std::uint64_t>(role), std::memory_order_release);
  return static_cast<std::uint32_t>(index);
}

// The owner last: until then the row is its process's, and the reaper finds it again.
void Calls::clear(Row& row) noexcept {
  row.role.store(static_cast<std::uint64_t>(Role::kNone), std::memory_order_relaxed);
  row.state.store(State::open(row.serial.load(std::memory_order_relaxed)).with(State::kOver).word(),
                  std::memory_order_release);
  row.channel.store(0, std::memory_order_relaxed);
  sync::crash_fence();
  row.owner.store(0, std::memory_order_release);
}

void Calls::release(std::uint32_t index) noexcept {
  Row& row = rows_[index];
  if (domain().attached() && row.owner.load(std::memory_order_relaxed) == owner_word(domain().self()))
    clear(row);
}

void Calls::tell(std::uint32_t index) noexcept {
  Row& row = rows_[index];
  row.news.fetch_add(1, std::memory_order_release);
  // The channel may have been given to others meanwhile, whom a wake-up does no harm.
  const channel::ChannelId replies = channel_of(row.channel.load(std::memory_order_relaxed));
  if (channel::ChannelRow* const at = channels_.row(replies.index)) at->items.notify(INT_MAX);
}

bool Calls::reap(domain::SlotRef slot) noexcept {
  const std::uint64_t dead = owner_word(slot);
  const std::uint64_t used = this->used();
  for (std::uint32_t index = 0; index < used; ++index) {
    Row& row = rows_[index];
    if (row.owner.load(std::memory_order_acquire) == dead) {
      clear(row);
    } else if (row.role.load(std::memory_order_relaxed) == static_cast<std::uint64_t>(Role::kCall)) {
      const State state(row.state.load(std::memory_order_acquire));
      if (state.has_taker() && state.is_taken_by(slot)) tell(index);
    }
  }
  return true;
}

template <class Use>
void Calls::each_server(channel::ChannelId requests, Use&& use) const {
  const std::uint64_t used = this->used();
  for (std::uint64_t index = 0; index < used; ++index) {
    const Row& row = rows_[index];
    if (row.role.load(std::memory_order_acquire) != static_cast<std::uint64_t>(Role::kServer) ||
        row.channel.load(std::memory_order_relaxed) != channel_word(requests))
      continue;
    const std::uint64_t owner = row.owner.load(std::memory_order_acquire);
    if (owner != 0 && !domain().is_dead(owner_of(owner)) && use(row)) return;
  }
}

bool Calls::served(channel::ChannelId requests) const {
  bool any = false;
  each_server(requests, [&](const Row&) { return any = true; });
  return any;
}

unsigned Calls::servers(channel::ChannelId requests) const {
  unsigned count = 0;
  each_server(requests, [&](const Row&) { return ++count, false; });
  return count;
}

std::string Calls::types(channel::ChannelId requests) const {
  std::string text;
  each_server(requests, [&](const Row& row) {
    std::array<char, kTextBytes> copied{};
    for (std::size_t i = 0; i < kTextBytes / sizeof(Word); ++i) {
      const std::uint64_t word = row.text[i].load(std::memory_order_relaxed);
      std::memcpy(copied.data() + i * sizeof word, &word, sizeof word);
    }
    text.assign(copied.data(), ::strnlen(copied.data(), copied.size()));
    // What another process wrote ends up in an error's words.
    std::replace_if(text.begin(), text.end(), [](char letter) { return letter < ' ' || letter > '~'; }, '?');
    return true;
  });
  return text;
}

std::uint64_t Calls::live() const noexcept {
  std::uint64_t count = 0;
  const std::uint64_t used = this->used();
  for (std::uint64_t index = 0; index < used; ++index)
    count += rows_[index].owner.load(std::memory_order_relaxed) != 0 ? 1 : 0;
  return count;
}

std::vector<std::string> Calls::audit() const {
  std::vector<std::string> wrong;
  const std::uint64_t used = this->used();
  for (std::uint64_t index = 0; index < used; ++index) {
    const Row& row = rows_[index];
    const State state(row.state.load(std::memory_order_relaxed));
    if (row.owner.load(std::memory_order_relaxed) == 0 && state.word() != 0 && !state.has(State::kOver))
      wrong.push_back("V1: the free row " + std::to_string(index) + " has a call that is not over");
    if (!state.is_call(row.serial.load(std::memory_order_relaxed)))
      wrong.push_back("V3: the row " + std::to_string(index) + " has the state of another call");
  }
  return wrong;
}

}  // namespace forklift::inline abi_0_1::service
