// The functions of the fake driver by their names without a suffix, with the version of CUDA that brought the
// interface which is exported.
#pragma once

namespace forklift::inline abi_0_1::device::cuda::fake {

struct Symbol {
  const char* name;
  int version;
  void* address;
};

// Null: the driver has no function of this name.
const Symbol* find_symbol(const char* name);

}  // namespace forklift::inline abi_0_1::device::cuda::fake
