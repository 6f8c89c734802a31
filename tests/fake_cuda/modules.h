// Modules of the fake's own images (kernel_table.h), and launches of their kernels.
//
// Guarded by process_mutex().
#pragma once

#include <map>

#include "entry.h"
#include "kernel_table.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

class Modules {
 public:
  CudaError load(const void* image, DeviceNumber device, Module* module);
  CudaError unload(Module module);
  CudaError function(Module module, const char* name, Function* function);
  // Null: there is no such function, or its module is unloaded.
  const FakeCudaFunction* find(Function function) const;
  void end_context(DeviceNumber device);
  long live() const { return static_cast<long>(modules_.size()); }

 private:
  struct Loaded {
    DeviceNumber device = 0;
    const FakeCudaImage* image = nullptr;
  };
  struct Known {
    Module module = nullptr;
    const FakeCudaFunction* function = nullptr;
  };

  std::map<Module, Loaded> modules_;
  std::map<Function, Known> functions_;
  std::uintptr_t next_ = 0x300D'0000;
};

Modules& modules();

}  // namespace forklift::inline abi_0_1::device::cuda::fake
