// The tests' own instruments: a leak must be seen, a hang must end with stacks.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "support/leak_check.h"
#include "support/watchdog.h"

namespace forklift::test {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::int64_t g_probe = 0;  // NOLINT
std::int64_t probe_value() { return g_probe; }
const bool kProbeAdded = add_leak_probe("seeded probe", probe_value);

TEST(LeakCheck, NothingHappenedNothingFound) {
  const Snapshot before = Snapshot::take();
  EXPECT_THAT(leaks_between(before, Snapshot::take()), IsEmpty());
}

TEST(LeakCheck, SeesADescriptor) {
  const Snapshot before = Snapshot::take();
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  EXPECT_THAT(leaks_between(before, Snapshot::take()), Contains(HasSubstr("descriptor(s) of pipe:")));
  close(ends[0]);
  close(ends[1]);
  EXPECT_THAT(leaks_between(before, Snapshot::take()), IsEmpty());
}

TEST(LeakCheck, SeesASecondDescriptorOfTheSameFile) {
  const int first = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const Snapshot before = Snapshot::take();
  const int second = fcntl(first, F_DUPFD_CLOEXEC, 0);
  EXPECT_THAT(leaks_between(before, Snapshot::take()), Contains("1 descriptor(s) of /dev/null"));
  close(second);
  close(first);
}

TEST(LeakCheck, SeesAChildRunningAndDead) {
  const Snapshot before = Snapshot::take();
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_THAT(leaks_between(before, Snapshot::take()), Contains(HasSubstr("child process")));
  kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_THAT(leaks_between(before, Snapshot::take()), Contains(HasSubstr("child process")));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_THAT(leaks_between(before, Snapshot::take()), IsEmpty());
}

TEST(LeakCheck, SeesAMappingWhoseDescriptorIsClosed) {
  const Snapshot before = Snapshot::take();
  const int fd = memfd_create("other-memory", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  void* memory = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  close(fd);
  EXPECT_THAT(leaks_between(before, Snapshot::take()), Contains(HasSubstr("mapping of 8192 bytes")));
  munmap(memory, 8192);
}

TEST(LeakCheck, ASplitMappingIsNoLeak) {
  const int fd = memfd_create("other-memory", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  void* memory = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Snapshot before = Snapshot::take();
  mprotect(memory, 4096, PROT_NONE);
  EXPECT_THAT(leaks_between(before, Snapshot::take()), IsEmpty());
  munmap(memory, 8192);
  close(fd);
}

TEST(LeakCheck, SeesAnEntryInDevShm) {
  const Snapshot before = Snapshot::take();
  const std::string name = "/forklift-seeded-" + std::to_string(getpid());
  const int fd = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (fd < 0) GTEST_SKIP() << "no /dev/shm here";
  EXPECT_THAT(leaks_between(before, Snapshot::take()), Contains("/dev/shm" + name));
  shm_unlink(name.c_str());  // before the close: an entry in use by somebody else is no leak to other tests
  close(fd);
}

TEST(LeakCheck, SeesAProbeThatGrew) {
  const Snapshot before = Snapshot::take();
  g_probe += 3;
  EXPECT_THAT(leaks_between(before, Snapshot::take()), Contains("3 seeded probe"));
  g_probe -= 3;
}

// Pure: what snapshots say about a domain's own files.
TEST(LeakCheck, ADomainIsExcusedOnceForEachDomain) {
  Snapshot none;
  Snapshot one;
  one.descriptors["/memfd:forklift-control (deleted)"] = 3;
  one.mappings["/memfd:forklift-control (deleted)"] = 4096;
  one.domains = 1;
  Snapshot two = one;
  two.descriptors["/memfd:forklift-data (deleted)"] = 1;
  EXPECT_THAT(leaks_between(none, one), IsEmpty());
  EXPECT_THAT(leaks_between(one, two), Contains(HasSubstr("forklift-data")));
  two.domains = 2;
  EXPECT_THAT(leaks_between(one, two), IsEmpty());
  two.descriptors["/memfd:forklift-data (deleted)"] = 100;
  EXPECT_THAT(leaks_between(one, two), Contains(HasSubstr("forklift-data")));
}

void hang_watched(int report_fd) {
  Watchdog watchdog(std::chrono::milliseconds(300), report_fd);
  watchdog.begin("Seeded.Hang");
  if (fork() == 0) {
    for (;;) pause();
  }
  std::thread second([] {
    for (;;) pause();
  });
  // The main thread blocks every signal: it cannot speak, the others must.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  second.join();
}

TEST(WatchdogTest, EndsAHangWithTheStacksOfThreadsAndChildren) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    hang_watched(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::string report;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    report.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_THAT(report, HasSubstr("Seeded.Hang hangs: no end after 300 ms. 2 process(es)"));
  EXPECT_THAT(report, HasSubstr("process " + std::to_string(child)));
  EXPECT_THAT(report, HasSubstr("(end of stack)"));
  EXPECT_THAT(report, HasSubstr("waits in:"));
}

TEST(WatchdogTest, ATestThatEndsIsLeftAlone) {
  Watchdog watchdog(std::chrono::milliseconds(100), STDERR_FILENO);
  watchdog.begin("Seeded.Short");
  watchdog.end();
  watchdog.begin("Seeded.Long", std::chrono::hours(1));
  watchdog.end();
}

}  // namespace
}  // namespace forklift::test
