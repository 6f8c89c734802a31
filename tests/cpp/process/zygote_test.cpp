// The forkserver's process: whose its children are, and what happens when it, or who asked it, dies, stops or
// is not what it should be.
#include "process/zygote.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "forklift/context.h"
#include "os/proc.h"
#include "process/zygote_wire.h"
#include "support/child.h"
#include "support/process_fixture.h"
#include "support/runtime_dir.h"
#include "support/status_check.h"

namespace forklift {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kBeforeInit = "FORKLIFT_TEST_BEFORE_INIT";

// What this program does before main, in fresh processes that a test asks for it.
const bool kDone = [] {
  const char* what = std::getenv(kBeforeInit);
  if (what == nullptr) return true;
  const std::string_view word = what;
  if (word == "exit") ::_exit(9);
  if (word == "abort") std::abort();
  if (word == "queue") (void)Queue<int>();
  if (word == "thread") std::thread([] { ::pause(); }).detach();
  return true;
}();

class BeforeInit {
 public:
  explicit BeforeInit(const char* what) { ::setenv(kBeforeInit, what, 1); }
  ~BeforeInit() { ::unsetenv(kBeforeInit); }
};

int answer(int code) { return code; }
const Registered<&answer> kAnswer{"zygote answer"};

void tell(Queue<Value>& answers) { answers.put(Value::List{::getpid(), ::getppid()}); }
const Registered<&tell> kTell{"zygote tell"};

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}
const Registered<&say> kSay{"zygote say"};

void stay(Queue<pid_t>& pids) {
  pids.put(::getpid());
  for (;;) ::pause();
}
const Registered<&stay> kStay{"zygote stay"};

bool gone(pid_t pid) {
  const char state = os::task_state(pid);
  return state == '\0' || state == 'Z';
}

class ZygoteTest : public test::ProcessFixture {
 protected:
  void SetUp() override {
    ProcessFixture::SetUp();
    if (!test::kCanCopy) GTEST_SKIP() << "the sanitizer's own thread forbids copies: children are spawned";
  }
  static Process start(int code) { return forkserver_context().process(answer, code).start(); }
  static int code_of(Process child) {
    child.join();
    return child.exitcode().value_or(-1000);
  }
};

TEST_F(ZygoteTest, ItsChildrenAreOurs) {
  EXPECT_EQ(process::zygote_pid(), 0);
  Queue<Value> answers;
  Process first = forkserver_context().process(tell, answers).start();
  const pid_t zygote = process::zygote_pid();
  EXPECT_GT(zygote, 0);
  EXPECT_NE(zygote, first.pid());
  EXPECT_EQ(answers.get(), Value(Value::List{first.pid(), ::getpid()}));
  Process second = forkserver_context().process(tell, answers).start();
  EXPECT_EQ(process::zygote_pid(), zygote);
  EXPECT_EQ(answers.get(), Value(Value::List{second.pid(), ::getpid()}));
}

TEST_F(ZygoteTest, ItsDeathMeansNothingToItsChildren) {
  Queue<pid_t> pids;
  Process child = forkserver_context().process(stay, pids).start();
  (void)pids.get();
  const pid_t zygote = process::zygote_pid();
  ::kill(zygote, SIGKILL);
  EXPECT_TRUE(child.is_alive());
  EXPECT_EQ(code_of(start(5)), 5);  // of a new one
  EXPECT_NE(process::zygote_pid(), zygote);
  child.terminate();
  child.join();
  EXPECT_EQ(child.exitcode(), -SIGTERM);
}

TEST_F(ZygoteTest, OneThatIsStoppedIsReplaced) {
  EXPECT_EQ(code_of(start(1)), 1);
  const pid_t zygote = process::zygote_pid();
  ASSERT_TRUE(test::stop(zygote));
  EXPECT_EQ(code_of(start(2)), 2);  // after five seconds
  EXPECT_NE(process::zygote_pid(), zygote);
}

TEST_F(ZygoteTest, ItEndsWithItsProcess) {
  Queue<pid_t> pids;
  Process outer = Process::fork([&] {
                    EXPECT_EQ(process::zygote_pid(), 0);
                    (void)code_of(start(1));
                    pids.put(process::zygote_pid());
                    const Process other = Process::fork([&] {  // must not keep it alive
                                            pids.put(::getpid());
                                            ::pause();
                                          })
                                              .start();
                    ::pause();
                  }).start();
  const pid_t zygote = pids.get();
  const pid_t other = pids.get();
  EXPECT_FALSE(gone(zygote));
  outer.kill();
  outer.join();
  EXPECT_TRUE(test::eventually([&] { return gone(zygote); }));
  EXPECT_FALSE(gone(other));
  ::kill(other, SIGKILL);
}

TEST_F(ZygoteTest, AnInterruptFromTheKeyboardIsNotMeantForIt) {
  Queue<pid_t> pids;
  EXPECT_EQ(code_of(start(1)), 1);
  const pid_t zygote = process::zygote_pid();
  ::kill(zygote, SIGINT);
  Process child = forkserver_context().process(stay, pids).start();
  (void)pids.get();
  EXPECT_EQ(process::zygote_pid(), zygote);
  ::kill(child.pid(), SIGINT);
  child.join();
  EXPECT_EQ(child.exitcode(), -SIGINT);
}

TEST_F(ZygoteTest, StandardStreamsAreThoseOfNow) {
  EXPECT_EQ(code_of(start(1)), 1);
  testing::internal::CaptureStdout();
  forkserver_context().process(say, "into the file").start().join();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "into the file");
}

TEST_F(ZygoteTest, WithThreadsBeforeInitChildrenAreSpawned) {
  const BeforeInit threads("thread");
  testing::internal::CaptureStderr();
  Queue<Value> answers;
  Process child = forkserver_context().process(tell, answers).start();
  EXPECT_EQ(answers.get(), Value(Value::List{child.pid(), ::getpid()}));
  child.join();
  EXPECT_EQ(code_of(start(3)), 3);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("2 threads run in it before init()"));
  EXPECT_EQ(said.find("cannot be copied"), said.rfind("cannot be copied")) << said;  // once
}

TEST_F(ZygoteTest, AProgramThatEndsBeforeInit) {
  for (const auto& [what, words] :
       {std::pair("exit", "exited with code 9"), {"abort", "ended by signal 6"}}) {
    const BeforeInit ends(what);
    try {
      (void)start(1);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kPeerDied);
      EXPECT_THAT(error.what(), HasSubstr(words));
      EXPECT_THAT(error.what(), HasSubstr("before it came to forklift::init()"));
    }
    Process child = spawn_context().process(answer, 1).start();
    child.join();
    EXPECT_EQ(child.exitcode(), what == std::string_view("exit") ? 9 : -SIGABRT);
  }
  EXPECT_EQ(code_of(start(4)), 4);
}

TEST_F(ZygoteTest, InitAfterTheDomainWasMade) {
  const BeforeInit late("queue");
  testing::internal::CaptureStderr();
  Process child = spawn_context().process(answer, 1).start();
  child.join();
  EXPECT_EQ(child.exitcode(), -SIGABRT);
  EXPECT_THROW((void)start(1), Error);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("forklift::init() was called late"));
}

// Kills whoever asks for children at any time: nothing stays, neither processes nor what they held.
TEST_F(ZygoteTest, AParentThatIsKilledAtAnyTimeLeavesNothing) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // who has lost its parent is ours to wait for
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Queue<int> running;
    Process outer = Process::fork([&] {
      ::setpgid(0, 0);
      (void)code_of(start(1));
      running.put(1);
      for (;;) (void)start(2);
    });
    outer.start();
    (void)running.get();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    outer.kill();
    outer.join();
    ASSERT_TRUE(test::eventually([&] {
      while (::waitpid(-outer.pid(), nullptr, WNOHANG) > 0) {
      }
      return ::kill(-outer.pid(), 0) != 0 && errno == ESRCH;
    })) << round;
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// The same for the zygote, whose parent goes on.
TEST_F(ZygoteTest, AZygoteThatIsKilledAtAnyTimeIsReplaced) {
  std::mt19937 random(8);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(code_of(start(1)), 1);
  // As long as making one takes here, so that some live and some do not.
  const auto longest =
      4 * std::chrono::ceil<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  std::atomic<bool> done{false};
  std::thread killer([&] {
    while (!done) {
      std::this_thread::sleep_for(longest * (random() % 1000) / 1000);
      if (const pid_t zygote = process::zygote_pid()) ::kill(zygote, SIGKILL);
    }
  });
  int started = 0;
  for (int i = 0; i < 150 && std::chrono::steady_clock::now() - begin < 10s; ++i) {
    try {
      EXPECT_EQ(code_of(start(i % 100)), i % 100);
      ++started;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kPeerDied) << error.what();  // two in a row
    }
  }
  done = true;
  killer.join();
  EXPECT_GT(started, 0);
}

// A program of its own whose file is replaced while it runs: its children are what it is.
int be_replaced(const std::vector<std::string>& arguments) {
  const std::string& path = arguments.at(0);
  std::filesystem::remove(path);
  std::ofstream(path) << "#!/bin/false\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  int sum = 0;
  for (const Context& context : {fork_context(), spawn_context(), forkserver_context()}) {
    Process child = context.process(answer, 10).start();
    child.join();
    sum += child.exitcode().value_or(-1000);
  }
  return sum;
}
const bool kBeReplaced = test::add_helper("be-replaced", be_replaced);

TEST_F(ZygoteTest, AProgramFileThatIsReplaced) {
  std::string folder = test::temporary("replaced");
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string copy = folder + "/program";
  std::filesystem::copy_file("/proc/self/exe", copy);
  Process child = Process::program({copy, "--run-helper", "be-replaced", copy}).start();
  child.join();
  EXPECT_EQ(child.exitcode(), 30);
  std::filesystem::remove_all(folder);
}

std::array<os::Fd, 2> packet_pair() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  return {os::Fd(ends[0]), os::Fd(ends[1])};
}

TEST(ZygoteWire, ARequestArrives) {
  auto [ours, theirs] = packet_pair();
  const std::vector<int> descriptors{0, 1, 2};
  ASSERT_OK(process::send_request(ours.get(), {7, 9}, {"A=b", "EMPTY="}, descriptors));
  Result<std::optional<process::Request>> got = process::receive_request(theirs.get());
  ASSERT_OK(got);
  ASSERT_TRUE(got->has_value());
  EXPECT_THAT((*got)->numbers, testing::ElementsAre(7, 9));
  EXPECT_THAT((*got)->variables, testing::ElementsAre("A=b", "EMPTY="));
  ASSERT_EQ((*got)->descriptors.size(), 3U);
  EXPECT_EQ((*got)->descriptors[2].inode(), [] {
    os::Fd two(2);
    const std::uint64_t inode = two.inode();
    (void)two.release();
    return inode;
  }());
  EXPECT_EQ(::fcntl((*got)->descriptors[0].get(), F_GETFD), FD_CLOEXEC);
  ours.close();
  got = process::receive_request(theirs.get());
  ASSERT_OK(got);
  EXPECT_FALSE(got->has_value());
}

TEST(ZygoteWire, WhatIsNoRequestIsRefused) {
  auto [ours, theirs] = packet_pair();
  const std::uint32_t magic = 0x5a594731;
  const std::vector<std::vector<std::uint32_t>> wrong{
      {1}, {magic}, {magic + 1, 0}, {magic, 33}, {magic, 1, 5}, {magic, 0x80000000}, {magic, 0, 0x61616161}};
  for (const std::vector<std::uint32_t>& words : wrong) {
    ASSERT_GT(::send(ours.get(), words.data(), words.size() * 4, 0), 0);
    EXPECT_CODE(Code::kCorrupt, process::receive_request(theirs.get()));
  }
  const std::string large(100'000, 'x');
  EXPECT_CODE(Code::kInvalid, process::send_request(ours.get(), {}, {large}, std::array{0}));
  ASSERT_GT(::send(ours.get(), large.data(), large.size(), 0), 0);
  EXPECT_CODE(Code::kCorrupt, process::receive_request(theirs.get()));
}

}  // namespace
}  // namespace forklift
