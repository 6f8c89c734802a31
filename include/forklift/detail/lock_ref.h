// What Lock, RLock, RWLock, Semaphore, Condition, Event, Barrier, Latch and Once have in common: they are handles.
//
//   forklift::Lock lock;
//   forklift::Lock same = lock;                              // another handle on the same lock
//   forklift::Process::spawn(work, lock);                    // the child's handle, again on the same
//
// The object lies in shared memory and goes with its last handle in the last process. A handle reaches other
// processes by fork (a captured handle works in the child) or as an argument of Process::spawn.
//
// Thread and process safety: a handle may be used by any number of threads; assigning to it may not run
// beside them. Invariant: a handle names one object for as long as it lives; one that was moved from names
// none, and its members throw Error (kClosed).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "forklift/error.h"

namespace forklift::inline abi_0_1 {

namespace locks {
// The core's, not the public classes of the same names.
// NOLINTBEGIN(bugprone-forward-declaration-namespace)
class Object;
class Mutex;
class Semaphore;
class Condition;
class Event;
class Barrier;
class ReadWriteLock;
class Latch;
class Once;
// NOLINTEND(bugprone-forward-declaration-namespace)
}  // namespace locks

// Any of them, as it is handed over.
class LockRef {
 public:
  LockRef() noexcept = default;
  explicit LockRef(std::shared_ptr<locks::Object> object) noexcept : object_(std::move(object)) {}
  // For the library's own parts.
  const std::shared_ptr<locks::Object>& get() const noexcept { return object_; }
  // Of the same object, or both of none.
  friend bool operator==(const LockRef& a, const LockRef& b) noexcept { return a.same_as(b); }
  // Equal for handles on the same object.
  std::size_t hash() const noexcept;

 private:
  bool same_as(const LockRef& other) const noexcept;
  std::shared_ptr<locks::Object> object_;
};

namespace detail {

// The number of a lock, by which a spawned child finds it.
struct LockName {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;
  std::uint64_t domain = 0;  // 0: the one in which this thread makes things
};
LockName name_of(const LockRef& lock);

template <class T>
concept LockHandle = requires(const T& handle, LockName name) {
  { handle.ref() } -> std::same_as<LockRef>;
  { T::open(name) } -> std::same_as<T>;
};

// Of handles: the same object, whichever handle.
struct HandleHash {
  template <class Handle>
  std::size_t operator()(const Handle& handle) const noexcept {
    if (!handle) return 0;
    return handle.ref().hash();
  }
};

}  // namespace detail

// Two handles on the same object, or two on none.
template <detail::LockHandle T>
bool operator==(const T& a, const T& b) noexcept {
  if (!a || !b) return !a && !b;
  return a.ref() == b.ref();
}

}  // namespace forklift::inline abi_0_1
