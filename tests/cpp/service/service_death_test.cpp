// Services whose processes are killed or stopped: what the others learn, and that nothing stays.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "os/clock.h"
#include "service/service_fixture.h"

namespace forklift {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Child;
using test::eventually;
using test::Gate;
using testing::HasSubstr;

using Blobs = Service<std::vector<std::uint8_t>, std::vector<std::uint8_t>>;
using Numbers = Service<int, int>;

class ServiceDeath : public test::ServiceFixture {
 protected:
  // Serves until it is killed: takes `most` calls, opens the gate for each, and answers none.
  Child silent_server(Gate& took, int most) {
    return Child([&, most] {
      auto server = Numbers::serve(domain_, "numbers");
      std::vector<Call<int, int>> calls;
      took.open();
      for (int i = 0; i < most; ++i) {
        calls.push_back(server.next());
        took.open();
      }
      ::pause();
    });
  }
};

TEST_F(ServiceDeath, AServersDeathIsToldAtOnce) {
  Gate took;
  Child server = silent_server(took, 2);
  ASSERT_TRUE(took.wait());
  auto client = Numbers::connect(domain_, "numbers");
  auto waited_for = client.send(1);
  auto polled = client.send(2);
  ASSERT_TRUE(took.wait());
  ASSERT_TRUE(took.wait());
  const pid_t pid = server.pid();
  std::int64_t killed = 0;
  std::jthread kills([&] {
    std::this_thread::sleep_for(milliseconds(20));  // so that the other one waits by then, on most runs
    killed = os::now_ns();
    server.kill_now();
  });
  try {
    (void)waited_for.get();
    ADD_FAILURE() << "answered";
  } catch (const ServerDied& error) {
    EXPECT_EQ(error.code(), Code::kPeerDied);
    EXPECT_THAT(error.what(), HasSubstr("pid " + std::to_string(pid)));
  }
  kills.join();
  std::printf("told %.1f ms after the kill\n", static_cast<double>(os::now_ns() - killed) / 1e6);
  EXPECT_LT(os::now_ns() - killed, 30'000'000'000);
  EXPECT_THROW((void)polled.try_get(), ServerDied);
  EXPECT_THROW((void)polled.try_get(), Error);
}

TEST_F(ServiceDeath, WhatIsQueuedIsServedByOthers) {
  Gate took;
  Child silent = silent_server(took, 1);
  ASSERT_TRUE(took.wait());
  auto client = Numbers::connect(domain_, "numbers");
  auto taken = client.send(1);
  ASSERT_TRUE(took.wait());
  auto queued = client.send(2);
  auto server = Numbers::serve(domain_, "numbers");
  silent.kill_now();
  auto call = server.next();
  EXPECT_EQ(call.request(), 2);
  EXPECT_TRUE(call.respond(20));
  EXPECT_EQ(queued.get(), 20);
  EXPECT_THROW((void)taken.get(), ServerDied);
  EXPECT_EQ(client.servers(), 1U);
}

TEST_F(ServiceDeath, WithoutAnyServerTheCallEnds) {
  Gate took;
  Child silent = silent_server(took, 0);
  ASSERT_TRUE(took.wait());
  auto client = Numbers::connect(domain_, "numbers");
  silent.kill_now();
  for (const bool reaped : {false, true}) {
    if (reaped) node().domain().reap();
    try {
      (void)client.call(1);
      ADD_FAILURE() << "answered";
    } catch (const ServerDied& error) {
      EXPECT_THAT(error.what(), HasSubstr("no server"));
    }
  }
  EXPECT_EQ(client.servers(), 0U);
  EXPECT_FALSE(Numbers::try_connect(domain_, "numbers").has_value());
  // Another one under the same name: what was given up is not served.
  auto server = Numbers::serve(domain_, "numbers");
  auto third = client.send(3);
  auto call = server.next();
  EXPECT_EQ(call.request(), 3);
  EXPECT_TRUE(call.respond(30));
  EXPECT_EQ(third.get(), 30);
}

TEST_F(ServiceDeath, AFullServiceWhoseServersAreGone) {
  Gate took;
  Child silent([&] {
    auto server = Numbers::serve(domain_, "numbers", {.capacity = 1});
    took.open();
    ::pause();
  });
  ASSERT_TRUE(took.wait());
  auto client = Numbers::connect(domain_, "numbers");
  auto queued = client.send(1);
  silent.kill_now();
  EXPECT_THROW((void)client.send(2), ServerDied);
  EXPECT_THROW((void)queued.get(), ServerDied);
}

TEST_F(ServiceDeath, PartsThatWerePutBeforeTheDeathArrive) {
  Gate sent;
  Child server([&] {
    auto server = Numbers::serve(domain_, "numbers");
    sent.open();
    auto call = server.next();
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(call.send(i));
    sent.open();
    ::pause();
  });
  ASSERT_TRUE(sent.wait());
  auto client = Numbers::connect(domain_, "numbers");
  auto stream = client.stream(5);
  ASSERT_TRUE(sent.wait());
  server.kill_now();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(stream.get(), i);
  EXPECT_THROW((void)stream.get(), ServerDied);
}

TEST_F(ServiceDeath, AClientsDeathIsSeenByItsServer) {
  auto server = Blobs::serve(domain_, "blobs");
  Gate sent;
  Child client([&] {
    auto client = Blobs::connect(domain_, "blobs");
    auto one = client.send(std::vector<std::uint8_t>(100'000, 1));
    auto two = client.send(std::vector<std::uint8_t>(100'000, 2));
    sent.open();
    ::pause();
  });
  ASSERT_TRUE(sent.wait());
  auto call = server.next();
  EXPECT_FALSE(call.cancelled());
  client.kill_now();
  EXPECT_TRUE(call.cancelled());
  node().domain().reap();
  EXPECT_TRUE(call.cancelled());
  EXPECT_FALSE(call.respond(std::vector<std::uint8_t>(100'000, 3)));
  EXPECT_FALSE(server.try_next().has_value()) << "the other request of the dead client";
}

TEST_F(ServiceDeath, AResponseOnItsWayToADeadClientIsGivenBack) {
  auto server = Blobs::serve(domain_, "blobs");
  Gate sent;
  Child client([&] {
    auto client = Blobs::connect(domain_, "blobs");
    auto one = client.send({1});
    sent.open();
    ::pause();
  });
  ASSERT_TRUE(sent.wait());
  auto call = server.next();
  EXPECT_TRUE(call.respond(std::vector<std::uint8_t>(1'000'000, 3)));
  const std::uint64_t before = held();
  client.kill_now();
  // The server that waits for other requests gives it back.
  EXPECT_TRUE(eventually([&] { return !server.try_next(milliseconds(1)) && held() < before; }, 60'000));
}

TEST_F(ServiceDeath, ASenderOfPartsDoesNotWaitForADeadClient) {
  auto server = Numbers::serve(domain_, "numbers");
  Gate sent;
  Child client([&] {
    auto client = Numbers::connect(domain_, "numbers");
    auto stream = client.stream(1);
    sent.open();
    ::pause();
  });
  ASSERT_TRUE(sent.wait());
  auto call = server.next();
  std::jthread kills([&] {
    std::this_thread::sleep_for(milliseconds(30));
    client.kill_now();
  });
  int parts = 0;
  while (call.send(parts)) ++parts;
  EXPECT_GE(parts, 64);
}

TEST_F(ServiceDeath, AStoppedServerKeepsOnlyItsOwnCallsWaiting) {
  Gate took;
  Child silent = silent_server(took, 1);
  ASSERT_TRUE(took.wait());
  auto client = Numbers::connect(domain_, "numbers");
  auto taken = client.send(1);
  ASSERT_TRUE(took.wait());
  ASSERT_TRUE(test::stop(silent.pid()));
  auto server = Numbers::serve(domain_, "numbers");
  std::jthread serves([&] { server.run([](int number) { return number * 10; }); });
  EXPECT_EQ(client.try_call(2, seconds(60)), 20);
  EXPECT_FALSE(taken.try_get(milliseconds(150)).has_value());
  silent.kill_now();
  EXPECT_THROW((void)taken.get(), ServerDied);
  server.close();
}

TEST_F(ServiceDeath, AServerThatEndsInGoodOrderIsToldToo) {
  Gate took;
  Child server([&] {
    auto server = Numbers::serve(domain_, "numbers");
    auto* const kept = new Call<int, int>(server.next());  // it never ends
    EXPECT_TRUE(*kept);
    took.open();
  });
  auto client = Numbers::connect(domain_, "numbers", seconds(30));
  auto pending = client.send(1);
  EXPECT_THROW((void)pending.get(), ServerDied);
  EXPECT_EQ(server.wait(), 0);
}

}  // namespace
}  // namespace forklift
