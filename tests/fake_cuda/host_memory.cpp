#include "host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "contexts.h"
#include "devices.h"
#include "physical.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

constexpr unsigned kRegisterFlags = 15;  // portable, device map, I/O memory, read only
constexpr unsigned kReadOnlyFlag = 8;    // CU_MEMHOSTREGISTER_READ_ONLY
constexpr unsigned kAllocFlags = 7;      // portable, device map, write combined

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Is all of it mapped, and writable if it has to be? What is not cannot be locked in memory.
bool can_be_locked(Pointer begin, std::size_t bytes, bool to_write) {
  std::ifstream maps("/proc/self/maps");
  Pointer at = begin;
  for (std::string line; at < begin + bytes && std::getline(maps, line);) {
    std::istringstream fields(line);
    Pointer from = 0;
    Pointer to = 0;
    char dash = 0;
    std::string rights;
    fields >> std::hex >> from >> dash >> to >> rights;
    if (to <= at) continue;
    if (from > at || rights[0] != 'r' || (to_write && rights[1] != 'w')) return false;
    at = to;
  }
  return at >= begin + bytes;
}

// Addresses for the device that the CPU cannot use, with the same place in their page as the host's.
bool reserve_there(Pointer begin, std::size_t bytes, Pointer* there) {
  const std::size_t skip = begin % kPage;
  void* const got = ::mmap(nullptr, whole_pages(skip + bytes), PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return false;
  *there = reinterpret_cast<std::uintptr_t>(got) + skip;
  return true;
}

}  // namespace

HostMemory& host_memory() {
  static auto* const made = new HostMemory;
  return *made;
}

CudaError HostMemory::allocate(std::size_t bytes, unsigned flags, DeviceNumber device, void** memory) {
  if (memory == nullptr || bytes == 0 || (flags & ~kAllocFlags) != 0) return CudaError::kInvalidValue;
  void* const got =
      ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return CudaError::kOutOfMemory;
  const Pointer begin = reinterpret_cast<std::uintptr_t>(got);
  ranges_[begin] = HostRange{begin, bytes, device, true, begin};
  *memory = got;
  return CudaError::kSuccess;
}

CudaError HostMemory::free(void* memory) {
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == ranges_.end() || !found->second.allocated) return CudaError::kInvalidValue;
  unmap(found->second);
  ranges_.erase(found);
  return CudaError::kSuccess;
}

CudaError HostMemory::register_range(void* memory, std::size_t bytes, unsigned flags, DeviceNumber device) {
  if (memory == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0) return CudaError::kInvalidValue;
  const Pointer begin = reinterpret_cast<std::uintptr_t>(memory);
  // As driver 580.159.04 does: the documentation's error is for memory that is registered, not for the driver's own.
  if (const HostRange* const other = overlapping(begin, bytes)) {
    return other->allocated ? CudaError::kInvalidValue : CudaError::kHostMemoryAlreadyRegistered;
  }
  // "this flag is required in order to register memory mapped to the CPU as read-only"
  if (!can_be_locked(begin, bytes, (flags & kReadOnlyFlag) == 0)) return CudaError::kInvalidValue;
  Pointer there = begin;
  if (attribute_of(DeviceAttribute::kUsesHostPointers) == 0 && !reserve_there(begin, bytes, &there)) {
    return CudaError::kOutOfMemory;
  }
  ranges_[begin] = HostRange{begin, bytes, device, false, there};
  return CudaError::kSuccess;
}

// "The base address must be the same one specified to cuMemHostRegister()." The errors are those of driver 580.159.04.
CudaError HostMemory::unregister(void* memory) {
  if (memory == nullptr) return CudaError::kInvalidValue;
  const Pointer address = reinterpret_cast<std::uintptr_t>(memory);
  if (find_host(address) == nullptr) return CudaError::kHostMemoryNotRegistered;
  const auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second.allocated) return CudaError::kInvalidValue;
  unmap(found->second);
  ranges_.erase(found);
  return CudaError::kSuccess;
}

// "cuMemHostGetDevicePointer() will fail if the CU_MEMHOSTALLOC_DEVICEMAP flag was not specified": driver 580.159.04 maps
// all page-locked memory.
CudaError HostMemory::device_pointer(void* memory, Pointer* there) const {
  const Pointer address = reinterpret_cast<std::uintptr_t>(memory);
  const HostRange* const range = find_host(address);
  if (there == nullptr || range == nullptr) return CudaError::kInvalidValue;
  *there = range->there + (address - range->begin);
  return CudaError::kSuccess;
}

void HostMemory::unmap(const HostRange& range) {
  if (range.allocated) {
    ::munmap(reinterpret_cast<void*>(range.begin), whole_pages(range.bytes));
  } else if (range.there != range.begin) {
    const Pointer page = range.there / kPage * kPage;
    ::munmap(reinterpret_cast<void*>(page), whole_pages(range.there - page + range.bytes));
  }
}

void HostMemory::end() {
  for (const auto& [begin, range] : ranges_) unmap(range);
  ranges_.clear();
}

const HostRange* HostMemory::find_host(Pointer address) const {
  const auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  const HostRange& range = std::prev(after)->second;
  return address - range.begin < range.bytes ? &range : nullptr;
}

const HostRange* HostMemory::find_there(Pointer address) const {
  for (const auto& [begin, range] : ranges_) {
    if (address >= range.there && address - range.there < range.bytes) return &range;
  }
  return nullptr;
}

const HostRange* HostMemory::find(Pointer address) const {
  const HostRange* const range = find_host(address);
  return range != nullptr ? range : find_there(address);
}

bool HostMemory::is_locked(const void* memory, std::size_t bytes) const {
  const Pointer address = reinterpret_cast<std::uintptr_t>(memory);
  const HostRange* const range = find_host(address);
  return range != nullptr && bytes <= range->bytes - (address - range->begin);
}

char* HostMemory::access(Pointer address, std::size_t bytes) const {
  const HostRange* const range = find_there(address);
  if (range == nullptr || bytes > range->bytes - (address - range->there)) return nullptr;
  return reinterpret_cast<char*>(range->begin) + (address - range->there);
}

const HostRange* HostMemory::overlapping(Pointer begin, std::size_t bytes) const {
  if (const HostRange* const first = find_host(begin)) return first;
  const auto next = ranges_.lower_bound(begin);
  return next != ranges_.end() && next->first < begin + bytes ? &next->second : nullptr;
}

long HostMemory::bytes() const {
  long sum = 0;
  for (const auto& [begin, range] : ranges_) sum += static_cast<long>(range.bytes);
  return sum;
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::contexts;
using fake::enter;
using fake::host_memory;
using fake::Lock;
using fake::Needs;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::Pointer;

FAKE_CUDA CudaError cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return enter("cuMemHostAlloc", Needs::kContext, [&](Lock&) {
    return host_memory().allocate(bytes, flags, contexts().current_device(), memory);
  });
}

FAKE_CUDA CudaError cuMemFreeHost(void* memory) {
  return enter("cuMemFreeHost", Needs::kContext, [&](Lock&) { return host_memory().free(memory); });
}

FAKE_CUDA CudaError cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  return enter("cuMemHostRegister", Needs::kContext, [&](Lock&) {
    return host_memory().register_range(memory, bytes, flags, contexts().current_device());
  });
}

FAKE_CUDA CudaError cuMemHostUnregister(void* memory) {
  return enter("cuMemHostUnregister", Needs::kContext,
               [&](Lock&) { return host_memory().unregister(memory); });
}

FAKE_CUDA CudaError cuMemHostGetDevicePointer_v2(Pointer* there, void* memory, unsigned flags) {
  return enter("cuMemHostGetDevicePointer", Needs::kContext, [&](Lock&) {
    return flags != 0 ? CudaError::kInvalidValue : host_memory().device_pointer(memory, there);
  });
}
