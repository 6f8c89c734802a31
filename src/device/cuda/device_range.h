// Device memory that is mapped in this process: an address range of the driver's, and the allocation behind it.
//
//   Result<std::shared_ptr<DeviceRange>> made = DeviceRange::create(place, 64 << 20, &descriptor);
//   ...                                                   // the descriptor goes to another process
//   Result<std::shared_ptr<DeviceRange>> there = DeviceRange::import(place, descriptor, 64 << 20);
//   Pointer first = (*there)->base();
//
// Where the driver or the device has no virtual memory, or none with descriptors, allocate() takes plain memory, which others open by
// a legacy handle and which ends with this process.
//
// The memory exists while any process has it mapped or has a descriptor of it open. The allocation's handle is given
// back as soon as the range is mapped, so that nothing but the mapping and descriptors keeps the memory.
//
// Errors: what the driver says (driver.h); nothing is left behind. kUnsupported: a driver or a device without
// virtual memory or descriptors.
// Thread safety: a range does not change. Fork: a child has the object and cannot use what it stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/cuda/driver.h"
#include "memory_pool/pool_ref.h"
#include "os/fd.h"

namespace forklift::inline abi_0_1::device::cuda {

// Where memory is made: a device of a driver, with the context through which this process uses it.
struct MemoryPlace {
  const Driver* driver = nullptr;
  DeviceNumber device = 0;
  Context context = nullptr;
};

class DeviceRange {
 public:
  // New memory, of a multiple of granularity(). `descriptor` gets one of it.
  static Result<std::shared_ptr<DeviceRange>> create(const MemoryPlace& place, std::size_t bytes,
                                                     os::Fd* descriptor);
  // Plain memory. `handle` gets the legacy handle by which others open it.
  static Result<std::shared_ptr<DeviceRange>> allocate(const MemoryPlace& place, std::size_t bytes,
                                                       memory_pool::OriginHandle* handle);
  // Plain memory that belongs to another process. kDevice: it has been freed, or that process is this one.
  static Result<std::shared_ptr<DeviceRange>> open(const MemoryPlace& place,
                                                   const memory_pool::OriginHandle& handle,
                                                   std::size_t bytes);
  // Can create() work here?
  static Result<bool> has_virtual_memory(const MemoryPlace& place);
  // The memory behind a descriptor of another process, or of this one. The descriptor stays the caller's.
  static Result<std::shared_ptr<DeviceRange>> import(const MemoryPlace& place, const os::Fd& descriptor,
                                                     std::size_t bytes);
  // The sizes that create() takes are multiples of it.
  static Result<std::size_t> granularity(const MemoryPlace& place);

  explicit DeviceRange(const MemoryPlace& place) noexcept : place_(place) {}
  ~DeviceRange();
  DeviceRange(const DeviceRange&) = delete;
  DeviceRange& operator=(const DeviceRange&) = delete;

  Pointer base() const noexcept { return base_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Status map(Allocation allocation, std::size_t bytes);

  // What its end gives back.
  enum class Kind : std::uint8_t {
    kReserved,
    kMapped,
    kAllocated,
    kOpened
  };
  MemoryPlace place_;
  Kind kind_ = Kind::kReserved;
  Pointer base_ = 0;
  std::size_t bytes_ = 0;  // 0: nothing yet
};

// What Pools keeps as a pool's memory in this process.
struct Imported {
  Pointer base = 0;
  std::shared_ptr<const void> range;
};

}  // namespace forklift::inline abi_0_1::device::cuda
