// A process that is in several domains: its children, its waits, deaths, exits, and how many they can be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "rendezvous/several_domains.h"

namespace forklift {
namespace {

using test::Child;
using test::eventually;
using test::Gate;
using test::kLong;
using test::Numbers;
using test::processes_in;
using test::words_of;
using testing::HasSubstr;

// {name, name, gate}: is in both domains, holds something in each, and stays.
int be_in_two(const std::vector<std::string>& arguments) {
  try {
    Domain first = Domain::attach(arguments.at(0));
    Domain second = Domain::attach(arguments.at(1));
    const Tensor kept = second.in([] { return Tensor::zeros({1000}, DType::kFloat32); });
    first.open<Lock>("lock").lock();
    second.open<Lock>("lock").lock();
    const std::uint64_t one = 1;
    (void)!::write(std::stoi(arguments.at(2)), &one, sizeof one);
    for (;;) ::pause();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
const bool kInTwo = test::add_helper("is in two domains", be_in_two);

void put_seven(Numbers& numbers) { numbers.put(7); }
const Registered<&put_seven> kPutSeven{"several domains: put seven"};
void take_lock(Lock& lock, Numbers& numbers) {
  lock.lock();
  numbers.put(1);
  lock.unlock();
}
const Registered<&take_lock> kTakeLock{"several domains: take lock"};

class DomainsLife : public test::SeveralDomains {};

TEST_F(DomainsLife, ForkedChildrenAreInAllOfThem) {
  make_a_home();
  Domain lidar = Domain::serve_apart("lidar");
  Domain camera = Domain::serve_apart("camera");
  Numbers mine;
  auto theirs = lidar.make<Numbers>();
  camera.publish("numbers", camera.make<Numbers>());
  Child child([&] {
    EXPECT_EQ(processes_in(lidar), 2U);
    EXPECT_FALSE(lidar.serving());
    mine.put(1);
    theirs.put(2);
    camera.open<Numbers>("numbers").put(3);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(mine.get(), 1);
  EXPECT_EQ(theirs.get(), 2);
  EXPECT_EQ(camera.open<Numbers>("numbers").get(), 3);
  EXPECT_TRUE(lidar.serving());
  // Arguments by handle, too.
  auto lock = lidar.make<Lock>();
  fork_context().process(&take_lock, lock, theirs).start().join();
  EXPECT_EQ(theirs.get(), 1);
  clear(camera);
}

TEST_F(DomainsLife, FreshProcessesAreInTheHomeOnly) {
  make_a_home();
  const Domain lidar = Domain::serve_apart("lidar");
  auto theirs = lidar.make<Numbers>();
  Numbers mine;
  for (const Context& context : {spawn_context(), forkserver_context()}) {
    context.process(&put_seven, mine).start().join();
    EXPECT_EQ(mine.get(), 7);
    const std::string words =
        words_of(Code::kInvalid, [&] { context.process(&put_seven, theirs).start().join(); });
    EXPECT_THAT(words, HasSubstr("the domain \"lidar\""));
    EXPECT_THAT(words, HasSubstr("attach"));
  }
  EXPECT_TRUE(theirs.empty());
}

TEST_F(DomainsLife, AWaitForObjectsOfSeveral) {
  make_a_home();
  const Domain lidar = Domain::serve_apart("lidar");
  const Domain camera = Domain::serve_apart("camera");
  std::vector<Numbers> queues{Numbers(), lidar.make<Numbers>(), camera.make<Numbers>()};
  auto event = camera.make<Event>();
  auto [reader, writer] = lidar.in([] { return make_pipe<int>(); });
  WaitSet set;
  std::vector<WaitSet::Key> keys;
  for (const Numbers& queue : queues) keys.push_back(set.add(queue));
  const WaitSet::Key on_event = set.add(event);
  EXPECT_TRUE(set.try_wait().empty());
  for (std::size_t i = 0; i < queues.size(); ++i) {
    for (int round = 0; round < 3; ++round) {
      std::thread puts([&] { queues[i].put(round); });
      const std::vector<std::size_t> any = try_wait_any({queues[0], queues[1], queues[2], event}, kLong);
      EXPECT_THAT(any, testing::ElementsAre(i));
      EXPECT_THAT(set.wait(), testing::ElementsAre(keys[i]));
      puts.join();
      EXPECT_EQ(queues[i].get(), round);
      EXPECT_TRUE(set.try_wait().empty());
    }
    // A process that writes, while this one sleeps.
    Child child([&] { queues[i].put(9); });
    EXPECT_THAT(set.wait(), testing::ElementsAre(keys[i]));
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(queues[i].get(), 9);
  }
  event.set();
  EXPECT_THAT(set.wait(), testing::ElementsAre(on_event));
  event.clear();
  // With a descriptor among them there is no one call for all.
  EXPECT_THAT(try_wait_any({queues[0], queues[1], reader}, std::chrono::milliseconds(1)), testing::IsEmpty());
  writer.put(5);
  EXPECT_THAT(try_wait_any({queues[0], queues[1], reader}, kLong), testing::ElementsAre(2U));
  EXPECT_EQ(reader.get(), 5);
  // In an event loop.
  pollfd item{set.fileno(), POLLIN, 0};
  (void)set.try_wait();
  EXPECT_EQ(::poll(&item, 1, 0), 0);
  queues[2].put(1);
  EXPECT_EQ(::poll(&item, 1, 30'000), 1);
  EXPECT_THAT(set.wait(), testing::ElementsAre(keys[2]));
  EXPECT_EQ(queues[2].get(), 1);
  EXPECT_TRUE(set.remove(keys[1]));
  queues[1].put(1);
  EXPECT_TRUE(set.try_wait().empty());
  EXPECT_EQ(queues[1].get(), 1);
}

TEST_F(DomainsLife, AHoldersDeathIsSeenInAWaitForObjectsOfSeveral) {
  make_a_home();
  const Domain lidar = Domain::serve_apart("lidar");
  Numbers mine;
  auto lock = lidar.make<Lock>();
  Gate holds;
  Child child([&] {
    lock.lock();
    holds.open();
    for (;;) ::pause();
  });
  ASSERT_TRUE(holds.wait());
  WaitSet set;
  set.add(mine);
  const WaitSet::Key on_lock = set.add(lock);
  EXPECT_TRUE(set.try_wait().empty());
  child.kill_now();
  EXPECT_THAT(set.wait(), testing::ElementsAre(on_lock));
  EXPECT_THAT(try_wait_any({mine, lock}, kLong), testing::ElementsAre(1U));
  ASSERT_TRUE(lock.try_lock(kLong));
  EXPECT_TRUE(lock.abandoned());
  lock.unlock();
}

TEST_F(DomainsLife, AMemberOfTwoThatIsKilledIsReapedInBoth) {
  ASSERT_TRUE(kInTwo);
  Domain camera = Domain::serve("camera");
  Domain lidar = Domain::serve_apart("lidar");
  for (Domain* const domain : {&camera, &lidar}) domain->publish("lock", domain->make<Lock>());
  const auto blocks = [&] { return lidar.in([] { return stats().held_blocks; }); };
  const std::uint64_t before = blocks();
  const int gate = gate_.fd().get();
  Child member =
      test::start_helper("is in two domains", {"camera", "lidar", std::to_string(gate)}, std::array{gate});
  ASSERT_TRUE(gate_.wait());
  node::Node::reap_all();  // what became the member by exec was a child of this process, a member of both
  EXPECT_EQ(processes_in(camera), 2U);
  EXPECT_EQ(processes_in(lidar), 2U);
  EXPECT_EQ(blocks(), before + 1);
  member.kill_now();
  // Nobody asks for it: the threads that serve the names see their connections end.
  EXPECT_TRUE(eventually([&] { return processes_in(camera) == 1 && processes_in(lidar) == 1; }));
  EXPECT_EQ(blocks(), before);
  for (Domain* const domain : {&camera, &lidar}) {
    auto lock = domain->open<Lock>("lock");
    ASSERT_TRUE(lock.try_lock(kLong));
    EXPECT_TRUE(lock.abandoned());
    lock.unlock();
    EXPECT_TRUE(domain->unpublish("lock"));
  }
}

TEST_F(DomainsLife, AKillWhileAProgramAttachesLeavesNothing) {
  Domain camera = Domain::serve("camera");
  Domain lidar = Domain::serve_apart("lidar");
  for (Domain* const domain : {&camera, &lidar}) domain->publish("lock", domain->make<Lock>());
  const int gate = gate_.fd().get();
  for (int round = 0; round < 24; ++round) {
    Child member =
        test::start_helper("is in two domains", {"camera", "lidar", std::to_string(gate)}, std::array{gate});
    // A moment of its start, later in each round: before, between and after its two attachments.
    ::usleep(static_cast<useconds_t>(1'500 * round));
    member.kill_now();
  }
  // Those that were killed before they had connected were children of this process only.
  node::Node::reap_all();
  EXPECT_TRUE(eventually([&] { return processes_in(camera) == 1 && processes_in(lidar) == 1; }));
  for (Domain* const domain : {&camera, &lidar}) {
    auto lock = domain->open<Lock>("lock");
    ASSERT_TRUE(lock.try_lock(kLong));
    lock.unlock();
    EXPECT_TRUE(domain->unpublish("lock"));
  }
}

TEST_F(DomainsLife, AKilledServersDomainGoesOnHere) {
  Child camera_server = serve("camera");
  Child lidar_server = serve("lidar");
  Numbers mine;
  Domain camera = Domain::attach("camera");
  Domain lidar = Domain::attach("lidar");
  lidar_server.kill_now();
  EXPECT_TRUE(eventually([&] { return lidar.serving(); })) << "this process stands by for both";
  EXPECT_FALSE(camera.serving());
  EXPECT_TRUE(eventually([&] { return processes_in(lidar) == 1; }));
  auto orders = lidar.open<Numbers>("orders");
  orders.put(4);
  EXPECT_EQ(orders.get(), 4);
  EXPECT_EQ(lidar.in([] { return Tensor::zeros({100}, DType::kFloat32); }).numel(), 100);
  // A new program comes: the name and what is published are still there.
  orders.put(0);
  Child member = test::start_helper("serves a domain", {"lidar", "-1"});
  EXPECT_NE(member.wait(), 0) << "served already";
  EXPECT_EQ(orders.get(), 0);
  clear(lidar);
  end(camera_server, camera);
}

TEST_F(DomainsLife, AnExitInGoodOrderIsOneInEachOfThem) {
  Child server = serve("lidar");
  const Numbers mine;
  Domain lidar = Domain::attach("lidar");
  auto lock = lidar.open<Lock>("held");
  // A forked child leaves by _exit, in each domain as one that leaves in good order: no lock was abandoned.
  fork_context().process([&] { lock.lock(); }).start().join();
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  lidar.open<Numbers>("orders").put(2);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  clear(lidar);
}

TEST_F(DomainsLife, SixtyFourAreTheMost) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "the thread sanitizer knows at most 64 locks that a thread holds, and a fork holds several a domain";
#endif
  (void)Domain::own();
  std::vector<Domain> domains;
  for (int i = 0; i < 63; ++i) domains.push_back(Domain::serve_apart("d" + std::to_string(i)));
  Child server = serve("one-more");
  EXPECT_THAT(words_of(Code::kNoSpace, [] { (void)Domain::attach("one-more"); }), HasSubstr("64 domains"));
  EXPECT_THAT(words_of(Code::kNoSpace, [] { (void)Domain::serve_apart("x"); }), HasSubstr("64 domains"));
  EXPECT_EQ(Domain::attach("d5").id(), domains[5].id()) << "it is in that one already";
  auto last = domains.back().make<Numbers>();
  last.put(1);
  EXPECT_EQ(last.get(), 1);
  server.kill_now();
  directory_.empty();
}

}  // namespace
}  // namespace forklift
