// Functions in fresh processes: registration, arguments, errors; programs that inherit queues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "forklift/multiprocessing.h"
#include "os/proc.h"
#include "support/child.h"

namespace forklift {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Pose {
  double x;
  double y;
  int id;
};

void add(int a, int b, Queue<int>& sums) { sums.put(a + b); }
const Registered<&add> kAdd{"add"};

int take(const Pose& pose, const std::string& text, const std::vector<Pose>& poses, Tensor tensor,
         const Value& value, const std::map<std::string, double>& numbers, Queue<Value> answers) {
  answers.put(
      Value::List{pose.x, Value::Bytes(text.size()), poses.size(), poses.at(1).id, value, numbers.at("pi")});
  tensor.at<float>({1}) = 5;
  return 17;
}
const Registered<&take> kTake{"take everything"};

struct Table {
  std::array<double, 8192> cells;
};
void take_much(const std::string& text, const std::vector<Pose>& poses, const Table& table,
               Queue<Value>& answers) {
  answers.put(Value::List{text.size(), text.back() == '\xff', poses.back().id, table.cells.back()});
}
const Registered<&take_much> kTakeMuch{"take much"};

void fail(bool politely) {
  if (politely) throw std::domain_error("asked to");
  std::abort();
}
const Registered<&fail> kFail{"fail"};

void tell_pid_and_stay(Queue<pid_t>& pids) {
  pids.put(::getpid());
  for (;;) ::pause();
}
const Registered<&tell_pid_and_stay> kTellPid{"tell pid and stay"};

void not_registered() {}

void one() {}
void two() {}
const Registered<&one> kOne{"the same name"};
const Registered<&two> kTwo{"the same name"};
const Registered<&add> kAddAgain{"add"};  // the same function again is no conflict
const Registered<&add> kAddNameless{""};  // nor is a name that is none beside one that is

void nameless() {}
void null_name() {}
const Registered<&nameless> kNameless{""};
const Registered<&null_name> kNullName{nullptr};

// What a program does that was started with queues.
int be_a_program(const std::vector<std::string>&) {
  auto in = Queue<Value>::inherited("in");
  auto out = Queue<Value>::inherited("out");
  try {
    (void)Queue<int>::inherited("in");
    return 2;
  } catch (const TypeMismatch&) {
  }
  out.put(Value::Map{{"got", in.get()}, {"pid", ::getpid()}});
  return std::getenv("FORKLIFT_DOMAIN") == nullptr ? 0 : 3;
}
const bool kProgram = test::add_helper("inherits-queues", be_a_program);

// That its main went on behind init().
int come_to_main(const std::vector<std::string>&) { return 7; }
const bool kComesToMain = test::add_helper("comes-to-main", come_to_main);

std::string refusal_of(void (*function)()) {
  for (const Context context : {spawn_context(), forkserver_context()}) {
    try {
      (void)context.process(function);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalid);
      if (context == forkserver_context()) return error.what();
    }
  }
  return "no error";
}

class Registration : public testing::Test {
 protected:
  static void SetUpTestSuite() { (void)stats(); }
  void SetUp() override { before_ = stats(); }
  void TearDown() override {
    const Stats after = stats();
    EXPECT_EQ(after.processes, before_.processes);
    EXPECT_EQ(after.channels, before_.channels);
    EXPECT_EQ(after.held_blocks, before_.held_blocks);
    EXPECT_THAT(audit(), IsEmpty());
  }

 private:
  Stats before_{};
};

TEST_F(Registration, AFunctionRunsInAFreshProcess) {
  Queue<int> sums;
  Process child = Process::spawn(add, 40, 2, sums).start();
  EXPECT_EQ(sums.get(), 42);
  child.join();
  EXPECT_EQ(child.exitcode(), 0);
}

TEST_F(Registration, ArgumentsOfEveryKindArrive) {
  Queue<Value> answers;
  const Tensor tensor = Tensor::zeros({3}, DType::kFloat32);
  Process child =
      Process::spawn(take, Pose{0.5, 2, 3}, "not \xff UTF-8", std::vector<Pose>{{1, 2, 3}, {4, 5, 6}}, tensor,
                     Value(Value::List{1, "two"}), std::map<std::string, double>{{"pi", 3.5}}, answers)
          .start();
  child.join();
  EXPECT_EQ(child.exitcode(), 17);
  EXPECT_EQ(answers.get(), Value(Value::List{0.5, Value::Bytes(11), 2, 6, Value::List{1, "two"}, 3.5}));
  EXPECT_EQ(tensor.at<float>({1}), 5);  // the same memory
}

// These go through shared memory, which is given back: see TearDown.
TEST_F(Registration, LargeArgumentsArrive) {
  const std::string text(3'000'001, '\xff');
  const std::vector<Pose> poses(100'000, Pose{1, 2, 3});
  Table table{};
  table.cells.back() = 0.5;
  Queue<Value> answers;
  for (const Context context : {spawn_context(), fork_context()}) {
    Process child = context.process(take_much, text, poses, table, answers).start();
    EXPECT_EQ(answers.get(), Value(Value::List{text.size(), true, 3, 0.5}));
    child.join();
  }
}

TEST_F(Registration, ErrorsOfASpawnedFunctionArriveAtJoin) {
  Process child = Process::spawn(fail, true);
  child.set_name("failing").set_rank(2).start();
  try {
    child.join();
    FAIL() << "no exception";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.type(), "std::domain_error");
    EXPECT_EQ(error.process(), "failing");
    EXPECT_EQ(error.rank(), 2);
  }
  EXPECT_EQ(child.exitcode(), 1);
  Process aborting = Process::spawn(fail, false).start();
  aborting.join();
  EXPECT_EQ(aborting.exitcode(), -SIGABRT);
}

TEST_F(Registration, ASpawnedDaemonEndsWithAKilledParent) {
  Queue<pid_t> pids;
  Process outer = Process::fork([&] {
                    Process daemon = Process::spawn(tell_pid_and_stay, pids);
                    daemon.set_daemon(true).start();
                    ::pause();
                  }).start();
  const pid_t pid = pids.get();
  outer.kill();
  outer.join();
  EXPECT_TRUE(
      test::eventually([&] { return os::task_state(pid) == '\0' || os::task_state(pid) == 'Z'; }, 2000));
  EXPECT_TRUE(test::eventually([&] {
    Process::fork([] {}).start().join();  // reaps
    return stats().processes == 1;
  }));
}

TEST_F(Registration, AnUnregisteredFunctionIsRefused) {
  try {
    (void)Process::spawn(not_registered);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("not registered"));
  }
}

TEST_F(Registration, TwoFunctionsUnderOneNameAreRefused) {
  for (void (*function)() : {one, two})
    EXPECT_THAT(refusal_of(function), HasSubstr("two functions are registered as \"the same name\""));
}

TEST_F(Registration, AFunctionWithoutANameIsRefused) {
  EXPECT_THAT(refusal_of(nameless), HasSubstr("empty name"));
  EXPECT_THAT(refusal_of(null_name), HasSubstr("empty name"));
}

// Who took itself for the parent would start the next such process, and that one the next.
TEST_F(Registration, AProcessThatWasStartedForAFunctionNeverComesToMain) {
  ASSERT_EQ(test::start_helper("comes-to-main", {}).wait(), 7);
  ::setenv("FORKLIFT_FUNCTION", "", 1);
  EXPECT_EQ(test::start_helper("comes-to-main", {}).wait(), 1);
  ::unsetenv("FORKLIFT_FUNCTION");
  Queue<Value> arguments;
  Process child = Process::program({"/proc/self/exe", "--run-helper", "comes-to-main"},
                                   {{"forklift.arguments", arguments}})
                      .start();
  child.join();
  EXPECT_EQ(child.exitcode(), -SIGABRT);  // an Error that left main
}

// The child of a fork in the middle of another thread's look-up would wait for that thread for ever.
TEST_F(Registration, AForkDuringALookUpLeavesTheChildAble) {
  const std::jthread looking([](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_THROW((void)Process::spawn(not_registered), Error);
  });
  for (int i = 0; i < 200; ++i) {
    Process child = Process::fork([] { (void)Process::spawn(add, 1, 2, Queue<int>()); }).start();
    child.join();
    EXPECT_EQ(child.exitcode(), 0);
  }
}

TEST_F(Registration, AnEmptyHandleIsRefused) {
  Queue<int> sums;
  Process child = Process::spawn(add, 1, 2, sums);
  sums.reset();
  child.start();  // the process took a handle of its own
  child.join();
  EXPECT_THROW(Process::spawn(add, 1, 2, sums).start(), Error);
}

TEST_F(Registration, AnInheritedQueueWorksInAProgramOfItsOwn) {
  Queue<Value> in;
  Queue<Value> out;
  Process child =
      Process::program({"/proc/self/exe", "--run-helper", "inherits-queues"}, {{"in", in}, {"out", out}})
          .start();
  in.put(Value::List{1, Tensor::zeros({4}, DType::kUInt8)});
  const Value answer = out.get();
  EXPECT_EQ(answer.find("pid")->try_as<int>().value_or(0), child.pid());
  EXPECT_EQ(answer.find("got")->size(), 2U);
  child.join();
  EXPECT_EQ(child.exitcode(), 0);
}

TEST_F(Registration, NothingIsInheritedHere) { EXPECT_THROW((void)Queue<int>::inherited("in"), Error); }

}  // namespace
}  // namespace forklift
