// The list of robust mutexes that a thread holds, which the kernel walks when the thread ends.
//
// glibc keeps the list in its thread descriptor and enters pthread mutexes into it. RobustMutex does the same
// itself and saves the call, the dispatch over kinds of mutexes and the checks for cases that cannot occur
// here; these take two thirds of the time of pthread_mutex_lock and pthread_mutex_unlock. The code relies on
// the kernel's interface (set_robust_list(2)) and on the order of the fields in front of it (RobustList
// below), which glibc cannot change within an ABI: old and new versions share mutexes. Nevertheless
// find_robust_list() verifies it, once in each process, on two mutexes that it locks with the pthread
// functions. Where the check fails (another C library, a debugger that knows no such list), RobustMutex uses
// the pthread functions.
//
// Source: Linux, Documentation/locking/robust-futex-ABI.rst; glibc, nptl/descr.h.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sync/word.h"

namespace forklift::inline abi_0_1::sync {

// The list's part of glibc's thread descriptor.
struct RobustList {
  std::int32_t tid;  // the C library keeps it correct across fork
  std::int32_t unused;
  void* last;                 // `previous` of the list's head
  void* first;                // the newest entry; struct robust_list_head begins here
  std::intptr_t word_offset;  // offset from an entry to its lock word
  void* pending;              // an entry that is just being locked or unlocked
};

#if defined(__GLIBC__) && defined(__LP64__) && !defined(__SANITIZE_THREAD__) && \
    (defined(__x86_64__) || defined(__aarch64__))
inline constexpr bool kRobustListKnown = true;

inline std::byte* thread_pointer() noexcept {
  std::byte* at = nullptr;
#if defined(__x86_64__)
  asm("mov %%fs:0, %0" : "=r"(at));
#else
  asm("mrs %0, tpidr_el0" : "=r"(at));
#endif
  return at;
}
#else
inline constexpr bool kRobustListKnown = false;
inline std::byte* thread_pointer() noexcept { return nullptr; }
#endif

// The offset of every thread's list from its thread pointer; 0: not searched for yet, or not to be used.
inline std::atomic<std::ptrdiff_t> robust_list_offset{0};
// Searches for the list and sets robust_list_offset, once in each process.
void find_robust_list() noexcept;

// The calling thread's list; nullptr: use the pthread functions.
inline RobustList* robust_list() noexcept {
  if constexpr (!kRobustListKnown) return nullptr;
  const std::ptrdiff_t offset = robust_list_offset.load(std::memory_order_relaxed);
  if (offset == 0) [[unlikely]]
    return nullptr;
  return reinterpret_cast<RobustList*>(thread_pointer() + offset);
}

// A mutex as a member of that list: a pointer to an entry points at its `next`, and `previous` lies in front
// of that. The lowest bit of a pointer marks a mutex with priority inheritance; the program may have such
// mutexes, and they may be neighbours in the list.
struct [[gnu::may_alias]] RobustEntry {
  void* previous;
  void* next;
};

inline RobustEntry& entry_at(void* pointer) noexcept {
  const std::uintptr_t next = reinterpret_cast<std::uintptr_t>(pointer) & ~std::uintptr_t{1};
  return *reinterpret_cast<RobustEntry*>(next - offsetof(RobustEntry, next));
}

// The steps of nptl's ENQUEUE_MUTEX and DEQUEUE_MUTEX. A thread that is killed within them has the mutex as
// `pending`, so the kernel finds it.
inline void enter(RobustList& list, RobustEntry& entry) noexcept {
  entry_at(list.first).previous = &entry.next;
  entry.next = list.first;
  entry.previous = &list.first;
  crash_fence();
  list.first = &entry.next;
}
inline void leave(RobustEntry& entry) noexcept {
  entry_at(entry.next).previous = entry.previous;
  entry_at(entry.previous).next = entry.next;
  crash_fence();
  entry.previous = nullptr;
  entry.next = nullptr;
}

}  // namespace forklift::inline abi_0_1::sync
