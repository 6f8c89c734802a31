// Ends a test that hangs, after saying where every thread of it and of its children is.
//
//   Watchdog watchdog(std::chrono::seconds(60), STDERR_FILENO);
//   watchdog.begin("Queue.PutThenGet");
//   ...
//   watchdog.end();
//
// The watcher is a process of its own, not a thread and not a child: tests fork, wait for any child and
// count their threads, and a hung thread may have blocked every signal. It sees begin() and end() through a
// pipe and the death of the test program through a pidfd, and then leaves at once.
// On expiry it prints /proc's view (state, kernel wait channel, system call) of every thread of the program
// and of its descendants, asks each thread for its own backtrace by a signal (children inherit the handler,
// programs started by exec do not and are left unasked), kills the descendants and aborts the program.
//
// Environment: FORKLIFT_TEST_TIMEOUT, in seconds, instead of the default; 0 turns the watchdog off.
#pragma once

#include <chrono>
#include <string>

namespace forklift::test {

class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds limit, int report_fd);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void begin(const std::string& name);
  void begin(const std::string& name, std::chrono::milliseconds limit);
  void end();

 private:
  void send(const std::string& name, std::chrono::milliseconds limit) const;

  std::chrono::milliseconds limit_;
  int pipe_ = -1;
};

// For a test that may rightly take longer: restarts its time with another limit.
void set_test_timeout(std::chrono::seconds limit);

// Adds the listener to GoogleTest and starts the watcher.
void install_watchdog();

}  // namespace forklift::test
