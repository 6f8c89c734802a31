// The variants of the loops (src/kernels/isa), and which of them this processor can run.
#pragma once

#include "kernels/loops.h"

namespace forklift::inline abi_0_1::kernels {

namespace base {
extern const Loops kLoops;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Loops kLoops;
inline bool can_run() noexcept { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
}  // namespace avx2
namespace avx512 {
extern const Loops kLoops;
inline bool can_run() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("fma");
}
}  // namespace avx512
#endif

}  // namespace forklift::inline abi_0_1::kernels
