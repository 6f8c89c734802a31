#include "device/cuda/device_range.h"

#include <cstdint>

namespace forklift::device::cuda {
namespace {

AllocationProperties properties_for(const MemoryPlace& place) noexcept {
  AllocationProperties properties;
  properties.location.id = place.device;
  return properties;
}

// Gives an allocation's handle back; the memory stays as long as it is mapped or somebody has a descriptor.
class Handle {
 public:
  Handle(const Driver& driver, Allocation allocation) noexcept : driver_(driver), allocation_(allocation) {}
  ~Handle() { (void)driver_.call("cuMemRelease", driver_.functions().mem_release, allocation_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

 private:
  const Driver& driver_;
  const Allocation allocation_;
};

}  // namespace

Result<std::size_t> DeviceRange::granularity(const MemoryPlace& place) {
  const AllocationProperties properties = properties_for(place);
  std::size_t bytes = 0;
  Status got = place.driver->call("cuMemGetAllocationGranularity",
                                  place.driver->functions().mem_get_allocation_granularity, &bytes,
                                  &properties, Granularity::kRecommended);
  if (!got) return got;
  if (bytes == 0) return Status(Code::kDevice, "cuMemGetAllocationGranularity: 0 bytes");
  return bytes;
}

Result<std::shared_ptr<DeviceRange>> DeviceRange::create(const MemoryPlace& place, std::size_t bytes,
                                                         os::Fd* descriptor) {
  const Driver& driver = *place.driver;
  const AllocationProperties properties = properties_for(place);
  Allocation allocation = 0;
  Status made =
      driver.call("cuMemCreate", driver.functions().mem_create, &allocation, bytes, &properties, 0ULL);
  if (!made) return made;
  const Handle released(driver, allocation);
  int file = -1;
  Status exported =
      driver.call("cuMemExportToShareableHandle", driver.functions().mem_export_to_shareable_handle, &file,
                  allocation, HandleType::kFileDescriptor, 0ULL);
  if (!exported) return exported;
  os::Fd owned(file);
  // The driver does not promise it.
  if (Status closed = owned.set_close_on_exec(); !closed) return closed;
  auto range = std::make_shared<DeviceRange>(place);
  if (Status mapped = range->map(allocation, bytes); !mapped) return mapped;
  *descriptor = std::move(owned);
  return range;
}

Result<std::shared_ptr<DeviceRange>> DeviceRange::import(const MemoryPlace& place, const os::Fd& descriptor,
                                                         std::size_t bytes) {
  const Driver& driver = *place.driver;
  Allocation allocation = 0;
  // The descriptor itself, in a pointer's place.
  auto* const handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  Status imported =
      driver.call("cuMemImportFromShareableHandle", driver.functions().mem_import_from_shareable_handle,
                  &allocation, handle, HandleType::kFileDescriptor);
  if (!imported) return imported;
  const Handle released(driver, allocation);
  auto range = std::make_shared<DeviceRange>(place);
  if (Status mapped = range->map(allocation, bytes); !mapped) return mapped;
  return range;
}

Status DeviceRange::map(Allocation allocation, std::size_t bytes) {
  const Driver& driver = *place_.driver;
  const Functions& functions = driver.functions();
  Status reserved =
      driver.call("cuMemAddressReserve", functions.mem_address_reserve, &base_, bytes, 0U, 0ULL, 0ULL);
  if (!reserved) return reserved;
  bytes_ = bytes;
  Status mapped = driver.call("cuMemMap", functions.mem_map, base_, bytes, 0U, allocation, 0ULL);
  if (!mapped) return mapped;
  mapped_ = true;
  AccessDescription access;
  access.location.id = place_.device;
  return driver.call("cuMemSetAccess", functions.mem_set_access, base_, bytes, &access, 1U);
}

DeviceRange::~DeviceRange() {
  if (bytes_ == 0) return;
  const Driver& driver = *place_.driver;
  const Current current(driver, place_.context);
  // What the driver refuses now, in a forked child or after the driver's end, goes with the process.
  if (mapped_) (void)driver.call("cuMemUnmap", driver.functions().mem_unmap, base_, bytes_);
  (void)driver.call("cuMemAddressFree", driver.functions().mem_address_free, base_, bytes_);
}

}  // namespace forklift::device::cuda
