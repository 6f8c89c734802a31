// A process that is in several domains: what it makes and opens in each, and what crosses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "collective/ranks.h"
#include "forklift/service.h"
#include "rendezvous/several_domains.h"

namespace forklift {
namespace {

using test::Child;
using test::Images;
using test::kLong;
using test::Numbers;
using test::processes_in;
using test::words_of;
using testing::HasSubstr;

class SeveralDomains : public test::SeveralDomains {};

TEST_F(SeveralDomains, AreAttachedToAfterTheFirstQueue) {
  Child camera_server = serve("camera");
  Child lidar_server = serve("lidar");
  Numbers mine;
  mine.put(1);
  Domain camera = Domain::attach("camera");
  Domain lidar = Domain::attach("lidar");
  EXPECT_EQ((std::set{Domain::own().id(), camera.id(), lidar.id()}.size()), 3U);
  camera.publish("numbers", camera.make<Numbers>());
  lidar.publish("numbers", lidar.make<Numbers>());
  camera.open<Numbers>("numbers").put(2);
  lidar.open<Numbers>("numbers").put(3);
  EXPECT_EQ(camera.open<Numbers>("numbers").get(), 2);
  EXPECT_EQ(lidar.open<Numbers>("numbers").get(), 3);
  EXPECT_EQ(mine.get(), 1);
  EXPECT_THAT(words_of(Code::kNotFound, [] { (void)Domain::own().open<Numbers>("numbers"); }),
              HasSubstr("numbers"));
  EXPECT_EQ(processes_in(camera), 2U);
  EXPECT_EQ(processes_in(lidar), 2U);
  EXPECT_EQ(stats().processes, 1U);
  end(camera_server, camera);
  end(lidar_server, lidar);
}

TEST_F(SeveralDomains, ToAttachTwiceIsOneMembership) {
  const Domain own = Domain::serve("own");
  EXPECT_EQ(Domain::attach("own").id(), own.id()) << "one that it serves itself";
  Child server = serve("camera");
  const Domain camera = Domain::attach("camera");
  Domain again = Domain::attach("camera");
  const Domain once_more = Domain::meet("camera");
  EXPECT_EQ(again.id(), camera.id());
  EXPECT_EQ(once_more.id(), camera.id());
  EXPECT_EQ(processes_in(camera), 2U);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_EQ(Domain::attach("camera").id(), camera.id()); });
  for (std::thread& thread : threads) thread.join();
  again.close();
  again.open<Numbers>("orders").put(0);  // a closed handle is one on a domain that the process is in
  EXPECT_EQ(server.wait(), 0);
  clear(camera);
}

TEST_F(SeveralDomains, ATensorOfAnotherDomainIsCopiedOnce) {
  Child server = serve("camera");
  const Tensor mine = Tensor::zeros({4000}, DType::kFloat32);
  const Domain camera = Domain::attach("camera");
  const Tensor theirs = camera.make<Tensor>(Dims{4000}, DType::kFloat32);
  auto images = camera.open<Images>("images");
  auto orders = camera.open<Numbers>("orders");
  auto answers = camera.open<Numbers>("answers");
  for (const Tensor& image : {mine, theirs}) {
    images.put(image);
    orders.put(1);
    EXPECT_EQ(answers.try_get(kLong), 4000);
  }
  EXPECT_EQ(mine.data<float>()[0], 0) << "the server has a copy";
  EXPECT_EQ(theirs.data<float>()[0], 7) << "the server has the same memory";

  // What arrives here in one domain goes on in another; a move, too.
  Images here;
  const std::size_t before = camera.in([] { return stats().held_blocks; });
  here.put(theirs);
  Tensor got = here.get();
  EXPECT_EQ(got.data<float>()[0], 7);
  got.data<float>()[0] = 8;
  EXPECT_EQ(theirs.data<float>()[0], 7);
  EXPECT_EQ(camera.in([] { return stats().held_blocks; }), before) << "nothing was made there";
  here.put(camera.make<Tensor>(Dims{10}, DType::kInt64));
  EXPECT_EQ(here.get().numel(), 10);
  Queue<Value> values;
  values.put(Value::List{theirs, 5});
  EXPECT_EQ(values.get().as<Value::List>().at(0).as<Tensor>().data<float>()[0], 7);
  auto topic = camera.make<Latest<Tensor>>();
  topic.put(mine);
  EXPECT_EQ(topic.get().numel(), 4000);
  end(server, camera);
}

TEST_F(SeveralDomains, WhatHasNoCopyDoesNotCross) {
  make_a_home();
  Child server = serve("camera");
  Domain camera = Domain::attach("camera");
  const SharedArray<int> array(100);
  const SharedMap<int, int> map(100);
  Queue<SharedArray<int>> arrays = camera.make<Queue<SharedArray<int>>>();
  const std::string words = words_of(Code::kInvalid, [&] { arrays.put(array); });
  EXPECT_THAT(words, HasSubstr("this process's own domain"));
  EXPECT_THAT(words, HasSubstr("the domain \"camera\""));
  EXPECT_TRUE(arrays.empty());
  EXPECT_THAT(words_of(Code::kInvalid, [&] { camera.publish("array", array); }), HasSubstr("camera"));
  EXPECT_THAT(words_of(Code::kInvalid, [&] { camera.publish("map", map); }), HasSubstr("camera"));
  EXPECT_THAT(words_of(Code::kInvalid, [&] { camera.publish("queue", Numbers()); }), HasSubstr("own domain"));
  EXPECT_THAT(words_of(Code::kInvalid, [&] { camera.publish("lock", Lock()); }), HasSubstr("Domain::make"));
  EXPECT_THAT(words_of(Code::kInvalid, [&] { camera.publish("topic", Latest<int>()); }), HasSubstr("camera"));
  Queue<GroupHandle> groups = camera.make<Queue<GroupHandle>>();
  EXPECT_THAT(words_of(Code::kInvalid, [&] { groups.put(Group::create(2)); }), HasSubstr("camera"));
  const Numbers letters;
  EXPECT_THAT(words_of(Code::kInvalid,
                       [&] {
                         (void)camera.make<Queue<int, Delivery::kAtLeastOnce>>(
                             AtLeastOnceOptions<int>{.dead_letters = letters});
                       }),
              HasSubstr("dead-letter"));

  // In its own domain each of them is as ever; a tensor of another one is copied into the name.
  arrays.put(camera.make<SharedArray<int>>(100));
  EXPECT_EQ(arrays.get().size(), 100U);
  const Tensor mine = Tensor::zeros({5}, DType::kFloat32);
  camera.publish("tensor", mine);
  Tensor named = camera.open<Tensor>("tensor");
  named.data<float>()[0] = 1;
  EXPECT_EQ(camera.open<Tensor>("tensor").data<float>()[0], 1);
  EXPECT_EQ(mine.data<float>()[0], 0);
  Tensor met = camera.open_or_create<Tensor>("met", mine);
  met.data<float>()[0] = 2;
  EXPECT_EQ(camera.open<Tensor>("met").data<float>()[0], 2) << "what was returned is what has the name";
  camera.publish("counts", camera.make<SharedMap<int, int>>(10));
  EXPECT_EQ((camera.open<SharedMap<int, int>>("counts").capacity()), 10U);
  end(server, camera);
}

TEST_F(SeveralDomains, TheScopeOfInIsThisThreadsAndEndsWithTheCall) {
  const Domain own = Domain::own();
  const Domain other = Domain::serve_apart("other");
  const auto here = [] { return (*node::Node::current())->domain().header().domain_id; };
  EXPECT_EQ(here(), own.id());
  other.in([&] {
    EXPECT_EQ(here(), other.id());
    own.in([&] { EXPECT_EQ(here(), own.id()); });
    EXPECT_EQ(here(), other.id());
    std::thread([&] { EXPECT_EQ(here(), own.id()); }).join();
    // A process that is started begins at home; what fork(2) copies goes on where it was.
    Numbers numbers;
    fork_context().process([&] { numbers.put(here() == own.id() ? 1 : 0); }).start().join();
    EXPECT_EQ(numbers.get(), 1);
    Child child([&] { EXPECT_EQ(here(), other.id()); });
    EXPECT_EQ(child.wait(), 0);
  });
  EXPECT_THROW(other.in([] { throw std::runtime_error("x"); }), std::runtime_error);
  EXPECT_EQ(here(), own.id());
  const auto [first, second] = other.in([] { return make_pipe<int>(); });
  EXPECT_EQ(here(), own.id());
}

TEST_F(SeveralDomains, ToMeetInTwoNamesIsToMeetInTwoDomains) {
  Domain camera = Domain::meet("camera");
  Domain lidar = Domain::meet("lidar");
  EXPECT_EQ(camera.id(), Domain::own().id()) << "the home had no name yet";
  EXPECT_NE(lidar.id(), camera.id());
  EXPECT_TRUE(camera.serving() && lidar.serving());
  camera.publish("numbers", camera.make<Numbers>());
  lidar.publish("numbers", lidar.make<Numbers>());
  const Domain alias = Domain::serve("alias");
  EXPECT_EQ(alias.id(), camera.id()) << "serve() names the home, once more";
  const Domain second = lidar.in([] { return Domain::serve("second"); });
  EXPECT_EQ(second.id(), lidar.id());
  clear(camera);
  clear(lidar);
}

TEST_F(SeveralDomains, CollectivesTakeTensorsOfAnyDomain) {
  make_a_home();
  const Domain lidar = Domain::serve_apart("lidar");
  test::run_ranks(2, [&](Group& group) {
    const Tensor x = lidar.in([] { return Tensor::zeros({100'000}, DType::kFloat32); });
    x.data<float>()[99'999] = static_cast<float>(group.rank() + 1);
    group.all_reduce(x);
    EXPECT_EQ(x.data<float>()[99'999], 3);
  });
  // And a group can be of a further domain.
  const GroupHandle handle = lidar.in([] { return Group::create(2); });
  std::vector<Child> ranks = test::start_ranks(handle, 2, [](Group& group) {
    const Tensor x = Tensor::zeros({100'000}, DType::kFloat32);
    x.data<float>()[5] = 1;
    group.all_reduce(x);
    EXPECT_EQ(x.data<float>()[5], 2);
  });
  for (Child& rank : ranks) EXPECT_EQ(rank.wait(), 0);
}

TEST_F(SeveralDomains, AServiceOfAFurtherDomain) {
  make_a_home();
  const Domain lidar = Domain::serve_apart("lidar");
  using Twice = Service<int, int>;
  std::thread serves([&, server = Twice::serve(lidar, "twice")]() mutable {
    auto call = server.next();
    call.respond(2 * call.request());
  });
  auto client = Twice::connect(lidar, "twice");
  EXPECT_EQ(client.call(21), 42);
  serves.join();
  clear(lidar);
}

}  // namespace
}  // namespace forklift
