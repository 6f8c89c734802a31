// Where an exception was thrown, for those that leave the function of a process.
//
//   try {
//     body();
//   } catch (const ThrowSite&) {       // never entered
//   } catch (...) {
//     report(throw_stack(&here));      // frames of the throw, up to the function `here`
//   }
//
// An exception is thrown in two phases: first the frames are searched for a handler, with the whole stack
// still there, then it is unwound. The search asks each catch clause in turn whether it takes the exception,
// and the clause for ThrowSite, whose type information is ours, notes the stack and says no. So it is asked
// exactly for exceptions that nobody further in handles, costs nothing otherwise, and nothing of the C++
// library is replaced, as a wrapper of __cxa_throw would. Only libstdc++ has this question
// (type_info::__do_catch); elsewhere there is no stack.
//
// Thread safety: each thread has its own.
#pragma once

#include <string>
#include <vector>

// In no namespace, so that its type information has the same symbol whatever ours is called.
class ForkliftThrowSite {
 public:
  // Defined nowhere, so that the compiler leaves the type information to stack.cpp.
  virtual ~ForkliftThrowSite();
};

namespace forklift::process {

using ThrowSite = ::ForkliftThrowSite;

void forget_stack() noexcept;
// Of the last exception that a ThrowSite was asked about, innermost frame first, up to `outermost` (a
// function's address) at most; empty if there was none since forget_stack().
std::vector<std::string> throw_stack(const void* outermost);

}  // namespace forklift::process
