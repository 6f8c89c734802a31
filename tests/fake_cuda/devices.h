// The devices that this process may see.
#pragma once

#include "entry.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

int device_count();
bool is_device(DeviceNumber device);
// The number of a visible device on the machine, which is the same in all processes.
int machine_device(DeviceNumber device);
// The ordinal of a device of the machine in this process; -1: not visible.
DeviceNumber visible_device(int machine_device);
bool can_access_peer(DeviceNumber device, DeviceNumber peer);
int attribute_of(DeviceAttribute attribute);

}  // namespace forklift::inline abi_0_1::device::cuda::fake
