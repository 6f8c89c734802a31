#include "service/server.h"

#include <unistd.h>

#include "service/process_lock.h"
#include "service/watch.h"

namespace forklift::inline abi_0_1::service {

namespace {
// How many calls a server takes before it looks which of its clients have gone, where it has no time to wait.
constexpr unsigned kTakesBetweenLooks = 256;

Status unwanted() {
  return {Code::kClosed,
          "nobody waits for this call any more: it was cancelled or timed out, or its client has ended"};
}
}  // namespace

// Holds what the threads of a server share, and makes it this process's.
class Server::Guard {
 public:
  explicit Guard(Server& server) noexcept : lock_(server.lock_, server.self()) {
    if (lock_.was_inherited()) (void)server.known_.release();  // it may be half changed
    if (!server.known_) server.known_ = std::make_unique<std::vector<Known>>();
  }

 private:
  ProcessLock lock_;
};

// Notes in a request's row that this process takes it, if its client still waits.
class Server::Mark final : public channel::TakeMark {
 public:
  explicit Mark(Server& server) noexcept : server_(server) {}
  void mark(std::uint64_t tag) noexcept override {
    tag_ = Tag::unpack(tag);
    taken_ = false;
    Calls& calls = server_.calls_;
    if (tag_.kind != Kind::kRequest || tag_.row >= calls.used() || tag_.serial == 0) return;
    Row& row = calls[tag_.row];
    sync::fetch_to_write(&row);  // at once, not first to read
    std::uint64_t word = row.state.load(std::memory_order_acquire);
    if ((row.serial.load(std::memory_order_relaxed) & Tag::kSerialMask) != tag_.serial) return;
    // A taker that is noted already died before the request left the channel.
    do {
      if (!State(word).is_call(tag_.serial) || State(word).has(State::kOver)) return;
    } while (!row.state.compare_exchange_weak(
        word, State(word).taken_by(server_.calls_.domain().self()).word(), std::memory_order_acq_rel));
    taken_ = true;
  }
  bool taken() const noexcept { return taken_; }
  Tag tag() const noexcept { return tag_; }
  void reset() noexcept { taken_ = false; }

 private:
  Server& server_;
  Tag tag_;
  bool taken_ = false;
};

Server::~Server() { leave(); }

Status Server::enter() {
  if (!calls_.domain().attached()) return calls_.domain().not_attached();
  const Guard guard(*this);
  if (owner_ == self() || left()) return {};
  Result<std::uint32_t> row = calls_.claim(Role::kServer, requests_->id(), types_);
  if (!row) return row.status();
  row_ = *row;
  pid_ = static_cast<std::uint64_t>(::getpid());
  owner_ = self();
  return {};
}

void Server::leave() noexcept {
  if (!calls_.domain().attached() || left_.exchange(true, std::memory_order_acq_rel)) return;
  std::vector<Known> gone;  // given up without the lock, since that takes others
  {
    const Guard guard(*this);
    if (owner_ == self()) calls_.release(row_);
    owner_ = 0;
    gone.swap(*known_);
  }
  requests_->wake_all();
}

Status Server::take(channel::Incoming& into, Taken& call, os::Deadline deadline, channel::WaitHooks* hooks) {
  if (left()) return {Code::kClosed, "this server was closed"};
  if (owner_ != self()) {
    if (Status entered = enter(); !entered) return entered;
  }
  // A count that another thread loses does no harm.
  const unsigned takes = takes_.load(std::memory_order_relaxed);
  takes_.store(takes + 1, std::memory_order_relaxed);
  if (takes % kTakesBetweenLooks == 0) forget_gone();
  Mark mark(*this);
  const auto look = [this] {
    forget_gone();
    return left() ? Status(Code::kClosed, "this server was closed") : Status();
  };
  Watch watch(look, hooks, sync::kQuietSliceNs);
  for (;;) {
    mark.reset();
    Status got = requests_->get(into, deadline, &watch, nullptr, &mark);
    if (!got && !mark.taken()) {
      // The record of a request that was damaged is gone: its client finds that out.
      if (got.code() == Code::kCorrupt) continue;
      return got;
    }
    if (!mark.taken()) {
      into.clear();
      continue;
    }
    if (Status accepted = accept(mark, call); !accepted) {
      into.clear();
      continue;
    }
    if (got) return {};
    // Taken, but its memory was not what it should be.
    into.clear();
    refuse(call);
  }
}

// The client's channel, and that the request has left the channel for good. A failure: there is nobody to answer, or
// the client was told that there will be no answer.
Status Server::accept(const Mark& mark, Taken& call) {
  call.row = mark.tag().row;
  call.serial = mark.tag().serial;
  call.server = self();
  Row& row = calls_[call.row];
  row.server_pid.store(pid_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  row.left.store(call.serial, std::memory_order_release);
  call.client = row.owner.load(std::memory_order_relaxed);
  const std::uint64_t id = row.channel.load(std::memory_order_relaxed);
  {
    const Guard guard(*this);
    if (known_->size() <= call.row) known_->resize(call.row + std::size_t{1});
    Known& known = (*known_)[call.row];
    if (known.channel == id && known.owner == call.client && known.replies) [[likely]] {
      call.replies = known.replies;
      return {};
    }
  }
  Result<channel::ChannelPtr> replies = channel::Channel::open(calls_.channels(), channel_of(id));
  if (!replies) {
    refuse(call);
    return replies.status();
  }
  call.replies = *std::move(replies);
  const Guard guard(*this);
  if (known_->size() <= call.row) known_->resize(call.row + std::size_t{1});
  (*known_)[call.row] = {call.client, id, call.replies};
  return {};
}

void Server::forget_gone() noexcept {
  std::vector<channel::ChannelPtr> gone;  // given up without the lock, since that takes others
  {
    const Guard guard(*this);
    for (std::size_t index = 0; index < known_->size(); ++index) {
      Known& known = (*known_)[index];
      const Row& row = calls_[static_cast<std::uint32_t>(index)];
      if (known.replies && (row.owner.load(std::memory_order_relaxed) != known.owner ||
                            row.channel.load(std::memory_order_relaxed) != known.channel)) {
        gone.push_back(std::move(known.replies));
        known = Known();
      }
    }
  }
}

bool Server::wanted(const Taken& call, bool look) const {
  if (call.serial == 0 || call.server != self()) return false;
  const Row& row = calls_[call.row];
  const State state(row.state.load(std::memory_order_acquire));
  if (!state.is_call(call.serial) || state.has(State::kOver | State::kRefused) ||
      !state.is_taken_by(calls_.domain().self()))
    return false;
  return !look || !calls_.domain().is_dead(owner_of(call.client));
}

void Server::refuse(Taken& call) noexcept {
  if (call.serial != 0 && calls_.domain().attached() && call.server == self()) {
    Row& row = calls_[call.row];
    std::uint64_t word = row.state.load(std::memory_order_acquire);
    bool told = false;
    while (!told && State(word).is_call(call.serial) && !State(word).has(State::kOver))
      told = row.state.compare_exchange_weak(word, word | State::kRefused, std::memory_order_acq_rel);
    if (told) calls_.tell(call.row);
  }
  call = Taken();
}

Status Server::answer(Taken& call, channel::Outgoing message, Kind kind, os::Deadline deadline,
                      channel::WaitHooks* hooks) {
  if (call.serial != 0 && call.server != self())
    return {Code::kBrokenByFork, "the call was taken by this process's parent, which has to answer it"};
  if (!wanted(call, false)) {
    call.serial = 0;
    return unwanted();
  }
  message.tag = Tag{kind, call.row, call.serial}.pack();
  const auto look = [&] { return wanted(call, true) ? Status() : unwanted(); };
  Watch watch(look, hooks, sync::kSliceNs);
  Status put = call.replies->put(message, deadline, &watch);
  if (put.code() == Code::kClosed || (put && kind != Kind::kPart)) call.serial = 0;
  return put;
}

}  // namespace forklift::inline abi_0_1::service
