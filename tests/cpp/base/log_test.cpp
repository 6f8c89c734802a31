#include "base/log.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/child.h"

namespace forklift {
namespace {

// No sink again, whatever a test does.
struct NoSink {
  ~NoSink() { set_log_sink(nullptr); }
};

TEST(Log, GoesToStderrOrToTheSink) {
  const NoSink after;
  testing::internal::CaptureStderr();
  log(Severity::kWarning, "nobody listens");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "forklift: nobody listens\n");

  std::vector<std::string> heard;
  set_log_sink([&](Severity severity, std::string_view message) {
    heard.push_back(std::to_string(static_cast<int>(severity)) + " " + std::string(message));
  });
  testing::internal::CaptureStderr();
  log(Severity::kError, "somebody does");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(heard, std::vector<std::string>{"2 somebody does"});

  set_log_sink(nullptr);
  testing::internal::CaptureStderr();
  log(Severity::kInfo, "nobody again");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "forklift: nobody again\n");
}

TEST(Log, ASinkThatThrowsLosesNothing) {
  const NoSink after;
  set_log_sink([](Severity, std::string_view) { throw std::runtime_error("no disk"); });
  testing::internal::CaptureStderr();
  log(Severity::kError, "the message");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "forklift: the message\n");
}

TEST(Log, ASinkMaySpeakAndSetAnother) {
  const NoSink after;
  int heard = 0;
  set_log_sink([&](Severity, std::string_view) {
    ++heard;
    set_log_sink([&](Severity, std::string_view) { heard += 10; });
    log(Severity::kInfo, "from inside");
  });
  log(Severity::kInfo, "first");
  EXPECT_EQ(heard, 11);
}

TEST(Log, AForkBesideSpeakersGivesAChildThatSpeaks) {
  const NoSink after;
  std::atomic<int> heard{0};
  set_log_sink([&](Severity, std::string_view) { ++heard; });
  std::atomic<bool> stop{false};
  std::thread speaker([&] {
    while (!stop) log(Severity::kInfo, "again");
  });
  for (int i = 0; i < 20; ++i) {
    test::Child child([&] {
      heard = 0;
      log(Severity::kInfo, "the child");
      EXPECT_EQ(heard, 1);
    });
    EXPECT_EQ(child.wait(), 0);
  }
  stop = true;
  speaker.join();
}

}  // namespace
}  // namespace forklift
