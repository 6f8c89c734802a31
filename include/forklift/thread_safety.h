// Annotations for Clang's thread safety analysis (-Wthread-safety). Forklift's locks have them; these are for programs.
//
//   forklift::Lock journal;
//   int entries FORKLIFT_GUARDED_BY(journal) = 0;
//
//   void enter() {
//     const forklift::ScopedLock guard(journal);
//     ++entries;                                  // without the guard: a warning
//   }
//   void enter_locked() FORKLIFT_REQUIRES(journal) { ++entries; }
//
// Other compilers see nothing. The analysis does not know the standard library's guards (std::scoped_lock and
// std::unique_lock work on these locks, but are not understood): ScopedLock and SharedScopedLock are understood.
//
// See https://clang.llvm.org/docs/ThreadSafetyAnalysis.html for what each means.
// Thread and process safety: ScopedLock belongs to one thread. Fork: a guard that is copied by a fork unlocks in the child
// what the child does not hold, as std::scoped_lock would; leave its scope before.
#pragma once

#if defined(__clang__)
#define FORKLIFT_ANALYSED(attribute) __attribute__((attribute))
#else
#define FORKLIFT_ANALYSED(attribute)
#endif

// Of classes.
#define FORKLIFT_CAPABILITY(name) FORKLIFT_ANALYSED(capability(name))
#define FORKLIFT_SCOPED_CAPABILITY FORKLIFT_ANALYSED(scoped_lockable)
// Of data.
#define FORKLIFT_GUARDED_BY(lock) FORKLIFT_ANALYSED(guarded_by(lock))
#define FORKLIFT_PT_GUARDED_BY(lock) FORKLIFT_ANALYSED(pt_guarded_by(lock))
// Of functions.
#define FORKLIFT_REQUIRES(...) FORKLIFT_ANALYSED(requires_capability(__VA_ARGS__))
#define FORKLIFT_REQUIRES_SHARED(...) FORKLIFT_ANALYSED(requires_shared_capability(__VA_ARGS__))
#define FORKLIFT_EXCLUDES(...) FORKLIFT_ANALYSED(locks_excluded(__VA_ARGS__))
#define FORKLIFT_ACQUIRE(...) FORKLIFT_ANALYSED(acquire_capability(__VA_ARGS__))
#define FORKLIFT_ACQUIRE_SHARED(...) FORKLIFT_ANALYSED(acquire_shared_capability(__VA_ARGS__))
#define FORKLIFT_RELEASE(...) FORKLIFT_ANALYSED(release_capability(__VA_ARGS__))
#define FORKLIFT_RELEASE_SHARED(...) FORKLIFT_ANALYSED(release_shared_capability(__VA_ARGS__))
#define FORKLIFT_RELEASE_GENERIC(...) FORKLIFT_ANALYSED(release_generic_capability(__VA_ARGS__))
#define FORKLIFT_TRY_ACQUIRE(...) FORKLIFT_ANALYSED(try_acquire_capability(__VA_ARGS__))
#define FORKLIFT_TRY_ACQUIRE_SHARED(...) FORKLIFT_ANALYSED(try_acquire_shared_capability(__VA_ARGS__))

namespace forklift::inline abi_0_1 {

// Holds a lock for a scope, as std::scoped_lock, and is understood by the analysis.
template <class L>
class FORKLIFT_SCOPED_CAPABILITY ScopedLock {
 public:
  // Waits for the lock; gives it back at the end of the scope.
  explicit ScopedLock(L& lock) FORKLIFT_ACQUIRE(lock) : lock_(lock) { lock.lock(); }
  ~ScopedLock() FORKLIFT_RELEASE() { lock_.unlock(); }
  ScopedLock(const ScopedLock&) = delete;
  ScopedLock& operator=(const ScopedLock&) = delete;

 private:
  L& lock_;
};

// The same to read, of an RWLock.
template <class L>
class FORKLIFT_SCOPED_CAPABILITY SharedScopedLock {
 public:
  // Waits for the lock; gives it back at the end of the scope.
  explicit SharedScopedLock(L& lock) FORKLIFT_ACQUIRE_SHARED(lock) : lock_(lock) { lock.lock_shared(); }
  ~SharedScopedLock() FORKLIFT_RELEASE_GENERIC() { lock_.unlock_shared(); }
  SharedScopedLock(const SharedScopedLock&) = delete;
  SharedScopedLock& operator=(const SharedScopedLock&) = delete;

 private:
  L& lock_;
};

}  // namespace forklift::inline abi_0_1
