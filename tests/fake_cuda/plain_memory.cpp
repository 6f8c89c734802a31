#include "plain_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "contexts.h"
#include "devices.h"
#include "engine.h"
#include "fake_cuda.h"
#include "host_memory.h"
#include "ipc_memory.h"
#include "settings.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

PlainMemory& plain_memory() {
  static auto* const made = new PlainMemory;
  return *made;
}

CudaError PlainMemory::allocate(DeviceNumber device, std::size_t bytes, Pointer* memory) {
  std::shared_ptr<Physical> made;
  CudaError error = Physical::create(machine_device(device), bytes, Physical::Kind::kPlain, false, &made);
  if (error != CudaError::kSuccess) return error;
  Range* range = nullptr;
  error = space().reserve(bytes, kPage, 0, Range::Kind::kPlain, &range);
  if (error != CudaError::kSuccess) return error;
  range->device = device;
  error = space().map(*range, 0, bytes, std::move(made), 0);
  if (error != CudaError::kSuccess) {
    space().release(*range);
    return error;
  }
  *memory = range->base;
  return CudaError::kSuccess;
}

void PlainMemory::free(Range& range) {
  poison_if_opened(*range.pieces.at(0).memory, range.alias);
  space().unmap(range, 0);
  space().release(range);
}

void PlainMemory::end_context(DeviceNumber device) {
  space().each([&](Range& range) {
    if (range.device != device) return;
    if (range.kind == Range::Kind::kPlain) {
      free(range);
    } else if (range.kind == Range::Kind::kIpc) {
      close_ipc(range);
    }
  });
}

namespace {

CudaError memory_info(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) return CudaError::kInvalidValue;
  *total = settings().bytes;
  *free = *total - std::min(*total, used_bytes(machine_device(contexts().current_device())));
  return CudaError::kSuccess;
}

template <class T>
CudaError answer(void* value, const T& with) {
  std::memcpy(value, &with, sizeof with);
  return CudaError::kSuccess;
}

// The device whose memory an address is; of a reservation without memory, the first.
DeviceNumber device_at(const Range& range, Pointer address) {
  if (range.kind != Range::Kind::kReservation) return range.device;
  const Piece* const piece = space().find_piece(address);
  return piece == nullptr ? 0 : std::max(0, visible_device(piece->memory->machine_device()));
}

CudaError device_attribute(void* value, PointerAttribute attribute, const Range& range, Pointer address) {
  const Piece* const piece = space().find_piece(address);
  const bool is_virtual = range.kind == Range::Kind::kReservation;
  switch (attribute) {
    case PointerAttribute::kContext: {
      // Virtual memory belongs to no context.
      return answer(value, is_virtual ? Context{} : Contexts::of(range.device));
    }
    case PointerAttribute::kMemoryType: return answer(value, MemoryType::kDevice);
    case PointerAttribute::kIsManaged: return answer(value, 0U);
    case PointerAttribute::kDeviceOrdinal: return answer(value, device_at(range, address));
    case PointerAttribute::kIsLegacyIpcCapable: {
      const bool supported = attribute_of(DeviceAttribute::kIpcEvents) != 0;
      return answer(value, supported && range.kind == Range::Kind::kPlain ? 1U : 0U);
    }
    case PointerAttribute::kRangeStart: return answer(value, range.base);
    case PointerAttribute::kRangeSize: return answer(value, range.bytes);
    case PointerAttribute::kMapped: return answer(value, piece != nullptr ? 1U : 0U);
    case PointerAttribute::kAllowedHandleTypes: {
      return answer(value, is_virtual && piece != nullptr && piece->memory->exportable() ? 1ULL : 0ULL);
    }
  }
  return CudaError::kInvalidValue;
}

CudaError host_attribute(void* value, PointerAttribute attribute, const HostRange& range) {
  switch (attribute) {
    case PointerAttribute::kContext: return answer(value, Contexts::of(range.device));
    case PointerAttribute::kMemoryType: return answer(value, MemoryType::kHost);
    case PointerAttribute::kIsManaged:
    case PointerAttribute::kIsLegacyIpcCapable: return answer(value, 0U);
    case PointerAttribute::kDeviceOrdinal: return answer(value, range.device);
    case PointerAttribute::kRangeStart: return answer(value, range.begin);
    case PointerAttribute::kRangeSize: return answer(value, range.bytes);
    case PointerAttribute::kMapped: return answer(value, 1U);
    case PointerAttribute::kAllowedHandleTypes: return answer(value, 0ULL);
  }
  return CudaError::kInvalidValue;
}

}  // namespace
}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::contexts;
using fake::enter;
using fake::Lock;
using fake::Needs;
using fake::Range;
using fake::space;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::Pointer;
using forklift::device::cuda::PointerAttribute;

FAKE_CUDA CudaError cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return enter("cuMemGetInfo", Needs::kContext, [&](Lock&) { return fake::memory_info(free, total); });
}

FAKE_CUDA CudaError cuMemAlloc_v2(Pointer* memory, std::size_t bytes) {
  return enter("cuMemAlloc", Needs::kContext, [&](Lock&) {
    if (memory == nullptr || bytes == 0) return CudaError::kInvalidValue;
    return fake::plain_memory().allocate(contexts().current_device(), bytes, memory);
  });
}

// Work that is queued is done before memory goes, as with the real driver ("implicit synchronization").
FAKE_CUDA CudaError cuMemFree_v2(Pointer memory) {
  return enter("cuMemFree", Needs::kContext, [&](Lock& lock) {
    if (memory == 0) return CudaError::kSuccess;
    Range* range = space().find(memory);
    if (range == nullptr || range->base != memory || range->kind != Range::Kind::kPlain) {
      return CudaError::kInvalidValue;
    }
    fake::engine().finish_context(range->device, lock);
    if (fake::poison() != CudaError::kSuccess) return fake::poison();
    range = space().find(memory);  // the lock may have been given up
    if (range == nullptr || range->base != memory) return CudaError::kInvalidValue;
    fake::plain_memory().free(*range);
    return CudaError::kSuccess;
  });
}

// "To retrieve the size of the mapped region, see cuMemGetAddressRange": of virtual memory, one mapping and not the
// reservation.
FAKE_CUDA CudaError cuMemGetAddressRange_v2(Pointer* base, std::size_t* bytes, Pointer memory) {
  return enter("cuMemGetAddressRange", Needs::kContext, [&](Lock&) {
    const Range* const range = space().find(memory);
    const fake::Piece* const piece = space().find_piece(memory);
    if (range == nullptr || piece == nullptr) return CudaError::kNotFound;
    const std::size_t offset = std::prev(range->pieces.upper_bound(memory - range->base))->first;
    if (base != nullptr) *base = range->base + offset;
    if (bytes != nullptr) *bytes = piece->bytes;
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuPointerGetAttribute(void* value, PointerAttribute attribute, Pointer memory) {
  return enter("cuPointerGetAttribute", Needs::kContext, [&](Lock&) {
    if (value == nullptr) return CudaError::kInvalidValue;
    if (const Range* const range = space().find(memory)) {
      return fake::device_attribute(value, attribute, *range, memory);
    }
    if (const auto* const host = fake::host_memory().find(memory)) {
      return fake::host_attribute(value, attribute, *host);
    }
    return CudaError::kInvalidValue;
  });
}

FAKE_CUDA int fakeCudaPeek(unsigned long long device, void* host, std::size_t bytes) {
  const Lock lock(fake::process_mutex());
  const char* const memory = space().peek(device, bytes);
  if (memory == nullptr) return 0;
  std::memcpy(host, memory, bytes);
  return 1;
}
