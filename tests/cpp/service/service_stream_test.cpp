// Streams of responses, and requests and responses in shared memory.
#include <gmock/gmock.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "service/service_fixture.h"

namespace forklift {
namespace {

using std::chrono::seconds;
using test::Child;
using test::Gate;
using testing::HasSubstr;

using ServiceStream = test::ServiceFixture;

TEST_F(ServiceStream, StreamsOfResponses) {
  using Counter = Service<int, int>;
  const auto serve = [](Server<int, int>& server) {
    try {
      for (;;) {
        auto call = server.next();
        for (int i = 0; i < call.request(); ++i) {
          if (!call.send(i)) break;
        }
        if (call.request() == 77) {
          (void)call.fail("77 is too many");
        } else {
          (void)call.finish();
        }
      }
    } catch (const Closed&) {
    }
  };
  Gate ready, leave;
  Child child([&] {
    auto server = Counter::serve(domain_, "counter");
    ready.open();
    std::jthread serves([&] { serve(server); });
    EXPECT_TRUE(leave.wait(120'000));
    server.close();
  });
  ASSERT_TRUE(ready.wait());
  auto client = Counter::connect(domain_, "counter");
  for (const int count : {0, 1, 10, 1000}) {  // more than there is room for
    int expected = 0;
    for (const int part : client.stream(count)) EXPECT_EQ(part, expected++);
    EXPECT_EQ(expected, count);
  }
  {
    auto stream = client.stream(1'000'000'000);  // given up half way
    EXPECT_EQ(stream.get(), 0);
    EXPECT_EQ(stream.try_get(seconds(30)), 1);
  }
  EXPECT_EQ(client.call(3), 0) << "the first of several";
  auto failing = client.stream(77);
  int parts = 0;
  try {
    for (const int part : failing) parts += part >= 0 ? 1 : 0;
    ADD_FAILURE() << "no error";
  } catch (const ServiceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("77 is too many"));
  }
  EXPECT_EQ(parts, 77);
  auto ended = client.stream(0);
  EXPECT_THROW((void)ended.get(), Closed);
  EXPECT_THROW((void)ended.try_get(), Closed);
  leave.open();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(ServiceStream, LoansBothWays) {
  struct Head {
    double time;
  };
  using Scans = Service<Framed<Head, float>, std::vector<std::uint8_t>>;
  Child child([&] {
    auto server = Scans::serve(domain_, "scans");
    auto call = server.next_loaned();
    const auto& scan = call.request();
    EXPECT_EQ(scan->time, 1.5);
    auto out = call.loan(scan.items().size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(scan.items()[i]);
    EXPECT_TRUE(call.respond(std::move(out)));
    EXPECT_FALSE(out);
    auto second = server.next_loaned();
    auto part = second.loan(2);
    part[0] = part[1] = 4;
    EXPECT_TRUE(second.send(std::move(part)));
    (void)second.respond(std::vector<std::uint8_t>{5});  // call() does not wait for it
  });
  auto client = Scans::connect(domain_, "scans", seconds(30));
  auto scan = client.loan(20'000);
  scan->time = 1.5;
  std::iota(scan.items().begin(), scan.items().end(), 0.0F);
  auto pending = client.send(std::move(scan));
  EXPECT_FALSE(scan);
  const auto answer = pending.get_loaned();
  static_assert(std::same_as<decltype(answer), const Loaned<const std::uint8_t[]>>);
  ASSERT_EQ(answer.size(), 20'000U);
  EXPECT_EQ(answer[255], 255);
  auto again = client.loan(1);
  EXPECT_THROW(again.publish(), Error);  // it is given to the client, not published
  again->time = 2;
  EXPECT_EQ(client.call(std::move(again)), (std::vector<std::uint8_t>{4, 4}));
  EXPECT_EQ(child.wait(), 0);
  auto unsent = client.loan(5);
  EXPECT_THROW((void)client.call(std::move(unsent)), ServerDied);
}

}  // namespace
}  // namespace forklift
