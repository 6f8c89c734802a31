#include "virtual_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "devices.h"
#include "engine.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

bool is_granular(std::size_t value) { return value % kGranularity == 0; }

// A reservation that contains all of [address, address + bytes); null: none.
Range* reservation(Pointer address, std::size_t bytes) {
  Range* const range = space().find(address);
  if (range == nullptr || range->kind != Range::Kind::kReservation) return nullptr;
  return bytes <= range->bytes - (address - range->base) ? range : nullptr;
}

// The offsets of the pieces that together are exactly [offset, offset + bytes); empty: they are not.
std::vector<std::size_t> whole_pieces(const Range& range, std::size_t offset, std::size_t bytes) {
  std::vector<std::size_t> found;
  std::size_t at = offset;
  while (at < offset + bytes) {
    const auto piece = range.pieces.find(at);
    if (piece == range.pieces.end()) return {};
    found.push_back(at);
    at += piece->second.bytes;
  }
  return at == offset + bytes ? found : std::vector<std::size_t>{};
}

CudaError check_properties(const AllocationProperties* properties) {
  if (properties == nullptr || properties->type != 1) return CudaError::kInvalidValue;
  if (properties->location.type != LocationType::kDevice) return CudaError::kInvalidValue;
  if (!is_device(properties->location.id)) return CudaError::kInvalidDevice;
  const bool exportable = properties->handle_types == HandleType::kFileDescriptor;
  if (!exportable && properties->handle_types != HandleType::kNone) return CudaError::kNotSupported;
  if (attribute_of(DeviceAttribute::kVirtualMemory) == 0) return CudaError::kNotSupported;
  if (exportable && attribute_of(DeviceAttribute::kFileDescriptors) == 0) return CudaError::kNotSupported;
  return CudaError::kSuccess;
}

}  // namespace

VirtualMemory& virtual_memory() {
  static auto* const made = new VirtualMemory;
  return *made;
}

Allocation VirtualMemory::add(std::shared_ptr<Physical> memory) {
  const Allocation handle = next_++;
  handles_[handle] = Handle{std::move(memory), 1, 0};
  return handle;
}

std::shared_ptr<Physical> VirtualMemory::find(Allocation handle) {
  const auto found = handles_.find(handle);
  return found != handles_.end() && found->second.references > 0 ? found->second.memory : nullptr;
}

void VirtualMemory::forget_unused(Allocation handle) {
  const auto found = handles_.find(handle);
  if (found->second.references == 0 && found->second.mappings == 0) handles_.erase(found);
}

CudaError VirtualMemory::release(Allocation handle) {
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.references == 0) return CudaError::kInvalidValue;
  --found->second.references;
  forget_unused(handle);
  return CudaError::kSuccess;
}

CudaError VirtualMemory::retain(Pointer address, Allocation* handle) {
  const Piece* const piece = space().find_piece(address);
  if (piece == nullptr || piece->handle == 0) return CudaError::kInvalidValue;
  ++handles_.at(piece->handle).references;
  *handle = piece->handle;
  return CudaError::kSuccess;
}

CudaError VirtualMemory::map(Pointer address, std::size_t bytes, std::size_t offset, Allocation handle) {
  Range* const range = reservation(address, bytes);
  const std::shared_ptr<Physical> memory = find(handle);
  if (range == nullptr || memory == nullptr || bytes == 0 || !is_granular(bytes))
    return CudaError::kInvalidValue;
  // "offset: currently must be zero." The error is that of driver 580.159.04; the documentation says none.
  if (offset != 0 || !is_granular(address) || bytes > memory->bytes()) return CudaError::kNotSupported;
  const std::size_t begin = address - range->base;
  // "cuMemMap can only create mappings on VA range reservations that are not currently mapped."
  for (const auto& [at, piece] : range->pieces) {
    if (at < begin + bytes && begin < at + piece.bytes) return CudaError::kInvalidValue;
  }
  const CudaError error = space().map(*range, begin, bytes, memory, handle);
  if (error == CudaError::kSuccess) ++handles_.at(handle).mappings;
  return error;
}

CudaError VirtualMemory::unmap(Pointer address, std::size_t bytes) {
  Range* const range = reservation(address, bytes);
  if (range == nullptr || bytes == 0) return CudaError::kInvalidValue;
  const std::vector<std::size_t> offsets = whole_pieces(*range, address - range->base, bytes);
  if (offsets.empty()) return CudaError::kInvalidValue;
  for (const std::size_t offset : offsets) {
    const Allocation handle = range->pieces.at(offset).handle;
    space().unmap(*range, offset);
    --handles_.at(handle).mappings;
    forget_unused(handle);
  }
  return CudaError::kSuccess;
}

CudaError VirtualMemory::set_access(Pointer address, std::size_t bytes, const AccessDescription* access,
                                    std::size_t count) {
  Range* const range = reservation(address, bytes);
  if (range == nullptr || bytes == 0 || access == nullptr || count == 0) return CudaError::kInvalidValue;
  // "The range must be a fully mapped address range containing all allocations created by cuMemMap."
  const std::vector<std::size_t> offsets = whole_pieces(*range, address - range->base, bytes);
  if (offsets.empty()) return CudaError::kInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    const AccessDescription& each = access[i];
    if (each.location.type != LocationType::kDevice) return CudaError::kInvalidValue;
    if (!is_device(each.location.id)) return CudaError::kInvalidDevice;
    if (each.flags != 0 && each.flags != kReadOnly && each.flags != kReadWrite)
      return CudaError::kInvalidValue;
    for (const std::size_t offset : offsets) {
      const DeviceNumber owner = visible_device(range->pieces.at(offset).memory->machine_device());
      if (owner != each.location.id && !can_access_peer(each.location.id, owner))
        return CudaError::kInvalidDevice;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::size_t offset : offsets) {
      range->pieces.at(offset).access[access[i].location.id] = access[i].flags;
    }
  }
  return CudaError::kSuccess;
}

CudaError VirtualMemory::free_addresses(Pointer address, std::size_t bytes) {
  Range* const range = reservation(address, bytes);
  if (range == nullptr || range->base != address || range->bytes != bytes) return CudaError::kInvalidValue;
  if (!range->pieces.empty()) return CudaError::kInvalidValue;
  space().release(*range);
  return CudaError::kSuccess;
}

void VirtualMemory::end() {
  space().each([](Range& range) {
    if (range.kind != Range::Kind::kReservation) return;
    while (!range.pieces.empty()) space().unmap(range, range.pieces.begin()->first);
    space().release(range);
  });
  handles_.clear();
}

long VirtualMemory::handles() const {
  return std::count_if(handles_.begin(), handles_.end(),
                       [](const auto& each) { return each.second.references > 0; });
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::enter;
using fake::Lock;
using fake::Needs;
using fake::Physical;
using fake::virtual_memory;
using forklift::device::cuda::AccessDescription;
using forklift::device::cuda::Allocation;
using forklift::device::cuda::AllocationProperties;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::Granularity;
using forklift::device::cuda::HandleType;
using forklift::device::cuda::Pointer;

FAKE_CUDA CudaError cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProperties* properties,
                                                  Granularity option) {
  return enter("cuMemGetAllocationGranularity", Needs::kInit, [&](Lock&) {
    if (bytes == nullptr) return CudaError::kInvalidValue;
    if (option != Granularity::kMinimum && option != Granularity::kRecommended)
      return CudaError::kInvalidValue;
    if (const CudaError error = fake::check_properties(properties); error != CudaError::kSuccess)
      return error;
    *bytes = fake::kGranularity;
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuMemCreate(Allocation* made, std::size_t bytes, const AllocationProperties* properties,
                                unsigned long long flags) {
  return enter("cuMemCreate", Needs::kInit, [&](Lock&) {
    if (made == nullptr || bytes == 0 || flags != 0) return CudaError::kInvalidValue;
    if (const CudaError error = fake::check_properties(properties); error != CudaError::kSuccess)
      return error;
    if (!fake::is_granular(bytes)) return CudaError::kInvalidValue;
    std::shared_ptr<Physical> memory;
    const CudaError error =
        Physical::create(fake::machine_device(properties->location.id), bytes, Physical::Kind::kVirtual,
                         properties->handle_types == HandleType::kFileDescriptor, &memory);
    if (error == CudaError::kSuccess) *made = virtual_memory().add(std::move(memory));
    return error;
  });
}

FAKE_CUDA CudaError cuMemRelease(Allocation allocation) {
  return enter("cuMemRelease", Needs::kInit, [&](Lock&) { return virtual_memory().release(allocation); });
}

FAKE_CUDA CudaError cuMemRetainAllocationHandle(Allocation* allocation, void* address) {
  return enter("cuMemRetainAllocationHandle", Needs::kInit, [&](Lock&) {
    if (allocation == nullptr) return CudaError::kInvalidValue;
    return virtual_memory().retain(reinterpret_cast<std::uintptr_t>(address), allocation);
  });
}

FAKE_CUDA CudaError cuMemGetAllocationPropertiesFromHandle(AllocationProperties* properties,
                                                           Allocation allocation) {
  return enter("cuMemGetAllocationPropertiesFromHandle", Needs::kInit, [&](Lock&) {
    const std::shared_ptr<Physical> memory = virtual_memory().find(allocation);
    if (properties == nullptr || memory == nullptr) return CudaError::kInvalidValue;
    *properties = AllocationProperties{};
    properties->handle_types = memory->exportable() ? HandleType::kFileDescriptor : HandleType::kNone;
    properties->location.id = fake::visible_device(memory->machine_device());
    return CudaError::kSuccess;
  });
}

// The alignment is at least the granularity, so that a reservation can be mapped from its begin.
FAKE_CUDA CudaError cuMemAddressReserve(Pointer* address, std::size_t bytes, std::size_t alignment,
                                        Pointer wish, unsigned long long flags) {
  return enter("cuMemAddressReserve", Needs::kInit, [&](Lock&) {
    if (address == nullptr || bytes == 0 || flags != 0) return CudaError::kInvalidValue;
    if (bytes % fake::kPage != 0 || wish % fake::kPage != 0) return CudaError::kInvalidValue;
    if ((alignment & (alignment - 1)) != 0) return CudaError::kInvalidValue;
    fake::Range* range = nullptr;
    const CudaError error = fake::space().reserve(bytes, std::max(alignment, fake::kGranularity), wish,
                                                  fake::Range::Kind::kReservation, &range);
    if (error == CudaError::kSuccess) *address = range->base;
    return error;
  });
}

FAKE_CUDA CudaError cuMemAddressFree(Pointer address, std::size_t bytes) {
  return enter("cuMemAddressFree", Needs::kInit,
               [&](Lock&) { return virtual_memory().free_addresses(address, bytes); });
}

FAKE_CUDA CudaError cuMemMap(Pointer address, std::size_t bytes, std::size_t offset, Allocation allocation,
                             unsigned long long flags) {
  return enter("cuMemMap", Needs::kInit, [&](Lock&) {
    if (flags != 0) return CudaError::kInvalidValue;
    return virtual_memory().map(address, bytes, offset, allocation);
  });
}

// A kernel that runs has pointers to the memory.
FAKE_CUDA CudaError cuMemUnmap(Pointer address, std::size_t bytes) {
  return enter("cuMemUnmap", Needs::kInit, [&](Lock& lock) {
    fake::engine().wait_for_kernels(lock);
    return virtual_memory().unmap(address, bytes);
  });
}

FAKE_CUDA CudaError cuMemSetAccess(Pointer address, std::size_t bytes, const AccessDescription* access,
                                   std::size_t count) {
  return enter("cuMemSetAccess", Needs::kInit,
               [&](Lock&) { return virtual_memory().set_access(address, bytes, access, count); });
}

FAKE_CUDA CudaError cuMemExportToShareableHandle(void* handle, Allocation allocation, HandleType type,
                                                 unsigned long long flags) {
  return enter("cuMemExportToShareableHandle", Needs::kInit, [&](Lock&) {
    const std::shared_ptr<Physical> memory = virtual_memory().find(allocation);
    if (handle == nullptr || flags != 0 || memory == nullptr) return CudaError::kInvalidValue;
    if (type != HandleType::kFileDescriptor || !memory->exportable()) return CudaError::kInvalidValue;
    const int fd = memory->duplicate();
    if (fd < 0) return CudaError::kOperatingSystem;
    *static_cast<int*>(handle) = fd;
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuMemImportFromShareableHandle(Allocation* allocation, void* handle, HandleType type) {
  return enter("cuMemImportFromShareableHandle", Needs::kInit, [&](Lock&) {
    if (allocation == nullptr || type != HandleType::kFileDescriptor) return CudaError::kInvalidValue;
    const auto fd = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
    std::shared_ptr<Physical> memory;
    const CudaError error = Physical::adopt(fd, &memory);
    if (error != CudaError::kSuccess) return error;
    // The memory of a cuMemAlloc is behind a memfd as well here, but no descriptor of the driver leads to it.
    if (memory->kind() != Physical::Kind::kVirtual || fake::visible_device(memory->machine_device()) < 0) {
      return CudaError::kInvalidValue;
    }
    *allocation = virtual_memory().add(std::move(memory));
    return CudaError::kSuccess;
  });
}
