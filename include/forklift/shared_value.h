// SharedValue<T> and SharedArray<T>: memory of the program's own type that processes see together; what
// Python's multiprocessing calls Value and Array. (forklift::Value is something else: a portable message.)
//
//   forklift::SharedValue<std::int64_t> done;             // zeroed
//   forklift::SharedArray<float> table(1'000'000);        // zeroed
//   auto worker = forklift::Process::fork([&] {
//     table[17] = 3.5f;
//     done.atomic().fetch_add(1, std::memory_order_release);
//   }).start();
//   worker.join();                                        // done.get() == 1, table[17] == 3.5f
//
// Both are handles: a copy is another handle on the same memory. They reach other processes by fork (a
// captured handle works in the child), as an argument of Process::spawn, and through a queue
// (Queue<SharedValue<T>>), always as a handle; T's type is checked where they arrive. The memory is of the
// arena: no file, no name; it goes back when the last handle in the last process is gone.
//
// A Python end gets the memory as a NumPy array: table.tensor() through a Queue<Tensor> or Queue<Value>,
// where T is an element type. (Python's Value and Array are ctypes objects, which only children inherit; what
// forklift.share() makes arrives here as a Tensor over the same memory.)
//
// T: any trivially copyable type but pointers and references; that it holds none is the program's to know.
//
// Thread and process safety: handles as shared_ptr. The T itself is plain memory: order accesses by a
// message, by a lock, or use atomic(), which works across processes where std::atomic_ref<T> is lock-free.
// Errors: constructors throw Error (kOverBudget, kNoSpace, kNotAttached); at() throws std::out_of_range. A
// handle that was moved from is empty: what reaches for an item, but for operator[], throws Error (kClosed).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "forklift/detail/caught.h"
#include "forklift/error.h"
#include "forklift/sendable.h"
#include "forklift/tensor.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

namespace detail {

template <class T>
concept SharedItem = Plain<T> && alignof(T) <= 64;

// At least a byte of zeros in the arena, as a uint8 tensor.
inline Tensor shared_memory(std::size_t count, std::size_t item) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, item, &bytes) || bytes > static_cast<std::size_t>(INT64_MAX)) {
    throw_status({Code::kInvalid, std::to_string(count) + " items of " + std::to_string(item) + " bytes"});
  }
  return Tensor::zeros({static_cast<std::int64_t>(bytes == 0 ? 1 : bytes)}, DType::kUInt8);
}

// Where a SharedValue's waiters sleep: 16 bytes behind the item, all zero at first.
inline constexpr std::size_t kBellBytes = 16;
constexpr std::size_t bell_offset(std::size_t item) noexcept { return (item + 15) / 16 * 16; }
// Until changed(item, old) is true. False: it was not before the wait was over.
using Changed = bool (*)(const void* item, const void* old);
bool wait_shared(std::byte* bell, Changed changed, const void* item, const void* old, Limit limit);
void notify_shared(std::byte* bell, int most) noexcept;

inline void check_not_moved_from(const Tensor& memory) {
  if (memory.storage() == nullptr) [[unlikely]]
    throw_status({Code::kClosed, "this shared memory's handle was moved from"});
}

// A number that a move leaves zero.
class MovedCount {
 public:
  MovedCount(std::size_t count) noexcept : count_(count) {}
  MovedCount(const MovedCount&) = default;
  MovedCount(MovedCount&& other) noexcept : count_(std::exchange(other.count_, 0)) {}
  MovedCount& operator=(const MovedCount&) = default;
  MovedCount& operator=(MovedCount&& other) noexcept {
    count_ = std::exchange(other.count_, 0);
    return *this;
  }
  ~MovedCount() = default;
  operator std::size_t() const noexcept { return count_; }

 private:
  std::size_t count_;
};

// The memory of an object that processes share, on its way to others: in another domain there can be no copy of it.
const Tensor& bound_to_its_domain(const Tensor& memory);

// {type, items, memory}
template <class T>
Value describe_shared(const Tensor& memory, std::size_t count) {
  check_not_moved_from(memory);
  return Value(
      Value::List{Value(type_hash<T>()), Value(std::uint64_t{count}), Value(bound_to_its_domain(memory))});
}

template <class T>
Tensor shared_from(const Value& value, std::uint64_t& count) {
  const auto* parts = value.get_if<Value::List>();
  if (parts == nullptr || parts->size() != 3) mismatch(value, "shared memory");
  const std::optional<std::uint64_t> type = (*parts)[0].try_as<std::uint64_t>();
  const std::optional<std::uint64_t> items = (*parts)[1].try_as<std::uint64_t>();
  const Tensor* memory = (*parts)[2].get_if<Tensor>();
  if (!type || !items || memory == nullptr) mismatch(value, "shared memory");
  if (*type != type_hash<T>()) throw_mismatch({Code::kInvalid, "shared memory that holds another type"});
  std::uint64_t bytes = 0;
  if (memory->dtype() != DType::kUInt8 || memory->readonly() || !memory->is_contiguous() ||
      __builtin_mul_overflow(*items, std::uint64_t{sizeof(T)}, &bytes) || bytes > memory->nbytes() ||
      reinterpret_cast<std::uintptr_t>(memory->raw()) % alignof(T) != 0) {
    throw_mismatch({Code::kCorrupt, "shared memory that does not hold its items"});
  }
  count = *items;
  return *memory;
}

}  // namespace detail

template <class T>
class SharedValue;

template <class T>
class SharedArray {
  static_assert(
      !detail::RefersElsewhere<T>::value,
      "forklift: a pointer, view or reference means nothing in another process: what it refers to is "
      "what can be shared");
  static_assert(detail::RefersElsewhere<T>::value || detail::SharedItem<T>,
                "forklift: shared memory holds trivially copyable types without pointers or references, "
                "aligned to 64 bytes at most");

 public:
  using value_type = T;

  // `count` items, all bytes zero.
  explicit SharedArray(std::size_t count) : memory_(detail::shared_memory(count, sizeof(T))), count_(count) {}

  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  T* data() const noexcept { return reinterpret_cast<T*>(memory_.raw()); }
  T* begin() const noexcept { return data(); }
  T* end() const noexcept { return data() + count_; }
  // All of it.
  std::span<T> span() const noexcept { return {data(), count_}; }
  // Precondition: i < size().
  T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T& at(std::size_t i) const {
    if (i >= count_) {
      detail::check_not_moved_from(memory_);
      detail::throw_out_of_range("item " + std::to_string(i) + " of " + std::to_string(count_));
    }
    return data()[i];
  }
  std::atomic_ref<T> atomic(std::size_t i) const
    requires(std::atomic_ref<T>::is_always_lock_free)
  {
    return std::atomic_ref<T>(at(i));
  }

  // The same memory as a tensor, for queues with a Python end.
  Tensor tensor() const
    requires Element<T>
  {
    detail::check_not_moved_from(memory_);
    return Tensor::wrap(memory_.storage(), dtype_of<T>(), {static_cast<std::int64_t>(count_)});
  }

 private:
  friend struct ValueTraits<SharedArray<T>>;
  friend class SharedValue<T>;
  friend struct ValueTraits<SharedValue<T>>;
  SharedArray(Tensor memory, std::size_t count) : memory_(std::move(memory)), count_(count) {}

  Tensor memory_;
  detail::MovedCount count_;
};

// One item that processes share.
template <class T>
class SharedValue {
 public:
  using value_type = T;

  SharedValue() : item_(detail::shared_memory(1, detail::bell_offset(sizeof(T)) + detail::kBellBytes), 1) {}
  // Begins with that value.
  explicit SharedValue(const T& value) : SharedValue() { item_[0] = value; }

  // Plain reads and writes: a lock, or atomic(), makes them safe.
  T get() const { return item_.at(0); }
  void set(const T& value) const { item_.at(0) = value; }
  T& operator*() const { return item_.at(0); }
  T* operator->() const { return &item_.at(0); }
  // For numbers: an operation that no other process comes in between.
  std::atomic_ref<T> atomic() const
    requires(std::atomic_ref<T>::is_always_lock_free)
  {
    return item_.atomic(0);
  }

  // Waits until the value is another one than `old`; whoever changes it calls notify_one or notify_all afterwards.
  // Between processes: atomic().wait() sleeps on memory of one process, so that a notification by another one does
  // not wake it. False: it still was `old` when the wait was over.
  void wait(const T& old) const
    requires(std::atomic_ref<T>::is_always_lock_free)
  {
    (void)wait_within(old, detail::kForever);
  }
  [[nodiscard]] bool try_wait(const T& old, const Wait& wait = Wait::now()) const
    requires(std::atomic_ref<T>::is_always_lock_free)
  {
    return wait_within(old, wait);
  }
  void notify_one() const { detail::notify_shared(bell(), 1); }
  void notify_all() const { detail::notify_shared(bell(), 0x7fffffff); }

 private:
  friend struct ValueTraits<SharedValue<T>>;
  explicit SharedValue(SharedArray<T> item) : item_(std::move(item)) {}
  std::byte* bell() const {
    return reinterpret_cast<std::byte*>(&item_.at(0)) + detail::bell_offset(sizeof(T));
  }
  bool wait_within(const T& old, detail::Limit limit) const {
    const detail::Changed changed = [](const void* item, const void* before) {
      T now = std::atomic_ref<T>(*const_cast<T*>(static_cast<const T*>(item))).load();
      return std::memcmp(&now, before, sizeof now) != 0;
    };
    return detail::wait_shared(bell(), changed, &item_.at(0), &old, limit);
  }

  SharedArray<T> item_;
};

template <class T>
struct ValueTraits<SharedArray<T>> {
  static Value to(const SharedArray<T>& array) {
    return detail::describe_shared<T>(array.memory_, array.count_);
  }
  static SharedArray<T> from(const Value& value) {
    std::uint64_t count = 0;
    Tensor memory = detail::shared_from<T>(value, count);
    return SharedArray<T>(std::move(memory), count);
  }
};

template <class T>
struct ValueTraits<SharedValue<T>> {
  static Value to(const SharedValue<T>& value) { return Value(value.item_); }
  static SharedValue<T> from(const Value& value) {
    SharedArray<T> item = ValueTraits<SharedArray<T>>::from(value);
    const bool has_bell = item.memory_.nbytes() >= detail::bell_offset(sizeof(T)) + detail::kBellBytes;
    if (item.size() != 1 || !has_bell)
      detail::throw_mismatch({Code::kCorrupt, "a shared value that is none or many"});
    return SharedValue<T>(std::move(item));
  }
};

}  // namespace forklift::inline abi_0_1
