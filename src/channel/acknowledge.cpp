// Taking a message that stays until it is acknowledged: what comes before and after the head's lock (get.cpp), and the
// ends of a claim.
#include <climits>
#include <cstring>
#include <string>
#include <utility>

#include "channel/channel.h"
#include "channel/waiting.h"

namespace forklift::inline abi_0_1::channel {

namespace {

std::uint32_t place_of(const Receipt& receipt) noexcept { return static_cast<std::uint32_t>(receipt.place); }

}  // namespace

Status Channel::claim(Incoming& into, Receipt& receipt, os::Deadline deadline, WaitHooks* hooks) {
  return claim_after(false, into, receipt, deadline, hooks);
}

Status Channel::claim_next(const Receipt& last, Incoming& into, Receipt& receipt, os::Deadline deadline,
                           WaitHooks* hooks) {
  ReceiptRow& row = receipts_.row(place_of(last));
  const bool laden = row.header.handles != 0;
  if (laden) {
    (void)acknowledge_open(last);
  } else {
    row.state.store(0, std::memory_order_release);
  }
  return claim_after(!laden, into, receipt, deadline, hooks);
}

// `ended`: a claim was ended, and nobody was told yet.
Status Channel::claim_after(bool ended, Incoming& into, Receipt& receipt, os::Deadline deadline,
                            WaitHooks* hooks) {
  if (!table_.domain().attached()) return table_.domain().not_attached();
  if (!receipts_)
    return {Code::kInvalid, sync::labelled("the queue", row_.label) +
                                " delivers at most once: there is nothing to acknowledge"};
  into.clear();
  bool traced = are_traced();
  for (;;) {
    bool done = false;
    bool exhausted = false;
    Status got = try_claim(into, receipt, &exhausted, &done, traced);
    if (std::exchange(ended, false)) tell_ended();
    message_descriptor_.settle();
    if (done) {
      tell_room();
      if (got && into.handles_.empty() && !exhausted) [[likely]]
        return got;
      if (got && !into.handles_.empty()) got = open_contents(into, receipt);
      if (got && exhausted) {
        if (got = to_dead_letters(into, receipt, deadline, hooks); got) continue;
      }
      if (!got) {
        receipt = {};
        into.clear();
        tell_ended();
      }
      return got;
    }
    if (!got) return got;
    if (at_end())
      return {Code::kClosed,
              sync::labelled("the queue", row_.label) + " is closed, and all that was in it is acknowledged"};
    if (size() != 0 && receipts_.all_are_of(table_.domain().self())) {
      return {Code::kNoSpace,
              "this process has claimed " + std::to_string(receipts_.capacity()) +
                  " messages, all that the queue allows at a time: acknowledge some, or make the "
                  "queue with room for more claims"};
    }
    if (Status status = wait_for_message(deadline, hooks, &traced); !status) return status;
    fetch_first();
  }
}

bool Channel::can_claim() const noexcept {
  if (receipts_.count_returned() != 0) return true;
  return size() != 0 && receipts_.find_free(0) != Receipts::kNone;
}

// The head has committed: the leases of the message become the receipt's.
Status Channel::pass_handles(const ReceiptRow& row, arena::Holder message, arena::Holder to) {
  arena::Ledger& ledger = table_.arena().ledger();
  Status status;
  const auto pass = [&](const std::byte* in) {
    arena::Handle handle;
    std::memcpy(&handle, in, sizeof handle);
    status = ledger.check(handle, message);
    if (status) ledger.pass(handle.lease, to);
    return handle;
  };
  for (std::size_t i = 0; status && i < row.header.handles; ++i) {
    const arena::Handle outer = pass(row.body + i * sizeof(arena::Handle));
    if (!status || row.header.spilled == 0) continue;
    SpillHeader inner{};
    const std::byte* in = table_.arena().shared_data(outer);
    if (outer.segment == arena::kDataSegment && outer.length >= sizeof inner)
      std::memcpy(&inner, in, sizeof inner);
    if (std::uint64_t{inner.handles} * sizeof(arena::Handle) + sizeof inner > outer.length)
      status = {Code::kCorrupt, "a spilled message exceeds its block"};
    for (std::size_t j = 0; status && j < inner.handles; ++j)
      pass(in + sizeof inner + j * sizeof(arena::Handle));
  }
  if (status) return {};
  ledger.release_held_by(message);
  ledger.release_held_by(to);
  return status;
}

// Rights of this process's own to what `keeper` holds for several processes or deliveries.
Status Incoming::share(arena::Arena& arena, arena::Holder keeper, bool spilled) {
  const auto wrong = [](const char* why) {
    return Status(Code::kCorrupt, std::string("a message is wrong: ") + why);
  };
  if (spilled) {
    Result<arena::LeasePtr> block = arena.share(handles_.front(), keeper);
    if (!block) return block.status();
    spill_ = *std::move(block);
    SpillHeader inner{};
    const std::size_t size = spill_->size();
    if (spill_->data() == nullptr || size < sizeof inner)
      return wrong("its spill is shorter than its header");
    std::memcpy(&inner, spill_->data(), sizeof inner);
    const std::uint64_t handle_bytes = std::uint64_t{inner.handles} * sizeof(arena::Handle);
    if (handle_bytes > size - sizeof inner || inner.bytes > size - sizeof inner - handle_bytes)
      return wrong("its spill exceeds its block");
    handles_.resize(inner.handles);
    if (handle_bytes != 0) std::memcpy(handles_.data(), spill_->data() + sizeof inner, handle_bytes);
    bytes_ = {spill_->data() + sizeof inner + handle_bytes, inner.bytes};
  }
  for (const arena::Handle& handle : handles_) {
    Result<arena::LeasePtr> block = arena.share(handle, keeper);
    if (!block) return block.status();
    leases_.push_back(*std::move(block));
  }
  return {};
}

// Rights of this process's own to what the receipt keeps. Without them the message goes back, as if it had not been
// delivered; one that is wrong is gone.
Status Channel::open_contents(Incoming& into, const Receipt& receipt) {
  const std::uint32_t place = place_of(receipt);
  const bool spilled = receipts_.row(place).header.spilled != 0;
  Status opened = into.share(table_.arena(), receipts_.holder(place), spilled);
  if (opened) return {};
  if (opened.code() == Code::kCorrupt) {
    (void)end_laden(receipt);
  } else {
    receipts_.put_back(place, receipt.tries() - (receipt.tries() != 0 ? 1 : 0));
  }
  return opened;
}

// A message that failed too often. If this process is killed between the put and the acknowledgement, the next get
// moves it once more: a dead letter may come twice, and is never lost.
Status Channel::to_dead_letters(Incoming& into, const Receipt& receipt, os::Deadline deadline,
                                WaitHooks* hooks) {
  const std::uint64_t letters = receipts_.header().dead_letters.load(std::memory_order_relaxed);
  Status sent(Code::kClosed, "");
  if (letters != 0) {
    const ChannelId id{static_cast<std::uint32_t>(letters), static_cast<std::uint32_t>(letters >> 32)};
    Result<ChannelPtr> to = open(table_, id);
    sent = to ? (*to)->put({into.bytes(), into.leases(), into.codec(), into.tag()}, deadline, hooks)
              : to.status();
  }
  into.clear();
  // Nothing takes a letter into a queue that is closed or gone.
  if (sent.code() == Code::kClosed || sent.code() == Code::kInvalid) {
    receipts_.header().dropped.fetch_add(1, std::memory_order_acq_rel);
  } else if (!sent) {
    receipts_.put_back(place_of(receipt), receipt.tries());
    return sent;
  }
  return acknowledge(receipt);
}

Status Channel::not_mine() {
  return {Code::kBrokenByFork,
          "the claim belongs to the process that got the message: a forked child's copy of it is none"};
}

bool Channel::is_open(const Receipt& receipt) const noexcept {
  return is_mine(receipt.state) &&
         receipts_.row(place_of(receipt)).state.load(std::memory_order_relaxed) == receipt.state;
}

Status Channel::not_open(const Receipt& receipt) const {
  if (!is_mine(receipt.state)) return not_mine();
  return {Code::kInvalid, "the claim was acknowledged or given back already"};
}

// Of a message with leases: they are released, then the row is free.
Status Channel::end_laden(const Receipt& receipt) {
  ReceiptRow& row = receipts_.row(place_of(receipt));
  row.state.store(ReceiptState::ending(domain().self()).pack(), std::memory_order_release);
  sync::crash_fence();
  if (!receipts_.release(place_of(receipt), table_.arena()))
    return {Code::kStalled,
            "the ledger's lock cannot be had: the message is acknowledged, and its memory stays"};
  row.state.exchange(0, std::memory_order_acq_rel);
  return {};
}

// After a claim has ended. The end of a closed queue, room for another claim, and the end of join() may depend on it.
void Channel::tell_ended() noexcept {
  sync::unlock_fence();
  if (row_.items.is_awaited() && (size() != 0 || at_end())) row_.items.notify(INT_MAX);
  if (row_.all_done.is_awaited() && unfinished() == 0) row_.all_done.notify(INT_MAX);
}

Status Channel::acknowledge(const Receipt& receipt) {
  if (!is_open(receipt)) [[unlikely]]
    return not_open(receipt);
  return acknowledge_open(receipt);
}

Status Channel::acknowledge_open(const Receipt& receipt) {
  ReceiptRow& row = receipts_.row(place_of(receipt));
  Status ended;
  if (row.header.handles != 0) {
    ended = end_laden(receipt);
  } else {
    row.state.exchange(0, std::memory_order_acq_rel);
  }
  tell_ended();
  return ended;
}

Status Channel::acknowledge_open(std::span<const Receipt> receipts) {
  Status ended;
  for (const Receipt& receipt : receipts) {
    ReceiptRow& row = receipts_.row(place_of(receipt));
    if (row.header.handles == 0) {
      row.state.store(0, std::memory_order_release);
    } else if (Status one = end_laden(receipt); !one) {
      ended = std::move(one);
    }
  }
  sync::full_fence();
  tell_ended();
  return ended;
}

Status Channel::give_back(const Receipt& receipt) {
  if (!is_open(receipt)) [[unlikely]]
    return not_open(receipt);
  receipts_.put_back(place_of(receipt), receipt.tries());
  row_.items.notify_after_unlock(1);
  return {};
}

}  // namespace forklift::inline abi_0_1::channel
