// libgomp without a compiler's help: the program itself need not be built for OpenMP.
#pragma once

#include <dlfcn.h>

namespace forklift::test {

// GOMP_parallel is what the compiler makes of a parallel region: so many threads call the function.
using Parallel = void (*)(void (*)(void*), void*, unsigned threads, unsigned flags);

// Null: no libgomp here. It stays loaded.
inline Parallel load_gomp() {
  void* const loaded = ::dlopen("libgomp.so.1", RTLD_NOW | RTLD_LOCAL);
  return loaded ? reinterpret_cast<Parallel>(::dlsym(loaded, "GOMP_parallel")) : nullptr;
}

}  // namespace forklift::test
