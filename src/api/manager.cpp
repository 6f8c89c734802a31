// The Manager's two ends: handles that ask, and the server's loop. What may be asked: manager_store.h.
#include "forklift/manager.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <string>

#include "api/attached.h"
#include "api/manager_store.h"
#include "api/stop.h"
#include "forklift/context.h"
#include "message/transport.h"
#include "process/program.h"

namespace forklift::inline abi_0_1 {
namespace {

using detail::ManagerOp;

// How often a client that waits for an answer looks whether the server is there at all.
constexpr std::int64_t kServerCheckNs = 20'000'000;

Status server_is_gone(std::uint64_t object) {
  return {Code::kPeerDied, "the manager's server process has ended; its object " + std::to_string(object) +
                               " is gone with it"};
}

// Whether there is still somebody to wait for, and somebody who waits.
class CallHooks final : public channel::WaitHooks {
 public:
  CallHooks(domain::Domain& domain, domain::SlotRef server, std::uint64_t object, const std::stop_token& stop)
      : domain_(domain), server_(server), object_(object), stop_(stop) {
    slice_ns = kServerCheckNs;
  }
  Status poll() override {
    if (stop_.stop_requested())
      return {Code::kInterrupted, "a stop was requested before the manager's server had answered"};
    return domain_.is_dead(server_) ? server_is_gone(object_) : Status();
  }

 private:
  domain::Domain& domain_;
  domain::SlotRef server_;
  std::uint64_t object_;
  const std::stop_token& stop_;
};

Status send(channel::Channel& channel, const Value& value, os::Deadline deadline = os::Deadline::never(),
            channel::WaitHooks* hooks = nullptr) {
  message::MessageBuilder builder(channel.arena());
  if (Status packed = builder.add(value); !packed) return packed;
  return channel.put(builder.message(), deadline, hooks);
}

void require_in_time(const Status& status) {
  if (status.code() == Code::kTimeout)
    throw Error({Code::kTimeout, "the manager's server did not answer in time: it is stopped or busy"});
  throw_if_failed(status);
}

// One request, done and answered. False: it was the last.
bool serve_one(detail::ManagerStore& store, node::Node& node, const Value& request) {
  const auto* parts = request.get_if<Value::List>();
  if (parts == nullptr || parts->size() < 4) return true;
  const auto index = (*parts)[0].try_as<std::uint32_t>();
  const auto generation = (*parts)[1].try_as<std::uint32_t>();
  const auto object = (*parts)[2].try_as<std::uint64_t>();
  const auto op = (*parts)[3].try_as<std::uint8_t>();
  if (!index || !generation || !object || !op) return true;
  const auto operation = static_cast<ManagerOp>(*op);
  const bool last = operation == ManagerOp::kStop;
  detail::ManagerStore::Answer answer;
  if (!last) answer = store.apply(*object, operation, Value::List(parts->begin() + 4, parts->end()));
  // A client that was killed meanwhile has no channel any more.
  const Result<channel::ChannelPtr> reply = channel::Channel::open(node.channels(), {*index, *generation});
  if (!reply) return !last;
  const Status sent = send(**reply, Value::List{answer.code, std::move(answer.value)});
  if (!sent) (void)send(**reply, Value::List{static_cast<int>(sent.code()), sent.what()});
  return !last;
}

void serve_manager(Queue<Value>& requests, Queue<Value>& ready) {
  node::Node& node = detail::node_of(ChannelRef(requests).get()->arena());
  const domain::SlotRef self = node.domain().self();
  ready.put(Value::List{self.index, self.generation});
  ready.reset();
  detail::ManagerStore store;
  channel::Channel& channel = *ChannelRef(requests).get();
  channel::Incoming message;
  for (;;) {
    const Status got = channel.get(message, os::Deadline::never());
    // A message that is wrong is gone; who is stopped goes on some time.
    if (got.code() == Code::kCorrupt || got.code() == Code::kStalled) continue;
    throw_if_failed(got);
    const Result<Value> request = message::unpack(message);
    message.clear();
    if (request && !serve_one(store, node, *request)) return;
  }
}
const Registered<&serve_manager> kServeManager{"forklift::Manager"};

}  // namespace

namespace detail {

Value ManagedHandle::call(ManagerOp op, Value::List arguments) const {
  if (!requests_.get()) throw Error(server_is_gone(object_));
  node::Node& node = node_of(requests_.get()->arena());
  const domain::SlotRef server{slot_, generation_};
  CallHooks hooks(node.domain(), server, object_, wait_.stop());
  throw_if_failed(hooks.poll());
  const os::Deadline deadline = deadline_of(wait_);
  // A channel of its own for each answer: no thread or process takes another's, and nothing is left of a
  // call that was given up.
  const channel::ChannelPtr reply =
      value_or_throw(channel::Channel::create(node.channels(), {.flags = channel::kPortable}));
  Value::List request{reply->id().index, reply->id().generation, object_, static_cast<std::uint8_t>(op)};
  for (Value& argument : arguments) request.push_back(std::move(argument));
  require_in_time(send(*requests_.get(), Value(std::move(request)), deadline, &hooks));
  channel::Incoming message;
  const std::stop_callback wake(wait_.stop(), [&] { reply->wake_all(); });
  require_in_time(reply->get(message, deadline, &hooks));
  Value answer = value_or_throw(message::unpack(message));
  auto* parts = answer.get_if<Value::List>();
  if (parts == nullptr || parts->size() != 2) mismatch(answer, "a manager's answer");
  const int code = parts->front().as<int>();
  if (code == 0) return std::move(parts->back());
  const auto what = parts->back().as<std::string>();
  if (code == kMissing) throw std::out_of_range(what);
  throw Error({static_cast<Code>(code), what});
}

Value ManagedHandle::describe() const {
  if (!requests_.get()) throw Error(server_is_gone(object_));
  const channel::ChannelId id = requests_.get()->id();
  return Value::List{id.index,    id.generation, slot_,
                     generation_, object_,       requests_.get()->domain().header().domain_id};
}

ManagedHandle ManagedHandle::from(const Value& value) {
  const auto parts = value.try_as<std::array<std::uint64_t, 6>>();
  if (!parts) mismatch(value, "a manager's object");
  const auto number = [&](std::size_t i) { return static_cast<std::uint32_t>((*parts)[i]); };
  Result<channel::ChannelPtr> requests =
      channel::Channel::open(node_numbered((*parts)[5]).channels(), {number(0), number(1)});
  if (!requests) throw Error(server_is_gone((*parts)[4]));
  return ManagedHandle(ChannelRef(*std::move(requests)), number(2), number(3), (*parts)[4]);
}

}  // namespace detail

struct Manager::State {
  Process server;
  detail::ManagedHandle self;
  pid_t owner;
};

Manager::Manager() {
  const node::MakeIn at_home(detail::home_node());  // where its server is invited to
  Queue<Value> requests;
  Queue<Value> ready;
  const Context context = process::initialised() ? forkserver_context() : fork_context();
  Process server = context.process(&serve_manager, requests, ready);
  server.set_name("Manager").set_daemon(true).start();
  std::optional<Value> slot;
  while (!(slot = ready.try_get(std::chrono::milliseconds(100)))) {
    if (server.is_alive()) continue;
    server.join();  // throws what went wrong in it
    throw Error({Code::kPeerDied, "the manager's server process ended with exit code " +
                                      std::to_string(server.exitcode().value_or(0)) +
                                      " before it was ready"});
  }
  const auto parts = slot->as<std::array<std::uint32_t, 2>>();
  detail::ManagedHandle self(ChannelRef(requests), parts[0], parts[1], 0);
  state_.reset(new State{std::move(server), std::move(self), ::getpid()});
}

Manager::Manager(Manager&&) noexcept = default;

Manager& Manager::operator=(Manager&& other) noexcept {
  if (this != &other) {
    const Manager old(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

Manager::~Manager() {
  if (!state_ || state_->owner != ::getpid()) return;
  try {
    shutdown();
  } catch (const std::exception&) {
    // Killed before, or stopped: the process object ends it by force.
  }
}

void Manager::shutdown() {
  if (!state_) return;
  const std::unique_ptr<State> last = std::move(state_);
  if (!last->server.is_alive()) return;
  last->self.set_limit(std::chrono::seconds(1));
  (void)last->self.call(ManagerOp::kStop, {});
  (void)last->server.try_join(std::chrono::seconds(1));
}

pid_t Manager::pid() const { return state_ ? state_->server.pid() : 0; }

detail::ManagedHandle Manager::make(ManagerOp op) {
  if (!state_) throw Error({Code::kClosed, "this Manager was shut down, or was moved from"});
  detail::ManagedHandle handle = state_->self;
  const auto object = handle.call(op, {}).as<std::uint64_t>();
  handle.set_object(object);
  return handle;
}

ManagedDict Manager::dict() { return ManagedDict(make(ManagerOp::kNewDict)); }
ManagedList Manager::list() { return ManagedList(make(ManagerOp::kNewList)); }

void ManagedDict::set(const Value& key, const Value& value) const {
  handle_.call(ManagerOp::kSet, {key, value});
}

std::optional<Value> ManagedDict::find(const Value& key, std::uint64_t* version) const {
  Value answer = handle_.call(ManagerOp::kGet, {key});
  auto* found = answer.get_if<Value::List>();
  if (found == nullptr || found->size() != 2) return std::nullopt;
  if (version != nullptr) *version = found->back().as<std::uint64_t>();
  return std::move(found->front());
}

std::optional<Value> ManagedDict::take(const Value& key) const {
  Value answer = handle_.call(ManagerOp::kPop, {key});
  auto* found = answer.get_if<Value::List>();
  if (found == nullptr || found->size() != 1) return std::nullopt;
  return std::move(found->front());
}

bool ManagedDict::contains(const Value& key) const { return find(key).has_value(); }
bool ManagedDict::erase(const Value& key) const { return handle_.call(ManagerOp::kErase, {key}).as<bool>(); }
void ManagedDict::clear() const { handle_.call(ManagerOp::kClear, {}); }
std::size_t ManagedDict::size() const { return handle_.call(ManagerOp::kSize, {}).as<std::size_t>(); }

Value::Map ManagedDict::items() const {
  Value answer = handle_.call(ManagerOp::kItems, {});
  auto* map = answer.get_if<Value::Map>();
  if (map == nullptr) throw TypeMismatch(detail::wrong_kind(answer, "map"));
  return std::move(*map);
}

std::vector<Value> ManagedDict::keys() const {
  std::vector<Value> keys;
  for (auto& [key, value] : items()) keys.push_back(std::move(key));
  return keys;
}

void ManagedDict::update(const Value::Map& entries) const { handle_.call(ManagerOp::kUpdate, {entries}); }

Value ManagedDict::set_default(const Value& key, const Value& value) const {
  return handle_.call(ManagerOp::kSetDefault, {key, value});
}

bool ManagedDict::compare_and_set(const Value& key, const std::optional<Value>& expected,
                                  const Value& desired) const {
  const Value before = expected ? Value(Value::List{*expected}) : Value(Value::List{});
  return handle_.call(ManagerOp::kCompareAndSet, {key, before, desired}).as<bool>();
}

bool ManagedDict::swap(const Value& key, std::uint64_t version, const Value& value) const {
  return handle_.call(ManagerOp::kSwap, {key, version, value}).as<bool>();
}

Value ManagedDict::add(const Value& key, const Value& number) const {
  return handle_.call(ManagerOp::kAdd, {key, number});
}

void ManagedDict::throw_missing(const Value& key) {
  const auto* text = key.get_if<std::string>();
  throw std::out_of_range(text != nullptr ? "the dictionary has no \"" + *text + "\""
                                          : "the dictionary has no such key");
}

void ManagedList::append(const Value& value) const { handle_.call(ManagerOp::kAppend, {value}); }
void ManagedList::extend(const Value::List& values) const {
  handle_.call(ManagerOp::kExtend, Value::List{Value(values)});
}
void ManagedList::insert(std::size_t index, const Value& value) const {
  handle_.call(ManagerOp::kInsert, {index, value});
}
Value ManagedList::item(std::size_t index) const { return handle_.call(ManagerOp::kAt, {index}); }
void ManagedList::set(std::size_t index, const Value& value) const {
  handle_.call(ManagerOp::kSetAt, {index, value});
}

std::optional<Value> ManagedList::take() const {
  Value answer = handle_.call(ManagerOp::kPopLast, {});
  auto* found = answer.get_if<Value::List>();
  if (found == nullptr || found->size() != 1) return std::nullopt;
  return std::move(found->front());
}

void ManagedList::erase(std::size_t index) const { handle_.call(ManagerOp::kEraseAt, {index}); }
void ManagedList::clear() const { handle_.call(ManagerOp::kClear, {}); }
std::size_t ManagedList::size() const { return handle_.call(ManagerOp::kSize, {}).as<std::size_t>(); }

Value::List ManagedList::items() const {
  Value answer = handle_.call(ManagerOp::kItems, {});
  auto* list = answer.get_if<Value::List>();
  if (list == nullptr) throw TypeMismatch(detail::wrong_kind(answer, "list"));
  return std::move(*list);
}

}  // namespace forklift::inline abi_0_1
