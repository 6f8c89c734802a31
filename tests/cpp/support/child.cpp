#include "support/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>

#include "os/proc.h"

namespace forklift::test {

namespace {

constexpr const char* kFlag = "--run-helper";

std::map<std::string, Helper>& helpers() {
  static std::map<std::string, Helper> instance;  // initializers of other files add to it
  return instance;
}

}  // namespace

Gate::Gate() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {}

void Gate::open(unsigned permits) {
  const std::uint64_t add = permits;
  while (::write(fd_.get(), &add, sizeof add) < 0 && errno == EINTR) {
  }
}

bool Gate::wait(int timeout_ms) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now()).count();
    if (left < 0) return false;
    pollfd item{fd_.get(), POLLIN, 0};
    if (::poll(&item, 1, static_cast<int>(left)) < 0) continue;
    if (item.revents == 0) return false;
    // Somebody else may take the permit between poll and read, so the read must not block.
    ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
    std::uint64_t got = 0;
    if (::read(fd_.get(), &got, sizeof got) == sizeof got) return true;
  }
}

Child::Child(const std::function<void()>& body) {
  std::fflush(nullptr);
  // The body begins when fork() has returned here, too: on a loaded machine the child could be gone before, and the
  // parent's fork handler would have reaped it already.
  std::optional<Gate> forked(std::in_place);
  pid_ = ::fork();
  if (pid_ != 0) {
    forked->open();
    return;
  }
  (void)forked->wait();
  forked.reset();
  body();
  std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    kill_now();
    pid_ = std::exchange(other.pid_, -1);
  }
  return *this;
}

Child::~Child() { kill_now(); }

int Child::wait() {
  if (pid_ <= 0) return -1000;
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void Child::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

void Child::kill_now() {
  if (pid_ <= 0) return;
  signal(SIGKILL);
  (void)wait();
}

bool add_helper(const std::string& name, Helper helper) { return helpers().emplace(name, helper).second; }

Child start_helper(const std::string& name, const std::vector<std::string>& arguments,
                   std::span<const int> inherited) {
  std::vector<std::string> words{"/proc/self/exe", kFlag, name};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  Child child;
  child.pid_ = ::fork();
  if (child.pid_ == 0) {
    for (const int fd : inherited) ::fcntl(fd, F_SETFD, 0);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return child;
}

std::optional<int> run_helper(int argc, char** argv) {
  if (argc < 3 || std::string(argv[1]) != kFlag) return std::nullopt;
  const auto found = helpers().find(argv[2]);
  if (found == helpers().end()) return 126;
  return found->second(std::vector<std::string>(argv + 3, argv + argc));
}

bool stop(pid_t process) {
  return ::kill(process, SIGSTOP) == 0 && eventually([process] { return os::task_state(process) == 'T'; });
}

bool eventually(const std::function<bool()>& condition, int timeout_ms) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= limit) return condition();
    ::poll(nullptr, 0, 1);
  }
  return true;
}

}  // namespace forklift::test
