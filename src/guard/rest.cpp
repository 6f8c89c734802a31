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

#include "guard/threads.h"

namespace forklift::inline abi_0_1::guard {

namespace {

using Pause = int (*)(int kind);
using SetThreads = void (*)(int count);
constexpr int kSoft = 1;  // omp_pause_soft: the values of threadprivate variables of this thread stay
constexpr std::chrono::milliseconds kQuietWithin{1000};

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

void wait_for_openblas(const Plan& plan) {
  const auto deadline = std::chrono::steady_clock::now() + kQuietWithin;
  while (std::chrono::steady_clock::now() < deadline) {
    const std::shared_ptr<const Libraries> libraries = mapped_libraries();
    const std::vector<Thread> threads = other_threads(*libraries);
    const auto calls = [&](const Thread& each) { return may_call(each, *libraries); };
    const auto works = [&](const Thread& each) {
      return each.busy() && (calls(each) || is_of_openblas(each, plan));
    };
    if (std::ranges::none_of(threads, calls) || std::ranges::none_of(threads, works)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void rest(const Plan& plan) {
  // After a library was unloaded, the functions may be gone.
  if (plan.changes != mapped_libraries()->changes || count_threads() < 2) return;
  for (const Pause pause : plan.pauses) pause(kSoft);
  if (!plan.openblas.empty()) wait_for_openblas(plan);
}

void before_fork() {
  if (t_in_fork) return;
  t_in_fork = true;
  std::unique_lock<std::mutex> lock(tables_mutex());
  const std::shared_ptr<const Plan> plan = plan_in_use();
  lock.unlock();
  rest(*plan);
  lock.lock();
  lock.release();  // until one of the handlers below
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
