// The event log: what its lines are, and that they go to its own file, whatever becomes of the descriptor.
#include "base/event_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "forklift/error.h"
#include "forklift/log.h"
#include "support/child.h"
#include "support/runtime_dir.h"

namespace forklift {
namespace {

class EventLogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test::temporary("events");
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    log_events_to("");
    std::filesystem::remove_all(folder_);
  }
  std::string path(const char* name = "events.jsonl") const { return folder_ + "/" + name; }
  static std::string text_of(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  // Behind the time.
  static std::string body_of(const std::string& line) { return line.substr(line.find(", ")); }
  static int descriptor_of(const std::string& path) {
    for (int fd = 0; fd < 1024; ++fd) {
      std::error_code none;
      if (std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), none) == path) return fd;
    }
    return -1;
  }

  std::string folder_;
};

TEST_F(EventLogTest, ALineIsAnObjectWithItsFields) {
  EXPECT_FALSE(event_log_on());
  log_events_to(path());
  EXPECT_TRUE(event_log_on());
  EXPECT_EQ(event_log_path(), path());
  EventLine("ended")("of", std::int64_t{-7})("name", "a \"quoted\\\" \n name")("clean", true).write();
  const std::vector<std::string> lines = lines_of(path());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("{\"time\": "));
  EXPECT_EQ(body_of(lines[0]),
            ", \"event\": \"ended\", \"pid\": " + std::to_string(::getpid()) +
                ", \"of\": -7, \"name\": \"a \\\"quoted\\\\\\\" \\u000a name\", \"clean\": true}");
}

TEST_F(EventLogTest, ItIsAppendedToAndEnds) {
  for (int i = 0; i < 2; ++i) {
    log_events_to(path());
    EventLine("one").write();
    log_events_to("");
    EXPECT_FALSE(event_log_on());
    EventLine("none").write();
  }
  EXPECT_EQ(lines_of(path()).size(), 2u);
  EXPECT_EQ(descriptor_of(path()), -1);
}

TEST_F(EventLogTest, AFileThatCannotBeOpenedChangesNothing) {
  log_events_to(path());
  EXPECT_THROW(log_events_to(folder_), Error);
  EventLine("one").write();
  EXPECT_EQ(lines_of(path()).size(), 1u);
}

TEST_F(EventLogTest, AnotherFileUnderItsNumberIsLeftAlone) {
  log_events_to(path());
  const int fd = descriptor_of(path());
  ASSERT_GE(fd, 0);
  ::close(fd);
  const int other = ::open(path("other").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::dup2(other, fd), fd);
  EventLine("one").write();
  EXPECT_EQ(text_of(path("other")), "");
  EXPECT_EQ(lines_of(path()).size(), 1u);
  ::close(other);
  ::close(fd);
}

TEST_F(EventLogTest, LinesOfThreadsAndProcessesDoNotMix) {
  constexpr int kEach = 200;
  log_events_to(path());
  const auto write_many = [] {
    for (int i = 0; i < kEach; ++i) EventLine("many")("text", std::string(300, 'x')).write();
  };
  test::Child child(write_many);
  std::thread other(write_many);
  write_many();
  other.join();
  EXPECT_EQ(child.wait(), 0);
  const std::vector<std::string> lines = lines_of(path());
  EXPECT_EQ(lines.size(), 3u * kEach);
  for (const std::string& line : lines) EXPECT_TRUE(line.ends_with("xxx\"}")) << line;
}

}  // namespace
}  // namespace forklift
