// SharedVector<T>: a vector in shared memory, of a fixed capacity, that survives the death of any process.
//
//   forklift::SharedVector<Event> log(10'000);              // room for as many; empty
//   auto worker = forklift::Process::fork([=]() mutable { log.push_back({.code = 7}); }).start();
//   worker.join();
//   Event first = log.at(0);                                // a copy, never half written
//   for (const Event& event : log.snapshot()) show(event);  // all of it at one moment
//   log.update(0, [](Event& event) { ++event.seen; });      // read, changed, written, with no other in between
//
// One thread of one process writes at a time; any number read, without a lock: a reader that a writer came in
// between begins again. Each change happens or does not, whichever process is killed and whenever.
//
// A SharedVector is a handle: a copy is another handle on the same memory. It reaches other processes by fork, as an
// argument of Process::spawn, and through a queue (Queue<SharedVector<T>>), always as a handle; T is checked where it
// arrives (TypeMismatch). The memory is of the arena; it goes back with the last handle in the last process.
//
// T: any trivially copyable type without pointers or references, up to 1 MiB.
//
// Thread and process safety: all functions any time, but assigning to a handle beside its use. In a forked child a
// handle means the same vector.
//
// Errors: Error with kNoSpace from push_back() when it is full, kStalled where a writer holds the lock for five
// seconds: its process is stopped (SIGSTOP), or an update()'s function takes that long; kOverBudget from the
// constructor. at() and set() throw std::out_of_range. What update()'s function throws leaves it, and nothing was
// changed.
#pragma once

#include <stdexcept>

#include "forklift/detail/caught.h"
#include "forklift/detail/container.h"

namespace forklift::inline abi_0_1 {

template <class T>
class SharedVector : public detail::ContainerBase {
  static_assert(
      detail::ContainerItem<T>,
      "forklift: a SharedVector holds trivially copyable types without pointers or references, up to 1 MiB");
  static constexpr detail::ContainerKind kKind{false, detail::type_hash<T>(), 0, sizeof(T)};

 public:
  using value_type = T;

  // An empty one, with room for as many items.
  explicit SharedVector(std::size_t capacity) : ContainerBase(kKind, capacity) {}

  void push_back(const T& item) {
    const detail::ContainerWriter writer(block());
    detail::vector_push_back(*writer, &item);
  }
  // The last item; nothing: there was none.
  std::optional<T> pop_back() {
    const detail::ContainerWriter writer(block());
    detail::Uninitialised<T> item;
    if (!detail::vector_pop_back(*writer, item.memory())) return std::nullopt;
    return item.value();
  }
  void set(std::size_t index, const T& item) {
    const detail::ContainerWriter writer(block());
    if (!detail::vector_replace(*writer, index, &item)) throw_no_item(index);
  }
  // Calls change(T&) on a copy and writes that back. Keep it short: other writers wait meanwhile.
  template <class Change>
  void update(std::size_t index, Change&& change) {
    const detail::ContainerWriter writer(block());
    detail::Uninitialised<T> item;
    if (!detail::vector_item(*writer, index, item.memory())) throw_no_item(index);
    std::forward<Change>(change)(item.value());
    (void)detail::vector_replace(*writer, index, item.memory());
  }
  void clear() {
    const detail::ContainerWriter writer(block());
    detail::vector_clear(*writer);
  }

  // A copy of the item. std::out_of_range: there is none.
  T at(std::size_t index) const {
    if (std::optional<T> item = find(index)) return *item;
    throw_no_item(index);
  }
  // Nothing: there is no such item.
  std::optional<T> find(std::size_t index) const {
    detail::Uninitialised<T> item;
    if (!detail::vector_get(block(), index, item.memory())) return std::nullopt;
    return item.value();
  }
  std::vector<T> snapshot() const
    requires std::default_initializable<T>
  {
    std::vector<T> items;
    detail::vector_copy(
        block(),
        [](void* into, std::uint64_t size) -> void* {
          auto& all = *static_cast<std::vector<T>*>(into);
          all.resize(size);
          return all.data();
        },
        &items);
    return items;
  }

 private:
  friend struct ValueTraits<SharedVector<T>>;
  explicit SharedVector(Tensor memory) : ContainerBase(kKind, std::move(memory)) {}
  [[noreturn]] void throw_no_item(std::size_t index) const {
    detail::throw_out_of_range("item " + std::to_string(index) + " of a SharedVector of " +
                               std::to_string(size()));
  }
};

template <class T>
struct ValueTraits<SharedVector<T>> {
  static Value to(const SharedVector<T>& vector) {
    return Value(detail::bound_to_its_domain(vector.memory()));
  }
  static SharedVector<T> from(const Value& value) {
    const Tensor* memory = value.get_if<Tensor>();
    if (memory == nullptr) detail::mismatch(value, "a SharedVector");
    return SharedVector<T>(*memory);
  }
};

}  // namespace forklift::inline abi_0_1
