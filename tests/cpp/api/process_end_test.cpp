#include <gtest/gtest.h>

#include <string>

#include "forklift/log.h"
#include "forklift/process.h"
#include "support/child.h"

namespace forklift {
namespace {

TEST(ProcessEnd, ADestructorThatWaitsLongSaysSo) {
  test::Gate go;
  std::string said;
  set_log_sink([&](Severity, std::string_view message) {
    said = message;
    go.open();
  });
  {
    Process child = Process::fork([&] { return go.wait(60'000) ? 0 : 1; });
    child.start();
  }
  set_log_sink(nullptr);
  EXPECT_NE(said.find("still runs, and the destructor of its Process waits for it"), std::string::npos)
      << said;
}

TEST(ProcessEnd, AFailureThatNobodyAskedForIsLogged) {
  std::string said;
  set_log_sink([&](Severity severity, std::string_view message) {
    if (severity == Severity::kError) said = message;
  });
  {
    Process child = Process::fork([] { throw Error({Code::kInvalid, "the words"}); });
    child.start();
  }
  set_log_sink(nullptr);
  EXPECT_NE(said.find("the words"), std::string::npos) << said;
}

}  // namespace
}  // namespace forklift
