// For tests that start processes: nothing of them may stay in the domain, and no zygote runs on.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "forklift/context.h"
#include "forklift/init.h"

namespace forklift::test {

class ProcessFixture : public testing::Test {
 protected:
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;

 private:
  Stats before_{};
};

// The same for each start method.
class EveryMethod : public ProcessFixture, public testing::WithParamInterface<StartMethod> {
 protected:
  static Context context() { return Context(GetParam()); }
};

inline const auto kEveryMethod =
    testing::Values(StartMethod::kFork, StartMethod::kSpawn, StartMethod::kForkserver);
inline std::string method_name(const testing::TestParamInfo<StartMethod>& info) {
  return std::string(name_of(info.param));
}

// Can a zygote be copied in this build? The thread sanitizer runs a thread of its own.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kCanCopy = false;
#else
inline constexpr bool kCanCopy = true;
#endif

}  // namespace forklift::test
