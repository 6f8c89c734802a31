// How a call becomes a task of a pool and its result comes back; included by pool.h, which is what programs
// use.
//
//   using Kind = TaskKind<double, int, std::string>;              // of double f(int, const std::string&)
//   Kind::pack(Kind::Arguments(3, "x"), [&](const TaskInput& input) { batch.submit(0, input); });
//   ... in the worker, by the hash of that type: Kind::invoke(address of f, in, out)
//
// Arguments that are all bytes (sendable.h) travel one behind the other, others as one portable list; a
// result as a queue's message does. The worker finds the function by the hash of its registered name, and
// what calls it by the hash of its type: every type of function that is called on a pool anywhere in the
// program enters itself before main.
//
// Thread and process safety: as the pool's.
// Invariant: what pack() writes is what invoke() of the same type reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/detail/caught.h"
#include "forklift/future.h"
#include "forklift/spawn.h"

namespace forklift::inline abi_0_1 {

struct PoolOptions;
struct CallOptions;

namespace detail {

class PoolCore;
class TaskIn;   // a task, in its worker
class TaskOut;  // its result

using Invoker = void (*)(Address function, TaskIn& in, TaskOut& out);
bool register_invoker(std::uint64_t signature, Invoker invoker) noexcept;

// The arguments. They throw TypeMismatch where the message holds others.
std::span<const std::byte> argument_bytes(TaskIn& in, std::size_t size);
Value::List argument_values(TaskIn& in, std::size_t count);
void reply_bytes(TaskOut& out, std::span<const std::byte> bytes);
void reply_value(TaskOut& out, const Value& value);

// What a call sends: bytes, or a list.
struct TaskInput {
  std::span<const std::byte> bytes;
  const Value* list = nullptr;
};

struct TaskFunction {
  Address function;
  std::uint64_t key;  // of its name
  std::uint64_t signature;
};
// Throws Error where the function is not registered.
TaskFunction task_function(Address function, std::uint64_t signature);

template <class R, class... Params>
Address address_of(R (*function)(Params...)) noexcept {
  return reinterpret_cast<Address>(function);
}

template <class Callable>
void refuse_callable() {
  static_assert(
      std::is_function_v<Callable>,
      "forklift: a pool calls registered functions only (forklift::Registered): a worker has no lambda or "
      "other callable of this process");
}

// The same, as something to loop over: that is no second error.
template <class Callable>
std::vector<int> refuse_results() {
  refuse_callable<Callable>();
  return {};
}

// CallOptions::wait is over; a stream has no more results; it was moved from.
[[noreturn]] void throw_wait_over(const Wait& wait);
[[noreturn]] void throw_no_more_results();
[[noreturn]] void throw_moved_stream();

template <class R>
using Returned = std::remove_cvref_t<R>;

template <class R, class... Params>
struct TaskKind {
  using Arguments = std::tuple<std::remove_cvref_t<Params>...>;

  static_assert(
      (Sendable<std::remove_cvref_t<Params>> && ...),
      "forklift: a parameter of this function cannot be sent to a pool's worker: it is neither trivially "
      "copyable, nor a string or vector of such, nor known to forklift::Value. Queues, locks and the like "
      "are "
      "arguments of the pool's initializer");
  static_assert(kReturnable<R>,
                "forklift: what this function returns cannot be sent back from a pool's worker: it is "
                "neither trivially "
                "copyable, nor a string or vector of such, nor known to forklift::Value");

  static constexpr bool kBytewise = (Bytewise<std::remove_cvref_t<Params>> && ...);

  static std::uint64_t signature() noexcept {
    (void)&kRegistered;  // so that it exists, in every process of this program
    return kSignature;
  }

  template <class Use>
  static void pack(const Arguments& arguments, Use&& use) {
    if constexpr (kBytewise) {
      constexpr std::size_t kBytes = (sizeof(std::remove_cvref_t<Params>) + ... + 0);
      std::array<std::byte, kBytes <= kMostOnStack ? kBytes : 0> small;
      const std::unique_ptr<std::byte[]> large(kBytes <= kMostOnStack ? nullptr : new std::byte[kBytes]);
      const std::span<std::byte> bytes(large ? large.get() : small.data(), kBytes);
      [[maybe_unused]] std::byte* at = bytes.data();
      const auto add = [&at](const auto& each) {
        std::memcpy(at, &each, sizeof each);
        at += sizeof each;
      };
      std::apply([&](const auto&... each) { (add(each), ...); }, arguments);
      use(TaskInput{bytes, nullptr});
    } else {
      Call call;
      const Value list = std::apply(
          [&](const auto&... each) { return Value(Value::List{pack_argument(each, call)...}); }, arguments);
      use(TaskInput{{}, &list});
    }
  }

  static void invoke(Address function, TaskIn& in, TaskOut& out) {
    Arguments arguments = unpack(in, std::index_sequence_for<Params...>());
    const auto call = [&]() -> R {
      return std::apply(
          [&](auto&... each) -> R {
            return reinterpret_cast<R (*)(Params...)>(function)(static_cast<Params&&>(each)...);
          },
          arguments);
    };
    if constexpr (std::is_void_v<R>) {
      call();
      reply_bytes(out, {});
    } else {
      const Returned<R>& result = call();
      if constexpr (Bytewise<Returned<R>>) {
        reply_bytes(out, std::as_bytes(std::span<const Returned<R>, 1>(&result, 1)));
      } else if constexpr (Sequence<Returned<R>>) {
        reply_bytes(out, std::as_bytes(std::span(result.data(), result.size())));
      } else {
        reply_value(out, value_of<true>(result));
      }
    }
  }

 private:
  static constexpr std::uint64_t kSignature = hash_of_type_name(pretty_name<R(Params...)>());
  static const bool kRegistered;

  template <class T>
  static T take(const std::byte*& at) {
    return made_of_bytes<T>(
        [&](std::byte* memory) { std::memcpy(memory, std::exchange(at, at + sizeof(T)), sizeof(T)); });
  }

  template <std::size_t... I>
  static Arguments unpack(TaskIn& in, std::index_sequence<I...>) {
    if constexpr (kBytewise) {
      [[maybe_unused]] const std::byte* at =
          argument_bytes(in, (sizeof(std::remove_cvref_t<Params>) + ... + 0)).data();
      return Arguments{take<std::remove_cvref_t<Params>>(at)...};
    } else {
      const Value::List values = argument_values(in, sizeof...(Params));
      return Arguments{unpack_argument<std::remove_cvref_t<Params>>(values[I])...};
    }
  }
};

template <class R, class... Params>
const bool TaskKind<R, Params...>::kRegistered = register_invoker(kSignature, &TaskKind::invoke);

TaskPtr submit_task(const std::shared_ptr<PoolCore>& pool, const CallOptions& options,
                    const TaskFunction& function, const TaskInput& input);

// Several tasks whose results somebody takes: those that have come, in the order in which they ended.
// `deliver` must not throw.
using Deliver = void (*)(void* into, std::uint64_t index, Outcome& outcome);

class Batch {
 public:
  // `all`: who collects wants all of them, and none before the others.
  Batch(const std::shared_ptr<PoolCore>& pool, const CallOptions& options, const TaskFunction& function,
        bool all);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch();

  void submit(std::uint64_t index, const TaskInput& input) const;
  // After the last one of several.
  void flush() const noexcept;
  // Delivers what has come; waits for something. False: the wait is over, or nothing is left.
  bool collect(Deliver deliver, void* into, Limit limit) const;
  // The same within CallOptions::wait. False: nothing is left. Where the wait is over it cancels what has not begun,
  // and throws.
  bool collect_in_time(Deliver deliver, void* into) const;
  // Before each task, where that wait has an end: no more tasks wait in the pool than can be cancelled.
  void make_room(Deliver deliver, void* into) const;
  // Is CallOptions::wait over?
  bool over() const noexcept;
  std::size_t ahead() const noexcept;

 private:
  class State;
  std::unique_ptr<State> state_;
};

// A result, or what came instead.
template <class R>
class Item {
 public:
  void take(Outcome& outcome) noexcept {
    error_ = caught([&] {
      if constexpr (std::is_void_v<R>) {
        expect_result(outcome);
      } else {
        result_.emplace(result_of<R>(outcome));
      }
    });
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  auto get() && {
    rethrow();
    return std::move(result_);
  }

 private:
  std::optional<std::conditional_t<std::is_void_v<R>, std::nullptr_t, R>> result_;
  std::exception_ptr error_;
};

template <class R>
auto results_of(std::vector<Item<R>>& items) {
  for (const Item<R>& item : items) item.rethrow();
  if constexpr (!std::is_void_v<R>) {
    std::vector<R> results;
    results.reserve(items.size());
    for (Item<R>& item : items) results.push_back(*std::move(item).get());
    return results;
  }
}

// An element as the only argument.
template <class Arguments>
struct TakeWhole {
  template <class Element>
  Arguments operator()(Element&& element) const {
    constexpr bool kFits = Takes<Arguments, Element&&>::value;
    static_assert(kFits, "forklift: an element of this range is not what the function takes");
    if constexpr (kFits) {
      return Arguments(std::forward<Element>(element));
    } else {
      std::terminate();  // so that one error is all that the compiler says
    }
  }
};

template <class Element>
concept TupleLike = requires { std::tuple_size<std::remove_cvref_t<Element>>::value; };

template <class Arguments, class Element, std::size_t... I>
constexpr bool can_spread(std::index_sequence<I...>) {
  return Takes<Arguments, decltype(std::get<I>(std::declval<Element>()))...>::value;
}

// An element that is a tuple, as the arguments.
template <class Arguments>
struct SpreadOver {
  template <class Element>
  static constexpr bool of_its_length() {
    if constexpr (TupleLike<Element>) {
      return std::tuple_size_v<std::remove_cvref_t<Element>> == std::tuple_size_v<Arguments>;
    } else {
      return false;
    }
  }

  template <class Element>
  Arguments operator()(Element&& element) const {
    static_assert(of_its_length<Element>(),
                  "forklift: starmap() takes a range of pairs or tuples, with an element for each parameter");
    if constexpr (of_its_length<Element>()) {
      constexpr bool kFits =
          can_spread<Arguments, Element>(std::make_index_sequence<std::tuple_size_v<Arguments>>());
      static_assert(kFits, "forklift: an element of this range is not what the function takes");
      if constexpr (kFits) {
        return std::apply([](auto&&... each) { return Arguments(std::forward<decltype(each)>(each)...); },
                          std::forward<Element>(element));
      }
    }
    std::terminate();  // never: so that one error is all that the compiler says
  }
};

// The elements of a range, one after the other, none sooner than it is asked for. Keeps a temporary, refers
// to anything else.
template <class Range>
class Source {
 public:
  explicit Source(Range&& range)
      : range_(std::forward<Range>(range)), at_(std::begin(range_)), end_(std::end(range_)) {}
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // False: there is no other.
  template <class Use>
  bool next(Use&& use) {
    if (std::exchange(used_, false)) ++at_;  // may throw: what was used before stays so
    if (at_ == end_) return false;
    use(*at_);
    used_ = true;
    return true;
  }

 private:
  Range range_;  // T& for an lvalue
  decltype(std::begin(std::declval<Range&>())) at_;
  decltype(std::end(std::declval<Range&>())) end_;
  bool used_ = false;  // what at_ refers to
};

std::shared_ptr<PoolCore> make_pool(const PoolOptions& options, PrepareCall initializer);
void end_pool(const std::shared_ptr<PoolCore>& pool) noexcept;
void close_pool(PoolCore& pool);
void terminate_pool(PoolCore& pool);
bool join_pool(PoolCore& pool, Limit limit);
std::vector<pid_t> pool_pids(PoolCore& pool);

}  // namespace detail
}  // namespace forklift::inline abi_0_1
