// A 64-bit word of shared memory, and the two fences that the protocols on such words need.
//
// All shared state that several processes change is made of these words: they are lock-free, so a process
// killed at any instruction leaves either the old value or the new one.
#pragma once

#include <atomic>
#include <cstdint>

namespace forklift::inline abi_0_1::sync {

using Word = std::atomic<std::uint64_t>;
static_assert(sizeof(Word) == 8 && Word::is_always_lock_free);

// Program order as seen after a kill: if anything behind the fence has happened, everything before it has. A
// thread dies between two instructions, and the kernel's exit path publishes every store that it executed, so
// it is enough to keep the compiler from reordering, on weakly ordered machines, too.
inline void crash_fence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Store-load ordering between processors (Dekker's pattern: publish, then check for sleepers).
inline void full_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
  // The thread sanitizer does not model fences; a read-modify-write of one common word gives the same order.
  static std::atomic<int> anchor{0};
  anchor.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// As full_fence, for use directly after unlocking a mutex: on x86 the unlock was a locked instruction, which
// is a full fence itself.
inline void unlock_fence() noexcept {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  full_fence();
#endif
}

// Between a store and later stores; between loads and a later load: the two fences of a sequence lock, whose every
// access is atomic.
inline void store_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
  std::atomic_signal_fence(std::memory_order_seq_cst);  // not modelled, and x86 keeps both orders
#else
  std::atomic_thread_fence(std::memory_order_release);
#endif
}
inline void load_fence() noexcept {
#if defined(__SANITIZE_THREAD__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Fetches a cache line that is to be read soon. Not __builtin_prefetch: a function that does nothing else has no effect in
// GCC's eyes, which drops its calls.
inline void fetch_to_read(const void* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(at)));
#elif defined(__aarch64__)
  asm volatile("prfm pldl1keep, %0" : : "Q"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at);
#endif
}

// Fetches a cache line for writing, so that the store that follows need not wait for another processor to
// give the line up.
inline void fetch_to_write(const void* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#elif defined(__aarch64__)
  asm volatile("prfm pstl1keep, %0" : : "Q"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

// Hints that another processor will read what was just written there: the line goes to the cache that they share, where
// it is found sooner than in this one's. Does nothing where the processor does not know the hint.
inline void offer_line(const void* at) noexcept {
#if defined(__x86_64__)
  asm volatile("cldemote %0" : : "m"(*static_cast<const char*>(at)));
#else
  static_cast<void>(at);
#endif
}

}  // namespace forklift::inline abi_0_1::sync
