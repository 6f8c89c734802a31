// A simulated accelerator, for tests and examples: FORKLIFT_SIMULATE_DEVICE names it ("Ascend"; several: "Ascend,GPU").
//
// It behaves as those do that belong to one process at a time. Whoever opens it binds a name of the kernel's (an
// abstract socket), which the kernel gives back when that process ends; any other process is refused, with the pid of the
// holder. Its memory is left out of forked children. Operations on it are computed by the executor.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace forklift::inline abi_0_1::device {

// The names in FORKLIFT_SIMULATE_DEVICE.
std::vector<std::string> simulated_names();

// kRefused: another process holds it.
Result<std::shared_ptr<Device>> open_simulated(const std::string& name);

}  // namespace forklift::inline abi_0_1::device
