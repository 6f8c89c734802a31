// The manager of named segments as a program: how it starts, what it inherits, what it mends.
#include "shm_manager/segment_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "os/proc.h"
#include "segment/files.h"
#include "support/segment_fixture.h"

namespace forklift::test {
namespace {

namespace fs = std::filesystem;

using arena::LeasePtr;
using testing::IsEmpty;
using testing::SizeIs;

class ShmManager : public SegmentFixture {};

TEST_F(ShmManager, IsAloneInItsSession) {
  const LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const ManagerPair pair = wait_for_pair(token_);
  for (const pid_t pid : {pair.serves, pair.stands_by}) {
    EXPECT_EQ(::getsid(pid), pid);
    EXPECT_EQ(::getpgid(pid), pid);
    EXPECT_EQ(fs::read_symlink("/proc/" + std::to_string(pid) + "/cwd"), "/");
    ASSERT_TRUE(eventually([&] { return os::task_state(pid) == 'S'; }));  // it loads no library any more
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
      std::error_code gone;
      const std::string target = fs::read_symlink(entry.path(), gone).string();
      const bool its = gone || target == "/dev/null" || target.starts_with("/memfd:forklift") ||
                       target.starts_with("anon_inode:[pidfd]") || target.starts_with("socket:") ||
                       target.starts_with(folder_ + "/forklift-") || target.starts_with("pidfd:");
      EXPECT_TRUE(its) << entry.path() << " is " << target;
    }
  }
  // Nobody's child: no zombie of ours, either.
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST_F(ShmManager, InheritsNoPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);  // not close-on-exec
  const os::Fd read(ends[0]);
  os::Fd write(ends[1]);
  const LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  write.close();
  char byte = 0;
  EXPECT_EQ(::read(read.get(), &byte, 1), 0);  // nobody else has the other end
}

TEST_F(ShmManager, SurvivesSignalsOfTheTerminal) {
  const LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const ManagerPair first = wait_for_pair(token_);
  EXPECT_NE(::getpgid(first.serves), ::getpgid(0));
  // Ended in good manners: the other one takes over.
  ::kill(first.serves, SIGTERM);
  EXPECT_EQ(wait_for_pair(token_, first).serves, first.stands_by);
  EXPECT_THAT(files(), SizeIs(1));
}

TEST_F(ShmManager, IsStartedOnceByTwoAtOnce) {
  Gate go;
  Gate made;
  Gate stop;
  std::vector<Child> children;
  for (int i = 0; i < 4; ++i) {
    children.emplace_back([&] {
      EXPECT_TRUE(go.wait());
      const Result<LeasePtr> lease = segments().create(100);
      EXPECT_OK(lease);
      made.open();
      EXPECT_TRUE(stop.wait());
    });
  }
  go.open(4);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(made.wait());
  (void)wait_for_pair(token_);
  EXPECT_THAT(files(), SizeIs(4));
  stop.open(4);
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
}

// A program in its place that is slow to begin.
class SlowManager {
 public:
  SlowManager() : path_(temporary("manager")) {
    const int file = ::mkstemp(path_.data());
    std::string script = "#!/bin/sh\nsleep 0.4\nexec -a forklift-shm-manager \"$REAL\" \"$@\"\n";
    script.replace(0, 9, "#!/bin/bash");
    script.replace(script.find("$REAL"), 5, ::getenv("FORKLIFT_SHM_MANAGER"));
    EXPECT_EQ(::write(file, script.data(), script.size()), static_cast<ssize_t>(script.size()));
    ::fchmod(file, 0700);
    ::close(file);
    named_ = std::make_unique<Variable>("FORKLIFT_SHM_MANAGER", path_.c_str());
  }
  ~SlowManager() {
    named_.reset();
    ::unlink(path_.c_str());
  }
  SlowManager(const SlowManager&) = delete;
  SlowManager& operator=(const SlowManager&) = delete;

 private:
  std::string path_;
  std::unique_ptr<Variable> named_;
};

std::size_t open_pipes() {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += fs::read_symlink(entry.path(), gone).string().starts_with("pipe:") ? 1 : 0;
  }
  return count;
}

TEST_F(ShmManager, IsStartedWhileAnotherThreadForks) {
  const SlowManager slow;
  const std::size_t pipes = open_pipes();
  LeasePtr lease;
  std::thread creator([&] { lease = create(100); });
  // The lock file comes right before the manager.
  EXPECT_TRUE(eventually([&] { return !shm_files(token_).empty(); }));
  Child child([&] {
    EXPECT_EQ(open_pipes(), pipes);
    EXPECT_OK(segments().create(100));
  });
  EXPECT_EQ(child.wait(), 0);
  creator.join();
  EXPECT_TRUE(lease);
  (void)wait_for_pair(token_);
  domain().reap();  // the child may have had the segment, too
}

TEST_F(ShmManager, ThatIsKilledWhileItStarts) {
  const SlowManager slow;
  Result<LeasePtr> made = Status(Code::kTimeout, "");
  std::thread creator([&] { made = segments().create(100); });
  EXPECT_TRUE(eventually([&] { return !shm_files(token_).empty(); }));
  // The script is what there is now.
  pid_t script = 0;
  EXPECT_TRUE(eventually([&] {
    for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
      std::ifstream children(entry.path() / "children");
      if (children >> script) return true;
    }
    return false;
  }));
  ::kill(script, SIGKILL);
  creator.join();
  EXPECT_EQ(made.code(), Code::kPeerDied);
  EXPECT_TRUE(create(100));  // the next one does it
}

// --- what is removed from the folder

TEST_F(ShmManager, MakesItsSocketAnew) {
  const LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const std::string socket = segments().socket();
  ASSERT_TRUE(eventually([&] { return fs::exists(socket); }));
  ASSERT_EQ(::unlink(socket.c_str()), 0);
  EXPECT_TRUE(eventually([&] { return fs::exists(socket); }, 2000));
}

TEST_F(ShmManager, MakesTheLockFileAnew) {
  const LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  const std::string lock = segment::FileName{segment::FileKind::kLock, token_, 0}.in(folder_);
  ASSERT_EQ(::unlink(lock.c_str()), 0);
  ASSERT_TRUE(eventually([&] { return fs::exists(lock); }, 2000));
  // It has an owner still: nobody sweeps it.
  ASSERT_OK(segment::sweep(folder_));
  EXPECT_THAT(files(), SizeIs(1));
  EXPECT_TRUE(create(100));
  (void)wait_for_pair(token_);
}

TEST_F(ShmManager, OfADomainWhoseFilesAreAllGone) {
  LeasePtr lease = create(100);
  ASSERT_TRUE(lease);
  for (const std::string& file : shm_files(token_)) ASSERT_EQ(::unlink((folder_ + "/" + file).c_str()), 0);
  lease->data()[0] = std::byte{1};
  const LeasePtr other = create(100);
  ASSERT_TRUE(other);
  EXPECT_THAT(files(), SizeIs(1));
  lease.reset();
  EXPECT_THAT(files(), SizeIs(1));
}

}  // namespace
}  // namespace forklift::test
