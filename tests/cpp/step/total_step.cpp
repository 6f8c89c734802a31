// Prints how many kills there were, and fails a complete run that made too few.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "step/kill_everywhere.h"

namespace forklift::test {
namespace {

constexpr std::size_t kLeast = 5000;

class Total : public testing::Environment {
 public:
  void TearDown() override {
    std::printf("%zu kill points in all\n", total_kill_points());
    const testing::UnitTest& program = *testing::UnitTest::GetInstance();
    if (program.test_to_run_count() == program.total_test_count()) {
      EXPECT_GE(total_kill_points(), kLeast);
    }
    write_down(program);
  }

 private:
  // For a runner that gives every test a process of its own: a file for each, named after its first test.
  static void write_down(const testing::UnitTest& program) {
    const char* folder = std::getenv("FORKLIFT_STEP_POINTS");
    if (folder == nullptr || !program.Passed()) return;
    for (int i = 0; i < program.total_test_suite_count(); ++i) {
      const testing::TestSuite& suite = *program.GetTestSuite(i);
      for (int j = 0; j < suite.total_test_count(); ++j) {
        if (!suite.GetTestInfo(j)->should_run()) continue;
        std::string name = std::string(suite.name()) + "." + suite.GetTestInfo(j)->name();
        std::replace(name.begin(), name.end(), '/', '.');
        std::filesystem::create_directories(folder);
        std::ofstream(std::filesystem::path(folder) / name) << total_kill_points();
        return;
      }
    }
  }
};

const testing::Environment* const kTotal = testing::AddGlobalTestEnvironment(new Total);

}  // namespace
}  // namespace forklift::test
