// What is wrong with the folder of the named segments: full, read-only, not there, unmounted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "support/segment_fixture.h"

namespace forklift::test {
namespace {

using arena::LeasePtr;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A domain whose segments are in another folder.
class SegmentFolderTest : public testing::Test {
 protected:
  void use(const std::string& folder) {
    const Variable where("FORKLIFT_SHM_DIR", folder.c_str());
    Result<std::unique_ptr<node::Node>> made = node::Node::create();
    ASSERT_OK(made);
    node_ = *std::move(made);
    token_ = node_->segments().token();
    folder_ = folder;
  }
  void TearDown() override {
    if (node_) {
      EXPECT_EQ(audit_of(*node_), "");
    }
    node_.reset();
    if (token_ != 0) expect_nothing_left(token_, 5000, folder_);
  }
  segment::Segments& segments() { return node_->segments(); }

  std::unique_ptr<node::Node> node_;
  std::uint64_t token_ = 0;
  std::string folder_;
};

TEST_F(SegmentFolderTest, AFullFileSystem) {
  const SmallFolder folder("size=1m");
  if (!folder.mounted()) GTEST_SKIP() << "this user may not mount a file system";
  use(folder.path());
  const Result<LeasePtr> first = segments().create(600'000);
  ASSERT_OK(first);
  const Result<LeasePtr> second = segments().create(600'000);
  EXPECT_EQ(second.code(), Code::kNoSpace);
  EXPECT_THAT(second.status().to_string(), HasSubstr("600000 bytes asked"));
  EXPECT_THAT(second.status().to_string(), HasSubstr("of 1048576 bytes left"));
  EXPECT_THAT(shm_segments(token_, folder_), SizeIs(1));
  EXPECT_OK(segments().create(100'000));
}

TEST_F(SegmentFolderTest, NoInodesLeft) {
  const SmallFolder folder("size=4m,nr_inodes=5");
  if (!folder.mounted()) GTEST_SKIP() << "this user may not mount a file system";
  use(folder.path());
  std::vector<LeasePtr> made;
  Result<LeasePtr> last = segments().create(64);
  for (int i = 0; last && i < 5; ++i) {
    made.push_back(*last);
    last = segments().create(64);
  }
  EXPECT_EQ(last.code(), Code::kNoSpace);
  EXPECT_THAT(made, testing::Not(IsEmpty()));
}

TEST_F(SegmentFolderTest, AReadOnlyFileSystem) {
  SmallFolder folder("size=1m");
  if (!folder.mounted()) GTEST_SKIP() << "this user may not mount a file system";
  use(folder.path());
  ASSERT_TRUE(folder.make_read_only(true));
  const Result<LeasePtr> made = segments().create(100);
  EXPECT_EQ(made.code(), Code::kSystem);
  EXPECT_EQ(made.status().errno_value(), EROFS);
  EXPECT_THAT(made.status().to_string(), HasSubstr(folder.path()));
  ASSERT_TRUE(folder.make_read_only(false));
  EXPECT_OK(segments().create(100));
}

TEST_F(SegmentFolderTest, AFolderThatIsNotThere) {
  use("/nowhere/shm");
  const Result<LeasePtr> made = segments().create(100);
  EXPECT_EQ(made.code(), Code::kSystem);
  EXPECT_EQ(made.status().errno_value(), ENOENT);
  EXPECT_THAT(made.status().to_string(), HasSubstr("/nowhere/shm"));
}

TEST_F(SegmentFolderTest, AFolderThatWasUnmounted) {
  auto folder = std::make_unique<SmallFolder>("size=1m");
  if (!folder->mounted()) GTEST_SKIP() << "this user may not mount a file system";
  use(folder->path());
  Result<LeasePtr> lease = segments().create(100);
  ASSERT_OK(lease);
  folder.reset();
  EXPECT_EQ(segments().create(100).code(), Code::kSystem);
  (*lease)->data()[0] = std::byte{1};  // what is mapped stays
  EXPECT_EQ(segments().find(segments().name_of(**lease), 100).code(), Code::kOk);
}

TEST_F(SegmentFolderTest, ANameForAFolderThatIsWrong) {
  const Variable where("FORKLIFT_SHM_DIR", "relative/folder");
  Result<std::unique_ptr<node::Node>> made = node::Node::create();
  ASSERT_OK(made);
  node_ = *std::move(made);
  const Result<LeasePtr> lease = segments().create(100);
  EXPECT_EQ(lease.code(), Code::kInvalid);
  EXPECT_THAT(lease.status().to_string(), HasSubstr("FORKLIFT_SHM_DIR"));
}

}  // namespace
}  // namespace forklift::test
