// Starting a function in a fresh process of this program: Process::spawn and the one line it needs. The same
// line serves the forkserver (forklift/context.h) and groups (forklift/group.h).
//
//   void work(int id, forklift::Queue<std::string>& results) { results.put("done: " + std::to_string(id)); }
//   static const forklift::Registered<&work> registered_work{"work"};
//
//   int main(int argc, char** argv) {
//     forklift::init(argc, argv);                       // in the child: runs work(), then exits
//     forklift::Queue<std::string> results;
//     auto worker = forklift::Process::spawn(work, 1, results).start();
//     std::cout << results.get() << '\n';
//     worker.join();
//   }
//
// A spawned process shares nothing with its parent but the domain: no memory, no threads, no locks held at
// the wrong moment. Arguments travel as messages do: structs of numbers, strings, vectors, Tensor (the same
// memory), Value and what it knows; and Queue<T>, Lock, Event and their like, which become handles on the
// same. An argument for a parameter that is a reference is a value in the child.
//
// An int that the function returns is the child's exit code. What it throws arrives at join() as RemoteError.
//
// Thread safety: registration happens before main; spawn() as Process. Process safety: parent and child must
// be the same program file, which the kernel guarantees (/proc/self/exe).
//
// Invariants: a name belongs to one function; starting one whose name is empty, or another's, too, is an
// Error (kInvalid). Arguments are taken when spawn() is called, sent at start().
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/init.h"
#include "forklift/process.h"
#include "forklift/queue.h"

namespace forklift::inline abi_0_1 {

namespace detail {

using Runner = int (*)(const ChannelPtr& arguments);
using Address = void (*)();

void register_function(const char* name, Address function, Runner runner);
std::string registered_name(Address function);
// A channel that holds the arguments as one message.
ChannelRef send_arguments(Value::List arguments);
Value::List receive_arguments(const ChannelPtr& channel, std::size_t count);

// A queue as an argument: its number travels, the queue itself is handed over by the parent.
Value describe_queue(const ChannelRef& queue);
ChannelRef find_queue(const Value& described);
// The same for a Lock, Event, ...
Value describe_lock(const LockRef& lock);
LockName lock_named(const Value& described);
// The same for a Broadcast or Latest.
Value describe_topic(const TopicRef& topic);
TopicRef find_topic(const Value& described);
Value bytes_value(const void* data, std::size_t size);
std::span<const std::byte> bytes_of(const Value& value);
void bytes_from(const Value& value, void* data, std::size_t size);

// Queue, JoinableQueue, SimpleQueue.
template <class T>
concept QueueHandle = std::convertible_to<const T&, ChannelRef> && std::constructible_from<T, ChannelRef> &&
                      requires { typename T::value_type; };

template <class T>
concept Argument = QueueHandle<T> || LockHandle<T> || TopicHandle<T> || Sendable<T>;

template <Argument T>
Value pack_argument(const T& argument, Call& call) {
  if constexpr (QueueHandle<T>) {
    call.queues.push_back(argument);
    return describe_queue(argument);
  } else if constexpr (LockHandle<T>) {
    call.locks.push_back(argument.ref());
    return describe_lock(argument.ref());
  } else if constexpr (TopicHandle<T>) {
    call.topics.push_back(argument.ref());
    return describe_topic(argument.ref());
  } else if constexpr (Bytewise<T>) {
    return bytes_value(&argument, sizeof argument);
  } else if constexpr (Sequence<T>) {
    return bytes_value(argument.data(), argument.size() * sizeof(typename T::value_type));
  } else {
    return value_of<true>(argument);  // the arguments outlive the message
  }
}

template <Argument T>
T unpack_argument(const Value& value) {
  if constexpr (QueueHandle<T>) {
    return T(find_queue(value));
  } else if constexpr (LockHandle<T>) {
    return T::open(lock_named(value));
  } else if constexpr (TopicHandle<T>) {
    return T(find_topic(value));
  } else if constexpr (Bytewise<T>) {
    return made_of_bytes<T>([&](std::byte* memory) { bytes_from(value, memory, sizeof(T)); });
  } else if constexpr (Sequence<T>) {
    T sequence;
    assign_sequence<T>(&sequence, bytes_of(value));
    return sequence;
  } else {
    return value.as<T>();
  }
}

// May these arguments be given for these parameters? As in a call: what converts only where that is asked for
// (a number to a vector of that length) may not.
template <class Arguments, class... Args>
struct Takes : std::false_type {};
template <class... Params, class... Args>
  requires(sizeof...(Params) == sizeof...(Args))
struct Takes<std::tuple<Params...>, Args...>
    : std::bool_constant<(std::is_convertible_v<Args, Params> && ...)> {};

template <class R, class... Params>
struct Signature {
  using Arguments = std::tuple<std::remove_cvref_t<Params>...>;

  static constexpr bool kCanBeSent = (Argument<std::remove_cvref_t<Params>> && ...);
  static_assert(
      kCanBeSent,
      "forklift: a parameter of this function cannot be sent to another process: it is a pointer or view, "
      "or neither trivially copyable, nor a string or vector of such, nor a forklift::Queue, Lock or the "
      "like, nor known to forklift::Value");

  static int run(R (*function)(Params...), const ChannelPtr& channel) {
    return unpack(function, receive_arguments(channel, sizeof...(Params)),
                  std::index_sequence_for<Params...>());
  }

  // What the function returns is the exit code if it is an int.
  static int call(R (*function)(Params...), Arguments& arguments) {
    return std::apply(
        [function](auto&... each) -> int {
          if constexpr (std::same_as<R, int>) {
            return function(static_cast<Params&&>(each)...);
          } else {
            function(static_cast<Params&&>(each)...);
            return 0;
          }
        },
        arguments);
  }

 private:
  template <std::size_t... I>
  static int unpack(R (*function)(Params...), [[maybe_unused]] const Value::List& values,
                    std::index_sequence<I...>) {
    Arguments arguments{unpack_argument<std::tuple_element_t<I, Arguments>>(values[I])...};
    return call(function, arguments);
  }
};

template <class R, class... Params>
Signature<R, Params...> signature_of(R (*)(Params...));
template <class R, class... Params>
Signature<R, Params...> signature_of(R (*)(Params...) noexcept);

}  // namespace detail

// A function that can be started in a fresh process, by its name.
template <auto Function>
class Registered {
  static constexpr bool kFunction = std::is_function_v<std::remove_pointer_t<decltype(Function)>>;
  static_assert(kFunction,
                "forklift: what is registered is a function: Registered<&work>. A member function or lambda "
                "has an object beside it that no fresh process has");

 public:
  // Under a name of its own, the same in every process of the program.
  explicit Registered(const char* name) {
    if constexpr (kFunction)
      detail::register_function(name, reinterpret_cast<detail::Address>(Function),
                                [](const detail::ChannelPtr& arguments) {
                                  return decltype(detail::signature_of(Function))::run(Function, arguments);
                                });
  }
};

namespace detail {

template <class R, class... Params>
using HeldArguments = std::shared_ptr<typename Signature<R, Params...>::Arguments>;

// The arguments of a call that is made later.
template <class R, class... Params, class... Args>
HeldArguments<R, Params...> hold_arguments(R (*)(Params...), Args&&... args) {
  using Arguments = typename Signature<R, Params...>::Arguments;
  constexpr bool kAsMany = sizeof...(Params) == sizeof...(Args);
  static_assert(kAsMany, "forklift: a process needs as many arguments as its function has parameters");
  constexpr bool kFit = Takes<Arguments, Args&&...>::value;
  static_assert(kFit || !kAsMany, "forklift: a process's arguments are not what its function takes");
  if constexpr (kFit && kAsMany) {
    return std::make_shared<Arguments>(std::forward<Args>(args)...);
  } else {
    return nullptr;
  }
}

// The call of a registered function, to be made when its process starts.
template <class R, class... Params>
PrepareCall prepare_held(R (*function)(Params...), HeldArguments<R, Params...> arguments) {
  std::string name = registered_name(reinterpret_cast<Address>(function));
  return [name = std::move(name), arguments = std::move(arguments)] {
    Call call{name, {}, {}, {}, {}};
    if constexpr (Signature<R, Params...>::kCanBeSent) {
      Value::List values;  // one by one: an initializer list would copy them
      std::apply([&](const auto&... each) { (values.push_back(pack_argument(each, call)), ...); },
                 *arguments);
      call.arguments = send_arguments(std::move(values));
    }
    return call;
  };
}
template <class R, class... Params, class... Args>
PrepareCall prepare_call(R (*function)(Params...), Args&&... args) {
  return prepare_held(function, hold_arguments(function, std::forward<Args>(args)...));
}

}  // namespace detail

template <class R, class... Params, class... Args>
Process Process::spawn(R (*function)(Params...), Args&&... args) {
  return from_call(StartMethod::kSpawn, detail::prepare_call(function, std::forward<Args>(args)...));
}

}  // namespace forklift::inline abi_0_1
