// Devices that tensors may lie on and are computed by.
//
//   set_device_target("Ascend");                       // tensors of Python, and results of numbers, are made there
//   Tensor x = Tensor::zeros({3}, DType::kFloat32).to("Ascend");
//   Tensor y = ops::exp(x);                            // computed there
//   std::cout << y.to("CPU") << '\n';
//
// The CPU is always there. FORKLIFT_SIMULATE_DEVICE names simulated accelerators, for tests and examples: each belongs
// to one process at a time, and its memory is not inherited by forked children.
//
// A process opens a device when it first makes a tensor there, and holds it until it ends. In a forked child the target is
// the CPU again, and its parent's tensors on a device raise Error with kBrokenByFork.
//
// Errors: kNotFound names the devices that there are; kRefused names the process that holds the device.
// Thread safety: all functions, yes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forklift::inline abi_0_1 {

// "CPU", and the others.
std::vector<std::string> devices();

// Where new tensors are made. Setting it opens nothing.
std::string device_target();
void set_device_target(std::string_view name);

}  // namespace forklift::inline abi_0_1
