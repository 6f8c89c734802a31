// Processes for tests: a forked child whose checks count, a gate between processes, this program started
// anew.
//
//   Gate ready, go;
//   Child child([&] { ready.open(); EXPECT_TRUE(go.wait()); });
//   ASSERT_TRUE(ready.wait());
//   go.open();
//   EXPECT_EQ(child.wait(), 0);            // 1 when a check in the child failed, -9 when SIGKILL ended it
//
// A child leaves by _exit: no test of its own ends in it, and its parent's objects are not destroyed twice.
// Thread safety: as for the descriptors and pids that these are.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "os/fd.h"

namespace forklift::test {

// A counter of permits that processes forked from here share.
class Gate {
 public:
  Gate();
  void open(unsigned permits = 1);
  // Takes a permit; false when none came in time.
  bool wait(int timeout_ms = 20'000);
  const os::Fd& fd() const { return fd_; }

 private:
  os::Fd fd_;
};

class Child {
 public:
  Child() = default;
  // Forks; the child runs `body`.
  explicit Child(const std::function<void()>& body);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept;
  // Kills and reaps a child that was not waited for.
  ~Child();

  pid_t pid() const { return pid_; }
  // The exit code, or the signal's number, negative. Waits as long as the child takes.
  int wait();
  void signal(int number) const;
  // SIGKILL, then wait.
  void kill_now();

 private:
  friend Child start_helper(const std::string&, const std::vector<std::string>&, std::span<const int>);
  pid_t pid_ = -1;
};

// A function that this program can be started anew to run, its exit code the function's.
using Helper = int (*)(const std::vector<std::string>& arguments);
bool add_helper(const std::string& name, Helper helper);
// Forks and executes this program as the helper; `inherited` stay open in it, under the same numbers.
Child start_helper(const std::string& name, const std::vector<std::string>& arguments,
                   std::span<const int> inherited = {});
// For main: runs the helper that the command line names, if it names one.
std::optional<int> run_helper(int argc, char** argv);

// SIGSTOP, and waits until the process has stopped, which takes it a moment.
bool stop(pid_t process);

// Polls until `condition` holds; false when it did not within the time.
bool eventually(const std::function<bool()>& condition, int timeout_ms = 10'000);

}  // namespace forklift::test
