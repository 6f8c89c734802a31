// System calls as values: descriptors, memory files, mappings, futexes, locks, what /proc tells.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "os/clock.h"
#include "os/fd.h"
#include "os/futex.h"
#include "os/limits.h"
#include "os/mapping.h"
#include "os/memfd.h"
#include "os/ofd_lock.h"
#include "os/proc.h"
#include "support/child.h"
#include "support/status_check.h"

namespace forklift::os {
namespace {

using test::Child;
using test::Gate;
using testing::HasSubstr;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

Fd make_memfd(std::uint64_t bytes) {
  Result<Fd> made = create_memfd("forklift-test", bytes);
  EXPECT_OK(made);
  return made ? *std::move(made) : Fd();
}

std::uint64_t stored_bytes(const Fd& file) {
  struct stat info{};
  EXPECT_EQ(::fstat(file.get(), &info), 0);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

// The VmFlags line of the mapping that begins at the address.
std::string vm_flags(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  char wanted[32];
  std::snprintf(wanted, sizeof wanted, "%lx-", reinterpret_cast<unsigned long>(address));
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.starts_with(wanted)) inside = true;
    if (inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return "no such mapping";
}

TEST(FdTest, ClosesWhatItOwnsOnce) {
  int raw = -1;
  {
    const Fd owner = make_memfd(4096);
    raw = owner.get();
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(FdTest, MovingPassesTheOwnership) {
  Fd first = make_memfd(4096);
  const int raw = first.get();
  Fd second(std::move(first));
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): this is what is tested
  EXPECT_EQ(second.get(), raw);
  Fd third = make_memfd(4096);
  const int dropped = third.get();
  third = std::move(second);
  EXPECT_FALSE(is_open(dropped));
  EXPECT_EQ(third.release(), raw);
  EXPECT_TRUE(is_open(raw));
  ::close(raw);
}

TEST(FdTest, EveryDescriptorIsCloseOnExec) {
  const Fd file = make_memfd(4096);
  Result<Fd> copy = file.duplicate();
  Result<Fd> fresh = file.reopen();
  ASSERT_OK(copy);
  ASSERT_OK(fresh);
  for (const Fd* fd : std::initializer_list<const Fd*>{&file, &*copy, &*fresh})
    EXPECT_EQ(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(file.inode(), fresh->inode());
  EXPECT_NE(file.inode(), 0U);
  ::fcntl(copy->get(), F_SETFD, 0);
  EXPECT_OK(copy->set_close_on_exec());
  EXPECT_EQ(::fcntl(copy->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(FdTest, WhatIsNotOpenSaysSo) {
  const Fd nothing;
  EXPECT_EQ(nothing.inode(), 0U);
  const Result<Fd> copy = nothing.duplicate();
  EXPECT_CODE(Code::kSystem, copy);
  EXPECT_EQ(copy.status().errno_value(), EBADF);
  const Result<Fd> fresh = nothing.reopen();
  EXPECT_CODE(Code::kSystem, fresh);
  EXPECT_EQ(fresh.status().call(), "open");
}

TEST(MemfdTest, IsSparseAndSealed) {
  const Fd file = make_memfd(std::uint64_t{1} << 40);
  EXPECT_EQ(stored_bytes(file), 0U);
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_END), off_t{1} << 40);
  EXPECT_EQ(::ftruncate(file.get(), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(file.get(), off_t{1} << 41), -1);
  EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);  // sealed against seals
}

TEST(MemfdTest, AllocatesAndPunches) {
  const Fd file = make_memfd(16 * kMiB);
  EXPECT_OK(allocate_range(file, kMiB, 2 * kMiB));
  EXPECT_EQ(stored_bytes(file), 2 * kMiB);
  ASSERT_EQ(::pwrite(file.get(), "x", 1, kMiB), 1);
  EXPECT_OK(punch_hole(file, kMiB, kMiB));
  EXPECT_EQ(stored_bytes(file), kMiB);
  char byte = 'y';
  ASSERT_EQ(::pread(file.get(), &byte, 1, kMiB), 1);
  EXPECT_EQ(byte, '\0');
  EXPECT_CODE(Code::kSystem, allocate_range(file, 15 * kMiB, 2 * kMiB));  // behind the sealed end
}

TEST(MappingTest, IsSharedAndLeftOutOfCoreDumps) {
  const Fd file = make_memfd(kMiB);
  Result<Mapping> one = Mapping::shared(file, 0, kMiB);
  Result<Mapping> other = Mapping::shared(file, 0, kMiB);
  ASSERT_OK(one);
  ASSERT_OK(other);
  one->data()[5] = std::byte{7};
  EXPECT_EQ(other->data()[5], std::byte{7});
  EXPECT_THAT(vm_flags(one->data()), HasSubstr(" dd "));
  const std::byte* base = one->data();
  Mapping moved(*std::move(one));
  EXPECT_EQ(moved.data(), base);
  EXPECT_EQ(moved.size(), kMiB);
  moved = *std::move(other);
  EXPECT_EQ(vm_flags(base), "no such mapping");  // assignment unmapped what was there
  moved.reset();
  EXPECT_FALSE(moved.valid());
}

TEST(MappingTest, APrivatePartIsItsOwnAndStaysOutOfCoreDumps) {
  const Fd file = make_memfd(kMiB);
  Result<Mapping> view = Mapping::shared(file, 0, kMiB);
  Result<Mapping> alias = Mapping::shared(file, 0, kMiB);
  ASSERT_OK(view);
  ASSERT_OK(alias);
  alias->data()[8192] = std::byte{1};
  ASSERT_OK(view->make_private(file, 8192, 8192, 4096));
  EXPECT_EQ(view->data()[8192], std::byte{1});
  view->data()[8192] = std::byte{2};
  view->data()[0] = std::byte{3};
  EXPECT_EQ(alias->data()[8192], std::byte{1});
  EXPECT_EQ(alias->data()[0], std::byte{3});
  EXPECT_THAT(vm_flags(view->data() + 8192), HasSubstr(" dd "));
  discard_private(view->data() + 8192, 4096);
  EXPECT_EQ(view->data()[8192], std::byte{1});
}

TEST(MappingTest, PopulatingTakesAnyRange) {
  const Fd file = make_memfd(kMiB);
  Result<Mapping> view = Mapping::shared(file, 0, kMiB);
  ASSERT_OK(view);
  populate_write(view->data() + 4100, 5000);  // pages 1 and 2
  EXPECT_EQ(stored_bytes(file), 2U * 4096);
  populate_read(view->data() + 100, 1);
  EXPECT_EQ(view->data()[100], std::byte{0});
}

TEST(MappingTest, WithoutAddressSpaceItSaysHowMuchWasAsked) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizers' own mappings exceed any limit";
#endif
  Child child([] {
    const Fd file = make_memfd(kMiB);
    const rlimit limit{256 * kMiB, RLIM_INFINITY};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    EXPECT_EQ(address_space_limit(), 256 * kMiB);
    const Result<Mapping> view = Mapping::shared(file, 0, 512 * kMiB);
    EXPECT_CODE(Code::kSystem, view);
    EXPECT_EQ(view.status().errno_value(), ENOMEM);
    EXPECT_EQ(view.status().call(), "mmap");
    EXPECT_THAT(std::string(view.status().what()), HasSubstr("536870912"));
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(FutexTest, AnswersWhatHappened) {
  std::atomic<std::uint32_t> word{1};
  EXPECT_EQ(futex_wait(word, 2, -1), FutexWait::kChanged);
  EXPECT_EQ(futex_wait(word, 1, 1'000'000), FutexWait::kTimedOut);
  EXPECT_EQ(futex_wait(word, 1, 0), FutexWait::kTimedOut);
  EXPECT_EQ(futex_wake(word, 1), 0);
}

TEST(FutexTest, WakesAsManyAsAsked) {
  std::atomic<std::uint32_t> word{1};
  std::atomic<int> woken{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&] {
      while (futex_wait(word, 1, -1) == FutexWait::kInterrupted) {
      }
      ++woken;
    });
  }
  int by_one = 0;
  ASSERT_TRUE(test::eventually([&] { return (by_one += futex_wake(word, 1)) == 1; }));
  ASSERT_TRUE(test::eventually([&] { return woken == 1; }));
  int rest = 0;
  ASSERT_TRUE(test::eventually([&] { return (rest += futex_wake(word, 2)) == 2; }));
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken, 3);
}

TEST(FutexTest, ReachesTheSameWordElsewhere) {
  const Fd file = make_memfd(4096);
  Result<Mapping> here = Mapping::shared(file, 0, 4096);
  ASSERT_OK(here);
  Child child([&] {
    Result<Mapping> there = Mapping::shared(file, 0, 4096);
    ASSERT_OK(there);
    ASSERT_NE(there->data(), here->data());
    EXPECT_EQ(futex_wait(*reinterpret_cast<std::atomic<std::uint32_t>*>(there->data()), 0, 20'000'000'000),
              FutexWait::kWoken);
  });
  auto& word = *reinterpret_cast<std::atomic<std::uint32_t>*>(here->data());
  EXPECT_TRUE(test::eventually([&] { return futex_wake(word, 1) == 1; }));
  EXPECT_EQ(child.wait(), 0);
}

TEST(FutexTest, ASignalInterrupts) {
  Child child([] {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, nullptr);
    ::alarm(1);
    std::atomic<std::uint32_t> word{0};
    EXPECT_EQ(futex_wait(word, 0, 20'000'000'000), FutexWait::kInterrupted);
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(OfdLockTest, BelongsToTheDescription) {
  const Fd file = make_memfd(4096);
  Result<Fd> other = file.reopen();
  ASSERT_OK(other);
  EXPECT_TRUE(*try_lock_byte(file, 5000));
  EXPECT_TRUE(*try_lock_byte(file, 5000));  // ours already
  EXPECT_FALSE(*try_lock_byte(*other, 5000));
  EXPECT_TRUE(*try_lock_byte(*other, 5001));
  EXPECT_TRUE(*byte_is_locked(*other, 5000));
  EXPECT_FALSE(*byte_is_locked(file, 5000));  // one's own lock is not seen
  EXPECT_FALSE(*byte_is_locked(file, 5002));
  other->close();
  EXPECT_FALSE(*byte_is_locked(file, 5001));
  EXPECT_CODE(Code::kSystem, try_lock_byte(*other, 5000));
  EXPECT_CODE(Code::kSystem, byte_is_locked(*other, 5000));
}

TEST(OfdLockTest, LivesWithTheLastCopyOfItsDescription) {
  const Fd file = make_memfd(4096);
  Result<Fd> held = file.reopen();
  ASSERT_OK(held);
  ASSERT_TRUE(*try_lock_byte(*held, 1));
  Gate go;
  Child child([&] { EXPECT_TRUE(go.wait()); });
  held->close();
  EXPECT_TRUE(*byte_is_locked(file, 1));  // the child inherited the description
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(*byte_is_locked(file, 1));
}

TEST(OfdLockTest, IsFreedBySigkill) {
  const Fd file = make_memfd(4096);
  Gate ready;
  Child child([&] {
    Result<Fd> mine = file.reopen();
    ASSERT_OK(mine);
    EXPECT_TRUE(*try_lock_byte(*mine, 1));
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_TRUE(*byte_is_locked(file, 1));
  child.signal(SIGKILL);
  EXPECT_TRUE(test::eventually([&] { return !*byte_is_locked(file, 1); }));  // the zombie holds nothing
  EXPECT_EQ(child.wait(), -SIGKILL);
}

TEST(ProcTest, TellsTheStateOfATask) {
  EXPECT_EQ(task_state(::getpid()), 'R');
  Child child([] { ::pause(); });
  EXPECT_TRUE(test::eventually([&] { return task_state(child.pid()) == 'S'; }));
  child.signal(SIGSTOP);
  EXPECT_TRUE(test::eventually([&] { return task_state(child.pid()) == 'T'; }));
  child.signal(SIGKILL);
  EXPECT_TRUE(test::eventually([&] { return task_state(child.pid()) == 'Z'; }));
  const pid_t gone = child.pid();
  EXPECT_EQ(child.wait(), -SIGKILL);
  EXPECT_EQ(task_state(gone), '\0');
  EXPECT_EQ(start_time(gone), 0U);
}

TEST(ProcTest, ReadsPastACommandThatLooksLikeStat) {
  const std::uint64_t started = start_time(::getpid());
  EXPECT_NE(started, 0U);
  char old[16] = {};
  ::prctl(PR_GET_NAME, old);
  ::prctl(PR_SET_NAME, "a) Z 1 ) 2 (");
  EXPECT_EQ(start_time(::getpid()), started);
  EXPECT_EQ(task_state(::getpid()), 'R');
  ::prctl(PR_SET_NAME, old);
}

TEST(ProcTest, AProcessBeginsNoLaterThanTheClockSays) {
  const std::uint64_t before = ticks_since_boot();
  Child child([] { ::pause(); });
  const std::uint64_t after = ticks_since_boot();
  EXPECT_GE(start_time(child.pid()), before);
  EXPECT_LE(start_time(child.pid()), after);
  child.signal(SIGKILL);
  EXPECT_EQ(child.wait(), -SIGKILL);
}

TEST(ProcTest, KnowsWhoIsAndWhere) {
  EXPECT_NE(pid_namespace(), 0U);
  EXPECT_GE(allowed_cpus(), 1);
  EXPECT_GE(current_cpu(), 0);
}

TEST(ProcTest, AThreadLeavesAProcessor) {
  const int allowed = allowed_cpus();
  const int cpu = current_cpu();
  if (leave_cpu(cpu)) {
    EXPECT_GT(allowed, 1);
    EXPECT_EQ(allowed_cpus(), allowed);
  } else {
    EXPECT_EQ(allowed, 1);
  }
  EXPECT_FALSE(leave_cpu(-1));
  // Where it may use one processor only, it stays.
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(current_cpu()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_FALSE(leave_cpu(current_cpu()));
    EXPECT_EQ(allowed_cpus(), 1);
  }).join();
}

TEST(ProcTest, APidfdTellsTheEnd) {
  Gate go;
  Child child([&] { EXPECT_TRUE(go.wait()); });
  Result<Fd> pidfd = open_pidfd(child.pid());
  ASSERT_OK(pidfd);
  EXPECT_FALSE(*wait_pidfd(*pidfd, 0));
  go.open();
  EXPECT_TRUE(*wait_pidfd(*pidfd, 20'000));
  const pid_t gone = child.pid();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(open_pidfd(gone).status().errno_value(), ESRCH);
}

TEST(ClockTest, DeadlinesTakeAnySeconds) {
  EXPECT_TRUE(Deadline::after_seconds(0).passed());
  EXPECT_TRUE(Deadline::after_seconds(-1).passed());
  EXPECT_TRUE(Deadline::after_seconds(-std::numeric_limits<double>::infinity()).passed());
  EXPECT_TRUE(Deadline::after_seconds(std::nan("")).passed());
  EXPECT_TRUE(Deadline::after_seconds(std::numeric_limits<double>::infinity()).is_never());
  EXPECT_TRUE(Deadline::after_seconds(1e300).is_never());
  EXPECT_TRUE(Deadline::after_ns(std::numeric_limits<std::int64_t>::max()).is_never());
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_EQ(Deadline::never().left_ns(17), 17);
  EXPECT_EQ(Deadline::after_seconds(-1).left_ns(17), 0);
  const Deadline soon = Deadline::after_seconds(100);
  EXPECT_FALSE(soon.passed());
  EXPECT_EQ(soon.left_ns(17), 17);
  EXPECT_GT(soon.left_ns(std::int64_t{200} * 1'000'000'000), std::int64_t{99} * 1'000'000'000);
  EXPECT_FALSE(Deadline::after_seconds(1e-9).is_never());
}

TEST(LimitsTest, AvailableMemoryIsWithinTheMachine) {
  const std::uint64_t total =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(page_size());
  EXPECT_GT(available_memory(), 0U);
  EXPECT_LE(available_memory(), total);
  EXPECT_EQ(address_space_limit(), std::numeric_limits<std::uint64_t>::max());
}

}  // namespace
}  // namespace forklift::os
