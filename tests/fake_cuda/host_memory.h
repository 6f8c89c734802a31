// Page-locked host memory: allocated here, or registered. The device reaches it at its own address.
//
// Guarded by process_mutex().
#pragma once

#include <map>

#include "entry.h"

namespace forklift::device::cuda::fake {

struct HostRange {
  Pointer begin = 0;
  std::size_t bytes = 0;
  DeviceNumber device = 0;  // of the context in which it was made
  unsigned flags = 0;
  bool allocated = false;  // by cuMemHostAlloc; otherwise registered
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

  // The range in which an address lies; null: none.
  const HostRange* find(Pointer address) const;
  bool is_mapped(Pointer address, std::size_t bytes) const;
  long ranges() const { return static_cast<long>(ranges_.size()); }
  long bytes() const;

 private:
  bool overlaps(Pointer begin, std::size_t bytes) const;

  std::map<Pointer, HostRange> ranges_;  // by begin
};

HostMemory& host_memory();

}  // namespace forklift::device::cuda::fake
