#include "guard/rest.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/log.h"
#include "guard/threads.h"

namespace forklift::inline abi_0_1::guard {

namespace {

using Pause = int (*)(int kind);
using SetThreads = void (*)(int count);
constexpr int kSoft = 1;  // omp_pause_soft: the values of threadprivate variables of this thread stay
constexpr std::chrono::seconds kForkTimeout{60};

// What the handlers call. Process-private; a new one is made when libraries were loaded or unloaded.
struct Plan {
  std::uint64_t changes = 0;
  std::vector<Pause> pauses;
  std::vector<SetThreads> singles;
  std::vector<std::string> openblas;  // files
};

std::shared_ptr<const Plan>& plan_in_use() {
  static auto* const instance = new std::shared_ptr<const Plan>;  // handlers outlive main
  return *instance;
}

std::shared_ptr<const Plan> current_plan() {
  const std::lock_guard<std::mutex> lock(tables_mutex());
  return plan_in_use();
}

std::int64_t timeout_wanted() {
  const char* const text = std::getenv("FORKLIFT_FORK_TIMEOUT");
  const std::int64_t usual = std::chrono::nanoseconds(kForkTimeout).count();
  if (text == nullptr) return usual;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || !(seconds >= 0)) return usual;
  return static_cast<std::int64_t>(std::min(seconds, 1e9) * 1e9);
}

std::atomic<std::int64_t>& timeout_ns() {
  static std::atomic<std::int64_t> nanoseconds{timeout_wanted()};
  return nanoseconds;
}

// For how long other threads have computed while those of OpenBLAS slept, as far as looks follow one another
// closely. Of the process: a refusable wait, its fork and the next forks continue one another.
class Alone {
 public:
  void interrupt() noexcept { since_ = 0; }
  bool for_long() noexcept {
    const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
    const std::int64_t looked = looked_.exchange(now);
    if (since_ == 0 || now - looked > kAtMost.count()) since_ = now;
    return now - since_ >= kAtMost.count();
  }

 private:
  static constexpr std::chrono::steady_clock::duration kAtMost = std::chrono::seconds(1);
  std::atomic<std::int64_t> since_{0};
  std::atomic<std::int64_t> looked_{0};
};

Alone& alone() {
  static Alone instance;
  return instance;
}

// The handlers are registered as often as libraries came; the first of them in a fork does the work.
thread_local bool t_in_fork = false;

std::shared_ptr<const Plan> make_plan(const Libraries& libraries) {
  auto plan = std::make_shared<Plan>();
  plan->changes = libraries.changes;
  for (const Library& library : libraries.all) {
    if (is_openblas(library)) plan->openblas.push_back(library.file);
    if (!is_gomp(library)) continue;
    void* const pause = symbol_of(library, {"omp_pause_resource_all"});
    void* const set_threads = symbol_of(library, {"omp_set_num_threads"});
    if (pause && rest_mode() == RestMode::kOn) {
      plan->pauses.push_back(reinterpret_cast<Pause>(pause));
    } else if (set_threads) {
      plan->singles.push_back(reinterpret_cast<SetThreads>(set_threads));
    }
  }
  return plan;
}

bool is_of_openblas(const Thread& thread, const Plan& plan) {
  return std::ranges::find(plan.openblas, thread.owner) != plan.openblas.end();
}

// Threads that the program or Python started may have a call of OpenBLAS in flight; those of other runtimes not.
bool may_call(const Thread& thread, const Libraries& libraries) {
  return thread.owner.empty() || thread.owner == libraries.all.front().file ||
         thread.owner.starts_with("libpython");
}

// One look at all threads.
bool calls_have_ended() {
  const std::shared_ptr<const Plan> plan = current_plan();
  if (!plan || plan->openblas.empty()) return true;
  const std::shared_ptr<const Libraries> libraries = mapped_libraries();
  // Most forks meet threads that sleep, and need not know whose they are.
  const std::vector<Thread> threads =
      another_thread_is_busy() ? other_threads(*libraries) : std::vector<Thread>();
  const auto calls = [&](const Thread& each) { return may_call(each, *libraries); };
  const auto serves = [&](const Thread& each) { return each.busy() && is_of_openblas(each, *plan); };
  const auto computes = [&](const Thread& each) { return each.busy() && calls(each); };
  const bool in_flight = std::ranges::any_of(threads, calls) && std::ranges::any_of(threads, serves);
  if (!in_flight && std::ranges::any_of(threads, computes)) return alone().for_long();
  alone().interrupt();
  return !in_flight;
}

// False: they go on after fork_timeout(), or the wait was interrupted.
bool wait_for_calls(const std::function<bool()>& interrupted) {
  const auto deadline = std::chrono::steady_clock::now() + fork_timeout();
  while (!calls_have_ended()) {
    if (std::chrono::steady_clock::now() >= deadline || (interrupted && interrupted())) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void rest(const Plan& plan) {
  // After a library was unloaded, the functions may be gone.
  if (plan.changes != mapped_libraries()->changes || count_threads() < 2) return;
  for (const Pause pause : plan.pauses) pause(kSoft);
  if (!wait_for_calls({})) {
    log(Severity::kError,
        "this fork may never return: after fork_timeout another thread is still within a call of "
        "OpenBLAS");
  }
}

void before_fork() {
  if (t_in_fork) return;
  t_in_fork = true;
  rest(*current_plan());
  tables_mutex().lock();  // until one of the handlers below
}

void after_fork_in_parent() {
  if (!t_in_fork) return;
  t_in_fork = false;
  tables_mutex().unlock();
}

void after_fork_in_child() {
  if (!t_in_fork) return;
  t_in_fork = false;
  for (const SetThreads set_threads : plan_in_use()->singles) set_threads(1);
  tables_mutex().unlock();
}

}  // namespace

RestMode rest_mode() noexcept {
  const char* const text = std::getenv("FORKLIFT_FORK_REST");
  const std::string_view wanted = text ? text : "";
  if (wanted == "off") return RestMode::kOff;
  return wanted == "single" ? RestMode::kSingle : RestMode::kOn;
}

std::chrono::nanoseconds fork_timeout() noexcept {
  return std::chrono::nanoseconds(timeout_ns().load(std::memory_order_relaxed));
}

void set_fork_timeout(std::chrono::nanoseconds timeout) noexcept {
  timeout_ns().store(timeout.count(), std::memory_order_relaxed);
}

Status refuse_fork(const std::string& why) {
  const double seconds = std::chrono::duration<double>(fork_timeout()).count();
  return {Code::kTimeout, "no fork after waiting for " + std::to_string(seconds) + " s: " + why +
                              "; wait longer (fork_timeout), or start the process by another method"};
}

Status prepare_fork(const std::function<bool()>& interrupted) {
  rest_at_forks();
  if (wait_for_calls(interrupted)) return {};
  return refuse_fork("another thread is within a call of OpenBLAS, and fork() would not return");
}

void rest_at_forks() {
  if (rest_mode() == RestMode::kOff) return;
  const std::shared_ptr<const Libraries> libraries = mapped_libraries();
  const std::lock_guard<std::mutex> lock(tables_mutex());
  std::shared_ptr<const Plan>& plan = plan_in_use();
  if (plan && plan->changes == libraries->changes) return;
  const std::size_t before = plan ? plan->openblas.size() : 0;
  const bool first = !plan;
  plan = make_plan(*libraries);
  if (first || plan->openblas.size() > before) {
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  }
}

bool can_pause(const Library& gomp) { return symbol_of(gomp, {"omp_pause_resource_all"}) != nullptr; }

bool is_gomp(const Library& library) { return library.file.starts_with("libgomp"); }

bool is_openblas(const Library& library) { return library.file.find("openblas") != std::string::npos; }

}  // namespace forklift::inline abi_0_1::guard
