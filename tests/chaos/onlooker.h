// A process outside of the domain that surveys and diagnoses it all through a storm: it must neither crash nor hang, nor
// find anything stuck.
//
//   Onlooker onlooker;                // a member of the fixture: before the domain is made, so it is no member of it
//   onlooker.begin();                 // in the test; from now on it looks at this process's domain
//   ... storm ...
//   onlooker.end();                   // a failure if it found something, stood still, or ended before
//
// Thread safety: none.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <new>
#include <string>

#include "inspect/diagnosis.h"
#include "inspect/survey.h"
#include "storm.h"

namespace forklift::test {

class Onlooker {
 public:
  Onlooker()
      : shared_(new(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                           0)) Shared),
        parent_(::getpid()),
        pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    watch();
    ::_exit(0);
  }
  ~Onlooker() {
    if (pid_ > 0) kill_and_bury(pid_);
    ::munmap(shared_, sizeof(Shared));
  }
  Onlooker(const Onlooker&) = delete;
  Onlooker& operator=(const Onlooker&) = delete;

  void begin() { shared_->phase = Phase::kLook; }

  void end() {
    const std::uint64_t looks = shared_->looks;
    const std::int64_t begin = os::now_ns();
    // It is at work still: two more looks.
    while (shared_->looks < looks + 2 && os::now_ns() < begin + kLongestLookNs && is_there()) ::usleep(1000);
    EXPECT_GE(shared_->looks, looks + 2) << "the onlooker has ended, or hangs";
    shared_->phase = Phase::kEnd;
    while (is_there() && os::now_ns() < begin + 2 * kLongestLookNs) ::usleep(1000);
    EXPECT_FALSE(is_there()) << "the onlooker does not end";
    if (pid_ < 0) {
      EXPECT_TRUE(WIFEXITED(status_) && WEXITSTATUS(status_) == 0) << "the onlooker: status " << status_;
    }
    EXPECT_EQ(shared_->failures, 0U) << "see above for what the onlooker found";
    EXPECT_LT(shared_->longest_ns, kLongestLookNs);
    std::printf("  an onlooker: %llu looks, the longest %lld ms; at most %llu processes, %llu waits\n",
                static_cast<unsigned long long>(shared_->looks),
                static_cast<long long>(shared_->longest_ns / 1'000'000),
                static_cast<unsigned long long>(shared_->most_processes),
                static_cast<unsigned long long>(shared_->most_waits));
  }

 private:
  static constexpr std::int64_t kLongestLookNs = 5 * kSecond * kSlower;
  // Between looks, so that the storm has the processors.
  static constexpr unsigned kPauseUs = 5000;

  enum class Phase : int {
    kWait,
    kLook,
    kEnd
  };
  struct Shared {
    std::atomic<Phase> phase{Phase::kWait};
    std::atomic<std::uint64_t> looks{0};
    std::atomic<std::uint64_t> failures{0};
    std::atomic<std::uint64_t> most_processes{0};
    std::atomic<std::uint64_t> most_waits{0};
    std::atomic<std::int64_t> longest_ns{0};
  };

  // Whether it runs; takes its status when it has ended. A storm that waits for any child may have taken it.
  bool is_there() {
    if (pid_ <= 0) return false;
    const pid_t waited = ::waitpid(pid_, &status_, WNOHANG);
    if (waited == 0) return true;
    if (waited < 0) status_ = -1;
    pid_ = -1;
    return false;
  }

  void watch() {
    while (shared_->phase == Phase::kWait) ::usleep(1000);
    while (shared_->phase == Phase::kLook) {
      const std::int64_t begin = os::now_ns();
      look();
      shared_->longest_ns = std::max<std::int64_t>(shared_->longest_ns, os::now_ns() - begin);
      ++shared_->looks;
      ::usleep(kPauseUs);
    }
  }

  void fail(const std::string& what) {
    std::fprintf(stderr, "onlooker: %s\n", what.c_str());
    ++shared_->failures;
  }

  void look() {
    Result<std::vector<inspect::Diagnosis>> found = inspect::diagnose(parent_);
    if (!found) return fail("diagnose: " + found.status().to_string());
    for (const inspect::Diagnosis& each : *found) {
      if (each.is_stuck()) fail(each.text());
      shared_->most_processes = std::max<std::uint64_t>(shared_->most_processes, each.processes.size());
      shared_->most_waits = std::max<std::uint64_t>(shared_->most_waits, each.waits.size());
    }
    Result<std::vector<inspect::View>> views = inspect::views_of(parent_);
    if (!views) return fail("views_of: " + views.status().to_string());
    for (const inspect::View& view : *views) check(inspect::survey_of(view));
  }

  void check(const inspect::Survey& survey) {
    const bool seen = std::any_of(survey.processes.begin(), survey.processes.end(),
                                  [&](const inspect::ProcessUse& each) { return each.pid == parent_; });
    if (!seen) fail("the survey lacks process " + std::to_string(parent_));
    for (const inspect::QueueUse& queue : survey.queues) {
      // The two ends are read one after the other, so more may have been put meanwhile.
      if (queue.length > kMostSeen)
        fail("queue " + std::to_string(queue.index) + " has " + std::to_string(queue.length));
    }
  }

  // More messages than a storm ever has in a queue.
  static constexpr std::uint64_t kMostSeen = 1'000'000;

  Shared* const shared_;
  const pid_t parent_;
  pid_t pid_;
  int status_ = 0;
};

}  // namespace forklift::test
