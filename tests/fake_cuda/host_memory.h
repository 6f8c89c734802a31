// Page-locked host memory: allocated here, or registered. The device reaches it at its own address; where
// CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is switched off, registered memory has another address
// for the device, at which the CPU finds nothing.
//
// Guarded by process_mutex().
#pragma once

#include <map>

#include "entry.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

struct HostRange {
  Pointer begin = 0;
  std::size_t bytes = 0;
  DeviceNumber device = 0;  // of the context in which it was made
  bool allocated = false;   // by cuMemHostAlloc; otherwise registered
  Pointer there = 0;        // for the device
};

class HostMemory {
 public:
  CudaError allocate(std::size_t bytes, unsigned flags, DeviceNumber device, void** memory);
  CudaError free(void* memory);
  CudaError register_range(void* memory, std::size_t bytes, unsigned flags, DeviceNumber device);
  CudaError unregister(void* memory);
  CudaError device_pointer(void* memory, Pointer* there) const;

  // Frees and unregisters everything.
  void end();

  // The range in which an address lies, of the host or of the device; null: none.
  const HostRange* find(Pointer address) const;
  // Is all of it, by the host's address, page-locked?
  bool is_locked(const void* memory, std::size_t bytes) const;
  // Where the CPU finds what the device has at an address; null: nothing.
  char* access(Pointer address, std::size_t bytes) const;
  long ranges() const { return static_cast<long>(ranges_.size()); }
  long bytes() const;

 private:
  const HostRange* overlapping(Pointer begin, std::size_t bytes) const;  // null: none
  const HostRange* find_host(Pointer address) const;
  const HostRange* find_there(Pointer address) const;
  static void unmap(const HostRange& range);

  std::map<Pointer, HostRange> ranges_;  // by begin
};

HostMemory& host_memory();

}  // namespace forklift::inline abi_0_1::device::cuda::fake
