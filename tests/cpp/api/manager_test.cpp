// Manager: shared dictionaries and lists, from every kind of process, and the death of either end.
#include "forklift/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "os/proc.h"
#include "support/asleep.h"
#include "support/child.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

void play(int id, ManagedDict scores, ManagedList log, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    scores.add("games", 1);
    scores.update<int>("guarded", [](std::optional<int> old) { return old.value_or(0) + 1; });
  }
  scores.set("player " + std::to_string(id), 0.5 * id);
  log.append(Value::List{id, "done"});
}
const Registered<&play> kPlay{"play with a manager"};

class ManagerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    (void)stats();
    Manager warm;  // the zygote stays
  }
  void SetUp() override { before_ = stats(); }
  void TearDown() override {
    EXPECT_TRUE(test::eventually([&] { return stats().leases == before_.leases; }));
    const Stats after = stats();
    EXPECT_EQ(after.channels, before_.channels);
    EXPECT_EQ(after.processes, before_.processes);
    EXPECT_THAT(audit(), IsEmpty());
  }

 private:
  Stats before_{};
};

TEST_F(ManagerTest, ADictionaryIsOneForAll) {
  Manager manager;
  const ManagedDict dict = manager.dict();
  EXPECT_TRUE(dict.empty());
  dict.set("b", 1);
  dict.set("a", std::vector<std::string>{"x"});
  dict.set(7, nullptr);
  EXPECT_EQ(dict.size(), 3u);
  EXPECT_EQ(dict.get<int>("b"), 1);
  EXPECT_EQ(dict.at<std::vector<std::string>>("a").at(0), "x");
  EXPECT_EQ(dict.get("none"), std::nullopt);
  EXPECT_EQ(dict.get_or("none", 3), 3);
  EXPECT_TRUE(dict.get(7)->is_null());
  EXPECT_THROW((void)dict.at<int>("none"), std::out_of_range);
  EXPECT_THROW((void)dict.at<int>("a"), TypeMismatch);
  EXPECT_EQ(dict.keys(), (std::vector<Value>{"b", "a", 7})) << "in order of insertion";
  dict.update({{"c", 3}, {"b", 2}});
  EXPECT_EQ(Value(dict.items()),
            Value(Value::Map{{"b", 2}, {"a", Value::List{"x"}}, {7, nullptr}, {"c", 3}}));
  EXPECT_EQ(dict.pop<int>("c"), 3);
  EXPECT_EQ(dict.pop("c"), std::nullopt);
  EXPECT_TRUE(dict.erase("a"));
  EXPECT_FALSE(dict.erase("a"));
  EXPECT_FALSE(dict.contains("a"));
  EXPECT_EQ(dict.set_default("b", 9), Value(2));
  EXPECT_EQ(dict.set_default("d", 9), Value(9));
  dict.clear();
  EXPECT_TRUE(dict.empty());
}

TEST_F(ManagerTest, ConditionalSteps) {
  Manager manager;
  const ManagedDict dict = manager.dict();
  EXPECT_FALSE(dict.compare_and_set("k", 1, 2));
  EXPECT_TRUE(dict.compare_and_set("k", std::nullopt, 1));
  EXPECT_FALSE(dict.compare_and_set("k", std::nullopt, 5));
  EXPECT_TRUE(dict.compare_and_set("k", 1, 2));
  EXPECT_EQ(dict.get<int>("k"), 2);
  EXPECT_EQ(dict.add("k", 3), Value(5));
  EXPECT_EQ(dict.add("k", 0.5), Value(5.5));
  EXPECT_EQ(dict.add("new", INT64_MAX), Value(INT64_MAX));
  EXPECT_THROW(dict.add("new", 1), Error) << "too large for an integer";
  EXPECT_EQ(dict.get("new"), Value(INT64_MAX));
  dict.set("text", "x");
  EXPECT_THROW(dict.add("text", 1), Error);
  EXPECT_EQ(dict.get("text"), Value("x"));
  EXPECT_EQ(dict.update<std::string>("text", [](const auto& old) { return *old + "y"; }), "xy");
  EXPECT_THROW(dict.set(Value::List{}, 1), Error);
  EXPECT_THROW(dict.set(nullptr, 1), Error);
  EXPECT_THROW(dict.update({{"fine", 1}, {Value::List{}, 1}}), Error);
  EXPECT_FALSE(dict.contains("fine")) << "all or nothing";
}

TEST_F(ManagerTest, AListIsOneForAll) {
  Manager manager;
  const ManagedList list = manager.list();
  EXPECT_EQ(list.pop(), std::nullopt);
  list.append("a");
  list.extend({1, 2.5});
  list.insert(1, "b");
  list.insert(100, "end");
  EXPECT_EQ(Value(list.items()), Value(Value::List{"a", "b", 1, 2.5, "end"}));
  EXPECT_EQ(list.at<double>(3), 2.5);
  EXPECT_EQ(list[1], Value("b"));
  list.set(0, "A");
  list.erase(1);
  EXPECT_EQ(list.pop<std::string>(), "end");
  EXPECT_EQ(list.size(), 3u);
  EXPECT_THROW((void)list.at(3), std::out_of_range);
  EXPECT_THROW(list.set(3, 1), std::out_of_range);
  EXPECT_THROW(list.erase(3), std::out_of_range);
  EXPECT_EQ(Value(list.items()), Value(Value::List{"A", 1, 2.5}));
  list.clear();
  EXPECT_TRUE(list.empty());
}

TEST_F(ManagerTest, WorksFromEveryKindOfProcess) {
  Manager manager;
  const ManagedDict scores = manager.dict();
  const ManagedList log = manager.list();
  std::vector<Process> players;
  int id = 0;
  for (const Context& context : {fork_context(), spawn_context(), forkserver_context()}) {
    players.push_back(context.process(play, id++, scores, log, 50));
    players.back().start();
  }
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&, at = id++] { play(at, scores, log, 50); });
  threads.clear();
  for (Process& player : players) player.join();
  EXPECT_EQ(scores.get<int>("games"), 250);
  EXPECT_EQ(scores.get<int>("guarded"), 250) << "no update was lost";
  EXPECT_EQ(log.size(), 5u);
  EXPECT_EQ(scores.get<double>("player 2"), 1.0);
}

TEST_F(ManagerTest, TensorsAndHandlesAreHeldAsThemselves) {
  Manager manager;
  const ManagedDict dict = manager.dict();
  const Tensor tensor = Tensor::zeros({1000}, DType::kFloat32);
  dict.set("tensor", tensor);
  EXPECT_EQ(dict.at<Tensor>("tensor").raw(), tensor.raw());
  const ManagedList inner = manager.list();
  dict.set("inner", inner);
  dict.at<ManagedList>("inner").append(1);
  EXPECT_EQ(inner.size(), 1u);
  Queue<ManagedList> queue;
  queue.put(inner);
  queue.get().append(2);
  EXPECT_EQ(inner[1], Value(2));
}

TEST_F(ManagerTest, AKilledClientHarmsNobody) {
  Manager manager;
  const ManagedDict dict = manager.dict();
  const ManagedList log = manager.list();
  for (int i = 0; i < 5; ++i) {
    Process client = Process::fork([&] { play(i, dict, log, 1'000'000); }).start();
    std::this_thread::sleep_for(5ms);
    client.kill();
    client.join();
    const int games = dict.get_or("games", 0);
    EXPECT_EQ(dict.add("games", 1), Value(games + 1));
  }
}

TEST_F(ManagerTest, AKilledServerIsAnErrorAtOnce) {
  Manager manager;
  const ManagedDict dict = manager.dict();
  dict.set("k", 1);
  ASSERT_TRUE(test::stop(manager.pid()));
  std::chrono::steady_clock::time_point killed;
  test::Sleeper waits;
  std::jthread waiting([&] {
    waits.is_me();
    try {
      (void)dict.get("k");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kPeerDied);
      EXPECT_THAT(error.what(), HasSubstr("manager's server process has ended"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - killed, 5s);
  });
  EXPECT_TRUE(waits.asleep());
  killed = std::chrono::steady_clock::now();
  ::kill(manager.pid(), SIGKILL);
  waiting.join();
  try {
    dict.set("k", 2);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kPeerDied);
  }
  EXPECT_THROW((void)manager.dict(), Error);
}

TEST_F(ManagerTest, AStoppedServerEndsAWaitWithALimit) {
  Manager manager;
  const ManagedDict dict = manager.dict();
  ASSERT_TRUE(test::stop(manager.pid()));
  try {
    dict.within(20ms).set("k", 1);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kTimeout);
  }
  ::kill(manager.pid(), SIGCONT);
  dict.set("after", 1);
  EXPECT_EQ(dict.get<int>("k"), 1) << "the step was done when the server went on";
}

TEST_F(ManagerTest, AStopEndsAWait) {
  Manager manager;
  const ManagedDict dict = manager.dict();
  const ManagedList list = manager.list();
  ASSERT_TRUE(test::stop(manager.pid()));
  std::stop_source stop;
  const std::jthread stopper = test::when_asleep([&] { stop.request_stop(); });
  const auto interrupted = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code() == Code::kInterrupted;
    }
    return false;
  };
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(interrupted([&] { dict.within(stop.get_token()).set("k", 1); }));
  EXPECT_TRUE(interrupted([&] { dict.within({1h, stop.get_token()}).set("never asked", 1); }));
  EXPECT_TRUE(interrupted([&] { list.within(stop.get_token()).append(1); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  ::kill(manager.pid(), SIGCONT);
  std::stop_source never;
  EXPECT_EQ(dict.within({1h, never.get_token()}).get<int>("k"), 1) << "it was asked before the stop";
  EXPECT_FALSE(dict.contains("never asked"));
  EXPECT_TRUE(list.empty());
}

TEST_F(ManagerTest, EndsWithItsOwner) {
  Queue<pid_t> pids;
  Process owner = Process::fork([&] {
                    Manager manager;
                    pids.put(manager.pid());
                    ::pause();
                  }).start();
  const pid_t pid = pids.get();
  owner.kill();
  owner.join();
  EXPECT_TRUE(
      test::eventually([&] { return os::task_state(pid) == '\0' || os::task_state(pid) == 'Z'; }, 5000));
  EXPECT_TRUE(test::eventually([&] {
    Process::fork([] {}).start().join();  // reaps
    return stats().processes <= 2;
  }));
}

TEST_F(ManagerTest, AfterShutdownNothingIsLeft) {
  std::optional<ManagedDict> dict;
  {
    Manager manager;
    dict = manager.dict();
    dict->set("k", Tensor::zeros({1 << 16}, DType::kUInt8));
    Manager other = std::move(manager);
    EXPECT_GT(other.pid(), 0);
    EXPECT_EQ(manager.pid(), 0);  // NOLINT(bugprone-use-after-move)
    EXPECT_THROW((void)manager.dict(), Error);
  }
  EXPECT_THROW((void)dict->size(), Error);
}

}  // namespace
}  // namespace forklift
