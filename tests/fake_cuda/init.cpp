// cuInit, the version, the names of errors, and finding functions by name and version.
#include <cstdint>
#include <cstring>
#include <string>

#include "devices.h"
#include "entry.h"
#include "settings.h"
#include "symbols.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

struct ErrorText {
  int error;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {205, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space"},
    {718, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

// "If the error code is not recognized, CUDA_ERROR_INVALID_VALUE will be returned and *pStr will be set to the NULL
// address."
CudaError text_of(CudaError error, const char** text, const char* ErrorText::* field) {
  if (text == nullptr) return CudaError::kInvalidValue;
  *text = nullptr;
  for (const ErrorText& each : kErrors) {
    if (each.error == static_cast<int>(error)) *text = each.*field;
  }
  return *text != nullptr ? CudaError::kSuccess : CudaError::kInvalidValue;
}

// CUdriverProcAddressQueryResult
constexpr int kFound = 0;
constexpr int kNoSuchName = 1;
constexpr int kVersionTooOld = 2;

CudaError proc_address(const char* name, void** address, int version, std::uint64_t flags, int* status) {
  if (name == nullptr || address == nullptr || flags > 3) return CudaError::kInvalidValue;
  *address = nullptr;
  // "If the specified CUDA version is greater than the driver version, the API will return CUDA_ERROR_INVALID_VALUE."
  if (version > settings().version) return CudaError::kInvalidValue;
  const Symbol* const symbol = find_symbol(name);
  const bool found = symbol != nullptr && symbol->version <= settings().version;
  const bool fits = found && symbol->version <= version;
  if (fits) *address = symbol->address;
  if (status != nullptr) *status = fits ? kFound : found ? kVersionTooOld : kNoSuchName;
  return CudaError::kSuccess;
}

}  // namespace
}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::enter;
using fake::Lock;
using fake::Needs;
using forklift::device::cuda::CudaError;

FAKE_CUDA CudaError cuInit(unsigned flags) {
  return enter("cuInit", Needs::kNothing, [&](Lock&) {
    if (flags != 0) return CudaError::kInvalidValue;
    if (fake::device_count() == 0) return CudaError::kNoDevice;
    fake::set_initialised();
    return fake::poison();
  });
}

FAKE_CUDA CudaError cuDriverGetVersion(int* version) {
  return enter("cuDriverGetVersion", Needs::kNothing, [&](Lock&) {
    if (version == nullptr) return CudaError::kInvalidValue;
    *version = fake::settings().version;
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuGetErrorName(CudaError error, const char** text) {
  return fake::text_of(error, text, &fake::ErrorText::name);
}

FAKE_CUDA CudaError cuGetErrorString(CudaError error, const char** text) {
  return fake::text_of(error, text, &fake::ErrorText::text);
}

FAKE_CUDA CudaError cuGetProcAddress_v2(const char* name, void** address, int version, std::uint64_t flags,
                                        int* status) {
  return fake::proc_address(name, address, version, flags, status);
}

// The interface of CUDA 11.3, which has no status and says CUDA_ERROR_NOT_FOUND.
FAKE_CUDA CudaError cuGetProcAddress(const char* name, void** address, int version, std::uint64_t flags) {
  const CudaError error = fake::proc_address(name, address, version, flags, nullptr);
  return error == CudaError::kSuccess && *address == nullptr ? CudaError::kNotFound : error;
}
