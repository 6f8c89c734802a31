// Programs that meet by name: serving, attaching, taking over, what is published, who may come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "forklift/multiprocessing.h"
#include "node/node.h"
#include "os/proc.h"
#include "support/child.h"
#include "support/runtime_dir.h"
#include "support/status_check.h"

namespace forklift {
namespace {

using std::chrono::milliseconds;
using test::Child;
using test::eventually;
using test::Gate;
using test::RuntimeDir;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr auto kSoon = std::chrono::seconds(20);

Code code_of(const std::function<void()>& call, std::string* words = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (words != nullptr) *words = error.what();
    return error.code();
  }
  return Code::kOk;
}

// A program of its own that meets, attaches to or serves a name and then does as it is told:
//   {how, name, gate to open when it stays, what to do: "stay", "stay-3", "exit", "put", "take"}
int be_a_member(const std::vector<std::string>& arguments) {
  const std::string& how = arguments.at(0);
  const std::string& name = arguments.at(1);
  const std::string& what = arguments.at(3);
  try {
    std::optional<Domain> domain;
    if (how == "serve") domain = Domain::serve(name);
    if (how == "meet") domain = Domain::meet(name);
    if (how == "attach") domain = Domain::attach(name);
    if (how == "only-attach") domain = Domain::attach(name, kServerAnswers, {.stand_by = false});
    if (!domain) return 90;
    auto queue = domain->open_or_create<Queue<int>>("numbers");
    if (what == "put") queue.put(::getpid());
    if (what == "take" && !queue.try_get(kSoon)) return 91;
    if (what == "exit" || what == "put" || what == "take") return 0;
    for (int i = 0; what == "stay-3" && i < 3; ++i) queue.put(i);
    const std::uint64_t one = 1;
    (void)!::write(std::stoi(arguments.at(2)), &one, sizeof one);
    for (;;) ::pause();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 10 + static_cast<int>(error.code());
  }
}
const bool kMember = test::add_helper("member", be_a_member);

class ServeTest : public testing::Test {
 protected:
  Child start(const std::string& how, const std::string& what) {
    const int gate = gate_.fd().get();
    return test::start_helper("member", {how, name_, std::to_string(gate), what}, std::array{gate});
  }
  Child start_and_wait(const std::string& how, const std::string& what) {
    Child child = start(how, what);
    EXPECT_TRUE(gate_.wait());
    return child;
  }
  static std::uint64_t processes() { return stats().processes; }
  // What ended processes held is given back when somebody looks.
  void TearDown() override {
    node::Node* const node = node::Node::existing();
    EXPECT_TRUE(!node || eventually([&] { return node->domain().reap(), node->domain().live_slots() == 1; }));
  }

  RuntimeDir directory_;
  Gate gate_;
  const std::string name_ = "camera";
};

TEST_F(ServeTest, AProgramAttachesAndIsAMember) {
  ASSERT_TRUE(kMember);
  Domain domain = Domain::serve(name_);
  EXPECT_TRUE(domain.serving());
  EXPECT_EQ(domain.name(), name_);
  EXPECT_THAT(directory_.entries(), IsEmpty());
  Queue<int> numbers;
  domain.publish("numbers", numbers);
  const std::uint64_t before = processes();
  Child client = start("attach", "put");
  EXPECT_EQ(numbers.try_get(kSoon), client.pid());
  EXPECT_EQ(client.wait(), 0);
  EXPECT_TRUE(eventually([&] { return processes() == before; }));  // nobody here has asked for it
  EXPECT_TRUE(domain.unpublish("numbers"));
  EXPECT_FALSE(domain.unpublish("numbers"));
  domain.close();
  EXPECT_FALSE(domain.serving());
  EXPECT_THAT(directory_.entries(), IsEmpty());
  EXPECT_EQ(code_of([&] { Domain::attach(name_); }), Code::kNotFound);
}

TEST_F(ServeTest, AMemberThatIsKilledIsReaped) {
  const Domain domain = Domain::serve(name_);
  const std::uint64_t before = processes();
  for (const char* how : {"attach", "only-attach"}) {
    Child client = start_and_wait(how, "stay-3");
    node::Node::existing()->domain().reap();  // the process that became the client by exec
    EXPECT_EQ(processes(), before + 1);
    client.kill_now();
    EXPECT_TRUE(eventually([&] { return processes() == before; })) << how;
  }
  Domain own = Domain::own();
  auto numbers = own.open<Queue<int>>("numbers");
  EXPECT_EQ(numbers.size(), 6U);
  EXPECT_TRUE(own.unpublish("numbers"));
  while (numbers.try_get()) {
  }
  EXPECT_THAT(audit(), IsEmpty());
}

TEST_F(ServeTest, ASurvivorTakesOver) {
  Child server = start_and_wait("serve", "stay-3");
  Child client = start_and_wait("attach", "stay");
  server.kill_now();
  // The name goes on, and so does what was published by the dead server.
  EXPECT_EQ(start("attach", "take").wait(), 0);
  EXPECT_EQ(start("only-attach", "take").wait(), 0);
  EXPECT_EQ(start("serve", "exit").wait(), 10 + static_cast<int>(Code::kExists));
  Child another = start_and_wait("meet", "stay");
  client.kill_now();
  EXPECT_EQ(start("attach", "take").wait(), 0);
  another.kill_now();
  // Now it is nobody's, and nothing of it is left, though nobody has cleared anything away.
  EXPECT_THAT(directory_.entries(), IsEmpty());
  EXPECT_EQ(start("attach", "take").wait(), 10 + static_cast<int>(Code::kNotFound));
  EXPECT_THAT(directory_.entries(), IsEmpty());
}

TEST_F(ServeTest, WithoutStandingByNobodyTakesOver) {
  Child server = start_and_wait("serve", "stay");
  Child client = start_and_wait("only-attach", "stay");
  server.kill_now();
  EXPECT_EQ(start("attach", "exit").wait(), 10 + static_cast<int>(Code::kNotFound));
  // Free for another domain.
  EXPECT_EQ(start("serve", "exit").wait(), 0);
  client.kill_now();
  directory_.empty();
}

TEST_F(ServeTest, ManyWhoStandByAgreeOnOne) {
  Child server = start_and_wait("serve", "stay-3");
  std::vector<Child> members;
  for (int i = 0; i < 6; ++i) members.push_back(start_and_wait("attach", "stay"));
  server.kill_now();
  while (!members.empty()) {
    EXPECT_EQ(start("attach", "put").wait(), 0);
    members.erase(members.begin());
  }
  directory_.empty();
}

TEST_F(ServeTest, TheServerGivesTheNameToAnother) {
  Domain domain = Domain::serve(name_);
  Child client = start_and_wait("attach", "stay");
  domain.close();
  Domain again = Domain::attach(name_);  // the same domain, through the other one
  EXPECT_FALSE(again.serving());
  EXPECT_EQ(again.open<Queue<int>>("numbers").size(), 0U);
  client.kill_now();
  EXPECT_TRUE(eventually([&] { return again.serving(); }));
  EXPECT_EQ(start("attach", "exit").wait(), 0);
  EXPECT_TRUE(again.unpublish("numbers"));
}

TEST_F(ServeTest, ASecondServerIsTold) {
  const Domain domain = Domain::serve(name_);
  std::string words;
  EXPECT_EQ(code_of([&] { Domain::serve(name_); }, &words), Code::kExists);
  EXPECT_THAT(words, HasSubstr("\"camera\" is served already by process " + std::to_string(::getpid())));
  const Domain other = Domain::serve("another-name");  // one domain may have several
  EXPECT_TRUE(other.serving());
  EXPECT_TRUE(domain.serving());
}

TEST_F(ServeTest, AKilledServerLeavesNothing) {
  start_and_wait("serve", "stay").kill_now();
  EXPECT_THAT(directory_.entries(), IsEmpty());
  Domain domain = Domain::serve(name_);
  EXPECT_EQ(start("attach", "exit").wait(), 0);
  EXPECT_TRUE(domain.unpublish("numbers"));
}

TEST_F(ServeTest, NobodyServes) {
  std::string words;
  EXPECT_EQ(code_of([&] { Domain::attach(name_); }, &words), Code::kNotFound);
  EXPECT_THAT(words, HasSubstr("nobody serves \"camera\""));
  EXPECT_THAT(words, HasSubstr(directory_.path()));
}

TEST_F(ServeTest, AStopEndsTheWaitForAServerThatDoesNotAnswer) {
  const Child server = start_and_wait("serve", "stay");
  ASSERT_TRUE(test::stop(server.pid()));
  std::stop_source asked;
  const Wait patient(std::chrono::hours(1), asked.get_token());
  const pid_t waiting = ::gettid();
  std::jthread other([&] {
    EXPECT_TRUE(eventually([&] { return os::task_state(waiting) == 'S'; }));
    asked.request_stop();
  });
  EXPECT_EQ(code_of([&] { Domain::attach(name_, patient); }), Code::kInterrupted);
  EXPECT_EQ(code_of([&] { Domain::meet(name_, patient); }), Code::kInterrupted);  // asked before it began
  directory_.empty();
}

TEST_F(ServeTest, AStopEndsTheWaitForANameThatIsChangingHands) {
  Child server = start_and_wait("serve", "stay");
  const Child successor = start_and_wait("attach", "stay");
  ASSERT_TRUE(test::stop(successor.pid()));
  server.kill_now();
  std::stop_source asked;
  const Wait patient(std::chrono::hours(1), asked.get_token());
  const pid_t waiting = ::gettid();
  std::jthread other([&] {
    EXPECT_TRUE(eventually([&] { return os::task_state(waiting) == 'S'; }));
    asked.request_stop();
  });
  EXPECT_EQ(code_of([&] { Domain::serve(name_, patient); }), Code::kInterrupted);
  EXPECT_EQ(code_of([&] { Domain::serve(name_, std::chrono::nanoseconds(1)); }), Code::kStalled);
  directory_.empty();
}

TEST_F(ServeTest, WhoeverComesFirstServes) {
  std::vector<Child> programs;
  for (int i = 0; i < 6; ++i) programs.push_back(start("meet", "stay-3"));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(gate_.wait());
  for (int i = 0; i < 18; ++i) ASSERT_EQ(start("attach", "take").wait(), 0);  // they all have one queue
  programs.clear();
  directory_.empty();
}

TEST_F(ServeTest, OfManyWhoLeaveAtOnceTheLastClearsUp) {
  for (int round = 0; round < 5; ++round) {
    std::vector<Child> programs;
    for (int i = 0; i < 6; ++i) programs.push_back(start("meet", "exit"));
    for (Child& program : programs) EXPECT_EQ(program.wait(), 0);
    EXPECT_THAT(directory_.entries(), IsEmpty()) << round;
  }
}

TEST_F(ServeTest, WhatIsPublishedHasAType) {
  Domain domain = Domain::own();
  EXPECT_EQ(domain.name(), "");
  EXPECT_FALSE(domain.serving());
  const Queue<Value> values;
  const Event go;
  const Lock gate;
  domain.publish("values", values);
  domain.publish("go", go);
  domain.publish("gate", gate);
  domain.publish("tasks", JoinableQueue<int>());
  domain.publish("simple", SimpleQueue<int>());
  domain.publish("stream", Broadcast<int>());
  domain.publish("newest", Latest<int>());
  EXPECT_EQ(code_of([&] { domain.publish("go", values); }), Code::kExists);
  EXPECT_THROW((void)domain.open<Queue<int>>("values"), TypeMismatch);
  EXPECT_THROW((void)domain.open<Queue<int>>("go"), TypeMismatch);
  EXPECT_THROW((void)domain.open<Event>("values"), TypeMismatch);
  EXPECT_THROW((void)domain.open<Event>("gate"), TypeMismatch);
  EXPECT_THROW((void)domain.open<RLock>("gate"), TypeMismatch);
  EXPECT_EQ(code_of([&] { (void)domain.open<Lock>("nothing"); }), Code::kNotFound);
  EXPECT_EQ(code_of([&] { (void)domain.open<Lock>("a/b"); }), Code::kInvalid);
  domain.open<JoinableQueue<int>>("tasks").put(5);
  EXPECT_EQ(domain.open<Queue<int>>("tasks").get(), 5);
  EXPECT_EQ(domain.open<JoinableQueue<int>>("tasks").unfinished(), 1U);
  EXPECT_TRUE(domain.open<SimpleQueue<int>>("simple").empty());
  // Any of them is a Queue, and none of them another kind.
  EXPECT_TRUE(domain.open<Queue<int>>("simple").empty());
  EXPECT_THROW((void)domain.open<JoinableQueue<int>>("simple"), TypeMismatch);
  EXPECT_THROW((void)domain.open<SimpleQueue<int>>("tasks"), TypeMismatch);
  EXPECT_THROW((void)domain.open<JoinableQueue<Value>>("values"), TypeMismatch);
  {
    const Barrier three = domain.open_or_create<Barrier>("meeting", 3U);
    EXPECT_EQ(domain.open_or_create<Barrier>("meeting", 3U).parties(), 3U);
    EXPECT_EQ(code_of([&] { (void)domain.open_or_create<Barrier>("meeting", 2U); }), Code::kInvalid);
    EXPECT_TRUE(domain.unpublish("meeting"));
  }
  domain.open<Latest<int>>("newest").put(7);
  EXPECT_EQ(domain.open<Latest<int>>("newest").get(), 7);
  {
    auto reader = domain.open<Broadcast<int>>("stream").subscribe();
    domain.open<Broadcast<int>>("stream").put(8);
    EXPECT_EQ(reader.get(), 8);
  }
  EXPECT_THROW((void)domain.open<Latest<int>>("stream"), TypeMismatch);
  EXPECT_THROW((void)domain.open<Broadcast<double>>("stream"), TypeMismatch);
  EXPECT_THROW((void)domain.open<Queue<int>>("stream"), TypeMismatch);
  EXPECT_THROW((void)domain.open<Broadcast<int>>("tasks"), TypeMismatch);
  domain.open<Event>("go").set();
  EXPECT_TRUE(go.is_set());
  EXPECT_EQ(domain.open_or_create<Queue<Value>>("values").capacity(), 0U);
  EXPECT_EQ(
      code_of([&] { (void)domain.open_or_create<Queue<Value>>("values", QueueOptions{.capacity = 3}); }),
      Code::kInvalid);
  auto fresh = domain.open_or_create<Queue<Value>>("fresh", QueueOptions{.capacity = 3});
  EXPECT_EQ(domain.open<Queue<Value>>("fresh").capacity(), 3U);
  std::vector<std::string> all;
  for (const Domain::Published& one : domain.published()) all.push_back(one.name + ": " + one.kind);
  EXPECT_THAT(all, UnorderedElementsAre("values: queue", "go: event", "gate: lock", "fresh: queue",
                                        "tasks: joinable queue", "simple: simple queue", "stream: broadcast",
                                        "newest: latest"));
  for (const char* name : {"values", "go", "gate", "fresh", "tasks", "simple", "stream", "newest"})
    EXPECT_TRUE(domain.unpublish(name));
}

TEST_F(ServeTest, NamesThatCannotBe) {
  for (const std::string bad : {"", "a/b", "..", ".x", "a b", "camera\n"}) {
    EXPECT_EQ(code_of([&] { Domain::serve(bad); }), Code::kInvalid) << bad;
    EXPECT_EQ(code_of([&] { Domain::attach(bad); }), Code::kInvalid) << bad;
    EXPECT_EQ(code_of([&] { Domain::meet(bad); }), Code::kInvalid) << bad;
  }
  std::string words;
  EXPECT_EQ(code_of([&] { Domain::serve(std::string(65, 'x')); }, &words), Code::kInvalid);
  EXPECT_THAT(words, HasSubstr("1 to 64"));
  Domain longest = Domain::serve(std::string(64, 'x'));
  EXPECT_TRUE(longest.serving());
}

TEST_F(ServeTest, AForkedChildHasTheDomainAndDoesNotAnswer) {
  Domain domain = Domain::serve(name_);
  Queue<int> numbers;
  domain.publish("numbers", numbers);
  for (int round = 0; round < 20; ++round) {
    Child child([&] {
      EXPECT_FALSE(domain.serving());
      domain.close();
      Domain::own().open<Queue<int>>("numbers").put(round);
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(numbers.try_get(kSoon), round);
    EXPECT_TRUE(domain.serving());
  }
  EXPECT_EQ(start("attach", "put").wait(), 0);  // the thread goes on after forks
  EXPECT_TRUE(numbers.try_get(kSoon).has_value());
  EXPECT_TRUE(domain.unpublish("numbers"));
}

TEST_F(ServeTest, AttachingWhileTheServerForks) {
  Domain domain = Domain::serve(name_);
  std::atomic<bool> over{false};
  std::thread forks([&] {
    while (!over.load()) EXPECT_EQ(Child([] {}).wait(), 0);
  });
  for (int i = 0; i < 8; ++i) EXPECT_EQ(start("attach", "put").wait(), 0);
  over.store(true);
  forks.join();
  EXPECT_TRUE(domain.unpublish("numbers"));
}

TEST_F(ServeTest, AChildKeepsTheDomainButNotTheName) {
  test::Gate in, out;
  Child server = [&] {
    return Child([&] {
      // A process of its own that serves, forks, and is killed.
      EXPECT_EQ(start("serve", "exit").wait(), 0);
      in.open();
      EXPECT_TRUE(out.wait());
    });
  }();
  EXPECT_TRUE(in.wait());
  EXPECT_THAT(directory_.entries(), IsEmpty());  // an exit in good order leaves nothing
  out.open();
  EXPECT_EQ(server.wait(), 0);
}

TEST_F(ServeTest, AtRestItUsesNoProcessor) {
  const Domain domain = Domain::serve(name_);
  Child client = start_and_wait("attach", "stay");
  ::usleep(300'000);  // what follows an attach is over
  const auto used_us = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
  };
  const auto before = used_us();
  ::usleep(500'000);
  EXPECT_LT(used_us() - before, 10'000);
  client.kill_now();
  EXPECT_TRUE(Domain::own().unpublish("numbers"));
}

}  // namespace
}  // namespace forklift
