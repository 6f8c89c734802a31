#include "sync/robust_mutex.h"

#include <time.h>

#include <cerrno>
#include <string>

#include "os/futex.h"
#include "os/proc.h"
#include "sync/word.h"

namespace forklift::inline abi_0_1::sync {

namespace {

// How often the lock word is polled before a sleep: about 2 us.
constexpr int kLooks = 100;

timespec seconds_from_now(long seconds) {
  timespec when{};
  ::clock_gettime(CLOCK_MONOTONIC, &when);
  when.tv_sec += seconds;
  return when;
}

int lock_until(pthread_mutex_t& mutex, const timespec& limit) {
#if defined(__SANITIZE_THREAD__)
  // GCC 12's thread sanitizer does not know pthread_mutex_clocklock, and does not count a timed lock that
  // returns EOWNERDEAD as acquired.
  for (;;) {
    const int rc = pthread_mutex_trylock(&mutex);
    const timespec now = seconds_from_now(0);
    if (rc != EBUSY) return rc;
    if (now.tv_sec > limit.tv_sec || (now.tv_sec == limit.tv_sec && now.tv_nsec >= limit.tv_nsec))
      return ETIMEDOUT;
    const timespec pause{0, 50'000};
    ::nanosleep(&pause, nullptr);
  }
#else
  return pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &limit);
#endif
}

// glibc keeps the owner's thread id in the mutex. Only for the message: the value may be stale.
Status stalled(pthread_mutex_t& mutex) {
  const int owner = __atomic_load_n(&mutex.__data.__owner, __ATOMIC_RELAXED);
  const char state = owner > 0 ? os::task_state(owner) : '\0';
  std::string what = "an internal lock was not given up within " + std::to_string(kStallSeconds) +
                     " s by thread " + std::to_string(owner);
  if (state == 'T') what += ", which is stopped (SIGSTOP); continue or kill it";
  if (state == 't') what += ", which is stopped in a debugger; continue or kill it";
  if (state != 'T' && state != 't' && state != '\0') what += std::string(", in state ") + state;
  return {Code::kStalled, std::move(what)};
}

}  // namespace

Status RobustMutex::init() noexcept {
  pthread_mutexattr_t attributes;
  int rc = pthread_mutexattr_init(&attributes);
  if (rc == 0) rc = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (rc == 0) rc = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  if (rc == 0) rc = pthread_mutex_init(&mutex_, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (rc != 0) return Status::system("pthread_mutex_init", rc, "robust, process-shared");
  return {};
}

RobustMutex::Acquired RobustMutex::try_lock() noexcept {
  const int rc = pthread_mutex_trylock(&mutex_);
  if (rc == 0) return Acquired::kClean;
  return rc == EOWNERDEAD ? Acquired::kOwnerDied : Acquired::kFailed;
}

void RobustMutex::wake_next() noexcept {
  os::futex_wake(reinterpret_cast<std::atomic<std::uint32_t>&>(mutex_.__data.__lock), 1);
}

RobustMutex::Acquired RobustMutex::lock_slow(Status* why) noexcept {
  if (robust_list_offset.load(std::memory_order_relaxed) == 0) find_robust_list();
  int rc = pthread_mutex_trylock(&mutex_);
  // Critical sections last tens of nanoseconds and a futex round trip microseconds, so polling for a while
  // pays. glibc keeps the owner's thread id in the word: 0 means free. Plain reads leave the cache line
  // shared meanwhile.
  for (int look = 0; rc == EBUSY && look < kLooks; ++look) {
    cpu_relax();
    if (__atomic_load_n(&mutex_.__data.__lock, __ATOMIC_RELAXED) == 0) rc = pthread_mutex_trylock(&mutex_);
  }
  if (rc == EBUSY) {
    const timespec limit = seconds_from_now(kStallSeconds);
    rc = lock_until(mutex_, limit);
  }
  switch (rc) {
    case 0: return Acquired::kClean;
    case EOWNERDEAD: return Acquired::kOwnerDied;
    case ETIMEDOUT: *why = stalled(mutex_); return Acquired::kFailed;
    default: *why = Status::system("pthread_mutex_lock", rc, "internal lock"); return Acquired::kFailed;
  }
}

}  // namespace forklift::inline abi_0_1::sync
