#include "devices.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "physical.h"
#include "settings.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

int device_count() { return static_cast<int>(settings().visible.size()); }

bool is_device(DeviceNumber device) { return device >= 0 && device < device_count(); }

int machine_device(DeviceNumber device) { return settings().visible[static_cast<std::size_t>(device)]; }

DeviceNumber visible_device(int machine_device) {
  const auto& visible = settings().visible;
  const auto found = std::find(visible.begin(), visible.end(), machine_device);
  return found == visible.end() ? -1 : static_cast<DeviceNumber>(found - visible.begin());
}

bool can_access_peer(DeviceNumber device, DeviceNumber peer) { return device != peer && !settings().no_peer; }

int attribute_of(DeviceAttribute attribute) {
  if (settings().attributes_off.contains(static_cast<int>(attribute))) return 0;
  switch (attribute) {
    case DeviceAttribute::kMultiprocessors: return 16;
    case DeviceAttribute::kCapabilityMajor: return 9;
    case DeviceAttribute::kUnifiedAddressing:
    case DeviceAttribute::kUsesHostPointers:
    case DeviceAttribute::kIpcEvents: return 1;
    case DeviceAttribute::kVirtualMemory:
    case DeviceAttribute::kFileDescriptors: return settings().version >= 10020 ? 1 : 0;
    case DeviceAttribute::kIntegrated:
    case DeviceAttribute::kCapabilityMinor: return 0;
  }
  return 0;
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::enter;
using fake::is_device;
using fake::Lock;
using fake::Needs;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::DeviceAttribute;
using forklift::device::cuda::DeviceNumber;
using forklift::device::cuda::Uuid;

FAKE_CUDA CudaError cuDeviceGetCount(int* count) {
  return enter("cuDeviceGetCount", Needs::kInit, [&](Lock&) {
    if (count == nullptr) return CudaError::kInvalidValue;
    *count = fake::device_count();
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuDeviceGet(DeviceNumber* device, int ordinal) {
  return enter("cuDeviceGet", Needs::kInit, [&](Lock&) {
    if (device == nullptr) return CudaError::kInvalidValue;
    if (!is_device(ordinal)) return CudaError::kInvalidDevice;
    *device = ordinal;
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuDeviceGetName(char* name, int length, DeviceNumber device) {
  return enter("cuDeviceGetName", Needs::kInit, [&](Lock&) {
    if (name == nullptr || length <= 0) return CudaError::kInvalidValue;
    if (!is_device(device)) return CudaError::kInvalidDevice;
    const std::string text = "Fake CUDA device " + std::to_string(fake::machine_device(device));
    const std::size_t fits = std::min(text.size(), static_cast<std::size_t>(length) - 1);
    std::memcpy(name, text.data(), fits);
    name[fits] = '\0';
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuDeviceGetUuid_v2(Uuid* uuid, DeviceNumber device) {
  return enter("cuDeviceGetUuid", Needs::kInit, [&](Lock&) {
    if (uuid == nullptr) return CudaError::kInvalidValue;
    if (!is_device(device)) return CudaError::kInvalidDevice;
    std::memcpy(uuid->bytes, fake::uuid_bytes(fake::machine_device(device)).data(), sizeof uuid->bytes);
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceNumber device) {
  return enter("cuDeviceGetAttribute", Needs::kInit, [&](Lock&) {
    if (value == nullptr) return CudaError::kInvalidValue;
    if (!is_device(device)) return CudaError::kInvalidDevice;
    *value = fake::attribute_of(attribute);
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuDeviceTotalMem_v2(std::size_t* bytes, DeviceNumber device) {
  return enter("cuDeviceTotalMem", Needs::kInit, [&](Lock&) {
    if (bytes == nullptr) return CudaError::kInvalidValue;
    if (!is_device(device)) return CudaError::kInvalidDevice;
    *bytes = fake::settings().bytes;
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuDeviceCanAccessPeer(int* can, DeviceNumber device, DeviceNumber peer) {
  return enter("cuDeviceCanAccessPeer", Needs::kInit, [&](Lock&) {
    if (can == nullptr) return CudaError::kInvalidValue;
    if (!is_device(device) || !is_device(peer)) return CudaError::kInvalidDevice;
    *can = fake::can_access_peer(device, peer) ? 1 : 0;
    return CudaError::kSuccess;
  });
}
