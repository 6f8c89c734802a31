// The list of robust mutexes that a thread holds, which the kernel walks when the thread ends.
//
// glibc keeps it in its thread descriptor and enters pthread mutexes there; RobustMutex does the same without
// the call, the dispatch over kinds of mutexes and the checks of what cannot be here, which take two thirds
// of pthread_mutex_lock's and _unlock's time. What is relied on is the kernel's interface
// (set_robust_list(2)) and the order of four fields in front of it, which glibc cannot change within an ABI:
// old and new versions share mutexes. It is nevertheless looked at, once a process, on two mutexes that
// pthread functions lock; where it is not so (another C library, a debugger that knows no such list) those
// functions are used.
//
// Source: Linux, Documentation/locking/robust-futex-ABI.rst; glibc, nptl/descr.h.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sync/word.h"

namespace forklift::sync {

// As it lies in the thread descriptor.
struct RobustList {
  std::int32_t tid;  // kept right across fork by the C library
  std::int32_t unused;
  void* last;                 // `previous` of the list's head
  void* first;                // from here on struct robust_list_head: the newest entry
  std::intptr_t word_offset;  // from an entry to its lock word
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

// Where every thread's list lies, from its thread pointer; 0: not looked for yet, or not to be used.
inline std::atomic<std::ptrdiff_t> robust_list_offset{0};
// Looks for it, once a process.
void find_robust_list() noexcept;

// The calling thread's; nullptr: pthread functions are to be used.
inline RobustList* robust_list() noexcept {
  if constexpr (!kRobustListKnown) return nullptr;
  const std::ptrdiff_t offset = robust_list_offset.load(std::memory_order_relaxed);
  if (offset == 0) [[unlikely]]
    return nullptr;
  return reinterpret_cast<RobustList*>(thread_pointer() + offset);
}

// A mutex as a member of that list: entries point at `next`, and `previous` lies in front of it. The lowest
// bit of a pointer tells a mutex with priority inheritance, which may be anybody's neighbour.
struct [[gnu::may_alias]] RobustEntry {
  void* previous;
  void* next;
};

inline RobustEntry& entry_at(void* pointer) noexcept {
  const std::uintptr_t next = reinterpret_cast<std::uintptr_t>(pointer) & ~std::uintptr_t{1};
  return *reinterpret_cast<RobustEntry*>(next - offsetof(RobustEntry, next));
}

// The steps of nptl's ENQUEUE_MUTEX and DEQUEUE_MUTEX. Who is killed within them has the mutex as `pending`.
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

}  // namespace forklift::sync
