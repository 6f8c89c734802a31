// A 64-bit word of shared memory, and the two fences that the protocols on such words need.
//
// All shared state that several processes change is made of these words: they are lock-free, so a process
// killed at any instruction leaves either the old value or the new one.
#pragma once

#include <atomic>
#include <cstdint>

namespace forklift::sync {

using Word = std::atomic<std::uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

// Program order as a killer sees it: what stands before has happened when anything behind has. A thread dies
// between two instructions and the kernel's exit path publishes all that it executed, so keeping the compiler
// from reordering is enough, on weakly ordered machines too.
inline void crash_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Store-load ordering between processors (Dekker's pattern: publish, then look whether somebody sleeps).
inline void full_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
  // The thread sanitizer does not model fences; a read-modify-write on any word orders the same.
  static std::atomic<int> anchor{0};
  anchor.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// As full_fence, where a mutex has just been unlocked: on x86 that was a locked instruction, a full fence by
// itself.
inline void unlock_fence() noexcept {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  full_fence();
#endif
}

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Takes a cache line from whoever has it, ahead of a store to it that would have to wait for that.
inline void fetch_to_write(const void* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

}  // namespace forklift::sync
