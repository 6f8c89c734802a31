// The parts of Queue<T, Delivery::kAtLeastOnce> and Claim<T> that are no template.
#include "forklift/claim.h"

#include <algorithm>
#include <array>

#include "api/transfer.h"
#include "channel/batch.h"
#include "channel/channel.h"
#include "message/codec.h"

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

channel::Batch& claims_of_thread() {
  thread_local channel::Batch batch;
  return batch;
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

std::size_t claim_pieces(const ChannelPtr& channel, std::uint64_t type, ClaimSink sink, void* into,
                         std::size_t most, Limit limit) {
  (void)opened(channel.get());
  channel::Batch& batch = claims_of_thread();
  Received single;
  std::array<channel::Receipt, 64> receipts;
  std::size_t done = 0;
  std::exception_ptr unread;
  while (done < most && !unread) {
    const os::Deadline until = done == 0 ? deadline_of(limit) : os::Deadline::after_ns(0);
    const std::span<channel::Receipt> wanted(receipts.data(), std::min(most - done, receipts.size()));
    std::size_t count = 0;
    Status got = wait_stoppable(
        until.passed() ? nullptr : limit.stop,
        [&](channel::WaitHooks* hooks) {
          return channel->claim_many(batch, *single, wanted, count, until, hooks);
        },
        [&channel] { channel->wake_all(); });
    if (!got) {
      // The claims that came are the answer, and the next get meets the failure. But what is corrupt is gone.
      if (done != 0 && got.code() != Code::kCorrupt) break;
      if (!settled(got)) break;
    }
    for (std::size_t i = 0; i < count; ++i) {
      ClaimHold hold(channel);
      hold.fill(receipts[i].place, receipts[i].state);
      if (!batch.empty()) batch.show(i, *single);
      try {
        check_kind(*single, message::kRawCodec, type);
        sink(into, hold, payload_of(*single));
        ++done;
      } catch (...) {
        unread = std::current_exception();
        hold.drop(unreadable(unread));
      }
    }
    single->clear();
  }
  if (unread) std::rethrow_exception(unread);
  return done;
}

void acknowledge_all(std::span<ClaimHold* const> holds) {
  std::array<channel::Receipt, 64> receipts;
  channel::Channel* channel = nullptr;
  std::size_t count = 0;
  Status ended;
  const auto end = [&] {
    if (count == 0) return;
    if (Status one = channel->acknowledge_open(std::span<const channel::Receipt>(receipts.data(), count));
        !one)
      ended = std::move(one);
    count = 0;
  };
  // Before any of them is released: what cannot be ended must not stay claimed.
  for (ClaimHold* hold : holds)
    if (hold->open()) hold->check();
  for (ClaimHold* hold : holds) {
    if (!hold->open()) continue;
    if (hold->channel() != channel || count == receipts.size()) end();
    channel = hold->channel();
    receipts[count++] = hold->release();
  }
  end();
  throw_if_failed(ended);
}

}  // namespace forklift::inline abi_0_1::detail
