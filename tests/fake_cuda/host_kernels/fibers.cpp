#include "host_kernels/fibers.h"

#include <sys/mman.h>

#include <cstdlib>

#include "host_kernels/device_language.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

constexpr std::size_t kStack = std::size_t{64} << 10;

thread_local Fibers* running = nullptr;

}  // namespace

Fibers::Fibers(unsigned count) : fibers_(count) {
  void* const memory = ::mmap(nullptr, count * kStack, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  stacks_ = static_cast<char*>(memory);
#if defined(__SANITIZE_THREAD__)
  caller_.sanitizer = ::__tsan_get_current_fiber();
  for (Fiber& fiber : fibers_) fiber.sanitizer = ::__tsan_create_fiber(0);
#endif
}

Fibers::~Fibers() {
#if defined(__SANITIZE_THREAD__)
  for (Fiber& fiber : fibers_) ::__tsan_destroy_fiber(fiber.sanitizer);
#endif
  ::munmap(stacks_, fibers_.size() * kStack);
}

// A function of its own: getcontext may return twice as far as the compiler knows, which no loop's variable is to outlive.
void Fibers::prepare(Fiber& fiber, char* stack) {
  fiber.ended = false;
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = nullptr;
  ::makecontext(&fiber.context, &Fibers::begin, 0);
}

void Fibers::run(const std::function<void(unsigned)>& body) {
  body_ = &body;
  Fibers* const before = running;
  running = this;
  for (unsigned i = 0; i < fibers_.size(); ++i) prepare(fibers_[i], stacks_ + i * kStack);
  for (bool any = true; any;) {
    any = false;
    for (unsigned i = 0; i < fibers_.size(); ++i) {
      if (fibers_[i].ended) continue;
      go_on(i);
      any = any || !fibers_[i].ended;
    }
  }
  running = before;
}

void Fibers::go_on(unsigned number) {
  current_ = number;
  threadIdx.x = number;
  Fiber& fiber = fibers_[number];
#if defined(__SANITIZE_ADDRESS__)
  ::__sanitizer_start_switch_fiber(&caller_.sanitizer, fiber.context.uc_stack.ss_sp, kStack);
#endif
#if defined(__SANITIZE_THREAD__)
  ::__tsan_switch_to_fiber(fiber.sanitizer, 0);
#endif
  ::swapcontext(&caller_.context, &fiber.context);
#if defined(__SANITIZE_ADDRESS__)
  ::__sanitizer_finish_switch_fiber(caller_.sanitizer, nullptr, nullptr);
#endif
}

void Fibers::begin() {
  Fibers& block = *running;
#if defined(__SANITIZE_ADDRESS__)
  ::__sanitizer_finish_switch_fiber(nullptr, &block.caller_.stack, &block.caller_.stack_bytes);
#endif
  (*block.body_)(block.current_);
  block.leave(true);
}

void Fibers::leave(bool ended) {
  Fiber& fiber = fibers_[current_];
  fiber.ended = ended;
#if defined(__SANITIZE_ADDRESS__)
  ::__sanitizer_start_switch_fiber(ended ? nullptr : &fiber.sanitizer, caller_.stack, caller_.stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  ::__tsan_switch_to_fiber(caller_.sanitizer, 0);
#endif
  ::swapcontext(&fiber.context, &caller_.context);
#if defined(__SANITIZE_ADDRESS__)
  ::__sanitizer_finish_switch_fiber(fiber.sanitizer, &caller_.stack, &caller_.stack_bytes);
#endif
}

void Fibers::wait() {
  if (running != nullptr) running->leave(false);
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake

void __syncthreads() { forklift::device::cuda::fake::Fibers::wait(); }
