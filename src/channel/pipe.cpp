#include "channel/pipe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "channel/waiting.h"
#include "os/socket.h"

namespace forklift::inline abi_0_1::channel {

namespace {

constexpr std::byte kToken{0};
// ChannelRow::selectable
constexpr std::uint64_t kReaderSelects = 1;
constexpr std::uint64_t kWriterPasses = 2;  // descriptors, perhaps: a token with every message
// How long a putter may wait for room before it looks whether a reader is left.
constexpr std::int64_t kReaderCheckNs = 100'000'000;

Status bad_descriptor() { return Status::system("poll", EBADF, "this end's descriptor was closed"); }

bool counted_all(const ChannelRow& row) noexcept {
  return row.tokens_sent.load(std::memory_order_acquire) == row.tokens_read.load(std::memory_order_acquire);
}

}  // namespace

Result<PipePair> make_pipe(Channels& channels, bool duplex) {
  const ChannelOptions options{.byte_capacity = kPipeBytes};
  Result<ChannelPtr> back = Channel::create(channels, options);
  if (!back) return back.status();
  ChannelPtr there;
  if (duplex) {
    Result<ChannelPtr> made = Channel::create(channels, options);
    if (!made) return made.status();
    there = *std::move(made);
  }
  auto fds = os::stream_pair();
  if (!fds) return fds.status();
  return PipePair{std::move(fds->first), std::move(fds->second), std::move(there), *std::move(back)};
}

// Tail lock held, tail committed behind the message of this sequence.
bool Channel::ring(int bell, std::uint32_t sequence) noexcept {
  sync::full_fence();
  const std::uint32_t head = Position::unpack(row_.head.load(std::memory_order_acquire)).sequence();
  if (head == ((sequence + 1) & kSequenceMask)) return false;  // taken already
  const bool was_empty = head == sequence;
  const std::uint64_t read = row_.tokens_read.load(std::memory_order_acquire);
  std::uint64_t sent = row_.tokens_sent.load(std::memory_order_relaxed);
  // More read than sent: a putter died between sending and counting.
  if (static_cast<std::int64_t>(sent - read) < 0) sent = read;
  const std::uint64_t asked = row_.selectable.load(std::memory_order_relaxed);
  if (!was_empty && sent != read && (asked & kWriterPasses) == 0) return false;
  if (was_empty && asked == 0) {
    const std::uint64_t spinning = row_.item_spinner.load(std::memory_order_relaxed);
    if (spinning != 0 && spinning > static_cast<std::uint64_t>(os::now_ns())) return false;
  }
  // Sent first, counted then: a death in between costs a token too many, never one too few.
  if (os::send_byte(bell, kToken)) ++sent;
  sync::crash_fence();
  row_.tokens_sent.store(sent, std::memory_order_release);
  return true;
}

Status PipeEnd::reader_is_there() const {
  const os::Readiness now = os::look(fd_);
  if (now.invalid) return bad_descriptor();
  if (now.hung_up) return Status::system("write", EPIPE, "nobody holds the other end of the pipe");
  return {};
}

// A message that is longer than the pipe's bound is in transit alone.
bool PipeEnd::must_meet(const Outgoing& message) const noexcept {
  if (!meets_readers_) return false;
  const std::uint64_t bytes = message.bytes.size() + message.copied_bytes;
  return bytes > kPipeBytes && (!in_ || bytes > 2 * os::send_buffer_bytes(fd_));
}

Status PipeEnd::send(const Outgoing& message, os::Deadline deadline, WaitHooks* hooks) {
  if (!out_) return {Code::kInvalid, "this end of the pipe is for reading only"};
  // Polled now and then while the pipe is full.
  struct StillRead final : WaitHooks {
    StillRead(const PipeEnd& end, WaitHooks* others) : pipe(end), inner(others) {
      slice_ns = inner ? std::min(inner->slice_ns, kReaderCheckNs) : kReaderCheckNs;
    }
    Status poll() override {
      if (Status there = pipe.reader_is_there(); !there) return there;
      return inner ? inner->poll() : Status();
    }
    const PipeEnd& pipe;
    WaitHooks* inner;
  } still_read(*this, hooks);
  Status status = reader_is_there();
  const bool meets = deadline.is_never() && must_meet(message);
  std::uint32_t sequence = 0;
  if (status) status = out_->put(message, deadline, &still_read, fd_, &sequence);
  if (status && meets) status = out_->wait_taken(sequence, deadline, &still_read);
  // Nobody can take these messages any more: release what they hold.
  if (status.errno_value() == EPIPE) Channel::drain(out_->table_, out_->id().index);
  return status;
}

Status PipeEnd::receive(Incoming& into, os::Deadline deadline, WaitHooks* hooks) {
  if (!in_) return {Code::kInvalid, "this end of the pipe is for writing only"};
  Channel& channel = *in_;
  ChannelRow& row = channel.row_;
  if (!channel.table_.domain().attached()) return channel.table_.domain().not_attached();
  into.clear();
  bool traced = channel.are_traced();
  for (;;) {
    bool done = false;
    Status got = channel.take(into, &done, traced);
    if (done && !counted_all(row)) {
      Left left{};
      (void)settle(&left);  // a token too many does no harm
    }
    if (done || !got) return got;
    const auto ready = [&] {
      traced = channel.are_traced();
      return channel.size() != 0;
    };
    const domain::WaitPoint at = channel.for_message();
    domain::Domain& domain = channel.table_.domain();
    if (deadline.passed() || !domain::spin_at(at, ready, domain, domain::most_spin_ns(deadline))) {
      if (Status status = sleep_and_note(at, deadline, hooks, false); !status) return status;
    }
    exchange.unanswered_bytes = 0;
  }
}

Status PipeEnd::wait_readable(os::Deadline deadline, WaitHooks* hooks) {
  if (!in_) return {Code::kInvalid, "this end of the pipe is for writing only"};
  if (in_->size() != 0) return {};
  // Without claiming the spinner's place: a caller that only waits needs the token.
  const auto ready = [this] { return in_->size() != 0; };
  const domain::WaitPoint at = in_->for_message();
  const std::int64_t most_ns = domain::most_spin_ns(deadline);
  if (deadline.passed() || !domain::spin_beside(at, ready, in_->table_.domain(), most_ns)) {
    if (Status status = sleep_and_note(at, deadline, hooks, true); !status)
      return status.code() == Code::kClosed ? Status() : status;
  }
  exchange.unanswered_bytes = 0;
  return {};
}

Status PipeEnd::sleep_and_note(const domain::WaitPoint& at, os::Deadline deadline, WaitHooks* hooks,
                               bool foreign_is_readable) {
  const std::int64_t asleep = os::now_ns();
  if (Status status = sleep(deadline, hooks, foreign_is_readable); !status) return status;
  at.spin_policy->note_sleep(os::now_ns() - asleep);
  exchange.has_slept = true;
  return {};
}

// Until the channel has a message (or had one a moment ago), the end is reached, or the time is over.
Status PipeEnd::sleep(os::Deadline deadline, WaitHooks* hooks, bool foreign_is_readable) {
  domain::Domain& domain = in_->table_.domain();
  for (;;) {
    const std::int64_t slice = deadline.left_ns(domain::look_ns(hooks));
    sync::full_fence();
    if (in_->size() != 0) return {};
    const std::int64_t traced = domain.tracer().begin(trace::Category::kWaits);
    const os::Readiness now = os::wait_readable(fd_, slice);
    if (traced != 0) [[unlikely]]
      trace_wait(domain, &in_->row_.items, domain::WaitKind::kEvent, domain::WaitManner::kSleep, traced);
    sync::note_sleep(slice, !now.readable && !now.interrupted && !now.hung_up);
    if (in_->size() != 0) return {};  // asked after the hang-up was seen: what was written before it is there
    if (now.invalid) return bad_descriptor();
    if (now.hung_up) return {Code::kClosed, "nobody can write into the pipe any more"};
    if (now.readable) {
      Left left{};
      if (Status status = settle(&left); !status) return status;
      if (left == Left::kEnd) return {Code::kClosed, "the other end was shut down"};
      if (left == Left::kForeign) {
        if (foreign_is_readable) return {};
        if (Status status = sleep_beside_foreign(deadline, hooks); !status) return status;
      }
    } else if (!now.interrupted) {
      domain.check_deaths();
    }
    if (hooks && !now.readable) {
      if (Status status = hooks->poll(); !status) return status;
    }
    if (deadline.passed()) return {Code::kTimeout, "the deadline passed"};
  }
}

// Foreign bytes keep the descriptor readable, so poll would not sleep: waits for the channel's event instead.
Status PipeEnd::sleep_beside_foreign(os::Deadline deadline, WaitHooks* hooks) {
  ChannelRow& row = in_->row_;
  const sync::EventCount::Ticket ticket = row.items.prepare();
  if (in_->size() != 0) {
    row.items.cancel(ticket);
    return {};
  }
  row.items.wait(ticket, deadline.left_ns(kReaderCheckNs));
  return hooks ? hooks->poll() : Status();
}

Status PipeEnd::settle(Left* left) {
  Channel& channel = *in_;
  ChannelRow& row = channel.row_;
  sync::LockGuard guard(row.head_mutex, [&] { channel.table_.repair_head(channel.id_.index); });
  if (!guard.ok()) return guard.status();
  for (;;) {
    const std::size_t there = os::readable_bytes(fd_);
    const std::size_t messages = channel.size();
    if (there == 0) {
      std::byte end{};
      *left = os::peek(fd_, {&end, 1}) == 0 ? Left::kEnd : Left::kNothing;
      return {};
    }
    std::array<std::byte, 256> bytes;
    const std::size_t wanted = std::min(there > messages ? there - messages : 1, bytes.size());
    const int seen = os::peek(fd_, {bytes.data(), wanted});
    std::size_t tokens = 0;
    while (static_cast<int>(tokens) < seen && bytes[tokens] == kToken) ++tokens;
    if (tokens == 0) {
      *left = seen > 0 ? Left::kForeign : Left::kNothing;
      return {};
    }
    if (there <= messages) {
      *left = Left::kTokens;
      return {};
    }
    // Counted first, taken then: a death in between makes the next putter send one too many.
    row.tokens_read.store(row.tokens_read.load(std::memory_order_relaxed) + tokens,
                          std::memory_order_release);
    sync::crash_fence();
    os::discard(fd_, {bytes.data(), tokens});
  }
}

Status PipeEnd::make_selectable() {
  if (out_) out_->row_.selectable.fetch_or(kWriterPasses, std::memory_order_seq_cst);
  if (!in_) return {};
  Channel& channel = *in_;
  ChannelRow& row = channel.row_;
  row.selectable.fetch_or(kReaderSelects, std::memory_order_seq_cst);
  {
    // Once this lock was taken, no putter from before is still between its message and its token.
    const sync::LockGuard guard(row.tail_mutex, [&] { channel.table_.repair_tail(channel.id_.index); });
    if (!guard.ok()) return guard.status();
  }
  if (counted_all(row)) return {};
  Left left{};
  return settle(&left);
}

void PipeEnd::let_go() noexcept {
  if (in_) in_->row_.space.notify(INT_MAX);
}

}  // namespace forklift::inline abi_0_1::channel
