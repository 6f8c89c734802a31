// Clients and servers of every type: what is no template.
#include "forklift/service.h"

#include <algorithm>
#include <string>

#include "api/attached.h"
#include "api/stop.h"
#include "api/transfer.h"
#include "message/loan.h"
#include "message/transport.h"
#include "service/client.h"
#include "service/server.h"
#include "tensor/access.h"

namespace forklift::inline abi_0_1::detail {

// A message of a call, while it is in this thread's memory.
class Arrived {
 public:
  explicit Arrived(channel::Incoming& message) noexcept : message_(message) {}
  channel::Incoming& of_codec(std::uint8_t wanted) {
    const std::uint8_t codec = message_.codec();
    const bool lent = wanted == message::kRawCodec && codec == message::kLoanCodec;
    if (codec != wanted && !lent)
      throw TypeMismatch({Code::kInvalid, "a message with a codec of " + std::to_string(codec) + " where " +
                                              std::to_string(wanted) + " was expected"});
    return message_;
  }

 private:
  channel::Incoming& message_;
};

std::span<const std::byte> arrived_bytes(Arrived& message) {
  return payload_of(message.of_codec(message::kRawCodec));
}
Value arrived_value(Arrived& message) {
  return value_or_throw(message::unpack(message.of_codec(message::kPortableCodec)));
}
Tensor arrived_tensor(Arrived& message) {
  Result<Tensor> tensor = message::unpack_tensor(message.of_codec(message::kPortableCodec));
  if (tensor.code() == Code::kInvalid) throw TypeMismatch(tensor.status());
  return value_or_throw(std::move(tensor));
}
LoanedBytes arrived_loan(Arrived& message, std::size_t alignment) {
  return LoanedBytes::of_message(message.of_codec(message::kRawCodec), alignment);
}

namespace {

template <class Object>
Object& core_of(const std::shared_ptr<Object>& handle) {
  if (!handle) throw_empty_handle();
  return *handle;
}

// Calls send(message, limit) with the payload as a message, again while there is no memory for it. False: the wait is over.
template <class Send>
bool send_payload(channel::Channel& through, const Payload& payload, Limit limit, const Send& send) {
  const auto put = [&](const channel::Outgoing& message, std::size_t bytes, Limit most) {
    return put_with_memory(through, bytes, most, [&](Limit left) { return send(message, left); });
  };
  if (payload.loan != nullptr) {
    using Put = decltype(put);
    return payload.loan->publish_by(
        [](const void* context, const channel::Outgoing& message, Limit most) {
          return (*static_cast<Put*>(context))(message, 0, most);
        },
        &put, limit);
  }
  if (payload.value == nullptr && payload.tensor == nullptr) [[likely]]
    return put({payload.bytes, {}, message::kRawCodec, 0}, payload.bytes.size(), limit);
  message::MessageBuilder builder(through.arena());
  return put_with_memory(through, 0, limit, [&](Limit left) -> Status {
    if (builder.bytes().empty()) {
      Status added = payload.value != nullptr ? builder.add(*payload.value) : builder.add(*payload.tensor);
      if (!added) return builder.clear(), added;
    }
    return send(builder.message(), left);
  });
}

// As settled(), with this header's own errors.
bool call_settled(const Status& status) {
  if (status.code() == Code::kPeerDied) throw ServerDied(status);
  if (status.code() == Code::kRefused) throw ServiceError(status);
  if (status.code() == Code::kClosed) throw Error(status);
  return settled(status);
}

// A child that got no slot at its fork may get one now.
void attach(const service::Calls& calls) {
  if (!calls.domain().attached()) [[unlikely]]
    throw_if_failed(calls.domain().try_attach());
}

}  // namespace

// --- a client's calls

bool PendingCallCore::send(const ServiceClientPtr& client, const Payload& payload, Limit limit) {
  service::Client& core = core_of(client);
  attach(core.calls());
  service::Exchange* const exchange = value_or_throw(core.begin());
  client_ = client;
  exchange_ = exchange;
  const auto send = [&](const channel::Outgoing& message, Limit left) {
    const os::Deadline until = deadline_of(left);
    Status sent = wait_stoppable(
        until.passed() ? nullptr : left.stop,
        [&](domain::WaitHooks* hooks) { return core.send(*exchange, message, until, hooks); },
        [&] { core.requests().wake_all(); });
    if (sent.code() == Code::kPeerDied) throw ServerDied(sent);
    return sent;
  };
  try {
    if (send_payload(core.requests(), payload, limit, send)) return true;
  } catch (...) {
    cancel();
    throw;
  }
  cancel();
  return false;
}

PendingCallCore::Got PendingCallCore::receive(OpenArrived open, void* into, Limit limit) {
  if (exchange_ == nullptr) throw_call_over();
  service::Kind kind{};
  Received message;
  const os::Deadline until = deadline_of(limit);
  Status got = wait_stoppable(
      until.passed() ? nullptr : limit.stop,
      [&](domain::WaitHooks* hooks) { return client_->receive(*exchange_, *message, kind, until, hooks); },
      [&] { exchange_->replies->wake_all(); });
  if (!call_settled(got)) return Got::kWaitOver;
  switch (kind) {
    case service::Kind::kEnd: return Got::kEnd;
    case service::Kind::kFailure: {
      const std::span<const std::byte> text = message->bytes();
      throw ServiceError(
          {Code::kRefused,
           "the server says: " + std::string(reinterpret_cast<const char*>(text.data()), text.size())});
    }
    case service::Kind::kPart:
    case service::Kind::kLast: break;
    default: throw Error({Code::kCorrupt, "what has come is no response"});
  }
  Arrived arrived(*message);
  open(into, arrived);
  return kind == service::Kind::kPart ? Got::kPart : Got::kLast;
}

bool PendingCallCore::ready() const { return exchange_ != nullptr && client_->ready(*exchange_); }

void PendingCallCore::cancel() noexcept {
  if (exchange_ != nullptr) client_->end(std::exchange(exchange_, nullptr));
  client_.reset();
}

// --- a server's

// The call as the core has it, for one function on it.
class CallCore::Core {
 public:
  explicit Core(CallCore& call) noexcept
      : call_(call), taken_{call.row_, call.serial_, call.taker_, call.client_, std::move(call.replies_)} {}
  ~Core() {
    call_.serial_ = taken_.serial;
    // Of a call that is over the channel goes, whatever becomes of the object.
    if (taken_.serial != 0) call_.replies_ = std::move(taken_.replies);
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  service::Taken& operator*() noexcept { return taken_; }

 private:
  CallCore& call_;
  service::Taken taken_;
};

CallCore::~CallCore() {
  if (serial_ == 0) return;
  Core call(*this);
  server_->refuse(*call);
}

void CallCore::swap(CallCore& other) noexcept {
  std::swap(server_, other.server_);
  std::swap(replies_, other.replies_);
  std::swap(serial_, other.serial_);
  std::swap(taker_, other.taker_);
  std::swap(client_, other.client_);
  std::swap(row_, other.row_);
}

bool CallCore::take(const ServiceServerPtr& server, CallCore& into, OpenArrived open, void* landing,
                    Limit limit) {
  service::Server& core = core_of(server);
  attach(core.calls());
  const os::Deadline until = deadline_of(limit);
  for (;;) {
    Received message;
    service::Taken taken;
    const Status got = wait_stoppable(
        until.passed() ? nullptr : limit.stop,
        [&](domain::WaitHooks* hooks) { return core.take(*message, taken, until, hooks); },
        [&] { core.requests().wake_all(); });
    if (!settled(got)) return false;
    into.server_ = server;
    into.replies_ = std::move(taken.replies);
    into.serial_ = taken.serial;
    into.taker_ = taken.server;
    into.client_ = taken.client;
    into.row_ = taken.row;
    try {
      Arrived arrived(*message);
      open(landing, arrived);
      return true;
    } catch (const std::exception& error) {
      (void)into.fail(error.what());
    }
  }
}

bool CallCore::send(const Payload& payload, bool last) {
  if (serial_ == 0) return false;
  Core call(*this);
  bool wanted = true;
  const auto kind = last ? service::Kind::kLast : service::Kind::kPart;
  return send_payload(*(*call).replies, payload, kForever,
                      [&](const channel::Outgoing& message, Limit) {
                        Status sent = server_->answer(*call, message, kind, os::Deadline::never(), nullptr);
                        if (sent.code() == Code::kClosed) {
                          wanted = false;
                          sent = Status();
                        }
                        return sent;
                      }) &&
         wanted;
}

bool CallCore::finish() { return end_with({}, service::Kind::kEnd); }
bool CallCore::fail(std::string_view why) { return end_with(why, service::Kind::kFailure); }

bool CallCore::end_with(std::string_view text, service::Kind kind) {
  if (serial_ == 0) return false;
  Core call(*this);
  const channel::Outgoing message{.bytes = std::as_bytes(std::span(text.data(), text.size()))};
  const Status sent = server_->answer(*call, message, kind, os::Deadline::never(), nullptr);
  if (sent.code() == Code::kClosed) return false;
  throw_if_failed(sent);
  return true;
}

bool CallCore::cancelled() const {
  return serial_ == 0 || !server_->wanted({row_, serial_, taker_, client_, nullptr}, true);
}

channel::Channel* CallCore::requests() const noexcept { return server_ ? &server_->requests() : nullptr; }

void throw_no_response() {
  throw ServiceError({Code::kRefused, "the server has finished the call without a response"});
}

void throw_call_over() {
  throw Error(
      {Code::kClosed, "this call is over: its response was taken, or it was cancelled or moved from"});
}

// --- the rest

namespace {

LoanedBytes lend_from(channel::Channel& channel, std::size_t bytes, std::size_t alignment) {
  return LoanedBytes::lend(channel, nullptr, bytes, alignment).detached();
}

}  // namespace

LoanedBytes lend_request(const service::Client* client, std::size_t bytes, std::size_t alignment) {
  if (client == nullptr) throw_empty_handle();
  return lend_from(client->requests(), bytes, alignment);
}

LoanedBytes lend_response(channel::Channel* requests, std::size_t bytes, std::size_t alignment) {
  if (requests == nullptr) throw_call_over();
  return lend_from(*requests, bytes, alignment);
}

void close_server(service::Server* server) {
  if (server == nullptr) throw_empty_handle();
  server->leave();
}

bool server_closed(const service::Server* server) {
  if (server == nullptr) throw_empty_handle();
  return server->left();
}

std::size_t waiting_requests(const service::Server* server) {
  if (server == nullptr) throw_empty_handle();
  return server->requests().size();
}

std::size_t servers_of(const service::Client* client) {
  if (client == nullptr) throw_empty_handle();
  return client->calls().servers(client->requests().id());
}

}  // namespace forklift::inline abi_0_1::detail
