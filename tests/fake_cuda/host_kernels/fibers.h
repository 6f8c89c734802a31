// The threads of one block that has barriers, as fibers of the calling thread.
//
//   Fibers fibers(256);
//   fibers.run([&](unsigned thread) { threadIdx.x = thread; kernel(p); });     // __syncthreads() inside: wait()
//
// run() returns when all have ended. A fiber that waits goes on when each other one waits as well or has ended.
//
// Thread safety: an object belongs to the thread that made it.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace forklift::inline abi_0_1::device::cuda::fake {

class Fibers {
 public:
  explicit Fibers(unsigned count);
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  void run(const std::function<void(unsigned)>& body);
  // Of the fiber that runs in this thread; without one, nothing.
  static void wait();

 private:
  struct Fiber {
    ucontext_t context{};
    bool ended = true;
    void* sanitizer = nullptr;  // what a sanitizer knows of it
  };
  static void begin();
  static void prepare(Fiber& fiber, char* stack);
  void go_on(unsigned number);
  void leave(bool ended);

  // The thread that called run().
  struct Caller {
    ucontext_t context{};
    // For sanitizers.
    void* sanitizer = nullptr;
    const void* stack = nullptr;
    std::size_t stack_bytes = 0;
  };

  char* stacks_ = nullptr;
  std::vector<Fiber> fibers_;
  Caller caller_;
  const std::function<void(unsigned)>* body_ = nullptr;
  unsigned current_ = 0;
};

}  // namespace forklift::inline abi_0_1::device::cuda::fake
