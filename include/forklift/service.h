// Service<Request, Response>: requests and responses between programs, under a name.
//
//   struct Resize { forklift::Tensor image; int width = 0, height = 0; };
//   template <> struct forklift::ValueTraits<Resize>              // since it is more than bytes: fields.h
//       : forklift::Fields<&Resize::image, &Resize::width, &Resize::height> {};
//   using Resizer = forklift::Service<Resize, forklift::Tensor>;
//
//   // any number of servers, in any programs of the domain; each request goes to one of them
//   auto server = Resizer::serve(domain, "resize");
//   server.run([](const Resize& job) { return resized(job.image, job.width, job.height); });
//
//   // any number of clients, whose threads may all have calls under way
//   auto client = Resizer::connect(domain, "resize");             // waits until somebody serves it
//   forklift::Tensor small = client.call({image, 320, 240});      // as long as it takes
//   if (auto soon = client.try_call({image, 320, 240}, 50ms)) ... // or no longer than that
//   auto pending = client.send({image, 32, 24});                  // or in the meantime
//   compute_something_else();
//   small = pending.get();
//
//   for (;;) {                                                    // a server by hand
//     auto call = server.next();
//     for (int level = 0; level < 8 && !call.cancelled(); ++level) call.send(halved(call.request().image, level));
//     call.finish();                                              // a stream of responses; respond(x) is one
//   }
//   for (forklift::Tensor& level : client.stream(job)) show(level);
//
// A call ends once, in one of these ways:
//   a response           call() and get() return it, a stream ends after its last one.
//   the wait is over     try_call() returns nothing, and the request is cancelled: one that is still queued is never
//                        served, a server that is at it sees call.cancelled(), and its response goes nowhere.
//   ServerDied           the process that had taken the request has ended, however; or no server is left and the request
//                        was not taken. Within some 50 ms. A request may be sent again if it does no harm twice.
//   ServiceError         the server answered call.fail("why"), threw in run(), or dropped the call without an answer.
//   Error                kBrokenByFork, kCorrupt, kOverBudget, ...
// A request that is queued when its server dies is served by another one. A stopped server delays its own calls only.
//
// The types are checked: serve() and connect() throw TypeMismatch, which names both sides', if the name is served with
// others. A name that no process serves any more may be served with other types. It stays published until
// Domain::unpublish(), as all names do.
//
// Loans: client.loan() and call.loan() give a request and a response in shared memory (loan.h), which are filled in and
// handed to call(), send(), respond(); next_loaned() and get_loaned() read them in place. Such a loan is not published.
//
// Ownership: Server and Client are handles; a process serves until its last handle goes, or close(). PendingCall,
// ResponseStream and Call are one call each: dropping the first two cancels it, dropping the last without an answer is a
// ServiceError at the client. Responses that a client has not taken wait there, 64 for each call; a server that sends
// more waits until the client has read some, cancels or ends.
//
// Thread safety: Server and Client, all functions any time but assignment; a call belongs to one thread at a time. Process
// safety: the point. Fork: a child may use the handles; its server counts as another one, and the calls that are under
// way stay its parent's: Error (kBrokenByFork), and dropping them in the child does nothing.
//
// Invariants: a request is served by one server at most, and its responses reach the call that asked and no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "forklift/detail/caught.h"
#include "forklift/detail/items.h"
#include "forklift/detail/service_core.h"
#include "forklift/domain.h"
#include "forklift/error.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// The process that had the call has ended, or no server is left (kPeerDied).
class ServerDied : public Error {
 public:
  using Error::Error;
};
// The server has answered that it cannot, or dropped the call (kRefused).
class ServiceError : public Error {
 public:
  using Error::Error;
};

// Of a service that is made.
struct ServiceOptions {
  std::uint32_t capacity =
      0;  // requests that wait for a server; more wait at their clients. 0: as many as there is memory for
};

// A request that a server has taken.
template <class Held, class Response>
class Call {
 public:
  // As next() or next_loaned() have it.
  Held& request() noexcept { return *request_; }
  const Held& request() const noexcept { return *request_; }

  // Answers. False: nobody waits for it any more, which is no error.
  bool respond(const Response& response) {
    return detail::with_payload(response, [&](const detail::Payload& payload) { return put(payload, true); });
  }
  // One of several responses; finish() or respond() ends them.
  bool send(const Response& part) {
    return detail::with_payload(part, [&](const detail::Payload& payload) { return put(payload, false); });
  }
  bool finish() { return core_.finish(); }
  // ServiceError at the client, with these words.
  bool fail(std::string_view why) { return core_.fail(why); }

  // A response in shared memory. With a count where Response is a vector or a Framed.
  [[nodiscard]] auto loan(std::size_t count = 1)
    requires detail::Lendable<Response>
  {
    using Loans = detail::Loans<Response>;
    return typename Loans::Written(
        detail::lend_response(core_.requests(), detail::loan_size<Response>(count), Loans::Shape::kAlignment),
        Loans::kType);
  }
  template <class Written>
  bool respond(Loaned<Written>&& response) {
    return put({.loan = &response.memory()}, true);
  }
  template <class Written>
  bool send(Loaned<Written>&& part) {
    return put({.loan = &part.memory()}, false);
  }

  // Has the client given the call up: cancelled it, timed out, ended? For servers that take long.
  bool cancelled() const { return core_.cancelled(); }
  // False once it was answered, or nobody waited for it.
  explicit operator bool() const noexcept { return !core_.empty(); }

 private:
  template <class, class>
  friend class Server;
  bool put(const detail::Payload& payload, bool last) { return core_.send(payload, last); }
  detail::CallCore core_;
  std::optional<Held> request_;
};

// Takes requests. Any number may serve one name; each request goes to one of them.
template <class Request, class Response>
class Server {
 public:
  // The next request; waits for one. Nothing: none came before the wait was over. Closed: this server was closed.
  // A request that cannot be read ends as a ServiceError at its client, and is not returned.
  [[nodiscard]] Call<Request, Response> next() { return *take<detail::Landing<Request>>(detail::kForever); }
  [[nodiscard]] std::optional<Call<Request, Response>> try_next(const Wait& wait = Wait::now()) {
    return take<detail::Landing<Request>>(wait);
  }
  // The same with the request where it lies, as a Loaned<const ...>.
  [[nodiscard]] auto next_loaned()
    requires detail::Lendable<Request>
  {
    return *take<detail::LoanLanding<Request>>(detail::kForever);
  }
  [[nodiscard]] auto try_next_loaned(const Wait& wait = Wait::now())
    requires detail::Lendable<Request>
  {
    return take<detail::LoanLanding<Request>>(wait);
  }

  // Serves until the wait is over or the server is closed: each response is what `serve(request)` returns, and an
  // exception of its is a ServiceError at the client, with its what().
  template <class Serve>
    requires std::is_invocable_r_v<Response, Serve&, const Request&>
  void run(Serve serve, const Wait& wait = Wait::forever()) {
    const Wait begun = wait.begun();
    (void)detail::met_closed([&] {
      while (std::optional<Call<Request, Response>> call = try_next(begun)) answer(*call, serve);
    });
  }

  // Takes no more requests, and those that wait in next() throw Closed. What was taken may still be answered, what is
  // queued is served by others.
  void close() { detail::close_server(server_.get()); }
  bool closed() const { return detail::server_closed(server_.get()); }
  // Requests that wait for a server. A moment's truth.
  std::size_t waiting() const { return detail::waiting_requests(server_.get()); }

 private:
  template <class, class>
  friend class Service;
  explicit Server(detail::ServiceServerPtr server) noexcept : server_(std::move(server)) {}

  template <class Landing>
  auto take(detail::Limit limit) {
    using Held = decltype(std::declval<Landing&>().take());
    std::optional<Call<Held, Response>> taken;
    const detail::SharedLimit until(limit);
    for (;;) {
      detail::CallCore& core = taken.emplace().core_;
      Landing landing;
      if (!detail::CallCore::take(server_, core, Landing::open, &landing, until.left())) {
        taken.reset();
        return taken;
      }
      const std::optional<std::string> failure =
          detail::message_in([&] { taken->request_.emplace(landing.take()); });
      if (!failure) return taken;
      (void)core.fail(*failure);
    }
  }
  template <class Serve>
  static void answer(Call<Request, Response>& call, Serve& serve) {
    const std::optional<std::string> failure =
        detail::message_in([&] { (void)call.respond(serve(std::as_const(call).request())); });
    if (failure) (void)call.fail(*failure);
  }
  detail::ServiceServerPtr server_;
};

// A request that was sent.
template <class Response>
class PendingCall {
 public:
  // The response. It is got once; of several the first one, and the others are not waited for.
  Response get() { return *take<detail::Landing<Response>>(detail::kForever); }
  // Nothing: it had not come before the wait was over; the call goes on.
  [[nodiscard]] std::optional<Response> try_get(const Wait& wait = Wait::now()) {
    return take<detail::Landing<Response>>(wait);
  }
  auto get_loaned()
    requires detail::Lendable<Response>
  {
    return *take<detail::LoanLanding<Response>>(detail::kForever);
  }
  // Would get() return, or throw, without waiting, as far as the server lives?
  bool ready() const { return core_.ready(); }
  // Gives the call up. get() throws Error (kClosed) afterwards.
  void cancel() noexcept { core_.cancel(); }
  // False: it is over.
  explicit operator bool() const noexcept { return !core_.empty(); }

 private:
  template <class, class>
  friend class Client;
  template <class Landing>
  auto take(detail::Limit limit) {
    std::optional<decltype(std::declval<Landing&>().take())> got;
    Landing landing;
    switch (core_.receive(Landing::open, &landing, limit)) {
      case detail::PendingCallCore::Got::kWaitOver: return got;
      case detail::PendingCallCore::Got::kEnd: detail::throw_no_response();
      default: break;
    }
    core_.cancel();
    got.emplace(landing.take());
    return got;
  }
  detail::PendingCallCore core_;
};

// The responses to one request, in the order in which they were sent.
template <class Response>
class ResponseStream {
 public:
  using value_type = Response;

  // The next response. Closed: there was the last one. Nothing, false: none came before the wait was over.
  Response get() { return *try_get(Wait::forever()); }
  [[nodiscard]] std::optional<Response> try_get(const Wait& wait = Wait::now()) {
    detail::Landing<Response> landing;
    if (last_) core_.cancel();
    switch (core_.empty() && last_ ? detail::PendingCallCore::Got::kEnd
                                   : core_.receive(detail::Landing<Response>::open, &landing, wait)) {
      case detail::PendingCallCore::Got::kWaitOver: return std::nullopt;
      case detail::PendingCallCore::Got::kEnd:
        last_ = true;
        detail::throw_closed({Code::kClosed, "the server has sent its last response"});
      case detail::PendingCallCore::Got::kLast: last_ = true; break;
      case detail::PendingCallCore::Got::kPart: break;
    }
    return landing.take();
  }
  [[nodiscard]] bool try_get_into(Response& item, const Wait& wait = Wait::now()) {
    std::optional<Response> got = try_get(wait);
    if (!got) return false;
    item = *std::move(got);
    return true;
  }

  // Every response until the last one; with each(), also until a wait for one is over. ServerDied and ServiceError are
  // thrown on the way.
  detail::ItemIterator<ResponseStream> begin() { return {*this, Wait::forever()}; }
  std::default_sentinel_t end() const noexcept { return {}; }
  detail::Items<ResponseStream> each(const Wait& wait) { return {*this, wait}; }
  // The server sees cancelled(), and its sends are false. Afterwards get() throws Error (kClosed).
  void cancel() noexcept { core_.cancel(); }

 private:
  template <class, class>
  friend class Client;
  detail::PendingCallCore core_;
  bool last_ = false;
};

// Calls a service.
template <class Request, class Response>
class Client {
 public:
  // The response; waits for it. Nothing: it did not come before the wait was over, and the request is cancelled.
  Response call(const Request& request) {
    return start<PendingCall<Response>>(borrowed(), request, detail::kForever)->get();
  }
  [[nodiscard]] std::optional<Response> try_call(const Request& request, const Wait& wait) {
    const Wait begun = wait.begun();
    std::optional<PendingCall<Response>> pending = start<PendingCall<Response>>(borrowed(), request, begun);
    return pending ? pending->try_get(begun) : std::nullopt;
  }

  // Sends a request and does not wait for the response, only for room where the service has a capacity.
  [[nodiscard]] PendingCall<Response> send(const Request& request) {
    return *start<PendingCall<Response>>(client_, request, detail::kForever);
  }
  [[nodiscard]] std::optional<PendingCall<Response>> try_send(const Request& request,
                                                              const Wait& wait = Wait::now()) {
    return start<PendingCall<Response>>(client_, request, wait);
  }
  // The same for a server that sends several responses.
  [[nodiscard]] ResponseStream<Response> stream(const Request& request) {
    return *start<ResponseStream<Response>>(client_, request, detail::kForever);
  }

  // A request in shared memory, to be given to the functions above. With a count where Request is a vector or a Framed.
  [[nodiscard]] auto loan(std::size_t count = 1)
    requires detail::Lendable<Request>
  {
    using Loans = detail::Loans<Request>;
    return typename Loans::Written(
        detail::lend_request(client_.get(), detail::loan_size<Request>(count), Loans::Shape::kAlignment),
        Loans::kType);
  }
  template <class Written>
  Response call(Loaned<Written>&& request) {
    return send(std::move(request)).get();
  }
  template <class Written>
  [[nodiscard]] PendingCall<Response> send(Loaned<Written>&& request) {
    PendingCall<Response> pending;
    (void)pending.core_.send(client_, {.loan = &request.memory()}, detail::kForever);
    return pending;
  }

  // How many servers there are. A moment's truth.
  std::size_t servers() const { return detail::servers_of(client_.get()); }

 private:
  template <class, class>
  friend class Service;
  explicit Client(detail::ServiceClientPtr client) noexcept : client_(std::move(client)) {}
  // For a call that ends before this handle does: the handle's count does not change.
  detail::ServiceClientPtr borrowed() const noexcept {
    return detail::ServiceClientPtr(detail::ServiceClientPtr(), client_.get());
  }
  template <class Pending>
  static std::optional<Pending> start(const detail::ServiceClientPtr& client, const Request& request,
                                      detail::Limit limit) {
    std::optional<Pending> pending(std::in_place);
    const bool sent = detail::with_payload(
        request, [&](const detail::Payload& payload) { return pending->core_.send(client, payload, limit); });
    if (!sent) pending.reset();
    return pending;
  }
  detail::ServiceClientPtr client_;
};

template <class Request, class Response>
class Service {
  static_assert(detail::can_be_served<Request>() && detail::can_be_served<Response>());

 public:
  // Begins to serve the name, beside others that do. Error: kInvalid (no possible name), kNoSpace; TypeMismatch.
  static Server<Request, Response> serve(const Domain& domain, std::string_view name,
                                         const ServiceOptions& options = {}) {
    return domain.in([&] {
      return Server<Request, Response>(
          detail::serve_requests(name, detail::service_type<Request, Response>(), options.capacity));
    });
  }
  // A client of those that serve the name; waits until there is one. Error (kNotFound), nothing: there was none before
  // the wait was over.
  static Client<Request, Response> connect(const Domain& domain, std::string_view name,
                                           const Wait& wait = kServerAnswers) {
    std::optional<Client<Request, Response>> client = try_connect(domain, name, wait);
    if (!client) detail::throw_not_served(name);
    return *std::move(client);
  }
  [[nodiscard]] static std::optional<Client<Request, Response>> try_connect(const Domain& domain,
                                                                            std::string_view name,
                                                                            const Wait& wait = Wait::now()) {
    detail::ServiceClientPtr client = domain.in(
        [&] { return detail::connect_requests(name, detail::service_type<Request, Response>(), wait); });
    if (!client) return std::nullopt;
    return Client<Request, Response>(std::move(client));
  }
};

}  // namespace forklift::inline abi_0_1
