// What is said of programs that stand still, of some that do not, and of processes that cannot be looked at.
#include "inspect/diagnosis.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locks/barrier.h"
#include "locks/event.h"
#include "locks/mutex.h"
#include "locks/read_write.h"
#include "locks/semaphore.h"
#include "node/wait_any.h"
#include "os/fd.h"
#include "os/proc.h"
#include "support/asleep.h"
#include "support/node_fixture.h"
#include "watch/set.h"

namespace forklift::inspect {
namespace {

using locks::Took;
using os::Deadline;

class DiagnosisTest : public test::NodeFixture {
 protected:
  // What killed children held is given back first.
  void TearDown() override {
    domain().reap();
    NodeFixture::TearDown();
  }
  Diagnosis look() { return diagnose(View(domain())); }
  // As soon as somebody is found stuck.
  Diagnosis look_until_stuck() {
    Diagnosis seen;
    EXPECT_TRUE(test::eventually([&] { return (seen = look()).is_stuck(); }, 20'000)) << seen.text();
    return seen;
  }
  // After all waits are long enough to count.
  Diagnosis look_at_long_waits(std::size_t waits) {
    Diagnosis seen;
    const auto are_long = [&] {
      seen = look();
      return seen.waits.size() == waits &&
             std::all_of(seen.waits.begin(), seen.waits.end(),
                         [](const WaitLine& each) { return each.seconds > 1.1; });
    };
    EXPECT_TRUE(test::eventually(are_long, 20'000)) << seen.text();
    return seen;
  }
  // A process that waits, as its member, for as long as it is let.
  test::Child waiter(const std::function<void()>& body) {
    return test::Child([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
    });
  }
  locks::MutexPtr make_lock() { return *locks::Mutex::create(node().locks(), false); }
  static void acquire(const locks::MutexPtr& lock) {
    Took how = Took::kNo;
    (void)lock->acquire(Deadline::never(), nullptr, how);
  }
};

TEST_F(DiagnosisTest, APlainProgramIsNotStuck) {
  const Diagnosis seen = look();
  EXPECT_FALSE(seen.is_stuck());
  ASSERT_EQ(seen.processes.size(), 1u);
  EXPECT_EQ(seen.processes[0].pid, ::getpid());
  EXPECT_EQ(seen.domain, domain().header().domain_id);
  EXPECT_NE(seen.text().find("Nothing is stuck: 1 process, 0 waits."), std::string::npos) << seen.text();
}

TEST_F(DiagnosisTest, ACycleOfThreeLocksIsADeadlock) {
  const locks::MutexPtr locks[] = {make_lock(), make_lock(), make_lock()};
  test::Gate holds, go;
  std::vector<test::Child> children;
  for (std::size_t i = 0; i < 3; ++i) {
    children.push_back(waiter([&] {
      acquire(locks[i]);
      holds.open();
      (void)go.wait();
      acquire(locks[(i + 1) % 3]);
    }));
  }
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(holds.wait());
  go.open(3);
  const Diagnosis seen = look_until_stuck();
  ASSERT_EQ(seen.findings.size(), 1u) << seen.text();
  EXPECT_EQ(seen.findings[0].cause, Cause::kDeadlock);
  EXPECT_EQ(seen.findings[0].processes.size(), 3u);
  for (const test::Child& child : children)
    EXPECT_NE(seen.findings[0].text.find("process " + std::to_string(child.pid())), std::string::npos)
        << seen.text();
}

TEST_F(DiagnosisTest, ALockTakenTwiceIsADeadlockOfOne) {
  const locks::MutexPtr lock = make_lock();
  const test::Child child = waiter([&] {
    acquire(lock);
    acquire(lock);
  });
  const Diagnosis seen = look_until_stuck();
  EXPECT_EQ(seen.findings[0].cause, Cause::kDeadlock);
  EXPECT_NE(seen.findings[0].text.find("which it holds itself"), std::string::npos) << seen.text();
}

// Killed at once, neither was taken over yet: whoever was killed while it waited waits no more.
TEST_F(DiagnosisTest, AKilledWaiterForAKilledHolderIsNotStuck) {
  const locks::MutexPtr lock = make_lock();
  test::Gate holds, never;
  test::Child holder = waiter([&] {
    acquire(lock);
    holds.open();
    (void)never.wait();
  });
  ASSERT_TRUE(holds.wait());
  test::Child child = waiter([&] { acquire(lock); });
  ASSERT_TRUE(test::eventually([&] { return look().waits.size() == 1; }));
  child.signal(SIGKILL);
  siginfo_t ended;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &ended, WEXITED | WNOWAIT), 0);
  holder.kill_now();
  const Diagnosis seen = look();
  EXPECT_FALSE(seen.is_stuck()) << seen.text();
  EXPECT_TRUE(seen.waits.empty()) << seen.text();
}

TEST_F(DiagnosisTest, AHolderThatComputesIsNoDeadlock) {
  const locks::MutexPtr lock = make_lock();
  acquire(lock);
  const test::Child child = waiter([&] { acquire(lock); });
  const Diagnosis seen = look_at_long_waits(1);
  EXPECT_FALSE(seen.is_stuck()) << seen.text();
  EXPECT_EQ(seen.waits[0].process, child.pid());
  EXPECT_EQ(seen.waits[0].enders, std::vector<pid_t>{::getpid()});
  lock->release();
}

TEST_F(DiagnosisTest, AWaitWithADeadlineIsNotStuck) {
  const locks::MutexPtr lock = make_lock();
  const test::Child child = waiter([&] {
    acquire(lock);
    Took how = Took::kNo;
    (void)lock->acquire(Deadline::after_seconds(60), nullptr, how);
  });
  const Diagnosis seen = look_at_long_waits(1);
  EXPECT_FALSE(seen.is_stuck()) << seen.text();
  EXPECT_GT(seen.waits[0].seconds_left, 0);
  EXPECT_LE(seen.waits[0].seconds_left, 60);
}

TEST_F(DiagnosisTest, AThreadThatHasEndedWithALockIsNamed) {
  const locks::MutexPtr lock = make_lock();
  const test::Child child = waiter([&] {
    std::thread([&] { acquire(lock); }).join();
    acquire(lock);
  });
  const Diagnosis seen = look_until_stuck();
  EXPECT_EQ(seen.findings[0].cause, Cause::kLostHolder) << seen.text();
}

TEST_F(DiagnosisTest, AStoppedReaderKeepsAWriterWaiting) {
  Result<locks::ReadWriteLockPtr> lock = locks::ReadWriteLock::create(node().locks());
  ASSERT_OK(lock.status());
  test::Gate reads;
  test::Child reader = waiter([&] {
    (void)(*lock)->acquire_shared(Deadline::never(), nullptr);
    reads.open();
    ::pause();
  });
  ASSERT_TRUE(reads.wait());
  const test::Child writer = waiter([&] {
    Took how = Took::kNo;
    (void)(*lock)->acquire(Deadline::never(), nullptr, how);
  });
  ASSERT_TRUE(test::stop(reader.pid()));
  const Diagnosis seen = look_until_stuck();
  EXPECT_EQ(seen.findings[0].cause, Cause::kStopped) << seen.text();
  EXPECT_NE(seen.findings[0].text.find("process " + std::to_string(reader.pid())), std::string::npos);
}

TEST_F(DiagnosisTest, ASemaphoreWithoutUnits) {
  Result<locks::SemaphorePtr> units = locks::Semaphore::create(node().locks(), {.value = 0});
  ASSERT_OK(units.status());
  const test::Child child = waiter([&] { (void)(*units)->acquire(Deadline::never(), nullptr); });
  const Diagnosis seen = look_at_long_waits(1);
  EXPECT_FALSE(seen.is_stuck()) << "this process may release one: " << seen.text();
  EXPECT_EQ(seen.waits[0].what, "a unit of Semaphore 0");
}

TEST_F(DiagnosisTest, SeveralSourcesOfOneWait) {
  const channel::ChannelPtr one = make_channel(), other = make_channel();
  ASSERT_OK(one->label().set("one"));
  const test::Child child = waiter([&] {
    std::vector<std::size_t> ready;
    const node::Source sources[] = {{.channel = one.get()}, {.channel = other.get()}};
    (void)node::wait_any(sources, Deadline::never(), {}, ready);
  });
  const Diagnosis seen = look_at_long_waits(1);
  EXPECT_EQ(seen.waits[0].what, "a message in queue \"one\" or a message in queue 1");
}

TEST_F(DiagnosisTest, SourcesOfAWaitSet) {
  const channel::ChannelPtr channels[] = {make_channel(), make_channel()};
  const test::Child child = waiter([&] {
    const std::unique_ptr<watch::Set> set = *watch::Set::make(node().watches());
    for (std::uint32_t i = 0; i < 2; ++i) (void)set->add(node().channels().unchecked_row(i).items);
    do {
      set->take_marks([](std::uint32_t) {});  // a new member is marked
    } while (set->wait(Deadline::never(), nullptr));
  });
  const Diagnosis seen = look_at_long_waits(1);
  EXPECT_EQ(seen.waits[0].what, "a message in queue 0 or a message in queue 1");
}

TEST_F(DiagnosisTest, TheNameOfAProcessIsSaid) {
  domain().name_self("camera\x01 of a name that is longer than its place");
  EXPECT_EQ(look().processes.at(0).name, "camera? of a name that is longer");
  domain().name_self("");
}

TEST_F(DiagnosisTest, AProcessIsSeenFromOutside) {
  Result<std::vector<Diagnosis>> seen = diagnose(::getpid());
  ASSERT_OK(seen.status());
  EXPECT_TRUE(std::any_of(seen->begin(), seen->end(),
                          [&](const Diagnosis& each) { return each.domain == domain().header().domain_id; }));
}

TEST(DiagnosisOf, AProcessThatIsNotThere) {
  test::Child child([] {});
  const pid_t pid = child.pid();
  EXPECT_EQ(child.wait(), 0);
  const Result<std::vector<Diagnosis>> seen = diagnose(pid);
  EXPECT_EQ(seen.code(), Code::kInvalid);
  EXPECT_EQ(seen.status().what(), "there is no process " + std::to_string(pid));
}

TEST(DiagnosisOf, AZombie) {
  test::Child child([] { ::_exit(3); });
  ASSERT_TRUE(test::eventually([&] { return os::task_state(child.pid()) == 'Z'; }));
  const Result<std::vector<Diagnosis>> seen = diagnose(child.pid());
  EXPECT_EQ(seen.code(), Code::kInvalid);
  EXPECT_NE(seen.status().what().find("ended with exit code 3"), std::string::npos) << seen.status().what();
  EXPECT_EQ(child.wait(), 3);
}

TEST(DiagnosisOf, AProcessThatSharesNothing) {
  test::Gate closed;
  test::Child child([&] {
    ::close_range(static_cast<unsigned>(closed.fd().get()) + 1, ~0U, 0);
    for (int fd = 3; fd < closed.fd().get(); ++fd) ::close(fd);
    closed.open();
    ::pause();
  });
  ASSERT_TRUE(closed.wait());
  const Result<std::vector<Diagnosis>> seen = diagnose(child.pid());
  EXPECT_EQ(seen.code(), Code::kInvalid);
  EXPECT_NE(seen.status().what().find("is in no Forklift domain"), std::string::npos) << seen.status().what();
  child.kill_now();
}

class OtherLayout : public test::NodeFixture {};

TEST_F(OtherLayout, IsRefusedWithBothVersions) {
  domain().header().layout_version = 7;
  const Result<std::vector<View>> views = views_of(::getpid());
  domain().header().layout_version = domain::kLayoutVersion;
  EXPECT_EQ(views.code(), Code::kVersion);
  EXPECT_NE(views.status().what().find("layout version 7"), std::string::npos) << views.status().what();
}

TEST_F(OtherLayout, AWrongHeaderIsRefused) {
  domain::Extent& extent = domain().header().regions[3];
  const domain::Extent right = extent;
  extent.bytes = ~std::uint64_t{0};
  const Result<std::vector<View>> views = views_of(::getpid());
  extent = right;
  EXPECT_EQ(views.code(), Code::kCorrupt);
}

// This process's descriptor of its domain.
int control_descriptor() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  while (const dirent* entry = ::readdir(folder.get())) {
    char target[64];
    const ssize_t length = ::readlinkat(::dirfd(folder.get()), entry->d_name, target, sizeof target);
    if (length > 0 &&
        std::string(target, static_cast<std::size_t>(length)).find("forklift-control") != std::string::npos)
      return std::stoi(entry->d_name);
  }
  return -1;
}

// As a process does that forks: it has its segment open a second time for a moment, by a descriptor that is another file's then.
TEST_F(DiagnosisTest, DescriptorsMayChangeWhileTheyAreRead) {
  const int control = control_descriptor();
  ASSERT_GE(control, 0);
  const test::Child child = waiter([&] {
    const int other = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);  // neither empty nor a segment
    const int changing = ::dup(other);
    for (;;) {
      ::dup2(control, changing);
      ::dup2(other, changing);
    }
  });
  for (int looks = 0; looks < 3000; ++looks) {
    const Result<std::vector<View>> views = views_of(child.pid());
    ASSERT_TRUE(views.ok()) << views.status().to_string();
    ASSERT_EQ(views->size(), 1u);
    ASSERT_EQ(views->front().header().domain_id, domain().header().domain_id);
  }
}

}  // namespace
}  // namespace forklift::inspect
