// cpp-lock: one lock and unlock by one process. cpp-lock-contended: the time of one pair while two processes
// contend.
#include <pthread.h>
#include <sys/mman.h>

#include "cpp/case.h"
#include "cpp/workers.h"
#include "forklift/lock.h"
#include "forklift/semaphore.h"

namespace bench {
namespace {

// A lock that survives its owner's death and does nothing else.
class RobustMutex {
 public:
  RobustMutex()
      : mutex_(static_cast<pthread_mutex_t*>(
            ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }
  ~RobustMutex() { ::munmap(mutex_, 4096); }
  RobustMutex(const RobustMutex&) = delete;
  RobustMutex& operator=(const RobustMutex&) = delete;
  void lock() { pthread_mutex_lock(mutex_); }
  void unlock() { pthread_mutex_unlock(mutex_); }

 private:
  pthread_mutex_t* mutex_;
};

class Units : public forklift::Semaphore {
 public:
  void lock() { acquire(); }
  void unlock() { release(); }
};

template <class Mutex>
void turns(Mutex& mutex, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    mutex.lock();
    mutex.unlock();
  }
}

template <class Mutex>
double alone(const Run& run) {
  Mutex mutex;
  const std::size_t count = run.count(10'000'000);
  turns(mutex, count / 10 + 1);
  const std::int64_t begin = now_ns();
  turns(mutex, count);
  return static_cast<double>(now_ns() - begin) / static_cast<double>(count);
}

template <class Mutex>
double contended(const Run& run) {
  Mutex mutex;
  const std::size_t count = run.count(2'000'000);
  const auto work = [&](std::size_t times) { return [&mutex, times] { turns(mutex, times); }; };
  const std::size_t warm = count / 10 + 1;
  return race({{.warm_up = work(warm), .work = work(count)}, {.warm_up = work(warm), .work = work(count)}},
              run.pin) /
         static_cast<double>(count);
}

const Contender alone_ours{"cpp-lock", "forklift", Role::kOurs, "ns", alone<forklift::Lock>};
const Contender alone_rlock{"cpp-lock", "RLock", Role::kPart, "ns", alone<forklift::RLock>};
const Contender alone_semaphore{"cpp-lock", "Semaphore", Role::kPart, "ns", alone<Units>};
const Contender alone_floor{"cpp-lock", "robust mutex", Role::kFloor, "ns", alone<RobustMutex>};
const Contender contended_ours{"cpp-lock-contended", "forklift", Role::kOurs, "ns",
                               contended<forklift::Lock>};
const Contender contended_floor{"cpp-lock-contended", "robust mutex", Role::kFloor, "ns",
                                contended<RobustMutex>};

}  // namespace
}  // namespace bench
