#include "step/kill_everywhere.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>

#include "step/trace.h"
#include "support/watchdog.h"

namespace forklift::test {

namespace {

std::size_t g_total = 0;  // NOLINT: one for the program

// With FORKLIFT_STEP_EVERY=N one of N points, each day others, so that N days see them all. For machines that test each
// change in bounded time.
std::vector<std::size_t> today(std::vector<std::size_t> all) {
  const char* const text = std::getenv("FORKLIFT_STEP_EVERY");
  const std::size_t every = text == nullptr ? 1 : std::strtoul(text, nullptr, 10);
  if (every <= 1) return all;
  const auto day = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()).time_since_epoch();
  std::vector<std::size_t> chosen;
  for (std::size_t i = static_cast<std::size_t>(day.count()) % every; i < all.size(); i += every)
    chosen.push_back(all[i]);
  return chosen.empty() ? all : chosen;
}

std::vector<std::size_t> choose_points(const Trace& trace, std::size_t most) {
  std::vector<std::size_t> all = today(trace.points());
  if (all.size() <= most) return all;
  std::vector<std::size_t> chosen;
  const double stride = static_cast<double>(all.size()) / static_cast<double>(most);
  for (std::size_t i = 0; i < most; ++i) {
    // A remainder that wanders through the stride, so that loops are not always cut at the same place.
    const double wander = static_cast<double>(i * 7 % 16) / 16.0 * (stride - 1.0);
    chosen.push_back(all[static_cast<std::size_t>(static_cast<double>(i) * stride + wander)]);
  }
  return chosen;
}

std::string describe(std::uint64_t counter) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(counter), &info) == 0) return "unknown code";
  char text[64];
  if (info.dli_sname == nullptr) {
    std::snprintf(text, sizeof text, "+0x%zx",
                  static_cast<std::size_t>(counter - reinterpret_cast<std::uint64_t>(info.dli_fbase)));
    return std::string(info.dli_fname) + text;
  }
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, nullptr), std::free);
  std::snprintf(text, sizeof text, "+0x%zx",
                static_cast<std::size_t>(counter - reinterpret_cast<std::uint64_t>(info.dli_saddr)));
  return (plain ? plain.get() : info.dli_sname) + std::string(text);
}

std::string describe_death(int status) {
  if (WIFSTOPPED(status)) return std::string("signal ") + strsignal(WSTOPSIG(status));
  if (WIFSIGNALED(status)) return std::string("signal ") + strsignal(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

// Small pieces of memory come out of the thread's cache, and go into it, whatever the program did before:
// glibc's ways past it depend on the heap's history, and a run on another way than the recorded one stops
// elsewhere. Nothing is given back: the caller is about to be killed.
void even_out_the_heap() {
  constexpr std::size_t kLargest = 1024, kStep = 16;
  constexpr int kOfASize = 24;  // what a cache holds (7), what it is filled up with (7), and more
  constexpr int kGivenBack = 4;
  for (std::size_t size = kStep / 2; size <= kLargest; size += kStep) {
    void* volatile pieces[kOfASize];  // so that the compiler leaves none out
    for (int i = 0; i < kOfASize; ++i) pieces[i] = std::malloc(size);
    for (int i = 0; i < kGivenBack; ++i) std::free(pieces[i]);
  }
}

// One child, from its start to its death.
class Run {
 public:
  Run(Operation& operation, const StepOptions& options) : operation_(operation), options_(options) {
    operation.prepare();
    parent_ = std::make_unique<Tracee>(Tracee::start([&operation] {
      operation.enter();
      even_out_the_heap();
      begin_marker();
      operation.act();
      end_marker();
    }));
    if (!parent_->valid()) return;
    operation.ready();
    if (!options.step_forked_child) return;
    if (parent_->resume() == Tracee::Stop::kFork) child_ = std::make_unique<Tracee>(parent_->forked());
  }

  Tracee& subject() { return child_ ? *child_ : *parent_; }
  bool started() const { return parent_->valid() && (child_ || !options_.step_forked_child); }

  // Kills the subject, lets its parent end in peace, and has the survivors look.
  void finish(std::size_t point, Tracee::Stop last, Findings& found) {
    const bool returned = last == Tracee::Stop::kEnd;
    if (last == Tracee::Stop::kDead)
      found.add("the operation ended by itself: " + describe_death(subject().death()));
    const pid_t pid = subject().pid();
    if (child_) {
      child_->kill();
      Tracee::Stop stop = parent_->resume();
      while (stop == Tracee::Stop::kTrap) stop = parent_->resume();
      if (stop != Tracee::Stop::kEnd) found.add("the parent of the killed child did not go on");
    }
    const pid_t forked = child_ ? 0 : parent_->forked();
    parent_->kill();
    if (child_) wait_gone(pid);  // as its new parent
    operation_.check({point, returned, forked}, found);
    wait_gone(forked);
  }

 private:
  Operation& operation_;
  const StepOptions& options_;
  std::unique_ptr<Tracee> parent_;
  std::unique_ptr<Tracee> child_;
};

// `point`: where the survivors are told that it died; it did at its end.
Trace record(Operation& operation, const StepOptions& options, std::size_t point, Findings& found) {
  Trace trace;
  Run run(operation, options);
  if (!run.started()) {
    found.add("the operation never began: " + describe_death(run.subject().death()));
    return trace;
  }
  const Tracee::Stop stop = trace.record(run.subject());
  run.finish(point, stop, found);
  return trace;
}

}  // namespace

Tally kill_everywhere(Operation& operation, const StepOptions& options, Findings& found) {
  Tally tally;
  // The first runs warm what is made once (tables of this process, the allocator, symbols that are bound at their
  // first use); their traces are not the others'. Two, since survivors of odd and of even points do different things.
  for (const std::size_t point : {0, 1}) {
    record(operation, options, point, found);
    if (!found.empty()) return tally;
  }
  const Trace trace = record(operation, options, 0, found);
  tally.instructions = trace.size();
  for (const std::size_t point : choose_points(trace, options.most_points)) {
    if (!found.empty()) break;
    Run run(operation, options);
    if (!run.started()) {
      found.add("the operation never began: " + describe_death(run.subject().death()));
      break;
    }
    const Tracee::Stop stop = trace.replay(run.subject(), point);
    if (stop == Tracee::Stop::kEnd) ++tally.strayed;
    const std::uint64_t counter = stop == Tracee::Stop::kTrap ? run.subject().program_counter() : 0;
    run.finish(point, stop, found);
    ++tally.points;
    if (!found.empty())
      found.add("after the death at instruction " + std::to_string(point) + ", in " + describe(counter));
  }
  return tally;
}

testing::AssertionResult survives_every_kill(const std::string& name, Operation& operation,
                                             const StepOptions& options) {
  set_test_timeout(std::chrono::seconds(300));
  const auto begin = std::chrono::steady_clock::now();
  Findings found;
  const Tally tally = kill_everywhere(operation, options, found);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  g_total += tally.points;
  std::printf("  %6zu kill points  %-44s %7zu instructions, %zu strayed, %.1f s\n", tally.points,
              name.c_str(), tally.instructions, tally.strayed, seconds);
  std::fflush(stdout);
  if (!found.empty()) {
    testing::AssertionResult wrong = testing::AssertionFailure() << name << ":";
    for (const std::string& line : found.lines()) wrong << "\n  " << line;
    return wrong;
  }
  if (tally.points == 0) return testing::AssertionFailure() << name << ": no kill point";
  // Ways differ a little from run to run (processors, clocks); if most did, the test would test nothing.
  if (tally.strayed * 2 > tally.points)
    return testing::AssertionFailure()
           << name << ": " << tally.strayed << " of " << tally.points << " runs took another way";
  return testing::AssertionSuccess();
}

std::size_t total_kill_points() { return g_total; }

}  // namespace forklift::test
