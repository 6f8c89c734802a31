// Removing what has no living owner, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "segment/files.h"
#include "segment/owner_lock.h"
#include "support/segment_fixture.h"

namespace forklift::test {
namespace {

namespace fs = std::filesystem;

using segment::FileKind;
using segment::FileName;
using segment::Found;
using segment::OwnerLock;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class SweepTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = temporary("sweep");
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string put(const FileName& name, std::size_t bytes = 100) {
    std::ofstream(name.in(folder_)) << std::string(bytes, 'x');
    return name.text();
  }
  std::vector<std::string> all() {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
  Found sweep_one(bool look_only = false) {
    const Result<std::vector<Found>> found = segment::sweep(folder_, look_only);
    EXPECT_OK(found);
    EXPECT_THAT(*found, SizeIs(1));
    return found && !found->empty() ? found->front() : Found();
  }

  std::string folder_;
};

TEST_F(SweepTest, RemovesWhatHasNoOwner) {
  put({FileKind::kLock, 7, 0}, 0);
  put({FileKind::kSegment, 7, 1}, 100);
  put({FileKind::kSegment, 7, 2, 4711}, 50);
  const Found looked = sweep_one(true);
  EXPECT_EQ(looked.token, 7U);
  EXPECT_EQ(looked.segments, 2U);
  EXPECT_EQ(looked.bytes, 150U);
  EXPECT_FALSE(looked.in_use);
  EXPECT_FALSE(looked.removed);
  EXPECT_THAT(all(), SizeIs(3));
  const Found swept = sweep_one();
  EXPECT_TRUE(swept.removed);
  EXPECT_EQ(swept.problem, "");
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(SweepTest, KeepsWhatHasAnOwner) {
  Result<OwnerLock> first = OwnerLock::join(folder_, 7);
  Result<OwnerLock> second = OwnerLock::join(folder_, 7);
  ASSERT_OK(first);
  ASSERT_OK(second);
  put({FileKind::kSegment, 7, 1});
  for (OwnerLock* lock : {&*first, &*second}) {
    EXPECT_TRUE(sweep_one().in_use);
    EXPECT_THAT(all(), SizeIs(2));
    *lock = OwnerLock();
  }
  EXPECT_TRUE(sweep_one().removed);
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(SweepTest, AnOwnerThatWasKilled) {
  Gate ready;
  Child child([&] {
    const Result<OwnerLock> lock = OwnerLock::join(folder_, 7);
    put({FileKind::kSegment, 7, 1});
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  EXPECT_TRUE(sweep_one().in_use);
  child.kill_now();
  EXPECT_TRUE(sweep_one().removed);
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(SweepTest, AChildOfTheOwnerIsOne) {
  Gate ready;
  Gate go;
  pid_t grandchild = 0;
  Child child([&] {
    const Result<OwnerLock> lock = OwnerLock::join(folder_, 7);
    put({FileKind::kSegment, 7, 1});
    const Child inner([&] {
      ready.open();
      EXPECT_TRUE(go.wait());
    });
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  ASSERT_TRUE(ready.wait());
  child.kill_now();
  EXPECT_TRUE(sweep_one().in_use);
  go.open();
  EXPECT_TRUE(eventually([&] { return !sweep_one(true).in_use; }));
  EXPECT_TRUE(sweep_one().removed);
  (void)grandchild;
}

TEST_F(SweepTest, SegmentsWithoutTheirLockFile) {
  put({FileKind::kSegment, 7, 1});
  EXPECT_FALSE(sweep_one(true).in_use);
  EXPECT_THAT(all(), SizeIs(1));
  EXPECT_TRUE(sweep_one().removed);
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(SweepTest, NothingElse) {
  std::ofstream(folder_ + "/torch_1_2") << "x";
  std::ofstream(folder_ + "/forklift-notes") << "x";
  fs::create_directory(folder_ + "/forklift-0000000000000007-1");
  std::ofstream(folder_ + "/target") << "x";
  fs::create_symlink(folder_ + "/target", folder_ + "/forklift-0000000000000007-2");
  const Result<std::vector<Found>> found = segment::sweep(folder_);
  ASSERT_OK(found);
  EXPECT_THAT(*found, IsEmpty());
  EXPECT_THAT(all(), ElementsAre("forklift-0000000000000007-1", "forklift-0000000000000007-2",
                                 "forklift-notes", "target", "torch_1_2"));
}

TEST_F(SweepTest, ALinkInPlaceOfTheLockFile) {
  put({FileKind::kSegment, 7, 1});
  std::ofstream(folder_ + "/target") << "x";
  fs::create_symlink(folder_ + "/target", FileName{FileKind::kLock, 7, 0}.in(folder_));
  const Found found = sweep_one();
  EXPECT_FALSE(found.removed);
  EXPECT_NE(found.problem, "");
  EXPECT_THAT(all(), SizeIs(3));
}

TEST_F(SweepTest, AFolderThatIsNotThere) {
  EXPECT_EQ(segment::sweep(folder_ + "/nowhere").code(), Code::kSystem);
}

// Users come while sweepers remove: whoever has joined finds a lock file with a name, and its files stay.
TEST_F(SweepTest, UsersAndSweepersAtOnce) {
  Gate go;
  Gate stop;
  std::vector<Child> sweepers;
  for (int i = 0; i < 2; ++i) {
    sweepers.emplace_back([&] {
      EXPECT_TRUE(go.wait());
      while (!stop.wait(0)) (void)segment::sweep(folder_);
    });
  }
  std::vector<Child> users;
  for (std::uint64_t i = 0; i < 2; ++i) {
    users.emplace_back([&, i] {
      EXPECT_TRUE(go.wait());
      for (std::uint64_t n = 1; n <= 300; ++n) {
        const Result<OwnerLock> lock = OwnerLock::join(folder_, 7);
        ASSERT_OK(lock);
        const std::string path = FileName{FileKind::kSegment, 7, 2 * n + i + 1}.in(folder_);
        std::ofstream(path) << "x";
        for (int look = 0; look < 3; ++look) ASSERT_TRUE(fs::exists(path)) << n;
        ASSERT_TRUE(lock->has_name());
        ASSERT_EQ(::unlink(path.c_str()), 0);
      }
    });
  }
  go.open(4);
  for (Child& user : users) EXPECT_EQ(user.wait(), 0);
  stop.open(2);
  for (Child& sweeper : sweepers) EXPECT_EQ(sweeper.wait(), 0);
  (void)segment::sweep(folder_);
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(SweepTest, OneManagerAtATime) {
  Result<OwnerLock> first = OwnerLock::join(folder_, 7);
  Result<OwnerLock> second = OwnerLock::join(folder_, 7);
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_FALSE(first->is_managed());
  EXPECT_TRUE(*first->manage());
  EXPECT_FALSE(*second->manage());
  EXPECT_TRUE(second->is_managed());
  EXPECT_TRUE(second->has_others());
  EXPECT_FALSE(*second->own());
  *first = OwnerLock();
  EXPECT_TRUE(*second->manage());
  EXPECT_TRUE(*second->own());
  second->remove();
  EXPECT_FALSE(second->has_name());
}

}  // namespace
}  // namespace forklift::test
