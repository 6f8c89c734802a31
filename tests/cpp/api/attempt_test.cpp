#include "forklift/attempt.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "forklift/error.h"
#include "forklift/process.h"
#include "forklift/remote_error.h"

namespace forklift {
namespace {

TEST(Attempt, AnswersWithTheValueOrTheStatus) {
  const Result<int> good = attempt([] { return 5; });
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 5);
  const Result<int> bad = attempt([]() -> int { throw Error({Code::kStalled, "the words"}); });
  EXPECT_EQ(bad.code(), Code::kStalled);
  EXPECT_EQ(bad.status().what(), "the words");
}

TEST(Attempt, OfACallWithoutAValueIsAStatus) {
  int runs = 0;
  EXPECT_TRUE(attempt([&] { ++runs; }).ok());
  EXPECT_EQ(attempt([&] { throw Closed({Code::kClosed, "over"}); }).code(), Code::kClosed);
  EXPECT_EQ(runs, 1);
}

TEST(Attempt, PassesArgumentsOnAndTakesWhatCanOnlyBeMoved) {
  auto doubled = [](std::unique_ptr<int> number, int by) { return std::make_unique<int>(*number * by); };
  const Result<std::unique_ptr<int>> got = attempt(doubled, std::make_unique<int>(21), 2);
  EXPECT_EQ(**got, 42);
}

TEST(Attempt, CopiesWhatIsReturnedByReference) {
  std::string text = "here";
  const auto got = attempt([&]() -> std::string& { return text; });
  static_assert(std::is_same_v<decltype(got), const Result<std::string>>);
  text = "there";
  EXPECT_EQ(*got, "here");
}

TEST(Attempt, OtherFailuresOfTheLibraryHaveCodes) {
  EXPECT_EQ(attempt([] { throw std::out_of_range("3 of 2"); }).code(), Code::kInvalid);
  EXPECT_EQ(attempt([] { throw std::bad_alloc(); }).code(), Code::kOverBudget);
  Process child = Process::fork([] { throw std::runtime_error("a reason"); });
  child.start();
  const Status ended = attempt([&] { child.join(); });
  EXPECT_EQ(ended.code(), Code::kRemote);
  EXPECT_NE(ended.to_string().find("a reason"), std::string::npos) << ended.to_string();
}

TEST(Attempt, DestroysWhatAnExceptionPasses) {
  auto held = std::make_shared<int>(1);
  (void)attempt([&] {
    const auto copy = held;
    throw Error({Code::kInvalid, "with a copy"});
  });
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Attempt, LetsTheProgramsOwnExceptionsPass) {
  struct Own {};
  EXPECT_THROW((void)attempt([] { throw Own(); }), Own);
  EXPECT_THROW((void)attempt([] { throw std::runtime_error("own"); }), std::runtime_error);
}

TEST(Result, IsChainedUntilTheFirstFailure) {
  const auto half = [](int n) -> Result<int> {
    if (n % 2 != 0) return {Code::kInvalid, "odd"};
    return n / 2;
  };
  EXPECT_EQ(*Result<int>(12).and_then(half).and_then(half), 3);
  const Result<int> odd = Result<int>(6).and_then(half).and_then(half).and_then(half);
  EXPECT_EQ(odd.status().what(), "odd");
  EXPECT_EQ(odd.value_or(-1), -1);
  const Status last = Result<int>(6).and_then([](int) -> Status { return {Code::kClosed, "end"}; });
  EXPECT_EQ(last.code(), Code::kClosed);
}

}  // namespace
}  // namespace forklift
