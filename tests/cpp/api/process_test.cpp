// Life cycle of a child in C++: fork and program; spawn is in registration_test.cpp.
#include "forklift/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>
#include <vector>

#include "forklift/event.h"
#include "forklift/init.h"
#include "forklift/process_context.h"
#include "forklift/queue.h"
#include "os/proc.h"
#include "process/lifeline.h"
#include "support/asleep.h"
#include "support/child.h"
#include "support/runtime_dir.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ProcessTest : public testing::Test {
 protected:
  // What a process keeps once it has it.
  static void SetUpTestSuite() {
    (void)stats();
    (void)process::lifeline().ok();
  }
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

struct NoStandardException {};

TEST_F(ProcessTest, AForkedFunctionRunsInAProcessOfItsOwn) {
  Queue<pid_t> pids;
  int counter = 1;
  Process child = Process::fork([&] {
    ++counter;
    pids.put(::getpid());
    pids.put(counter);
  });
  EXPECT_EQ(child.pid(), 0);
  EXPECT_FALSE(child.is_alive());
  EXPECT_EQ(child.exitcode(), std::nullopt);
  child.start();
  const pid_t pid = child.pid();
  EXPECT_EQ(pids.get(), pid);
  EXPECT_EQ(pids.get(), 2);
  EXPECT_EQ(counter, 1);
  child.join();
  EXPECT_EQ(child.exitcode(), 0);
  EXPECT_FALSE(child.is_alive());
  EXPECT_EQ(child.pid(), pid);
  child.join();  // as often as one likes
}

TEST_F(ProcessTest, AnIntIsTheExitCode) {
  Process child = Process::fork([] { return 42; }).start();
  child.join();
  EXPECT_EQ(child.exitcode(), 42);
}

TEST_F(ProcessTest, ExitInsideTheChild) {
  Process child = Process::fork([] { ::_exit(7); }).start();
  child.join();
  EXPECT_EQ(child.exitcode(), 7);
}

TEST_F(ProcessTest, AnExceptionArrivesAtJoin) {
  Process child = Process::fork([] { (void)std::string("abc").at(5); });
  child.set_name("reader").set_rank(3).start();
  const pid_t pid = child.pid();
  for (int again = 0; again < 2; ++again) {
    try {
      child.join();
      FAIL() << "no exception";
    } catch (const RemoteError& error) {
      EXPECT_EQ(error.type(), "std::out_of_range");
      EXPECT_THAT(error.message(), HasSubstr("at"));
      EXPECT_EQ(error.process(), "reader");
      EXPECT_EQ(error.pid(), pid);
      EXPECT_EQ(error.rank(), 3);
      EXPECT_THAT(error.what(),
                  HasSubstr("reader (pid " + std::to_string(pid) + ", rank 3): std::out_of_range"));
    }
  }
  EXPECT_EQ(child.exitcode(), 1);
}

TEST_F(ProcessTest, NestedExceptionsAreKeptAsText) {
  Process child = Process::fork([] {
                    try {
                      try {
                        throw 5;
                      } catch (...) {
                        std::throw_with_nested(std::invalid_argument("no such file"));
                      }
                    } catch (...) {
                      std::throw_with_nested(std::runtime_error("cannot start"));
                    }
                  }).start();
  try {
    child.join();
    FAIL() << "no exception";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.type(), "std::runtime_error");
    EXPECT_EQ(error.message(), "cannot start");
    EXPECT_THAT(error.causes(), ElementsAre("std::invalid_argument: no such file", "int"));
  }
}

TEST_F(ProcessTest, WhatIsNoStandardExceptionHasAType) {
  Process child = Process::fork([] { throw NoStandardException(); }).start();
  try {
    child.join();
    FAIL() << "no exception";
  } catch (const RemoteError& error) {
    EXPECT_THAT(error.type(), HasSubstr("NoStandardException"));
    EXPECT_EQ(error.message(), "");
  }
}

TEST_F(ProcessTest, AVeryLongMessageArrives) {
  Process child = Process::fork([] { throw std::runtime_error(std::string(1'000'000, 'x')); }).start();
  try {
    child.join();
    FAIL() << "no exception";
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.message().size(), 1'000'000U);
  }
}

TEST_F(ProcessTest, TerminateIsSignal6) {
  Process child = Process::fork([] {
                    std::freopen("/dev/null", "w", stderr);
                    ::signal(SIGABRT, SIG_DFL);
                    std::terminate();
                  }).start();
  child.join();
  EXPECT_EQ(child.exitcode(), -SIGABRT);
}

TEST_F(ProcessTest, KilledAndTerminatedChildren) {
  Process killed = Process::fork([] { ::pause(); }).start();
  Process ended = Process::fork([] { ::pause(); }).start();
  EXPECT_TRUE(killed.is_alive());
  EXPECT_FALSE(killed.try_join(1ms));
  killed.kill();
  ended.terminate();
  killed.join();
  EXPECT_TRUE(ended.try_join(10s));
  EXPECT_EQ(killed.exitcode(), -SIGKILL);
  EXPECT_EQ(ended.exitcode(), -SIGTERM);
  killed.kill();  // too late is no error
}

TEST_F(ProcessTest, TheSlotOfAKilledChildIsFreeAfterJoin) {
  const std::uint64_t processes = stats().processes;
  Queue<Tensor> kept;
  Process child = Process::fork([&] {
                    const Tensor mine = Tensor::zeros({1000}, DType::kFloat64);
                    kept.put(mine);
                    ::pause();
                  }).start();
  const Tensor tensor = kept.get();
  EXPECT_EQ(stats().processes, processes + 1);
  child.kill();
  child.join();
  EXPECT_EQ(stats().processes, processes);
  EXPECT_EQ(tensor.at<double>({999}), 0.0);
}

TEST_F(ProcessTest, TheSentinelIsReadableAtTheEnd) {
  Process child = Process::fork([] { ::pause(); }).start();
  pollfd item{child.sentinel(), POLLIN, 0};
  EXPECT_EQ(::poll(&item, 1, 0), 0);
  child.terminate();
  EXPECT_EQ(::poll(&item, 1, 10'000), 1);
  child.join();
}

TEST_F(ProcessTest, OutputIsWrittenOnceAndWithoutTheParentsExitHandlers) {
  std::string path = test::temporary("process-test");
  const int file = ::mkstemp(path.data());
  ASSERT_GE(file, 0);
  Process outer = Process::fork([&] {
                    // In a child, so that the test's own handlers stay as they are.
                    FILE* out = ::fdopen(file, "w");
                    std::fputs("before ", out);
                    static FILE* handler_out = out;
                    std::atexit([] { std::fputs("handler ", handler_out); });
                    Process inner = Process::fork([&] { std::fputs("child ", out); }).start();
                    inner.join();
                    std::fputs("after", out);
                  }).start();
  outer.join();
  EXPECT_EQ(outer.exitcode(), 0);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "before child after");
  ::close(file);
  ::unlink(path.c_str());
}

TEST_F(ProcessTest, AScopeThatEndsJoins) {
  Queue<int> queue;
  {
    Process child = Process::fork([&, parent = ::getpid()] {
                      (void)test::eventually_asleep(parent);
                      queue.put(1);
                    }).start();
  }
  EXPECT_EQ(queue.try_get(), 1);
}

TEST_F(ProcessTest, AnExceptionThatLeavesAScopeEndsItsChildren) {
  EXPECT_THROW(
      {
        Process child = Process::fork([] { ::pause(); }).start();
        throw std::runtime_error("in the parent");
      },
      std::runtime_error);
}

TEST_F(ProcessTest, ADaemonIsEndedEvenIfItDoesNotListen) {
  Event deaf;
  Process child = Process::fork([&] {
    ::signal(SIGTERM, SIG_IGN);
    deaf.set();
    for (;;) ::pause();
  });
  child.set_daemon(true).start();
  deaf.wait();
}

TEST_F(ProcessTest, ADaemonEndsWithAKilledParent) {
  Queue<pid_t> pids;
  Process outer = Process::fork([&] {
                    Process daemon = Process::fork([&] {
                      pids.put(::getpid());
                      for (volatile bool busy = true; busy;) {
                      }
                    });
                    daemon.set_daemon(true).start();
                    // A later child must not keep the line up.
                    Process other = Process::fork([&] {
                                      pids.put(-::getpid());
                                      ::pause();
                                    }).start();
                    ::pause();
                  }).start();
  std::array<pid_t, 2> both{pids.get(), pids.get()};
  if (both[0] < 0) std::swap(both[0], both[1]);
  outer.kill();
  outer.join();
  const auto gone = [](pid_t pid) {
    const char state = os::task_state(pid);
    return state == '\0' || state == 'Z';
  };
  EXPECT_TRUE(test::eventually([&] { return gone(both[0]); }, 2000));
  EXPECT_FALSE(gone(-both[1]));
  ::kill(-both[1], SIGKILL);
  EXPECT_TRUE(test::eventually([&] {
    Process::fork([] {}).start().join();  // reaps
    return stats().processes == 1;
  }));
}

TEST_F(ProcessTest, AnExceptionThatNobodyJoinsIsPrinted) {
  testing::internal::CaptureStderr();
  {
    const Process child = Process::fork([] { throw std::runtime_error("unheard"); }).start();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("std::runtime_error: unheard"));
}

TEST_F(ProcessTest, MisuseIsAnError) {
  Process child = Process::fork([] {});
  EXPECT_THROW(child.join(), Error);
  EXPECT_THROW(child.kill(), Error);
  child.start();
  EXPECT_THROW(child.start(), Error);
  child.join();
  Process moved = std::move(child);
  EXPECT_THROW(child.join(), Error);  // NOLINT(bugprone-use-after-move)
  moved.join();
  Process outer = Process::fork([&] { moved.join(); }).start();
  EXPECT_THROW(outer.join(), RemoteError);
}

TEST_F(ProcessTest, SettersAreOnTheWayToStart) {
  auto child = Process::fork([] { return 3; }).set_daemon(true).set_name("quick").set_rank(2).start();
  EXPECT_TRUE(child.daemon());
  EXPECT_EQ(child.name(), "quick");
  EXPECT_EQ(child.rank(), 2);
  child.join();
  EXPECT_EQ(child.exitcode(), 3);
}

TEST_F(ProcessTest, AJoinUntilTheEarliestTimeIsOverAtOnce) {
  Process child = Process::fork([] { ::pause(); });
  child.set_daemon(true).start();
  EXPECT_FALSE(child.try_join(std::chrono::steady_clock::time_point::min()));
  EXPECT_FALSE(child.try_join(std::chrono::system_clock::time_point::min()));
  std::vector<Process> members;
  members.push_back(std::move(child));
  ProcessContext group(std::move(members));
  EXPECT_FALSE(group.try_join(std::chrono::steady_clock::time_point::min()));
  group.stop();
}

TEST_F(ProcessTest, ManyChildrenOneAfterAnother) {
  for (int i = 0; i < 50; ++i) {
    Process child = Process::fork([i] { return i; }).start();
    child.join();
    ASSERT_EQ(child.exitcode(), i);
  }
}

TEST_F(ProcessTest, SomebodyElseHasWaited) {
  Process child = Process::fork([] {}).start();
  ASSERT_EQ(::waitpid(child.pid(), nullptr, 0), child.pid());
  child.join();
  EXPECT_EQ(child.exitcode(), 255);
}

TEST_F(ProcessTest, AProgramInheritsQueuesByName) {
  Queue<std::string> queue;
  // A shell is no Forklift program, but shows what it was given.
  Process child =
      Process::program(
          {"sh", "-c", "test -n \"$FORKLIFT_DOMAIN\" && echo \"$FORKLIFT_CHANNELS\" | grep -q '^a=.*;b='"},
          {{"a", queue}, {"b", queue}})
          .start();
  child.join();
  EXPECT_EQ(child.exitcode(), 0);
}

TEST_F(ProcessTest, AProgramThatDoesNotExist) {
  Queue<int> queue;
  Process child = Process::program({"/no/such/program"}, {{"queue", queue}});
  try {
    child.start();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().errno_value(), ENOENT);
    EXPECT_THAT(error.what(), HasSubstr("/no/such/program"));
  }
  Process none = Process::program({});
  EXPECT_THROW(none.start(), Error);
  Process unnamed = Process::program({"true"}, {{"a=b", queue}});
  EXPECT_THROW(unnamed.start(), Error);
  Process twice = Process::program({"true"}, {{"a", queue}, {"a", queue}});
  EXPECT_THROW(twice.start(), Error);
  // What was reserved for them is given back by whoever reaps next.
  Process::fork([] {}).start().join();
}

}  // namespace
}  // namespace forklift
