// Manager: dictionaries and lists that any number of processes share.
//
//   void play(int id, forklift::ManagedDict scores, forklift::ManagedList log) {
//     scores.set("player " + std::to_string(id), 0.5);
//     scores.add("games", 1);                                  // no other process comes in between
//     log.append(forklift::Value::List{id, "done"});
//   }
//   static const forklift::Registered<&play> registered_play{"play"};
//
//   forklift::Manager manager;                                 // starts a small server process
//   auto scores = manager.dict();
//   auto log = manager.list();
//   auto worker = forklift::Process::spawn(play, 1, scores, log).start();
//   worker.join();
//   std::int64_t games = scores.at<std::int64_t>("games");
//   double best = scores.update<double>("best", [](std::optional<double> old) { return old.value_or(0) + 1;
//   });
//
// What they hold are Values: numbers, strings, containers of these, structs with Fields (fields.h), and
// tensors, which are held as handles: a tensor that one process stores is the same memory for all who get
// it. Keys are numbers, strings or bytes. A dictionary keeps the order of insertion.
//
// Each call is a request to the server and an answer, with two wake-ups if the server sleeps: for state that
// is shared, not for streams (Queue) or numbers that change all the time (SharedValue). One call is one
// atomic step. ManagedDict and ManagedList are handles: they go to other processes by fork, as arguments of a
// spawned function, in messages, and into other dictionaries. What they name lives as long as the Manager.
//
// Crashes: a client may be killed at any moment; the server goes on, and a step is done or not. When the
// server is gone (the Manager's end, or killed), every call throws Error (kPeerDied), within some 20 ms also
// those that are waiting. The server ends with the process that made the Manager, however that ends.
//
// Thread and process safety: any number of threads and processes use a handle. The Manager belongs to the
// process that made it. Errors: Error (kPeerDied; kTimeout and kInterrupted
// after within(); kInvalid for a key that is none;
// what sending a message throws), std::out_of_range for what is not there, TypeMismatch.
// Invariant: calls on one Manager's objects happen one after another, in one order for all.
#pragma once

#include <sys/types.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "forklift/detail/channel_ref.h"
#include "forklift/error.h"
#include "forklift/value.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

namespace detail {

enum class ManagerOp : std::uint8_t;

// Which server, which object, and how long to wait for an answer.
class ManagedHandle {
 public:
  ManagedHandle(ChannelRef requests, std::uint32_t slot, std::uint32_t generation, std::uint64_t object)
      : requests_(std::move(requests)), slot_(slot), generation_(generation), object_(object) {}
  Value call(ManagerOp op, Value::List arguments) const;
  Value describe() const;
  static ManagedHandle from(const Value& value);
  void set_limit(Wait wait) noexcept { wait_ = std::move(wait); }
  void set_object(std::uint64_t object) noexcept { object_ = object; }

 private:
  ChannelRef requests_;
  std::uint32_t slot_;  // the server's
  std::uint32_t generation_;
  std::uint64_t object_;
  Wait wait_ = Wait::forever();
};

template <class T>
constexpr void refuse_value() {
  static_assert(std::convertible_to<const T&, Value>,
                "forklift: this type does not become a Value: of a pointer or view, give what it refers to; "
                "for a struct one line makes it known: template <> "
                "struct forklift::ValueTraits<T> : forklift::Fields<&T::a, &T::b> {};");
}

}  // namespace detail

// A dictionary that processes share.
class ManagedDict {
 public:
  // Puts it there, in place of what had this key.
  void set(const Value& key, const Value& value) const;
  template <class T>
    requires(!std::convertible_to<const T&, Value>)
  void set(const Value&, const T&) const {
    detail::refuse_value<T>();
  }
  // Nothing: there is no such key.
  template <class T = Value>
  std::optional<T> get(const Value& key) const {
    std::optional<Value> found = find(key);
    if (!found) return std::nullopt;
    return found->template as<T>();
  }
  template <class T = Value>
  T at(const Value& key) const {
    std::optional<Value> found = find(key);
    if (!found) throw_missing(key);
    return found->template as<T>();
  }
  template <class T>
  T get_or(const Value& key, T otherwise) const {
    std::optional<T> found = get<T>(key);
    return found ? *std::move(found) : std::move(otherwise);
  }
  // Takes it out.
  template <class T = Value>
  std::optional<T> pop(const Value& key) const {
    std::optional<Value> found = take(key);
    if (!found) return std::nullopt;
    return found->template as<T>();
  }
  bool contains(const Value& key) const;
  bool erase(const Value& key) const;  // false: there was none
  void clear() const;
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  // Copies, in order of insertion.
  std::vector<Value> keys() const;
  Value::Map items() const;
  // All at once.
  void update(const Value::Map& entries) const;

  // What is there, or `value`, which then is there.
  Value set_default(const Value& key, const Value& value) const;
  // Sets it if what is there equals `expected` (nothing: if there is no such key).
  bool compare_and_set(const Value& key, const std::optional<Value>& expected, const Value& desired) const;
  // Adds to a number, 0 if there is none, and answers the sum; of integers an integer, or an Error (kInvalid)
  // where it does not fit one.
  Value add(const Value& key, const Value& number) const;
  // change(what is there) becomes what is there; called again when another process came in between.
  template <class T, class Change>
  T update(const Value& key, Change&& change) const {
    for (;;) {
      std::uint64_t version = 0;
      const std::optional<Value> now = find(key, &version);
      T next = change(now ? std::optional<T>(now->template as<T>()) : std::optional<T>());
      if (swap(key, version, Value(next))) return next;
    }
  }

  // The same object, with a limit to the time that a call may take: beyond it an Error (kTimeout), or, when a
  // stop was requested, an Error (kInterrupted). The step may then still be done, if the server goes on; not
  // if the stop was requested before the call.
  ManagedDict within(const Wait& wait) const {
    ManagedDict limited(*this);
    limited.handle_.set_limit(wait);
    return limited;
  }

 private:
  friend class Manager;
  friend struct ValueTraits<ManagedDict>;
  explicit ManagedDict(detail::ManagedHandle handle) : handle_(std::move(handle)) {}
  std::optional<Value> find(const Value& key, std::uint64_t* version = nullptr) const;
  std::optional<Value> take(const Value& key) const;
  bool swap(const Value& key, std::uint64_t version, const Value& value) const;
  [[noreturn]] static void throw_missing(const Value& key);

  detail::ManagedHandle handle_;
};

// A list that processes share.
class ManagedList {
 public:
  // At the end.
  void append(const Value& value) const;
  template <class T>
    requires(!std::convertible_to<const T&, Value>)
  void append(const T&) const {
    detail::refuse_value<T>();
  }
  void extend(const Value::List& values) const;
  // Before the item of that index; at the end if there are fewer.
  void insert(std::size_t index, const Value& value) const;
  // std::out_of_range: there are fewer.
  template <class T = Value>
  T at(std::size_t index) const {
    return item(index).template as<T>();
  }
  Value operator[](std::size_t index) const { return item(index); }
  void set(std::size_t index, const Value& value) const;
  // The last one, taken out; nothing if the list is empty.
  template <class T = Value>
  std::optional<T> pop() const {
    std::optional<Value> found = take();
    if (!found) return std::nullopt;
    return found->template as<T>();
  }
  void erase(std::size_t index) const;
  void clear() const;
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  // A copy of all.
  Value::List items() const;

  // As ManagedDict's.
  ManagedList within(const Wait& wait) const {
    ManagedList limited(*this);
    limited.handle_.set_limit(wait);
    return limited;
  }

 private:
  friend class Manager;
  friend struct ValueTraits<ManagedList>;
  explicit ManagedList(detail::ManagedHandle handle) : handle_(std::move(handle)) {}
  Value item(std::size_t index) const;
  std::optional<Value> take() const;

  detail::ManagedHandle handle_;
};

class Manager {
 public:
  // In a program that called init(), the server is a fresh process (forkserver), else a fork of this one.
  Manager();
  Manager(Manager&&) noexcept;
  Manager& operator=(Manager&&) noexcept;
  ~Manager();

  // New and empty.
  ManagedDict dict();
  ManagedList list();

  // Ends the server, and with it what it keeps.
  void shutdown();
  pid_t pid() const;  // the server's

 private:
  struct State;
  detail::ManagedHandle make(detail::ManagerOp op);
  std::unique_ptr<State> state_;
};

template <>
struct ValueTraits<ManagedDict> {
  static Value to(const ManagedDict& dict) { return dict.handle_.describe(); }
  static ManagedDict from(const Value& value) { return ManagedDict(detail::ManagedHandle::from(value)); }
};

template <>
struct ValueTraits<ManagedList> {
  static Value to(const ManagedList& list) { return list.handle_.describe(); }
  static ManagedList from(const Value& value) { return ManagedList(detail::ManagedHandle::from(value)); }
};

}  // namespace forklift::inline abi_0_1
