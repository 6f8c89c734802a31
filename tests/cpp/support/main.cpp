// The main function of every C++ test program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "forklift/init.h"
#include "support/child.h"
#include "support/leak_check.h"
#include "support/watchdog.h"

int main(int argc, char** argv) {
  ::setenv("FORKLIFT_SHM_MANAGER", FORKLIFT_TEST_SHM_MANAGER, 0);
  forklift::init(argc, argv);
  if (const std::optional<int> code = forklift::test::run_helper(argc, argv)) return *code;
  testing::InitGoogleMock(&argc, argv);
  if (!GTEST_FLAG_GET(list_tests)) {
    // In this order: listeners hear the end of a test last to first, so the leak check is watched, too.
    forklift::test::install_watchdog();
    forklift::test::install_leak_check();
  }
  return RUN_ALL_TESTS();
}
