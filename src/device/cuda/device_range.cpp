#include "device/cuda/device_range.h"

#include <cstdint>
#include <cstring>

namespace forklift::inline abi_0_1::device::cuda {
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
  kind_ = Kind::kMapped;
  AccessDescription access;
  access.location.id = place_.device;
  return driver.call("cuMemSetAccess", functions.mem_set_access, base_, bytes, &access, 1U);
}

// --- plain memory

Result<bool> DeviceRange::has_virtual_memory(const MemoryPlace& place) {
  const Functions& functions = place.driver->functions();
  if (functions.mem_create == nullptr || functions.mem_export_to_shareable_handle == nullptr) return false;
  for (const DeviceAttribute each : {DeviceAttribute::kVirtualMemory, DeviceAttribute::kFileDescriptors}) {
    int has = 0;
    Status asked =
        place.driver->call("cuDeviceGetAttribute", functions.device_get_attribute, &has, each, place.device);
    if (!asked) return asked;
    if (has == 0) return false;
  }
  return true;
}

Result<std::shared_ptr<DeviceRange>> DeviceRange::allocate(const MemoryPlace& place, std::size_t bytes,
                                                           memory_pool::OriginHandle* handle) {
  const Driver& driver = *place.driver;
  auto range = std::make_shared<DeviceRange>(place);
  Status made = driver.call("cuMemAlloc", driver.functions().mem_alloc, &range->base_, bytes);
  if (!made) return made;
  range->kind_ = Kind::kAllocated;
  range->bytes_ = bytes;
  IpcMemoryHandle got{};
  made = driver.call("cuIpcGetMemHandle", driver.functions().ipc_get_mem_handle, &got, range->base_);
  if (!made) return made;
  static_assert(sizeof *handle == sizeof got.bytes);
  std::memcpy(handle->data(), got.bytes, sizeof got.bytes);
  return range;
}

Result<std::shared_ptr<DeviceRange>> DeviceRange::open(const MemoryPlace& place,
                                                       const memory_pool::OriginHandle& handle,
                                                       std::size_t bytes) {
  const Driver& driver = *place.driver;
  IpcMemoryHandle asked{};
  std::memcpy(asked.bytes, handle.data(), sizeof asked.bytes);
  auto range = std::make_shared<DeviceRange>(place);
  Status opened = driver.call("cuIpcOpenMemHandle", driver.functions().ipc_open_mem_handle, &range->base_,
                              asked, kIpcLazyPeerAccess);
  if (!opened) return opened;
  range->kind_ = Kind::kOpened;
  range->bytes_ = bytes;
  return range;
}

DeviceRange::~DeviceRange() {
  if (bytes_ == 0) return;
  const Driver& driver = *place_.driver;
  const Functions& functions = driver.functions();
  const Current current(driver, place_.context);
  // What the driver refuses now, in a forked child or after the driver's end, goes with the process.
  switch (kind_) {
    case Kind::kAllocated: (void)driver.call("cuMemFree", functions.mem_free, base_); return;
    case Kind::kOpened:
      (void)driver.call("cuIpcCloseMemHandle", functions.ipc_close_mem_handle, base_);
      return;
    case Kind::kMapped: (void)driver.call("cuMemUnmap", functions.mem_unmap, base_, bytes_); break;
    case Kind::kReserved: break;
  }
  (void)driver.call("cuMemAddressFree", functions.mem_address_free, base_, bytes_);
}

}  // namespace forklift::inline abi_0_1::device::cuda
