// Prints how many kills there were, and fails a complete run that made too few.
#include <cstdio>

#include "step/kill_everywhere.h"

namespace forklift::test {
namespace {

constexpr std::size_t kLeast = 5000;

class Total : public testing::Environment {
 public:
  void TearDown() override {
    std::printf("%zu kill points in all\n", total_kill_points());
    const bool complete = testing::UnitTest::GetInstance()->test_to_run_count() ==
                          testing::UnitTest::GetInstance()->total_test_count();
    if (complete) {
      EXPECT_GE(total_kill_points(), kLeast);
    }
  }
};

const testing::Environment* const kTotal = testing::AddGlobalTestEnvironment(new Total);

}  // namespace
}  // namespace forklift::test
