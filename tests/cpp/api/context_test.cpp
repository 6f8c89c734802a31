// Contexts: what works on one start method works on the others. The forkserver's own ways to die are in
// zygote_test.cpp.
#include "forklift/context.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "forklift/event.h"
#include "forklift/lock.h"
#include "forklift/this_process.h"
#include "forklift/wait_any.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/process_fixture.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using test::EveryMethod;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

int add(int a, int b, Queue<int>& sums) {
  sums.put(a + b);
  return a;
}
const Registered<&add> kAdd{"context add"};

void write_tensor(Tensor tensor, const std::string& text, Lock lock, Queue<Value>& answers) {
  const std::lock_guard<Lock> guard(lock);
  tensor.at<float>({1}) = 5;
  answers.put(Value::List{text, tensor.shape().size()});
}
const Registered<&write_tensor> kWriteTensor{"context write tensor"};

void describe_self(Queue<Value>& answers, Event& seen) {
  seen.wait();
  const ProcessInfo self = this_process();
  const std::optional<ParentProcess> parent = parent_process();
  answers.put(Value::List{self.name, self.pid, self.rank, self.daemon, parent ? parent->name() : "none",
                          parent ? parent->pid() : 0, parent && parent->is_alive(), ::getppid()});
}
const Registered<&describe_self> kDescribeSelf{"context describe self"};

struct Private {};

void fail(int how) {
  switch (how) {
    case 0: throw std::domain_error("asked to");
    case 1: throw Private();
    case 2:
      std::freopen("/dev/null", "w", stderr);
      ::signal(SIGABRT, SIG_DFL);
      std::terminate();
    case 3: ::_exit(9);
    case 4: std::exit(11);
    default: ::raise(SIGKILL);
  }
}
const Registered<&fail> kFail{"context fail"};

void stay(Queue<pid_t>& pids) {
  pids.put(::getpid());
  for (;;) ::pause();
}
const Registered<&stay> kStay{"context stay"};

// The child of a child: waits until its parent is gone.
void outlive(Queue<int>& answers) {
  const ParentProcess parent = *parent_process();
  answers.put(parent.is_alive() ? 1 : 0);
  answers.put(parent.try_join(20s) ? 2 : 0);
  answers.put(parent_process()->is_alive() ? 0 : 3);
}
const Registered<&outlive> kOutlive{"context outlive"};

void start_and_die(int method, Queue<int>& answers, Queue<int>& started) {
  Process child = Context(static_cast<StartMethod>(method)).process(outlive, answers).start();
  (void)forklift::wait_any({answers});
  started.put(1);
  ::raise(SIGKILL);
}
const Registered<&start_and_die> kStartAndDie{"context start and die"};

// Leaves while another thread of it puts and gets.
void exit_in_the_middle(bool at_once, Queue<Tensor>& there, Queue<Tensor>& back) {
  std::thread([&] {
    for (;;) {
      there.put(Tensor::zeros({3000}, DType::kUInt8));
      back.put(there.get());
    }
  }).detach();
  (void)back.get();
  std::this_thread::sleep_for(3ms);
  if (at_once) ::_exit(5);
  std::exit(5);
}
const Registered<&exit_in_the_middle> kExitInTheMiddle{"context exit in the middle"};

void nest(int depth) {
  if (depth == 0) throw std::logic_error("innermost");
  try {
    nest(depth - 1);
  } catch (...) {
    std::throw_with_nested(std::runtime_error("level " + std::to_string(depth)));
  }
}
void nest_deeply() { nest(40); }
const Registered<&nest_deeply> kNestDeeply{"context nest deeply"};

void not_registered(int) {}

// Thrown by a library, whose name shows in every build.
void throw_deep(int at) { (void)std::string("abc").at(static_cast<std::size_t>(at)); }
const Registered<&throw_deep> kThrowDeep{"context throw deep"};

INSTANTIATE_TEST_SUITE_P(, EveryMethod, test::kEveryMethod, test::method_name);

TEST_P(EveryMethod, ARegisteredFunctionRunsInAProcessOfItsOwn) {
  Queue<int> sums;
  Process child = context().process(add, 40, 2, sums);
  EXPECT_EQ(child.exitcode(), std::nullopt);
  child.start();
  EXPECT_NE(child.pid(), ::getpid());
  EXPECT_EQ(sums.get(), 42);
  child.join();
  EXPECT_EQ(child.exitcode(), 40);
}

TEST_P(EveryMethod, ArgumentsOfManyKindsArrive) {
  Queue<Value> answers;
  const Tensor tensor = Tensor::zeros({3}, DType::kFloat32);
  Lock lock;
  Process child = context().process(write_tensor, tensor, "text", lock, answers).start();
  child.join();
  EXPECT_EQ(answers.get(), Value(Value::List{"text", 1}));
  EXPECT_EQ(tensor.at<float>({1}), 5);  // the same memory
}

TEST_P(EveryMethod, AChildKnowsItselfAndItsParent) {
  Queue<Value> answers;
  Event seen;
  Process child = context().process(describe_self, answers, seen);
  child.set_name("reader").set_rank(3).set_daemon(true).start();
  EXPECT_THAT(active_children(), SizeIs(1));
  seen.set();
  const pid_t me = ::getpid();
  EXPECT_EQ(answers.get(), Value(Value::List{"reader", child.pid(), 3, true, "MainProcess", me, true, me}));
  child.join();
  EXPECT_THAT(active_children(), SizeIs(0));
  EXPECT_EQ(this_process().name, "MainProcess");
  EXPECT_FALSE(parent_process());
}

TEST_P(EveryMethod, AChildSeesTheEndOfItsParent) {
  Queue<int> answers;
  Queue<int> started;
  Process child = context().process(start_and_die, static_cast<int>(GetParam()), answers, started).start();
  child.join();
  EXPECT_EQ(child.exitcode(), -SIGKILL);
  for (const int expected : {1, 2, 3}) EXPECT_EQ(answers.try_get(20s), expected);
  (void)started.get();
}

TEST_P(EveryMethod, HowAChildEnds) {
  const std::vector<int> codes{1, 1, -SIGABRT, 9, 11, -SIGKILL};
  for (int how = 0; how < static_cast<int>(codes.size()); ++how) {
    Process child = context().process(fail, how);
    child.set_name("failing").set_rank(how).start();
    try {
      child.join();
      EXPECT_GE(how, 2);
    } catch (const RemoteError& error) {
      EXPECT_THAT(error.type(), HasSubstr(how == 0 ? "std::domain_error" : "Private"));
      EXPECT_EQ(error.message(), how == 0 ? "asked to" : "");
      EXPECT_EQ(error.process(), "failing");
      EXPECT_EQ(error.pid(), child.pid());
      EXPECT_EQ(error.rank(), how);
    }
    EXPECT_EQ(child.exitcode(), codes[static_cast<std::size_t>(how)]);
  }
}

#if defined(__GLIBCXX__)
TEST_P(EveryMethod, AnErrorCarriesTheStackOfItsThrow) {
  Process child = context().process(throw_deep, 7).start();
  try {
    child.join();
    FAIL() << "no exception";
  } catch (const RemoteError& error) {
    // From the throw outwards, as far as the function that was asked for.
    ASSERT_FALSE(error.stack().empty());
    EXPECT_THAT(error.stack(), testing::Contains(HasSubstr("libstdc++")));
    EXPECT_LT(error.stack().size(), 20U);
    EXPECT_THAT(error.what(), HasSubstr("\n  at "));
  }
}
#endif

TEST_P(EveryMethod, DeeplyNestedExceptionsAreCutAtSixteenCauses) {
  Process child = context().process(nest_deeply).start();
  try {
    child.join();
    FAIL() << "no exception";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.message(), "level 40");
    ASSERT_THAT(error.causes(), SizeIs(16));
    EXPECT_EQ(error.causes()[15], "std::runtime_error: level 24");
  }
}

TEST_P(EveryMethod, AChildThatExitsInTheMiddleOfAHandOver) {
  for (const bool at_once : {true, false}) {
    Queue<Tensor> there;
    Queue<Tensor> back;
    Process child = context().process(exit_in_the_middle, at_once, there, back).start();
    child.join();
    EXPECT_EQ(child.exitcode(), 5);
    there.put(Tensor::zeros({10}, DType::kUInt8));  // both go on
    while (there.get().numel() != 10) {
    }
    while (back.try_get()) {
    }
  }
}

TEST_P(EveryMethod, TimesAndStops) {
  Queue<pid_t> pids;
  Process child = context().process(stay, pids).start();
  EXPECT_EQ(pids.get(), child.pid());
  EXPECT_FALSE(child.try_join(1ms));
  EXPECT_FALSE(child.try_join(std::chrono::steady_clock::now() + 1ms));
  EXPECT_FALSE(child.try_join(std::chrono::system_clock::now() - 1s));
  std::stop_source source;
  const std::jthread stopper = test::when_asleep([&] { source.request_stop(); });
  EXPECT_FALSE(child.try_join(source.get_token()));
  EXPECT_FALSE(child.try_join({1h, source.get_token()}));
  std::stop_source never;
  child.terminate();
  EXPECT_TRUE(child.try_join(never.get_token()));
  EXPECT_EQ(child.exitcode(), -SIGTERM);
}

TEST_P(EveryMethod, ManyAtOnce) {
  Queue<int> sums;
  std::vector<Process> children;
  for (int i = 0; i < 20; ++i) children.push_back(context().process(add, i, 1, sums).start());
  EXPECT_THAT(active_children(), SizeIs(testing::Le(20U)));
  int sum = 0;
  for (int i = 0; i < 20; ++i) sum += sums.get();
  EXPECT_EQ(sum, 20 * 21 / 2);
  for (Process& child : children) child.join();
}

TEST_P(EveryMethod, FromSeveralThreads) {
  Queue<int> sums;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) context().process(add, t, i, sums).start().join();
    });
  }
  threads.clear();
  EXPECT_EQ(sums.size(), 9U);
}

TEST_P(EveryMethod, AChildOfAChild) {
  Queue<int> sums;
  Process outer = Process::fork([&] {
                    Process inner = context().process(add, 1, 2, sums).start();
                    inner.join();
                    return inner.exitcode().value_or(-1);
                  }).start();
  outer.join();
  EXPECT_EQ(outer.exitcode(), 1);
  EXPECT_EQ(sums.get(), 3);
}

TEST_P(EveryMethod, AnyCallableOnForkOnly) {
  int counter = 0;
  auto held = std::make_unique<int>(41);
  const auto make = [&] {
    return context().process(
        [&counter, held = std::move(held)](int add) {
          ++counter;
          return *held + add;
        },
        1);
  };
  if (GetParam() == StartMethod::kFork) {
    Process child = make().start();
    child.join();
    EXPECT_EQ(child.exitcode(), 42);
    EXPECT_EQ(counter, 0);
    return;
  }
  try {
    (void)make();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("forklift::Registered<&function>"));
    EXPECT_THAT(error.what(), HasSubstr(std::string(name_of(GetParam()))));
  }
}

TEST_P(EveryMethod, AFunctionThatIsNotRegistered) {
  if (GetParam() == StartMethod::kFork) {
    context().process(not_registered, 1).start().join();
    return;
  }
  try {
    (void)context().process(not_registered, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_THAT(error.what(),
                HasSubstr("static const forklift::Registered<&function> registered{\"its name\"};"));
  }
}

using ContextTest = test::ProcessFixture;

TEST_F(ContextTest, ByName) {
  EXPECT_EQ(get_context("fork"), fork_context());
  EXPECT_EQ(get_context("spawn"), spawn_context());
  EXPECT_EQ(get_context("forkserver"), forkserver_context());
  EXPECT_EQ(name_of(forkserver_context().start_method()), "forkserver");
  EXPECT_THROW((void)get_context("thread"), Error);
}

TEST_F(ContextTest, InitComesBeforeTheDomain) {
  // Here it has been called: again is no error, and has no effect.
  init(0, nullptr);
}

}  // namespace
}  // namespace forklift
