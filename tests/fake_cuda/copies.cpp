// Copies between the host and the device, and filling memory.
//
// "If pageable memory must first be staged to pinned memory, the driver may synchronize with the stream and stage
// the copy": the fake copies pageable memory at the call, without a synchronisation, which is the least that the
// documentation ("API synchronization behavior") promises. "For transfers from device memory to pageable host memory,
// the function will return only once the copy has completed." Pinned memory is read and written when the work is done.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "contexts.h"
#include "engine.h"
#include "host_memory.h"
#include "space.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

Pointer number_of(const void* host) { return reinterpret_cast<std::uintptr_t>(host); }

// Arguments that the driver refuses at the call: a device address that nothing has, or that the device has no access to
// (as driver 580.159.04 does, at a memset), and a host address that the device has.
bool is_readable(Pointer address, std::size_t bytes, const StreamState& stream) {
  return space().may_access(address, bytes, stream.device, Use::kRead, By::kCopy);
}
bool is_writable(Pointer address, std::size_t bytes, const StreamState& stream) {
  return space().may_access(address, bytes, stream.device, Use::kWrite, By::kCopy);
}
bool is_host_memory(const void* host) { return host != nullptr && space().find(number_of(host)) == nullptr; }

// Of work whose device memory was unmapped before the device came to it: as driver 580.159.04 says.
constexpr CudaError kUnmappedMeanwhile = CudaError::kLaunchFailed;

CudaError copy_to_device(Pointer to, const void* from, std::size_t bytes, Stream handle) {
  const auto stream = engine().find(handle);
  if (stream == nullptr) return CudaError::kInvalidHandle;
  if (bytes == 0) return CudaError::kSuccess;
  if (!is_writable(to, bytes, *stream) || !is_host_memory(from)) return CudaError::kInvalidValue;
  std::shared_ptr<std::vector<char>> staged;
  if (!host_memory().is_locked(from, bytes)) {
    const auto* const begin = static_cast<const char*>(from);
    staged = std::make_shared<std::vector<char>>(begin, begin + bytes);
  }
  const DeviceNumber device = stream->device;
  engine().submit(stream, {.run = [=](Lock&) {
                    char* const target = space().access(to, bytes, device, Use::kWrite, By::kCopy);
                    if (target == nullptr) return kUnmappedMeanwhile;
                    if (staged == nullptr && !host_memory().is_locked(from, bytes))
                      return CudaError::kIllegalAddress;
                    std::memcpy(target, staged != nullptr ? staged->data() : from, bytes);
                    return CudaError::kSuccess;
                  }});
  return CudaError::kSuccess;
}

CudaError copy_to_host(void* to, Pointer from, std::size_t bytes, Stream handle, Lock& lock) {
  const auto stream = engine().find(handle);
  if (stream == nullptr) return CudaError::kInvalidHandle;
  if (bytes == 0) return CudaError::kSuccess;
  if (!is_readable(from, bytes, *stream) || !is_host_memory(to)) return CudaError::kInvalidValue;
  const bool pinned = host_memory().is_locked(to, bytes);
  const DeviceNumber device = stream->device;
  const std::uint64_t number =
      engine().submit(stream, {.run = [=](Lock&) {
                        const char* const source = space().access(from, bytes, device, Use::kRead, By::kCopy);
                        if (source == nullptr) return kUnmappedMeanwhile;
                        if (pinned && !host_memory().is_locked(to, bytes)) return CudaError::kIllegalAddress;
                        std::memcpy(to, source, bytes);
                        return CudaError::kSuccess;
                      }});
  if (pinned) return CudaError::kSuccess;
  engine().finish(stream, number, lock, Waiting::kYes);
  return poison();
}

CudaError copy_on_device(Pointer to, Pointer from, std::size_t bytes, Stream handle) {
  const auto stream = engine().find(handle);
  if (stream == nullptr) return CudaError::kInvalidHandle;
  if (bytes == 0) return CudaError::kSuccess;
  if (!is_writable(to, bytes, *stream) || !is_readable(from, bytes, *stream)) return CudaError::kInvalidValue;
  const DeviceNumber device = stream->device;
  engine().submit(stream, {.run = [=](Lock&) {
                    char* const target = space().access(to, bytes, device, Use::kWrite, By::kCopy);
                    const char* const source = space().access(from, bytes, device, Use::kRead, By::kCopy);
                    if (target == nullptr || source == nullptr) return kUnmappedMeanwhile;
                    std::memmove(target, source, bytes);
                    return CudaError::kSuccess;
                  }});
  return CudaError::kSuccess;
}

CudaError fill(Pointer to, unsigned char value, std::size_t count, Stream handle) {
  const auto stream = engine().find(handle);
  if (stream == nullptr) return CudaError::kInvalidHandle;
  if (count == 0) return CudaError::kSuccess;
  if (!is_writable(to, count, *stream)) return CudaError::kInvalidValue;
  const DeviceNumber device = stream->device;
  engine().submit(stream, {.run = [=](Lock&) {
                    char* const target = space().access(to, count, device, Use::kWrite, By::kCopy);
                    if (target == nullptr) return kUnmappedMeanwhile;
                    std::memset(target, value, count);
                    return CudaError::kSuccess;
                  }});
  return CudaError::kSuccess;
}

}  // namespace
}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::enter;
using fake::Lock;
using fake::Needs;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::Pointer;
using forklift::device::cuda::Stream;

FAKE_CUDA CudaError cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, Stream stream) {
  return enter("cuMemcpyHtoDAsync", Needs::kContext,
               [&](Lock&) { return fake::copy_to_device(to, from, bytes, stream); });
}

FAKE_CUDA CudaError cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, Stream stream) {
  return enter("cuMemcpyDtoHAsync", Needs::kContext,
               [&](Lock& lock) { return fake::copy_to_host(to, from, bytes, stream, lock); });
}

FAKE_CUDA CudaError cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, Stream stream) {
  return enter("cuMemcpyDtoDAsync", Needs::kContext,
               [&](Lock&) { return fake::copy_on_device(to, from, bytes, stream); });
}

FAKE_CUDA CudaError cuMemsetD8Async(Pointer to, unsigned char value, std::size_t count, Stream stream) {
  return enter("cuMemsetD8Async", Needs::kContext,
               [&](Lock&) { return fake::fill(to, value, count, stream); });
}
