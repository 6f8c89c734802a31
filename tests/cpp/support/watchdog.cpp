#include "support/watchdog.h"

#include <execinfo.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace forklift::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// One write of at most PIPE_BUF bytes, so it arrives whole.
struct Order {
  std::int64_t limit_ms;  // 0: the test has ended
  std::array<char, 200> name;
};

volatile sig_atomic_t g_report_fd = STDERR_FILENO;

int dump_signal() { return SIGRTMAX - 2; }

void write_all(int fd, const char* text, std::size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, text, size);
    if (n <= 0) {
      if (n < 0 && errno == EINTR) continue;
      return;
    }
    text += n;
    size -= static_cast<std::size_t>(n);
  }
}

void write_all(int fd, const std::string& text) { write_all(fd, text.data(), text.size()); }

// Runs on the asked thread; only what is safe in a signal handler.
void print_backtrace(int) {
  const int saved = errno;
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), count, g_report_fd);
  constexpr char kEnd[] = "  (end of stack)\n";
  write_all(g_report_fd, kEnd, sizeof kEnd - 1);
  errno = saved;
}

// Empty where this user may open a file of /proc, but not read it (stack, syscall).
std::string read_text(const fs::path& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; file >= 0 && (n = read(file, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  if (file >= 0) close(file);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) text.pop_back();
  return text;
}

// The process and its descendants, parents first.
std::vector<pid_t> family_of(pid_t pid) {
  std::vector<pid_t> family{pid};
  for (std::size_t i = 0; i < family.size(); ++i) {
    std::error_code error;
    const fs::path tasks = fs::path("/proc") / std::to_string(family[i]) / "task";
    for (const fs::directory_entry& task : fs::directory_iterator(tasks, error)) {
      std::ifstream children(task.path() / "children");
      for (pid_t child = 0; children >> child;) family.push_back(child);
    }
  }
  return family;
}

// Whether the process would survive the signal: one that was started by exec has lost the handler.
bool has_handler(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) {
      const std::uint64_t caught = std::strtoull(line.c_str() + 7, nullptr, 16);
      return ((caught >> (dump_signal() - 1)) & 1) != 0;
    }
  }
  return false;
}

void report_thread(int fd, const fs::path& task) {
  std::string text = " thread " + task.filename().string() + " (" + read_text(task / "comm") + ")";
  std::ifstream status(task / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:") || line.starts_with("SigBlk:")) text += "  " + line;
  }
  text +=
      "\n  waits in: " + read_text(task / "wchan") + "  system call: " + read_text(task / "syscall") + "\n";
  const std::string kernel_stack = read_text(task / "stack");  // root only
  if (!kernel_stack.empty()) text += kernel_stack + "\n";
  write_all(fd, text);
}

void report_process(int fd, pid_t pid) {
  const fs::path folder = fs::path("/proc") / std::to_string(pid);
  write_all(fd, "process " + std::to_string(pid) + " (" + read_text(folder / "comm") + ")\n");
  const bool ask = has_handler(pid);
  std::error_code error;
  for (const fs::directory_entry& task : fs::directory_iterator(folder / "task", error)) {
    report_thread(fd, task.path());
    if (!ask) continue;
    const auto tid = static_cast<pid_t>(std::atoi(task.path().filename().c_str()));
    if (syscall(SYS_tgkill, pid, tid, dump_signal()) == 0) {
      poll(nullptr, 0, 200);  // so that stacks do not mix; a thread that blocks the signal prints nothing
    }
  }
}

[[noreturn]] void expire(int fd, pid_t target, int pidfd, const Order& order) {
  const std::vector<pid_t> family = family_of(target);
  write_all(fd, "\n*** " + std::string(order.name.data()) + " hangs: no end after " +
                    std::to_string(order.limit_ms) + " ms. " + std::to_string(family.size()) +
                    " process(es):\n");
  for (pid_t pid : family) report_process(fd, pid);
  for (std::size_t i = 1; i < family.size(); ++i) kill(family[i], SIGKILL);
  kill(target, SIGABRT);
  pollfd dead{pidfd, POLLIN, 0};
  if (poll(&dead, 1, 5000) <= 0) kill(target, SIGKILL);
  _exit(1);
}

[[noreturn]] void watch(int orders, int report_fd, pid_t target) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, target, 0));
  if (pidfd < 0) _exit(1);
  Order order{};
  auto deadline = std::chrono::steady_clock::now();
  for (;;) {
    int wait_ms = -1;
    if (order.limit_ms > 0) {
      const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) expire(report_fd, target, pidfd, order);
      wait_ms = static_cast<int>(left.count());
    }
    std::array<pollfd, 2> events{pollfd{orders, POLLIN, 0}, pollfd{pidfd, POLLIN, 0}};
    if (poll(events.data(), events.size(), wait_ms) < 0 && errno != EINTR) _exit(1);
    if (events[1].revents != 0) _exit(0);
    if (events[0].revents == 0) continue;
    if (read(orders, &order, sizeof order) != static_cast<ssize_t>(sizeof order)) _exit(0);
    deadline = std::chrono::steady_clock::now() + milliseconds(order.limit_ms);
  }
}

std::unique_ptr<Watchdog> g_watchdog;  // NOLINT: one for the program
std::string g_test_name;               // NOLINT

class WatchdogListener : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& info) override {
    g_test_name = std::string(info.test_suite_name()) + "." + info.name();
    g_watchdog->begin(g_test_name);
  }
  void OnTestEnd(const testing::TestInfo&) override { g_watchdog->end(); }
  void OnTestProgramEnd(const testing::UnitTest&) override { g_watchdog.reset(); }
};

}  // namespace

Watchdog::Watchdog(milliseconds limit, int report_fd) : limit_(limit) {
  g_report_fd = report_fd;
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // the first call loads a library, which no signal handler may do

  struct sigaction action{};
  action.sa_handler = print_backtrace;
  action.sa_flags = SA_RESTART;
  sigaction(dump_signal(), &action, nullptr);

  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
  const pid_t target = getpid();
  // Twice, so that the watcher is nobody's child here: a test may wait for any child.
  const pid_t middle = fork();
  if (middle == 0) {
    if (fork() == 0) {
      close(ends[1]);
      watch(ends[0], report_fd, target);
    }
    _exit(0);
  }
  close(ends[0]);
  while (middle > 0 && waitpid(middle, nullptr, 0) < 0 && errno == EINTR) {
  }
  pipe_ = ends[1];
}

Watchdog::~Watchdog() {
  if (pipe_ >= 0) close(pipe_);
}

void Watchdog::send(const std::string& name, milliseconds limit) const {
  Order order{};
  order.limit_ms = limit.count();
  std::strncpy(order.name.data(), name.c_str(), order.name.size() - 1);
  write_all(pipe_, reinterpret_cast<const char*>(&order), sizeof order);
}

void Watchdog::begin(const std::string& name) { begin(name, limit_); }
void Watchdog::begin(const std::string& name, milliseconds limit) { send(name, limit); }
void Watchdog::end() { send("", milliseconds(0)); }

void set_test_timeout(std::chrono::seconds limit) {
  if (g_watchdog) g_watchdog->begin(g_test_name, limit);
}

void install_watchdog() {
  const char* text = std::getenv("FORKLIFT_TEST_TIMEOUT");
  const long seconds = text != nullptr ? std::strtol(text, nullptr, 10) : 60;
  if (seconds <= 0) return;
  // A descriptor of its own: tests capture standard error.
  const int report_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  g_watchdog = std::make_unique<Watchdog>(std::chrono::seconds(seconds), report_fd);
  testing::UnitTest::GetInstance()->listeners().Append(new WatchdogListener);
}

}  // namespace forklift::test
