// The parts of Queue<T, Delivery::kAtLeastOnce> and Claim<T> that are no template.
#include "forklift/claim.h"

#include "api/transfer.h"
#include "channel/channel.h"

namespace forklift::inline abi_0_1::detail {

namespace {

const channel::Channel& opened(const channel::Channel* channel) {
  if (channel == nullptr) throw_empty_handle();
  return *channel;
}

[[noreturn]] void throw_ended(bool moved_from) {
  throw Error({Code::kInvalid, moved_from ? "the claim is empty: it was moved from"
                                          : "the claim was acknowledged or given back already"});
}

}  // namespace

std::size_t unacknowledged_messages(const channel::Channel* channel) {
  return opened(channel).unacknowledged();
}

std::uint64_t dropped_messages(const channel::Channel* channel) { return opened(channel).dropped(); }

channel::Receipt ClaimHold::release() noexcept {
  const channel::Receipt mine = receipt();
  place_ = kNone;
  return mine;
}

channel::Receipt ClaimHold::receipt() const noexcept { return {place_, state_}; }

std::uint32_t ClaimHold::tries() const noexcept { return receipt().tries(); }

void ClaimHold::refuse() const {
  if (!channel_) throw_ended(true);
  throw_if_failed(channel_->check_mine(receipt()));
  throw_ended(false);
}

void ClaimHold::fill(std::uint64_t place, std::uint64_t state) noexcept {
  place_ = place;
  state_ = state;
  self_ = &channel_->domain().self_word();
  holder_ = self_->load(std::memory_order_relaxed);
}

void ClaimHold::acknowledge() {
  check();
  if (!open()) throw_ended(false);
  const channel::Receipt mine = release();
  throw_if_failed(channel_->acknowledge_open(mine));
}

void ClaimHold::give_back() {
  check();
  if (!open()) throw_ended(false);
  const channel::Receipt mine = release();
  throw_if_failed(channel_->give_back(mine));
}

void ClaimHold::leave(bool unwinding) noexcept {
  const channel::Receipt mine = release();
  if (!is_mine()) return;  // a forked child's copy: the claim is its parent's
  (void)(unwinding ? channel_->give_back(mine) : channel_->acknowledge_open(mine));
}

}  // namespace forklift::inline abi_0_1::detail
