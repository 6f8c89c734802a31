// Counting calls, making them fail, and what a fork and a poisoned context do to them.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "contexts.h"
#include "entry.h"
#include "fake_cuda.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

struct Fault {
  std::string name;  // empty: any function
  long left;         // 1: the next one
  int error;
};

// "cuMemCreate:3:2,cuMemMap:1:999": name, which call from the start, error.
std::vector<Fault> faults_of_environment() {
  std::vector<Fault> faults;
  const char* const text = std::getenv("FORKLIFT_FAKE_CUDA_FAIL");
  std::istringstream words(text != nullptr ? text : "");
  for (std::string word; std::getline(words, word, ',');) {
    std::istringstream in(word);
    Fault fault{};
    char colon = 0;
    if (std::getline(in, fault.name, ':') && in >> fault.left >> colon >> fault.error)
      faults.push_back(fault);
  }
  return faults;
}

struct Faults {
  std::mutex mutex;
  std::vector<Fault> planned = faults_of_environment();
  std::string last;  // which function failed so
};

Faults& faults() {
  static auto* const made = new Faults;
  return *made;
}

std::atomic<long> calls{0};
std::atomic<long> forked_calls{0};
std::atomic<pid_t> owner{0};  // the process that called cuInit; 0: none
std::atomic<int> poisoned{0};

CudaError planned_failure(const char* name) {
  Faults& all = faults();
  const std::lock_guard held(all.mutex);
  int error = 0;
  for (auto fault = all.planned.begin(); fault != all.planned.end();) {
    const bool meant = fault->name.empty() || fault->name == name;
    if (meant && --fault->left == 0) {
      error = fault->error;
      all.last = name;
      fault = all.planned.erase(fault);
    } else {
      ++fault;
    }
  }
  return static_cast<CudaError>(error);
}

void plan(const char* name, long nth, int error) {
  Faults& all = faults();
  const std::lock_guard held(all.mutex);
  all.planned.push_back({name, nth, error});
}

}  // namespace

std::mutex& process_mutex() {
  static auto* const made = new std::mutex;  // also for threads that run while the process ends
  return *made;
}

CudaError admit(const char* name, Needs needs) {
  const pid_t initialised = owner.load(std::memory_order_acquire);
  if (initialised != 0 && initialised != ::getpid()) {
    forked_calls.fetch_add(1, std::memory_order_relaxed);
    return CudaError::kNotInitialized;
  }
  calls.fetch_add(1, std::memory_order_relaxed);
  if (const CudaError error = planned_failure(name); error != CudaError::kSuccess) return error;
  if (needs == Needs::kNothing) return CudaError::kSuccess;
  if (initialised == 0) return CudaError::kNotInitialized;
  return poison();
}

CudaError check_context() { return contexts().check_current(); }

// The functions for tests lock in a forked child as well, and its parent's other threads are not there to unlock. A
// child gets new mutexes for that; what such a thread was changing may be half changed there. Holding the mutexes across
// the fork could be a deadlock: handlers of a library that is loaded later run earlier, so they would be locked before
// the mutexes of Forklift that are held in calls of the driver.
void set_initialised() {
  if (owner.exchange(::getpid(), std::memory_order_acq_rel) != 0) return;
  ::pthread_atfork(nullptr, nullptr, [] {
    new (&process_mutex()) std::mutex;
    new (&faults().mutex) std::mutex;
  });
}

CudaError poison() { return static_cast<CudaError>(poisoned.load(std::memory_order_relaxed)); }

void set_poison(CudaError error) {
  int none = 0;
  poisoned.compare_exchange_strong(none, static_cast<int>(error), std::memory_order_relaxed);
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;

FAKE_CUDA long fakeCudaCalls() { return fake::calls.load(std::memory_order_relaxed); }
FAKE_CUDA long fakeCudaForkedCalls() { return fake::forked_calls.load(std::memory_order_relaxed); }
FAKE_CUDA void fakeCudaFailAt(long call_number, int error) {
  if (call_number > 0) return fake::plan("", call_number, error);
  const std::lock_guard held(fake::faults().mutex);
  fake::faults().planned.clear();
  fake::faults().last.clear();
}
FAKE_CUDA void fakeCudaFailedFunction(char* name, size_t length) {
  const std::lock_guard held(fake::faults().mutex);
  std::snprintf(name, length, "%s", fake::faults().last.c_str());
}
FAKE_CUDA void fakeCudaFailFunction(const char* name, long nth, int error) { fake::plan(name, nth, error); }
FAKE_CUDA void fakeCudaPoison(int error) { fake::poisoned.store(error, std::memory_order_relaxed); }
