// The same estimate by a process for each task, and by threads, without Forklift. See monte_carlo.cpp.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <future>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "monte_carlo.h"

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

// A task in a process of its own, and the pipe for its answer.
class Child {
 public:
  Child(std::uint64_t task, std::int64_t points, Accident& accident) : task_(task) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) fail("pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // one that hangs ends with this process
      suffer(accident);
      const std::int64_t inside = points_inside(task, points);
      ::_exit(::write(ends[1], &inside, sizeof inside) == sizeof inside ? 0 : 1);
    }
    ::close(ends[1]);
    answer_ = ends[0];
    if (pid_ < 0) fail("fork");
  }
  Child(Child&& other) noexcept { *this = std::move(other); }
  Child& operator=(Child&& other) noexcept {
    std::swap(task_, other.task_);
    std::swap(pid_, other.pid_);
    std::swap(answer_, other.answer_);
    std::swap(deadline_, other.deadline_);
    return *this;
  }
  ~Child() {
    if (answer_ >= 0) ::close(answer_);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);  // does nothing to one that has ended and was not waited for yet
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  std::uint64_t task() const { return task_; }
  int answer() const { return answer_; }
  Clock::time_point deadline() const { return deadline_; }
  // False: it has died before it could answer.
  bool read(std::int64_t& inside) const {
    ssize_t n = 0;
    while ((n = ::read(answer_, &inside, sizeof inside)) < 0 && errno == EINTR) {
    }
    return n == sizeof inside;
  }

 private:
  std::uint64_t task_ = 0;
  pid_t pid_ = 0;
  int answer_ = -1;
  Clock::time_point deadline_ = Clock::now() + kDeadline;
};

// Until one has answered or died, or the first deadline has passed.
void wait_for(const std::vector<Child>& running, std::vector<pollfd>& waits) {
  Clock::time_point first = Clock::time_point::max();
  waits.clear();
  for (const Child& child : running) {
    waits.push_back({.fd = child.answer(), .events = POLLIN, .revents = 0});
    first = std::min(first, child.deadline());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
  if (::poll(waits.data(), waits.size(), static_cast<int>(std::max<std::int64_t>(0, left))) < 0 &&
      errno != EINTR)
    fail("poll");
}

std::size_t processors() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace

Estimate with_forks(std::int64_t tasks, std::int64_t points, std::span<Accident> accidents) {
  std::vector<std::uint64_t> to_do;
  for (auto task = static_cast<std::uint64_t>(tasks); task > 0; --task) to_do.push_back(task - 1);
  std::vector<Child> running;
  std::vector<pollfd> waits;
  Estimate estimate;
  while (!to_do.empty() || !running.empty()) {
    while (!to_do.empty() && running.size() < processors()) {
      running.emplace_back(to_do.back(), points, accidents[to_do.back()]);
      to_do.pop_back();
    }
    wait_for(running, waits);
    for (std::size_t i = running.size(); i-- > 0;) {
      std::int64_t inside = 0;
      if (waits[i].revents != 0) {
        if (running[i].read(inside)) {
          estimate.inside += inside;
        } else {
          to_do.push_back(running[i].task());
        }
      } else if (Clock::now() >= running[i].deadline()) {
        ++estimate.hung;
        to_do.push_back(running[i].task());
      } else {
        continue;
      }
      std::swap(running[i], running.back());
      running.pop_back();
    }
  }
  return estimate;
}

std::int64_t with_async(std::int64_t tasks, std::int64_t points) {
  std::atomic<std::int64_t> next = 0;
  std::vector<std::future<std::int64_t>> parts;
  for (std::size_t i = 0; i < processors(); ++i) {
    parts.push_back(std::async(std::launch::async, [&] {
      std::int64_t inside = 0;
      for (std::int64_t task = 0; (task = next.fetch_add(1)) < tasks;)
        inside += points_inside(static_cast<std::uint64_t>(task), points);
      return inside;
    }));
  }
  std::int64_t inside = 0;
  for (auto& part : parts) inside += part.get();
  return inside;
}
