// Primary contexts, counted, and each thread's stack of current ones.
//
// "The context is automatically reset once the last reference to it is released" (cuDevicePrimaryCtxRelease): its
// memory, streams, events and modules end with it. Virtual memory belongs to no context and stays.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "entry.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

class Contexts {
 public:
  CudaError retain(DeviceNumber device, Context* context);
  CudaError release(DeviceNumber device, Lock& lock);
  bool active(DeviceNumber device) const;
  long retained() const;

  // The device of a handle that cuDevicePrimaryCtxRetain has once given.
  static std::optional<DeviceNumber> device_of(Context context);
  static Context of(DeviceNumber device);

  // Of the calling thread.
  CudaError push(Context context);
  CudaError pop(Context* context);
  CudaError set(Context context);
  Context current() const;
  DeviceNumber current_device() const;  // precondition: check_current()
  CudaError check_current() const;

  CudaError enable_peer(DeviceNumber device, DeviceNumber peer);
  bool may_access(DeviceNumber device, DeviceNumber memory) const;

 private:
  std::map<DeviceNumber, long> counts_;
  std::map<DeviceNumber, std::set<DeviceNumber>> peers_;
};

Contexts& contexts();

}  // namespace forklift::inline abi_0_1::device::cuda::fake
