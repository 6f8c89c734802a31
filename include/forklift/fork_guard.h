// What a fork meets in this process: runtimes whose threads the child will not have, and locks that they hold.
//
//   for (const forklift::ForkFinding& each : forklift::fork_report()) std::cout << each.library << each.evidence;
//   forklift::register_fork_guard("camera", [] { return std::vector<forklift::ForkFinding>{...}; });
//
// docs/fork.md has the runtimes that are known. A program that forks through Forklift in Python is examined before
// each fork; a C++ program asks here.
// Thread safety: yes. Errors: a guard that throws becomes a finding that says so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace forklift::inline abi_0_1 {

// What becomes of a library in a forked child that uses it.
enum class ForkVerdict : std::uint8_t {
  kSafe,        // it works, whatever it does during the fork
  kSafeIfIdle,  // it works if no call of it is in flight during the fork
  kMayHang,     // nothing is known about it, or it depends on what cannot be seen
  kWillHang,    // the child's first use of it hangs or fails
};

// "safe", "safe if idle", "may hang", "will hang".
std::string_view verdict_name(ForkVerdict verdict) noexcept;

// What is known about one library, kind of thread or lock.
struct ForkFinding {
  std::string library;               // "libgomp", "JAX", ...; of unknown threads: the file that started them
  std::string version;               // empty: unknown
  std::string state;                 // "loaded" (it has no threads), "idle", "busy"
  std::vector<std::string> threads;  // the names of its threads
  ForkVerdict verdict = ForkVerdict::kSafe;  // what becomes of it in the child
  std::string evidence;                      // on what the verdict rests
  std::string reference;                     // the upstream issue or document
  std::string remedy;                        // what helps; "done: ..." if it is done at the fork
};

// Looks for one kind of trouble before a fork. It runs in the thread that forks, and must not wait.
using ForkGuard = std::function<std::vector<ForkFinding>()>;

// Has each examination ask this guard; it replaces one of the same name, and an empty function removes that.
void register_fork_guard(const std::string& name, ForkGuard guard);

// Examines this process as before a fork. Nothing is forked or changed.
std::vector<ForkFinding> fork_report();

}  // namespace forklift::inline abi_0_1
