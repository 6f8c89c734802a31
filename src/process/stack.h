// Where an exception was thrown, for exceptions that leave the function of a process.
//
//   try {
//     body();
//   } catch (const ThrowSite&) {       // never entered
//   } catch (...) {
//     report(throw_stack(&here));      // frames of the throw, up to the function `here`
//   }
//
// An exception is thrown in two phases: first the frames are searched for a handler, with the whole stack
// still there, then it is unwound. The search asks each catch clause in turn whether it takes the exception.
// The clause for ThrowSite, whose type information is ours, records the stack and declines. So it is asked
// only for exceptions that no inner handler takes, costs nothing otherwise, and replaces nothing of the C++
// library, as a wrapper of __cxa_throw would. Only libstdc++ asks in this way (type_info::__do_catch); with
// other libraries there is no stack.
//
// Thread safety: each thread has a record of its own.
#pragma once

#include <string>
#include <vector>

// In the global namespace, so that the symbol of its type information does not depend on the name of our
// namespace.
class ForkliftThrowSite {
 public:
  // Not defined anywhere, so that the compiler emits no type information and that of stack.cpp is used.
  virtual ~ForkliftThrowSite();
};

namespace forklift::inline abi_0_1::process {

using ThrowSite = ::ForkliftThrowSite;

void forget_stack() noexcept;
// The stack of the last exception that a ThrowSite clause was asked about, innermost frame first, up to
// `outermost` (a function's address) at most; empty if there was none since forget_stack().
std::vector<std::string> throw_stack(const void* outermost);

}  // namespace forklift::inline abi_0_1::process
