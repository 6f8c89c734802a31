// Processes that work concurrently, started together and timed from the first start to the last end.
//
//   double ns = race({{.warm_up = [&] { send(1000); }, .work = [&] { send(n); }},
//                     {.warm_up = [&] { receive(1000); }, .work = [&] { receive(n); }}}, run.pin);
//
// Each worker is a fork of this process that begins on a processor of its own, stays there if `pin` is set,
// and ends by _exit. A worker with a `finish` calls that when all workers are done, and ends by exit. A
// worker that fails ends the program: the figure of half a run is worse than none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <vector>

namespace bench {

struct Worker {
  std::function<void()> warm_up;
  std::function<void()> work;
  std::function<void()> finish{};
};

// The `finish` of a worker for queues that have to be left in good order (peers with daemons or threads);
// empty for other queues.
template <class... Queues>
std::function<void()> leaving(Queues&... queues) {
  if constexpr ((requires { queues.leave(); } && ...)) {
    return [&queues...] { (queues.leave(), ...); };
  } else {
    return {};
  }
}

// Where workers run after they have begun.
enum class Bound {
  kNowhere,
  kApart,    // worker i on processor i, modulo their number
  kTogether  // all on one processor
};
double race(const std::vector<Worker>& workers, Bound bound);
inline double race(const std::vector<Worker>& workers, bool pin) {
  return race(workers, pin ? Bound::kApart : Bound::kNowhere);
}

std::int64_t now_ns();
int processors();
// Binds this thread to one processor (modulo their number).
void pin_to(int processor);
[[noreturn]] void fail(const char* what);

// Anonymous memory that forked children share.
void* map_shared(std::size_t bytes);
void unmap_shared(void* address, std::size_t bytes);

template <class T>
class Shared {
 public:
  template <class... Arguments>
  explicit Shared(Arguments&&... arguments)
      : object_(new(map_shared(sizeof(T))) T(std::forward<Arguments>(arguments)...)) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    object_->~T();
    unmap_shared(object_, sizeof(T));
  }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_;
};

// Keeps the compiler from leaving out a computation whose result is not used.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// memcpy as a call: for a constant size GCC would expand it to a loop of its own, which is slower.
void copy_bytes(void* to, const void* from, std::size_t bytes);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits for a peer without sleeping, but yields its processor if the wait is long, so that the peer can run.
class SpinPolicy {
 public:
  void wait() {
    if (++looks_ < 2000) {
      relax();
    } else {
      give_way();
    }
  }

 private:
  static void give_way();
  int looks_ = 0;
};

}  // namespace bench
