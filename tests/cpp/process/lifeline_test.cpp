// The pipe by which daemons end with their parent: whose it is, what ends by it, and what closing its
// descriptors under it does.
#include "process/lifeline.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "os/proc.h"
#include "support/child.h"
#include "support/numbered_message.h"
#include "support/status_check.h"

namespace forklift::test {
namespace {

using process::end_with_parent;
using process::lifeline;
using process::soften_end;

ino_t inode_of(int fd) {
  struct stat found{};
  EXPECT_EQ(::fstat(fd, &found), 0);
  return found.st_ino;
}

// A grandchild of ours, started by a child that stays until it is killed. We are its parent afterwards.
class LifelineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { EXPECT_OK(lifeline()); }  // which this process then keeps
  void SetUp() override {
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    ASSERT_EQ(::pipe2(pids_, O_CLOEXEC), 0);
  }
  void TearDown() override {
    ::close(pids_[0]);
    ::close(pids_[1]);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  }

  // In the child.
  void start_daemon(const std::function<void()>& body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      body();
      for (;;) ::pause();
    }
    ASSERT_EQ(::write(pids_[1], &pid, sizeof pid), ssize_t{sizeof pid});
  }
  pid_t daemon() {
    pid_t pid = 0;
    EXPECT_EQ(::read(pids_[0], &pid, sizeof pid), ssize_t{sizeof pid});
    return pid;
  }
  // What waitpid says of it, which has to end by itself.
  static int end_of(pid_t pid) {
    int status = 0;
    const bool ended = eventually([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }, 5000);
    EXPECT_TRUE(ended);
    if (ended) return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    return 0;
  }

  int pids_[2] = {-1, -1};
};

TEST_F(LifelineTest, IsOnePipeOfThisProcess) {
  const int line = must(lifeline());
  EXPECT_EQ(must(lifeline()), line);
  EXPECT_NE(::fcntl(line, F_GETFD) & FD_CLOEXEC, 0);
  const ino_t ours = inode_of(line);
  Child child([&] { EXPECT_NE(inode_of(must(lifeline())), ours) << "a child's daemons live by the child"; });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(LifelineTest, ADaemonEndsWithItsParent) {
  Gate ready;
  Child parent([&] {
    const int line = must(lifeline());
    start_daemon([&] {
      must(end_with_parent(line));
      ready.open();
    });
    for (;;) ::pause();
  });
  const pid_t pid = daemon();
  ASSERT_TRUE(ready.wait());
  EXPECT_EQ(::kill(pid, 0), 0);
  parent.kill_now();
  EXPECT_EQ(end_of(pid), -SIGKILL);
}

TEST_F(LifelineTest, ADaemonThatIsTooLateEndsAtOnce) {
  Gate killed;
  Child parent([&] {
    const int line = must(lifeline());
    start_daemon([&] {
      EXPECT_TRUE(killed.wait());
      must(end_with_parent(line));
    });
    for (;;) ::pause();
  });
  const pid_t pid = daemon();
  parent.kill_now();
  killed.open();
  EXPECT_EQ(end_of(pid), -SIGKILL);
}

// A sibling that was forked later has no part of the pipe by which it would keep the daemon alive.
TEST_F(LifelineTest, ALaterChildDoesNotKeepADaemonAlive) {
  Gate ready;
  Gate go;
  Child parent([&] {
    const int line = must(lifeline());
    start_daemon([&] {
      must(end_with_parent(line));
      ready.open();
    });
    start_daemon([&] {
      EXPECT_TRUE(go.wait());
      ::_exit(7);
    });
    for (;;) ::pause();
  });
  const pid_t pid = daemon();
  const pid_t other = daemon();
  ASSERT_TRUE(ready.wait());
  parent.kill_now();
  EXPECT_EQ(end_of(pid), -SIGKILL);
  EXPECT_EQ(::kill(other, 0), 0);
  go.open();
  EXPECT_EQ(end_of(other), 7);
}

// close_range() and the like: the numbers may be somebody else's by then.
TEST_F(LifelineTest, DescriptorsThatWereClosedUnderIt) {
  Gate ready;
  Gate replaced;
  Child parent([&] {
    const int line = must(lifeline());
    start_daemon([&] {
      must(end_with_parent(line));
      ready.open();
    });
    EXPECT_TRUE(ready.wait());
    const int other = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::dup2(other, line), line);
    const int again = must(lifeline());
    EXPECT_NE(inode_of(again), inode_of(line));
    EXPECT_EQ(inode_of(line), inode_of(other)) << "what is somebody else's was closed";
    replaced.open();
    for (;;) ::pause();
  });
  const pid_t pid = daemon();
  ASSERT_TRUE(replaced.wait());
  EXPECT_EQ(::kill(pid, 0), 0);
  EXPECT_NE(os::task_state(pid), 'Z') << "the old daemon lives by the old pipe";
  parent.kill_now();
  EXPECT_EQ(end_of(pid), -SIGKILL);
}

// A child that may clean up: SIGINT first.
TEST_F(LifelineTest, ASoftenedEndBeginsWithSigint) {
  Gate ready;
  Child parent([&] {
    const int line = must(lifeline());
    start_daemon([&] {
      ::signal(SIGINT, [](int) { ::_exit(7); });
      must(soften_end(must(end_with_parent(line)), 20'000'000'000));
      ready.open();
    });
    for (;;) ::pause();
  });
  const pid_t pid = daemon();
  ASSERT_TRUE(ready.wait());
  parent.kill_now();
  EXPECT_EQ(end_of(pid), 7);
}

volatile sig_atomic_t interrupts = 0;

// The kernel signals again whenever another of the pipe's readers ends, which each sibling of the child is.
TEST_F(LifelineTest, ASoftenedEndIsToldOnce) {
  Gate ready;
  Child parent([&] {
    const int line = must(lifeline());
    start_daemon([&] {
      ::signal(SIGINT, [](int) { interrupts = interrupts + 1; });
      const int other = ::open(("/proc/self/fd/" + std::to_string(line)).c_str(), O_RDONLY | O_NONBLOCK);
      must(soften_end(must(end_with_parent(line)), 20'000'000'000));
      sigset_t interrupt;
      sigset_t none;
      ::sigemptyset(&none);
      ::sigemptyset(&interrupt);
      ::sigaddset(&interrupt, SIGINT);
      ::sigprocmask(SIG_BLOCK, &interrupt, nullptr);
      ready.open();
      while (interrupts == 0) ::sigsuspend(&none);
      ::close(other);  // as when a sibling ends
      ::sigprocmask(SIG_UNBLOCK, &interrupt, nullptr);
      ::_exit(interrupts);
    });
    for (;;) ::pause();
  });
  const pid_t pid = daemon();
  ASSERT_TRUE(ready.wait());
  parent.kill_now();
  EXPECT_EQ(end_of(pid), 1);
}

TEST_F(LifelineTest, ASoftenedEndOfAChildThatDoesNotListenIsSigkill) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "the thread sanitizer keeps a signal back until the next call of the C library, of which this "
         "loop makes none";
#endif
  Gate ready;
  Child parent([&] {
    const int line = must(lifeline());
    start_daemon([&] {
      ::signal(SIGINT, SIG_IGN);
      must(soften_end(must(end_with_parent(line)), 50'000'000));
      ready.open();
      for (;;) {
      }  // a busy loop, as in a kernel of some library
    });
    for (;;) ::pause();
  });
  const pid_t pid = daemon();
  ASSERT_TRUE(ready.wait());
  parent.kill_now();
  EXPECT_EQ(end_of(pid), -SIGKILL);
}

TEST_F(LifelineTest, WhatIsNoDescriptorIsAnError) { EXPECT_EQ(end_with_parent(-1).code(), Code::kSystem); }

}  // namespace
}  // namespace forklift::test
