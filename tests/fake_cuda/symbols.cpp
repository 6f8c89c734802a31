#include "symbols.h"

#include <cstring>

#include "entry_points.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

template <class Type>
Symbol symbol(const char* name, int version, Type* address) {
  return {name, version, reinterpret_cast<void*>(address)};
}

}  // namespace

const Symbol* find_symbol(const char* name) {
  static const Symbol kSymbols[] = {
      symbol("cuInit", 2000, &cuInit),
      symbol("cuDriverGetVersion", 2020, &cuDriverGetVersion),
      symbol("cuGetErrorName", 6000, &cuGetErrorName),
      symbol("cuGetErrorString", 6000, &cuGetErrorString),
      symbol("cuDeviceGetCount", 2000, &cuDeviceGetCount),
      symbol("cuDeviceGet", 2000, &cuDeviceGet),
      symbol("cuDeviceGetName", 2000, &cuDeviceGetName),
      symbol("cuDeviceGetUuid", 9020, &cuDeviceGetUuid_v2),
      symbol("cuDeviceGetAttribute", 2000, &cuDeviceGetAttribute),
      symbol("cuDeviceTotalMem", 3020, &cuDeviceTotalMem_v2),
      symbol("cuDeviceCanAccessPeer", 4000, &cuDeviceCanAccessPeer),
      symbol("cuDevicePrimaryCtxRetain", 7000, &cuDevicePrimaryCtxRetain),
      symbol("cuDevicePrimaryCtxRelease", 7000, &cuDevicePrimaryCtxRelease_v2),
      symbol("cuDevicePrimaryCtxGetState", 7000, &cuDevicePrimaryCtxGetState),
      symbol("cuCtxPushCurrent", 4000, &cuCtxPushCurrent_v2),
      symbol("cuCtxPopCurrent", 4000, &cuCtxPopCurrent_v2),
      symbol("cuCtxGetCurrent", 4000, &cuCtxGetCurrent),
      symbol("cuCtxSetCurrent", 4000, &cuCtxSetCurrent),
      symbol("cuCtxGetDevice", 2000, &cuCtxGetDevice),
      symbol("cuCtxSynchronize", 2000, &cuCtxSynchronize),
      symbol("cuCtxRecordEvent", 12050, &cuCtxRecordEvent),
      symbol("cuCtxEnablePeerAccess", 4000, &cuCtxEnablePeerAccess),
      symbol("cuMemGetInfo", 3020, &cuMemGetInfo_v2),
      symbol("cuMemAlloc", 3020, &cuMemAlloc_v2),
      symbol("cuMemFree", 3020, &cuMemFree_v2),
      symbol("cuMemGetAddressRange", 3020, &cuMemGetAddressRange_v2),
      symbol("cuPointerGetAttribute", 4000, &cuPointerGetAttribute),
      symbol("cuMemcpyHtoDAsync", 3020, &cuMemcpyHtoDAsync_v2),
      symbol("cuMemcpyDtoHAsync", 3020, &cuMemcpyDtoHAsync_v2),
      symbol("cuMemcpyDtoDAsync", 3020, &cuMemcpyDtoDAsync_v2),
      symbol("cuMemsetD8Async", 3020, &cuMemsetD8Async),
      symbol("cuMemHostAlloc", 2020, &cuMemHostAlloc),
      symbol("cuMemFreeHost", 2000, &cuMemFreeHost),
      symbol("cuMemHostRegister", 4000, &cuMemHostRegister_v2),
      symbol("cuMemHostUnregister", 4000, &cuMemHostUnregister),
      symbol("cuMemHostGetDevicePointer", 3020, &cuMemHostGetDevicePointer_v2),
      symbol("cuMemGetAllocationGranularity", 10020, &cuMemGetAllocationGranularity),
      symbol("cuMemCreate", 10020, &cuMemCreate),
      symbol("cuMemRelease", 10020, &cuMemRelease),
      symbol("cuMemAddressReserve", 10020, &cuMemAddressReserve),
      symbol("cuMemAddressFree", 10020, &cuMemAddressFree),
      symbol("cuMemMap", 10020, &cuMemMap),
      symbol("cuMemUnmap", 10020, &cuMemUnmap),
      symbol("cuMemSetAccess", 10020, &cuMemSetAccess),
      symbol("cuMemExportToShareableHandle", 10020, &cuMemExportToShareableHandle),
      symbol("cuMemImportFromShareableHandle", 10020, &cuMemImportFromShareableHandle),
      symbol("cuMemRetainAllocationHandle", 11000, &cuMemRetainAllocationHandle),
      symbol("cuMemGetAllocationPropertiesFromHandle", 10020, &cuMemGetAllocationPropertiesFromHandle),
      symbol("cuIpcGetMemHandle", 4010, &cuIpcGetMemHandle),
      symbol("cuIpcOpenMemHandle", 4010, &cuIpcOpenMemHandle_v2),
      symbol("cuIpcCloseMemHandle", 4010, &cuIpcCloseMemHandle),
      symbol("cuIpcGetEventHandle", 4010, &cuIpcGetEventHandle),
      symbol("cuIpcOpenEventHandle", 4010, &cuIpcOpenEventHandle),
      symbol("cuStreamCreate", 2000, &cuStreamCreate),
      symbol("cuStreamDestroy", 4000, &cuStreamDestroy_v2),
      symbol("cuStreamSynchronize", 2000, &cuStreamSynchronize),
      symbol("cuStreamQuery", 2000, &cuStreamQuery),
      symbol("cuStreamWaitEvent", 3020, &cuStreamWaitEvent),
      symbol("cuEventCreate", 2000, &cuEventCreate),
      symbol("cuEventDestroy", 4000, &cuEventDestroy_v2),
      symbol("cuEventRecord", 2000, &cuEventRecord),
      symbol("cuEventQuery", 2000, &cuEventQuery),
      symbol("cuEventSynchronize", 2000, &cuEventSynchronize),
      symbol("cuEventElapsedTime", 2000, &cuEventElapsedTime),
      symbol("cuModuleLoadData", 2000, &cuModuleLoadData),
      symbol("cuModuleUnload", 2000, &cuModuleUnload),
      symbol("cuModuleGetFunction", 2000, &cuModuleGetFunction),
      symbol("cuLaunchKernel", 4000, &cuLaunchKernel),
  };
  for (const Symbol& each : kSymbols) {
    if (std::strcmp(each.name, name) == 0) return &each;
  }
  return nullptr;
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
