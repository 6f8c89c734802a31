#include "forklift/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace forklift {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Status, DefaultIsSuccessAndCostsOnePointer) {
  Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(static_cast<bool>(status));
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.errno_value(), 0);
  EXPECT_EQ(status.call(), "");
  EXPECT_EQ(status.what(), "");
  EXPECT_EQ(status.to_string(), "ok");
  EXPECT_LE(sizeof(Status), 2 * sizeof(void*));
}

TEST(Status, FailureCarriesItsWords) {
  Status status(Code::kOverBudget, "asked 4096 bytes, 10 of 12 in use");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kOverBudget);
  EXPECT_EQ(status.what(), "asked 4096 bytes, 10 of 12 in use");
  EXPECT_EQ(status.to_string(), "over budget: asked 4096 bytes, 10 of 12 in use");
}

TEST(Status, FailureWithoutWordsIsItsName) { EXPECT_EQ(Status(Code::kTimeout, "").to_string(), "timed out"); }

TEST(Status, SystemNamesCallAndErrno) {
  Status status = Status::system("mmap", ENOMEM, "length 4096");
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_EQ(status.errno_value(), ENOMEM);
  EXPECT_EQ(status.call(), "mmap");
  EXPECT_THAT(status.to_string(), StartsWith("mmap: "));
  EXPECT_THAT(status.to_string(), HasSubstr("ENOMEM"));
  EXPECT_THAT(status.to_string(), HasSubstr("length 4096"));
}

TEST(Status, UnknownErrnoIsStillALine) {
  Status status = Status::system("ioctl", 123456);
  EXPECT_EQ(status.errno_value(), 123456);
  EXPECT_EQ(status.to_string(), "ioctl: unknown error");
}

TEST(Status, CopiesOutliveTheOriginal) {
  Status copy;
  {
    Status original(Code::kClosed, std::string(100, 'x'));
    copy = original;
  }
  EXPECT_EQ(copy.code(), Code::kClosed);
  EXPECT_EQ(copy.what().size(), 100u);
}

TEST(Status, EveryCodeHasADistinctName) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Code::kSystem); ++i) {
    names.emplace(code_name(static_cast<Code>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::kSystem) + 1);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_EQ(code_name(static_cast<Code>(250)), "unknown");
}

TEST(Result, HoldsAValue) {
  Result<std::string> result(std::string("abc"));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(*result, "abc");
  EXPECT_EQ(result->size(), 3u);
  EXPECT_EQ(result.code(), Code::kOk);
  EXPECT_TRUE(result.status().ok());
}

TEST(Result, HoldsAFailure) {
  Result<int> result(Code::kPeerDied, "process 7");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.code(), Code::kPeerDied);
  EXPECT_EQ(result.status().what(), "process 7");
}

TEST(Result, PassesAStatusOnUnchanged) {
  auto inner = [] { return Result<int>(Status::system("open", ENOENT, "/nowhere")); };
  auto outer = [&]() -> Result<std::string> {
    Result<int> number = inner();
    if (!number) return number.status();
    return std::to_string(*number);
  };
  Result<std::string> result = outer();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.status().errno_value(), ENOENT);
  EXPECT_EQ(result.status().call(), "open");
}

TEST(Result, MovesAMoveOnlyValueOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  ASSERT_TRUE(result.ok());
  std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 5);
}

TEST(Result, ALoopOverATemporaryResultIsSafe) {
  const auto make = []() -> Result<std::vector<int>> { return std::vector<int>(100, 1); };
  int sum = 0;
  for (const int x : *make()) sum += x;
  EXPECT_EQ(sum, 100);
}

}  // namespace
}  // namespace forklift
