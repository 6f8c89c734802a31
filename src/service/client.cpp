#include "service/client.h"

#include <string>

#include "service/process_lock.h"
#include "service/watch.h"

namespace forklift::inline abi_0_1::service {

// Holds the list of free places, and makes it this process's.
class Client::Guard {
 public:
  explicit Guard(Client& client) noexcept : lock_(client.lock_, client.self()) {
    if (lock_.was_inherited()) client.free_ = nullptr;  // it may be half changed
    if (client.free_owner_ == client.self()) return;
    while (Exchange* const inherited = client.free_) {
      client.free_ = inherited->next;
      client.drop(inherited);
    }
    client.free_owner_ = client.self();
  }

 private:
  ProcessLock lock_;
};

Client::~Client() {
  // A child without a slot has no places, and leaves its parent's alone.
  if (!calls_.domain().attached()) return;
  const Guard guard(*this);
  while (Exchange* const place = free_) {
    free_ = place->next;
    drop(place);
  }
}

void Client::drop(Exchange* exchange) noexcept {
  const std::unique_ptr<Exchange> gone(exchange);
  calls_.release(gone->row);
}

Result<Exchange*> Client::begin() {
  if (!calls_.domain().attached()) return calls_.domain().not_attached();
  {
    const Guard guard(*this);
    if (Exchange* const place = free_) {
      free_ = place->next;
      return place;
    }
  }
  auto made = std::make_unique<Exchange>();
  Result<channel::ChannelPtr> replies = channel::Channel::create(calls_.channels(), {.capacity = kResponses});
  if (!replies) return replies.status();
  made->replies = *std::move(replies);
  Result<std::uint32_t> row = calls_.claim(Role::kCall, made->replies->id());
  if (!row) return row.status();
  made->row = *row;
  made->owner = self();
  return made.release();
}

void Client::end(Exchange* exchange) noexcept {
  cancel(*exchange);
  if (!calls_.domain().attached() || exchange->owner != self()) return drop(exchange);
  // What an ended call was sent is given back now, since the next call may be long in coming.
  while (!exchange->replies->empty()) {
    channel::Incoming late;
    if (!exchange->replies->get(late, os::Deadline::after_ns(0))) break;
  }
  sync::fetch_to_write(&calls_[exchange->row]);  // the server wrote to it last
  const Guard guard(*this);
  exchange->next = free_;
  free_ = exchange;
}

void Client::cancel(Exchange& exchange) noexcept {
  if (exchange.over || exchange.owner != self()) return;
  exchange.over = true;
  const State before(calls_[exchange.row].state.fetch_or(State::kOver, std::memory_order_acq_rel));
  // The server may be waiting for room.
  if (before.has_taker()) exchange.replies->wake_all();
}

Status Client::no_server() const {
  return {Code::kPeerDied, "no server of this service is left: connect() waits for another one"};
}

Status Client::send(Exchange& exchange, channel::Outgoing message, os::Deadline deadline,
                    channel::WaitHooks* hooks) {
  Row& row = calls_[exchange.row];
  exchange.serial = (row.serial.load(std::memory_order_relaxed) + 1) & Tag::kSerialMask;
  exchange.over = false;
  exchange.news = row.news.load(std::memory_order_acquire);
  row.serial.store(exchange.serial, std::memory_order_relaxed);
  row.state.store(State::open(exchange.serial).word(), std::memory_order_release);
  message.tag = Tag{Kind::kRequest, exchange.row, exchange.serial}.pack();
  Watch watch([this] { return calls_.served(requests_->id()) ? Status() : no_server(); }, hooks, kLookNs);
  Status put = requests_->put(message, deadline, &watch, -1, &exchange.sequence);
  if (!put) cancel(exchange);
  return put;
}

// Why nothing will come any more. Ok: something still may.
Status Client::look(const Exchange& exchange) const {
  const Row& row = calls_[exchange.row];
  State state(row.state.load(std::memory_order_acquire));
  if (state.has(State::kRefused))
    return {Code::kRefused, "the server has given the call up without an answer"};
  const domain::Domain& domain = calls_.domain();
  if (state.has_taker()) {
    if (!state.taker_is_dead(domain)) return {};
    const std::uint64_t pid = row.server_pid.load(std::memory_order_relaxed);
    // It may have died before the request left the channel: another server takes it then, and the state says so before
    // the request is gone.
    const bool told = row.left.load(std::memory_order_acquire) == exchange.serial;
    const bool gone = told || requests_->passed(exchange.sequence);
    if (gone && row.state.load(std::memory_order_acquire) == state.word())
      return {Code::kPeerDied, "the server process that had this call" +
                                   (told ? " (pid " + std::to_string(pid) + ")" : "") +
                                   " has ended without an answer"};
    if (gone) return {};
  } else if (requests_->passed(exchange.sequence)) {
    state = State(row.state.load(std::memory_order_acquire));
    if (state.has_taker() || state.has(State::kRefused)) return {};
    return {Code::kCorrupt, "the request was damaged and is lost"};
  }
  return calls_.served(requests_->id()) ? Status() : no_server();
}

Status Client::receive(Exchange& exchange, channel::Incoming& into, Kind& kind, os::Deadline deadline,
                       channel::WaitHooks* hooks) {
  if (exchange.owner != self())
    return {Code::kBrokenByFork, "the call was begun by this process's parent, which gets the answer"};
  if (exchange.over)
    return {Code::kClosed, "the call is over: its last response was received, or it was cancelled"};
  Watch watch([&] { return look(exchange); }, hooks, kLookNs);
  channel::Channel& replies = *exchange.replies;
  const std::atomic<std::uint32_t>& news = calls_[exchange.row].news;
  for (;;) {
    Status why;
    while (replies.empty()) {
      const std::uint32_t seen = news.load(std::memory_order_acquire);
      // A call that waits not at all, or was told of news, looks here; one that sleeps looks by its watch. Not without
      // need, since the server is about to write to the state.
      if (deadline.passed() || seen != exchange.news) why = look(exchange);
      exchange.news = seen;
      if (why) why = replies.wait_messages(1, news, seen, deadline, &watch);
      if (why && replies.empty()) why = look(exchange);
      if (!why) break;
    }
    // What was put before the death comes first.
    if (!why && replies.empty()) {
      const bool goes_on = why.code() == Code::kTimeout || why.code() == Code::kInterrupted;
      if (!goes_on) cancel(exchange);
      return why;
    }
    if (Status got = replies.get(into, os::Deadline::after_ns(0)); !got) {
      cancel(exchange);
      return got;
    }
    const Tag tag = Tag::unpack(into.tag());
    if (tag.row == exchange.row && tag.serial == exchange.serial) {
      kind = tag.kind;
      break;
    }
    into.clear();
  }
  // The server is done with the call, so its state need not say that it is over: the next call writes there.
  exchange.over = kind != Kind::kPart;
  return {};
}

}  // namespace forklift::inline abi_0_1::service
