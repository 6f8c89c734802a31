#include "kernels/vector_math.h"

#include <dlfcn.h>

#include <cstdio>

namespace forklift::inline abi_0_1::kernels {

void* vector_function(const char* name, bool is_double, bool avx512, int operands) noexcept {
#if defined(__x86_64__)
  static void* const library = ::dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  // The x86-64 vector ABI's names: _ZGV, the instruction set, N (no mask), the lanes, v for each operand, the function.
  const int lanes = (avx512 ? 64 : 32) / (is_double ? 8 : 4);
  char symbol[64];
  std::snprintf(symbol, sizeof symbol, "_ZGV%cN%d%s_%s%s", avx512 ? 'e' : 'd', lanes,
                operands == 2 ? "vv" : "v", name, is_double ? "" : "f");
  return ::dlsym(library, symbol);
#else
  (void)name, (void)is_double, (void)avx512, (void)operands;
  return nullptr;
#endif
}

}  // namespace forklift::inline abi_0_1::kernels
