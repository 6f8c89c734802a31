// Requests and responses: each end is killed after every instruction. A request is served or it is not, its client
// learns which, and nothing of the dead process stays.
#include <memory>
#include <optional>
#include <string>

#include "service/client.h"
#include "service/server.h"
#include "step/lock_operation.h"
#include "support/node_fixture.h"

namespace forklift::test {
namespace {

using service::Client;
using service::Exchange;
using service::Kind;
using service::Server;
using service::Taken;

os::Deadline now() { return os::Deadline::after_ns(0); }
os::Deadline soon() { return os::Deadline::after_seconds(30); }

class OnService : public LockOperation {
 public:
  void prepare() override { requests_ = must(channel::Channel::create(world_.node().channels(), {})); }

 protected:
  service::Calls& calls() { return world_.node().calls(); }
  void make_client() { client_ = std::make_shared<Client>(calls(), requests_); }
  void make_server() {
    server_ = std::make_shared<Server>(calls(), requests_, "text -> text");
    must(server_->enter());
  }
  void send(const std::string& text) {
    exchange_ = must(client_->begin());
    must(client_->send(*exchange_, {.bytes = bytes_of(text)}, soon(), nullptr));
  }
  void take() {
    Incoming request;
    must(server_->take(request, call_, soon(), nullptr));
    if (text_of(request) != "please") std::abort();
  }
  void answer() { must(server_->answer(call_, {.bytes = bytes_of("thanks")}, Kind::kLast, soon(), nullptr)); }
  // How the client's call ends: "thanks", "died", or a finding.
  std::string ending(Findings& found) {
    Incoming response;
    Kind kind{};
    // The other process is dead: how the call ends is certain.
    const Status got = client_->receive(*exchange_, response, kind, now(), nullptr);
    if (got.code() == Code::kPeerDied) return "died";
    if (!got) found.add("the call ended with " + got.to_string());
    if (got && kind != Kind::kLast) found.add("a response of another kind");
    return text_of(response);
  }
  // A call from end to end, between survivors.
  void expect_service(Findings& found) {
    if (!client_) make_client();
    if (!server_) make_server();
    Exchange* const mine = must(client_->begin());
    must(client_->send(*mine, {.bytes = bytes_of("please")}, soon(), nullptr));
    Taken call;
    Incoming message;
    Status done = server_->take(message, call, soon(), nullptr);
    if (done) done = server_->answer(call, {.bytes = bytes_of("again")}, Kind::kLast, soon(), nullptr);
    Kind kind{};
    if (done) done = client_->receive(*mine, message, kind, soon(), nullptr);
    if (!done || text_of(message) != "again") found.add("no service after the death: " + done.to_string());
    client_->end(mine);
  }
  void drop() override {
    if (exchange_ != nullptr) client_->end(exchange_);
    exchange_ = nullptr;
    if (server_) server_->refuse(call_);
    call_ = Taken();
    client_.reset();
    server_.reset();
    requests_.reset();
  }

  ChannelPtr requests_;
  std::shared_ptr<Client> client_;
  std::shared_ptr<Server> server_;
  Exchange* exchange_ = nullptr;
  Taken call_;
};

class Take : public OnService {
 public:
  void prepare() override {
    OnService::prepare();
    make_client();
    send("please");
  }
  void enter() override { make_server(); }
  void act() override { take(); }

 protected:
  void survive(const Death& death, Findings& found) override {
    make_server();
    Incoming request;
    const bool there = server_->take(request, call_, now(), nullptr).ok();
    if (there) answer();
    if (ending(found) != (there ? "thanks" : "died")) found.add("there is another ending than the request's");
    if (death.returned && there) found.add("a request that was taken came again");
    saw(!there);
    expect_service(found);
  }
};

TEST(ServiceStep, Take) { kill_lock("service, a server takes a request", Take()); }

class Answer : public OnService {
 public:
  void prepare() override {
    OnService::prepare();
    make_client();
    send("please");
  }
  void enter() override {
    make_server();
    take();
  }
  void act() override { answer(); }

 protected:
  void survive(const Death& death, Findings& found) override {
    const std::string end = ending(found);
    if (end != "thanks" && end != "died") found.add("there is another ending: " + end);
    if (death.returned && end != "thanks") found.add("a response is lost");
    saw(end == "thanks");
    expect_service(found);
  }
};

TEST(ServiceStep, Answer) { kill_lock("service, a server answers", Answer()); }

class Refuse : public Answer {
 public:
  void act() override { server_->refuse(call_); }

 protected:
  void survive(const Death& death, Findings& found) override {
    Incoming response;
    Kind kind{};
    const Status got = client_->receive(*exchange_, response, kind, soon(), nullptr);
    if (got.code() != Code::kRefused && got.code() != Code::kPeerDied)
      found.add("there is another ending: " + got.to_string());
    if (death.returned && got.code() != Code::kRefused) found.add("the refusal is lost");
    saw(got.code() == Code::kRefused);
    expect_service(found);
  }
};

TEST(ServiceStep, Refuse) { kill_lock("service, a server gives a call up", Refuse()); }

// The client's end, with a server in the parent.
class AtClient : public OnService {
 public:
  void prepare() override {
    OnService::prepare();
    make_server();
  }
  void enter() override { make_client(); }
};

class Send : public AtClient {
 public:
  void act() override { send("please"); }

 protected:
  void survive(const Death& death, Findings& found) override {
    const bool there = requests_->size() != 0;
    if (death.returned && !there) found.add("a request that was sent is lost");
    saw(there);
    Incoming request;
    // Whether a dead client's request is still taken depends on whether it was reaped.
    if (server_->take(request, call_, now(), nullptr)) {
      if (text_of(request) != "please") found.add("there is another request");
      if (server_->wanted(call_, true)) found.add("a dead client still waits");
    }
    if (requests_->size() != 0) found.add("a request stays in the channel");
    expect_service(found);
  }
};

TEST(ServiceStep, Send) { kill_lock("service, a client makes its place and sends a request", Send()); }

class Receive : public AtClient {
 public:
  void enter() override {
    make_client();
    send("please");
  }
  void ready() override {
    take();
    answer();
  }
  void act() override {
    Incoming response;
    Kind kind{};
    must(client_->receive(*exchange_, response, kind, soon(), nullptr));
    if (text_of(response) != "thanks") std::abort();
    client_->end(exchange_);
    client_.reset();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    saw(death.point % 2 == 0);
    expect_service(found);
  }
};

TEST(ServiceStep, Receive) { kill_lock("service, a client receives and leaves", Receive()); }

class Cancel : public AtClient {
 public:
  void enter() override {
    make_client();
    send("please");
  }
  void ready() override { take(); }
  void act() override { client_->cancel(*exchange_); }

 protected:
  void survive(const Death& death, Findings& found) override {
    if (server_->wanted(call_, true)) found.add("a dead client still waits");
    const bool seen = !server_->wanted(call_, false);
    if (death.returned && !seen) found.add("the cancellation is lost");
    // After a reaper the call is over in any case.
    saw(death.point % 2 == 0);
    expect_service(found);
  }
};

TEST(ServiceStep, Cancel) { kill_lock("service, a client cancels", Cancel()); }

class EnterAndLeave : public AtClient {
 public:
  void prepare() override { OnService::prepare(); }
  void enter() override {}
  void act() override {
    make_server();
    server_.reset();
  }

 protected:
  void survive(const Death& death, Findings& found) override {
    if (calls().served(requests_->id())) found.add("a dead server counts");
    saw(death.point % 2 == 0);
    expect_service(found);
  }
};

TEST(ServiceStep, EnterAndLeave) { kill_lock("service, a server comes and goes", EnterAndLeave()); }

}  // namespace
}  // namespace forklift::test
