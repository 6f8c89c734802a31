// Services between live processes and threads: answers, types, waits, cancellation, failures, forks.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "service/service_fixture.h"

namespace forklift {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Child;
using test::eventually;
using test::Gate;
using testing::HasSubstr;

using ServiceTest = test::ServiceFixture;

struct Sum {
  std::int64_t a = 0;
  std::int64_t b = 0;
};
using Adder = Service<Sum, std::int64_t>;

std::int64_t add(const Sum& sum) { return sum.a + sum.b; }

// A server in a process of its own, until the test lets it go.
class ServerProcess {
 public:
  template <class Serve>
  ServerProcess(const Domain& domain, Serve serve)
      : child_([&domain, serve, this] {
          Server<Sum, std::int64_t> server = Adder::serve(domain, "adder");
          ready_.open();
          std::jthread waits([&] {
            EXPECT_TRUE(leave_.wait(120'000));
            server.close();
          });
          server.run(serve);
        }) {
    EXPECT_TRUE(ready_.wait());
  }
  ~ServerProcess() { end(); }
  void end() {
    if (ended_) return;
    ended_ = true;
    leave_.open();
    EXPECT_EQ(child_.wait(), 0);
  }

 private:
  Gate ready_, leave_;
  bool ended_ = false;
  Child child_;
};

TEST_F(ServiceTest, ARequestIsAnswered) {
  const ServerProcess server(domain_, add);
  auto client = Adder::connect(domain_, "adder");
  EXPECT_EQ(client.servers(), 1U);
  for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(client.call({i, 2 * i}), 3 * i);
  EXPECT_EQ(client.try_call({1, 2}, seconds(30)), 3);
}

TEST_F(ServiceTest, EveryTypeTravels) {
  using Words = std::map<std::string, std::vector<int>>;
  using Worded = Service<std::string, Words>;
  using Tensors = Service<Tensor, Tensor>;
  using Large = Service<std::vector<float>, std::array<std::uint64_t, 4000>>;
  Child child([&] {
    auto words = Worded::serve(domain_, "words");
    auto tensors = Tensors::serve(domain_, "tensors");
    auto large = Large::serve(domain_, "large");
    auto one = words.next();
    EXPECT_EQ(one.request(), "seven");
    EXPECT_TRUE(one.respond({{one.request(), {7, 8}}}));
    auto two = tensors.next();
    two.request().data<float>()[1] = 5;
    EXPECT_TRUE(two.respond(two.request()));
    auto three = large.next();
    std::array<std::uint64_t, 4000> numbers{};
    numbers[3999] = three.request().size();
    EXPECT_TRUE(three.respond(numbers));
  });
  auto words = Worded::connect(domain_, "words", seconds(30));
  auto tensors = Tensors::connect(domain_, "tensors", seconds(30));
  auto large = Large::connect(domain_, "large", seconds(30));
  EXPECT_EQ(words.call("seven").at("seven"), (std::vector<int>{7, 8}));
  const Tensor sent = Tensor::zeros({3}, DType::kFloat32);
  const Tensor got = tensors.call(sent);
  EXPECT_EQ(got.data<float>()[1], 5);
  EXPECT_EQ(large.call(std::vector<float>(30'000))[3999], 30'000U);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(ServiceTest, ManyClientsAndManyServers) {
  Gate leave;
  std::vector<Child> servers;
  for (int i = 0; i < 3; ++i) {
    servers.emplace_back([&] {
      auto server = Adder::serve(domain_, "adder");
      std::vector<std::jthread> threads;
      for (int t = 0; t < 2; ++t) threads.emplace_back([&] { server.run(add); });
      EXPECT_TRUE(leave.wait(120'000));
      server.close();
    });
  }
  std::vector<Child> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&, i] {
      auto client = Adder::connect(domain_, "adder", seconds(30));
      std::vector<std::jthread> threads;
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&client, i, t] {
          for (std::int64_t n = 0; n < 300; ++n)
            ASSERT_EQ(client.call({1'000'000 * i + 10'000 * t, n}), 1'000'000 * i + 10'000 * t + n);
        });
      }
    });
  }
  for (Child& client : clients) EXPECT_EQ(client.wait(), 0);
  leave.open(3);
  for (Child& server : servers) EXPECT_EQ(server.wait(), 0);
}

TEST_F(ServiceTest, AnswersComeInAnyOrder) {
  auto server = Adder::serve(domain_, "adder");
  auto client = Adder::connect(domain_, "adder");
  std::vector<PendingCall<std::int64_t>> pending;
  for (std::int64_t i = 0; i < 20; ++i) pending.push_back(client.send({i, 100}));
  std::vector<Call<Sum, std::int64_t>> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(server.next());
  EXPECT_FALSE(pending[0].ready());
  while (!calls.empty()) {
    EXPECT_TRUE(calls.back().respond(add(calls.back().request())));
    EXPECT_FALSE(calls.back());
    EXPECT_FALSE(calls.back().respond(0));  // once is enough
    calls.pop_back();
  }
  EXPECT_TRUE(pending[0].ready());
  EXPECT_FALSE(pending[3].try_get(Wait::now()) != 103);
  for (std::int64_t i = 0; i < 20; ++i) {
    if (i == 3) continue;
    EXPECT_EQ(pending[static_cast<std::size_t>(i)].get(), 100 + i);
  }
  try {
    (void)pending[3].get();
    ADD_FAILURE() << "a response was got twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kClosed);
  }
}

TEST_F(ServiceTest, TypesAreChecked) {
  {
    auto server = Adder::serve(domain_, "adder");
    using Other = Service<std::string, std::int64_t>;
    for (const bool serves : {true, false}) {
      try {
        if (serves) {
          (void)Other::serve(domain_, "adder");
        } else {
          (void)Other::connect(domain_, "adder");
        }
        ADD_FAILURE() << "another type";
      } catch (const TypeMismatch& error) {
        EXPECT_THAT(error.what(), HasSubstr("\"adder\""));
        EXPECT_THAT(error.what(), HasSubstr("Sum -> "));
        EXPECT_THAT(error.what(), HasSubstr("std::string -> "));
      }
    }
    using OtherAnswer = Service<Sum, std::string>;
    EXPECT_THROW((void)OtherAnswer::connect(domain_, "adder"), TypeMismatch);
    EXPECT_THROW((void)domain_.open<Queue<Sum>>("adder"), TypeMismatch);
    EXPECT_THROW((void)Adder::serve(domain_, "adder", {.capacity = 3}), Error);
    domain_.publish("queue", Queue<Sum>());
    EXPECT_THROW((void)Adder::connect(domain_, "queue"), TypeMismatch);
    EXPECT_THROW((void)Adder::serve(domain_, "queue"), TypeMismatch);
    EXPECT_THROW((void)Adder::serve(domain_, "not a name"), Error);
  }
  // Nobody serves it any more: the name is free for other types.
  auto server = Service<std::string, std::string>::serve(domain_, "adder");
  EXPECT_EQ((Service<std::string, std::string>::connect(domain_, "adder").servers()), 1U);
}

TEST_F(ServiceTest, ConnectWaitsForAServer) {
  try {
    (void)Adder::connect(domain_, "adder", milliseconds(10));
    ADD_FAILURE() << "nobody serves it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("\"adder\""));
  }
  EXPECT_FALSE(Adder::try_connect(domain_, "adder").has_value());
  {
    auto gone = Adder::serve(domain_, "adder");
  }
  EXPECT_FALSE(Adder::try_connect(domain_, "adder").has_value()) << "its server has gone";
  Child client([&] { EXPECT_EQ(Adder::connect(domain_, "adder", seconds(60)).call({1, 1}), 2); });
  auto server = Adder::serve(domain_, "adder");
  auto call = server.try_next(seconds(60));
  ASSERT_TRUE(call.has_value());
  EXPECT_TRUE(call->respond(2));
  EXPECT_EQ(client.wait(), 0);
}

TEST_F(ServiceTest, ATimeOutCancelsTheRequest) {
  auto server = Adder::serve(domain_, "adder");
  auto client = Adder::connect(domain_, "adder");
  EXPECT_FALSE(client.try_call({1, 1}, milliseconds(5)).has_value());
  EXPECT_EQ(server.waiting(), 1U);
  // The queued one is never served.
  EXPECT_FALSE(server.try_next().has_value());
  EXPECT_EQ(server.waiting(), 0U);

  auto pending = client.send({2, 2});
  auto running = server.next();
  EXPECT_FALSE(running.cancelled());
  EXPECT_FALSE(pending.try_get(milliseconds(5)).has_value());
  EXPECT_FALSE(running.cancelled()) << "only the wait is over";
  pending.cancel();
  EXPECT_TRUE(running.cancelled());
  EXPECT_FALSE(running.respond(4)) << "nobody waits for it";
  EXPECT_THROW((void)pending.get(), Error);

  // The place is used again, and what comes late for an earlier call does not reach a later one.
  auto first = client.send({3, 3});
  auto late = server.next();
  first.cancel();
  auto second = client.send({4, 4});
  EXPECT_FALSE(late.respond(6));
  EXPECT_TRUE(server.next().respond(8));
  EXPECT_EQ(second.get(), 8);
}

TEST_F(ServiceTest, AStopEndsTheWaits) {
  auto server = Adder::serve(domain_, "adder");
  auto client = Adder::connect(domain_, "adder");
  std::stop_source stop;
  std::jthread stops([&] {
    EXPECT_TRUE(eventually([&] { return server.waiting() == 1; }, 60'000));
    stop.request_stop();
  });
  EXPECT_FALSE(client.try_call({1, 1}, stop.get_token()).has_value());
  EXPECT_FALSE(server.try_next(stop.get_token()).has_value());
  std::stop_source later;
  std::jthread serves([&] { server.run(add, later.get_token()); });
  EXPECT_EQ(client.call({5, 6}), 11);
  later.request_stop();
}

TEST_F(ServiceTest, FailuresArriveAtTheClient) {
  auto server = Adder::serve(domain_, "adder");
  auto client = Adder::connect(domain_, "adder");
  const auto error_of = [](PendingCall<std::int64_t>& pending) -> std::string {
    try {
      return "answered with " + std::to_string(pending.get());
    } catch (const ServiceError& error) {
      EXPECT_EQ(error.code(), Code::kRefused);
      return error.what();
    }
  };
  auto failed = client.send({1, 1});
  EXPECT_TRUE(server.next().fail("the numbers are bad"));
  EXPECT_THAT(error_of(failed), HasSubstr("the numbers are bad"));
  auto dropped = client.send({1, 1});
  (void)server.next();
  EXPECT_THAT(error_of(dropped), HasSubstr("without an answer"));
  auto finished = client.send({1, 1});
  EXPECT_TRUE(server.next().finish());
  EXPECT_THAT(error_of(finished), HasSubstr("without a response"));
  {
    std::stop_source stop;
    std::jthread serves([&] {
      server.run(
          [](const Sum& sum) -> std::int64_t {
            return std::vector<std::int64_t>{1}.at(static_cast<std::size_t>(sum.a));
          },
          stop.get_token());
    });
    auto thrown = client.send({4, 1});
    EXPECT_THAT(error_of(thrown), HasSubstr("range_check"));
    EXPECT_EQ(client.call({0, 1}), 1) << "the server goes on";
    stop.request_stop();
  }
}

TEST_F(ServiceTest, ACapacityMakesClientsWait) {
  auto server = Adder::serve(domain_, "adder", {.capacity = 2});
  auto client = Adder::connect(domain_, "adder");
  auto one = client.send({1, 0});
  auto two = client.send({2, 0});
  EXPECT_FALSE(client.try_send({3, 0}, milliseconds(5)).has_value());
  EXPECT_FALSE(client.try_call({3, 0}, Wait::now()).has_value());
  EXPECT_TRUE(server.next().respond(1));
  auto three = client.try_send({3, 0});
  ASSERT_TRUE(three.has_value());
  EXPECT_TRUE(server.next().respond(2));
  EXPECT_TRUE(server.next().respond(3));
  EXPECT_EQ(one.get() + two.get() + three->get(), 6);
}

TEST_F(ServiceTest, ClosingAServer) {
  auto server = Adder::serve(domain_, "adder");
  auto client = Adder::connect(domain_, "adder");
  auto taken = client.send({1, 1});
  auto call = server.next();
  auto queued = client.send({2, 2});
  (void)server.next().fail("once");  // so that the queue is empty
  EXPECT_THROW((void)queued.get(), ServiceError);
  std::jthread waits([&] { EXPECT_THROW((void)server.next(), Closed); });
  auto other = Adder::serve(domain_, "adder");
  server.close();
  waits.join();
  EXPECT_TRUE(server.closed());
  EXPECT_THROW((void)server.try_next(), Closed);
  EXPECT_EQ(client.servers(), 1U);
  EXPECT_TRUE(call.respond(2)) << "what was taken is answered";
  EXPECT_EQ(taken.get(), 2);
  auto third = client.send({3, 3});
  EXPECT_TRUE(other.next().respond(6));
  EXPECT_EQ(third.get(), 6);
  other.close();
  other.close();
  auto unserved = client.send({4, 4});
  EXPECT_THROW((void)unserved.get(), ServerDied);
}

TEST_F(ServiceTest, HandlesWorkInAForkedChild) {
  auto server = Adder::serve(domain_, "adder");
  auto client = Adder::connect(domain_, "adder");
  auto warm = client.send({0, 0});
  EXPECT_TRUE(server.next().respond(0));
  EXPECT_EQ(warm.get(), 0);
  auto pending = client.send({1, 1});
  auto call = server.next();
  Child child([&] {
    try {
      (void)pending.get();
      ADD_FAILURE() << "the parent's call was answered in its child";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kBrokenByFork);
    }
    try {
      (void)call.respond(1);
      ADD_FAILURE() << "the parent's call was answered by its child";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kBrokenByFork);
    }
    pending.cancel();
    call = Call<Sum, std::int64_t>();
    // Both ends in the child: it counts as a server of its own.
    auto own = client.send({20, 3});
    auto taken = server.next();
    EXPECT_EQ(client.servers(), 2U);
    EXPECT_TRUE(taken.respond(add(taken.request())));
    EXPECT_EQ(own.get(), 23);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(call.cancelled());
  EXPECT_TRUE(call.respond(2));
  EXPECT_EQ(pending.get(), 2);
}

}  // namespace
}  // namespace forklift
