// Process: a function that runs in a process of its own, or a program that shares queues with this one.
//
//   forklift::Queue<double> results;
//   auto worker = forklift::Process::fork([results]() mutable { results.put(simulate()); });
//   worker.start();
//   double result = results.get();
//   worker.join();                                   // throws RemoteError if simulate() threw
//
//   auto other = forklift::Process::spawn(work, 3, results);   // a fresh process: forklift/spawn.h
//   auto quick = forklift::forkserver_context().process(work, 3, results);      // forklift/context.h
//   auto peer = forklift::Process::program({"./consumer", "--fast"}, {{"frames", frames}});
//
// fork() runs any callable on a copy of this process: captured values are there, other threads are not. libgomp
// works on both sides; a call of OpenBLAS in another thread is waited for, at most for runtime::fork_timeout(), and
// then start() throws (kTimeout). The child ends with _exit after flushing stdio: no destructor of a static object and no atexit handler of the
// parent runs in it. An int that the callable returns is the exit code. program() starts another program (any
// language); a C++ one finds the queues with Queue<T>::inherited(name) after forklift::init(argc, argv), a
// Python one with forklift.inherited(name).
//
// A Process that goes out of scope joins its child, however long that takes; after 5 s it says so in the log (log.h:
// stderr, unless there is a sink), and there it says what nobody asked for: an exception of the child. A daemon, or any
// child while an exception leaves the scope, is terminated instead (SIGTERM, after a second SIGKILL). A daemon also ends
// with its parent when that is killed (a program: if it calls init).
//
// Thread safety: one thread at a time per object. Process safety: an object means something in the process
// that made it only; in a forked child all its members but name() throw, and its destructor does nothing.
//
// Invariants: start() is called once; after it, exactly one of is_alive() and exitcode() says something. What
// a child held in the domain (blocks, queue ends, a message half taken) is given back when join() returns.
#pragma once

#include <sys/types.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/detail/channel_ref.h"
#include "forklift/detail/lock_ref.h"
#include "forklift/detail/topic_ref.h"
#include "forklift/error.h"
#include "forklift/remote_error.h"
#include "forklift/wait.h"

namespace forklift::inline abi_0_1 {

// How a child comes to be, named as in Python.
enum class StartMethod : std::uint8_t {
  kFork,        // a copy of this process: runs any callable
  kSpawn,       // this program, executed anew: runs registered functions
  kForkserver,  // a copy of a small process kept for that (forklift/context.h): runs registered functions
};

class Process;

namespace detail {
class ProcessCore;
using Entry = std::function<int()>;
// Processes that have not been started become the ranks of one group, in this order (forklift/collectives.h).
void make_ranks(std::vector<Process>& members);

// What a spawned child is told: which registered function, on what.
struct Call {
  std::string function;
  ChannelRef arguments;            // holds one message
  std::vector<ChannelRef> queues;  // mentioned in it
  std::vector<LockRef> locks;      // likewise
  std::vector<TopicRef> topics{};  // likewise
};
using PrepareCall = std::function<Call()>;

template <class T>
concept CallableObject = !std::is_function_v<std::remove_pointer_t<std::decay_t<T>>>;
}  // namespace detail

class Context;

class Process {
 public:
  // Runs `function()` in a copy of this process.
  template <class Function>
    requires std::invocable<Function&>
  static Process fork(Function function) {
    auto held = std::make_shared<Function>(std::move(function));
    return from_entry([held]() -> int {
      if constexpr (std::same_as<std::invoke_result_t<Function&>, int>) {
        return (*held)();
      } else {
        (void)(*held)();
        return 0;
      }
    });
  }

  // Runs a registered function in a fresh process of this program. Include forklift/spawn.h.
  template <class R, class... Params, class... Args>
  static Process spawn(R (*function)(Params...), Args&&... args);
  template <detail::CallableObject Callable, class... Args>
  static Process spawn(Callable&&, Args&&...) {
    static_assert(
        std::is_function_v<Callable>,
        "forklift: a fresh process runs registered functions only (forklift::Registered): it has no "
        "lambda or other callable of this process. Process::fork runs any callable");
    return from_entry({});  // never: an error was said. A null core would need its type.
  }

  // Runs a program: argv[0] is looked up in PATH unless it holds a slash.
  static Process program(std::vector<std::string> argv, Channels channels = {});

  Process(Process&&) noexcept;
  Process& operator=(Process&&) noexcept;
  ~Process();

  // All of these throw Error: kInvalid for what does not fit the state, kSystem for a call that failed, ...
  Process& start() &;
  Process start() &&;  // auto worker = Process::fork(f).start();

  // Waits for the end. Throws RemoteError if an exception left the child's function, each time it is called.
  // A child that was killed, aborted or exited by itself makes join() return, too: see exitcode().
  void join();
  // False: it still ran when the wait was over.
  [[nodiscard]] bool try_join(const Wait& wait = Wait::now()) { return join_within(wait); }

  void terminate();  // SIGTERM
  void kill();       // SIGKILL
  // Whether it was started and has not ended.
  bool is_alive();
  // Nothing before the end; then the exit code, or minus the signal that ended it. 255: somebody else has
  // waited for the child, so nobody knows.
  std::optional<int> exitcode();
  pid_t pid() const;     // 0 before start
  int sentinel() const;  // a descriptor that becomes readable when the child ends; owned by this object
  // The sentinel, under the name that all objects with a descriptor share.
  int fileno() const { return sentinel(); }

  // What it is called; whether it ends with this process, however that ends; its place in a group. Set before
  // start(), also on the way: auto worker = Process::fork(f).set_daemon(true).start();
  const std::string& name() const;  // "Process-1", ... unless set
  Process& set_name(std::string name) &;
  Process set_name(std::string name) &&;
  bool daemon() const;
  Process& set_daemon(bool daemon) &;
  Process set_daemon(bool daemon) &&;
  int rank() const;
  Process& set_rank(int rank) &;
  Process set_rank(int rank) &&;

 private:
  explicit Process(std::unique_ptr<detail::ProcessCore> core) noexcept;
  static Process from_entry(detail::Entry entry);
  static Process from_call(StartMethod method, detail::PrepareCall prepare);
  bool join_within(detail::Limit limit);
  detail::ProcessCore& core() const;

  friend class Context;
  friend void detail::make_ranks(std::vector<Process>& members);
  std::unique_ptr<detail::ProcessCore> core_;
};

}  // namespace forklift::inline abi_0_1
