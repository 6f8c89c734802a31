// What clients and servers of every type have in common; included by service.h, which is what programs use.
//
//   CallCore call;
//   Landing<Image> landing;
//   if (CallCore::take(server, call, Landing<Image>::open, &landing, kForever)) use(landing.take());
//
// Thread and process safety: as of service.h. Errors: by exceptions, as service.h names them.
// Invariant: a CallCore and a PendingCallCore have one call at most, and end it when they go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "forklift/detail/channel_ref.h"
#include "forklift/detail/timeout.h"
#include "forklift/loan.h"
#include "forklift/sendable.h"

namespace forklift::inline abi_0_1 {

namespace service {
class Client;
class Server;
struct Exchange;
enum class Kind : std::uint8_t;
}  // namespace service

namespace detail {

using ServiceClientPtr = std::shared_ptr<service::Client>;
using ServiceServerPtr = std::shared_ptr<service::Server>;

// Which types a service has: for programs, and for people.
struct ServiceType {
  std::uint64_t hash = 0;
  std::string text;
};

// What is sent; one of these.
struct Payload {
  std::span<const std::byte> bytes{};
  const Value* value = nullptr;
  const Tensor* tensor = nullptr;
  LoanedBytes* loan = nullptr;  // empty when it was sent
};

// What has come, as the library's own parts hand it out. Error (kCorrupt), TypeMismatch: it is something else.
class Arrived;
std::span<const std::byte> arrived_bytes(Arrived& message);
Value arrived_value(Arrived& message);
Tensor arrived_tensor(Arrived& message);
LoanedBytes arrived_loan(Arrived& message, std::size_t alignment);
using OpenArrived = void (*)(void* into, Arrived& message);

// Calls use(payload) with the item as a payload.
template <class T, class Use>
auto with_payload(const T& item, Use&& use) {
  if constexpr (Bytewise<T>) {
    return use(Payload{.bytes = std::as_bytes(std::span<const T, 1>(&item, 1))});
  } else if constexpr (Sequence<T>) {
    return use(Payload{.bytes = std::as_bytes(std::span(item.data(), item.size()))});
  } else if constexpr (std::same_as<T, Tensor>) {
    return use(Payload{.tensor = &item});
  } else {
    const Value value = value_of<true>(item);
    return use(Payload{.value = &value});
  }
}

template <class T>
constexpr bool can_be_served() {
  if constexpr (requires { typename T::Header; }) {
    return true;
  } else {
    return CanBeSent<T>::value;
  }
}

// One end for several waits.
class SharedLimit {
 public:
  explicit SharedLimit(Limit limit) noexcept
      : limit_(limit), when_(limit.ns == kForever || limit.ns == 0 ? limit.ns : steady_after(limit.ns)) {}
  Limit left() const noexcept {
    return when_ == kForever || when_ == 0 ? limit_ : Limit(steady_left(when_), limit_.stop);
  }

 private:
  Limit limit_;
  std::int64_t when_;
};

// Where a T arrives. A Value becomes a T after the message has been dealt with, since that may run the program's code.
template <class T>
class Landing {
 public:
  static void open(void* into, Arrived& message) { static_cast<Landing*>(into)->open(message); }
  T take() {
    if constexpr (kAsValue) {
      return value_->template as<T>();
    } else {
      return *std::move(item_);
    }
  }

 private:
  static constexpr bool kAsValue = !Bytewise<T> && !Sequence<T> && !std::same_as<T, Tensor>;
  void open(Arrived& message) {
    if constexpr (Bytewise<T>) {
      const std::span<const std::byte> bytes = arrived_bytes(message);
      if (bytes.size() != sizeof(T)) throw_wrong_length(bytes.size(), sizeof(T));
      if constexpr (std::is_trivially_default_constructible_v<T>) {
        std::memcpy(static_cast<void*>(&item_.emplace()), bytes.data(), sizeof(T));
      } else {
        const std::unique_ptr<std::byte[], FreeAligned<alignof(T)>> memory(aligned_bytes<T>());
        std::memcpy(memory.get(), bytes.data(), sizeof(T));
        item_.emplace(*std::launder(reinterpret_cast<T*>(memory.get())));
      }
    } else if constexpr (Sequence<T>) {
      assign_sequence<T>(&item_.emplace(), arrived_bytes(message));
    } else if constexpr (std::same_as<T, Tensor>) {
      item_ = arrived_tensor(message);
    } else {
      value_ = arrived_value(message);
    }
  }
  std::optional<T> item_;
  std::optional<Value> value_;
};

// The same in place.
template <class T>
class LoanLanding {
 public:
  using Shape = LoanShape<T>;
  using Read = typename Loans<T>::Read;
  static void open(void* into, Arrived& message) {
    LoanedBytes& bytes = static_cast<LoanLanding*>(into)->bytes_;
    bytes = arrived_loan(message, Shape::kAlignment);
    if (!Shape::fits(bytes.bytes()))
      throw_wrong_length(bytes.bytes(), sizeof(std::remove_extent_t<typename Shape::Read>));
  }
  Read take() { return Read(std::move(bytes_), Loans<T>::kType); }

 private:
  LoanedBytes bytes_;
};

// A call as its client has it. Empty: none, or it is over.
class PendingCallCore {
 public:
  PendingCallCore() noexcept = default;
  PendingCallCore(PendingCallCore&& other) noexcept
      : client_(std::move(other.client_)), exchange_(std::exchange(other.exchange_, nullptr)) {}
  PendingCallCore& operator=(PendingCallCore&& other) noexcept {
    PendingCallCore gone(std::move(other));
    std::swap(client_, gone.client_);
    std::swap(exchange_, gone.exchange_);
    return *this;
  }
  ~PendingCallCore() { cancel(); }

  // False: the wait was over, and nothing was sent.
  bool send(const ServiceClientPtr& client, const Payload& payload, Limit limit);
  enum class Got {
    kWaitOver,
    kPart,  // a response, and more may come
    kLast,  // a response, the last one
    kEnd    // no response, and none will come
  };
  Got receive(OpenArrived open, void* into, Limit limit);
  bool ready() const;
  bool empty() const noexcept { return exchange_ == nullptr; }
  void cancel() noexcept;

 private:
  ServiceClientPtr client_;
  service::Exchange* exchange_ = nullptr;
};

// A call as its server has it. Empty: none, or it was answered.
class CallCore {
 public:
  CallCore() noexcept = default;
  CallCore(CallCore&& other) noexcept { swap(other); }
  CallCore& operator=(CallCore&& other) noexcept {
    CallCore gone(std::move(other));
    swap(gone);
    return *this;
  }
  ~CallCore();

  // Precondition: `into` is empty. False: the wait was over. Throws Closed once the server was closed. What `open` throws ends the call with an error
  // at its client, and the next one is waited for.
  static bool take(const ServiceServerPtr& server, CallCore& into, OpenArrived open, void* landing,
                   Limit limit);

  // All wait for room for as long as the client waits. False: nobody waits for the call any more.
  bool send(const Payload& payload, bool last);
  bool finish();
  bool fail(std::string_view why);
  bool cancelled() const;
  bool empty() const noexcept { return serial_ == 0; }
  channel::Channel* requests() const noexcept;

 private:
  void swap(CallCore& other) noexcept;
  class Core;
  bool end_with(std::string_view text, service::Kind kind);

  ServiceServerPtr server_;
  ChannelPtr replies_;
  std::uint64_t serial_ = 0;
  std::uint64_t taker_ = 0;
  std::uint64_t client_ = 0;
  std::uint32_t row_ = 0;
};

ServiceServerPtr serve_requests(std::string_view name, const ServiceType& type, std::uint32_t capacity);
// Null: nobody served the name before the wait was over.
ServiceClientPtr connect_requests(std::string_view name, const ServiceType& type, const Wait& wait);
[[noreturn]] void throw_not_served(std::string_view name);
[[noreturn]] void throw_no_response();
[[noreturn]] void throw_call_over();
// Memory for a request or a response. Throws Error (kClosed) for an empty handle.
LoanedBytes lend_request(const service::Client* client, std::size_t bytes, std::size_t alignment);
LoanedBytes lend_response(channel::Channel* requests, std::size_t bytes, std::size_t alignment);
void close_server(service::Server* server);
bool server_closed(const service::Server* server);
std::size_t waiting_requests(const service::Server* server);
std::size_t servers_of(const service::Client* client);

// Of the type in loan.h that is filled in.
template <class T>
std::size_t loan_size(std::size_t count) {
  if constexpr (requires { typename T::Header; }) {
    return loan_bytes(count, sizeof(typename T::Item), LoanShape<T>::kItems);
  } else if constexpr (Sequence<T>) {
    return loan_bytes(count, sizeof(typename T::value_type), 0);
  } else {
    return sizeof(T);
  }
}

// Without the release's namespace, which GCC writes and Clang does not.
std::string plain_name(std::string_view name);

template <class T>
std::string type_text() {
  if constexpr (Named<T>) {
    return std::string(TypeName<T>::value);
  } else if constexpr (std::same_as<T, std::string>) {
    return "std::string";
  } else {
    return plain_name(pretty_name<T>());
  }
}
// A service's types are those that its messages hold: a Framed's hash is its own.
template <class T>
constexpr std::uint64_t message_type_hash() noexcept {
  if constexpr (requires { typename T::Header; }) {
    return Transfer<T>::kType;
  } else {
    return type_hash<T>();
  }
}
template <class Request, class Response>
ServiceType service_type() {
  return {hash_of("service", message_type_hash<Request>() * 31 + message_type_hash<Response>()),
          type_text<Request>() + " -> " + type_text<Response>()};
}

}  // namespace detail
}  // namespace forklift::inline abi_0_1
