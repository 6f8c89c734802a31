#include "symbols.h"

#include <cstring>
#include <type_traits>

#include "device/cuda/api.h"

// Declared by the types of Functions, so that an entry point of another type does not compile.
namespace {
using forklift::device::cuda::Functions;
template <auto Member>
using TypeOf = std::remove_pointer_t<std::remove_reference_t<decltype(Functions{}.*Member)>>;
}  // namespace

extern "C" {
TypeOf<&Functions::init> cuInit;
TypeOf<&Functions::driver_get_version> cuDriverGetVersion;
TypeOf<&Functions::get_error_name> cuGetErrorName;
TypeOf<&Functions::get_error_string> cuGetErrorString;
TypeOf<&Functions::device_get_count> cuDeviceGetCount;
TypeOf<&Functions::device_get> cuDeviceGet;
TypeOf<&Functions::device_get_name> cuDeviceGetName;
TypeOf<&Functions::device_get_uuid> cuDeviceGetUuid_v2;
TypeOf<&Functions::device_get_attribute> cuDeviceGetAttribute;
TypeOf<&Functions::device_total_mem> cuDeviceTotalMem_v2;
TypeOf<&Functions::device_can_access_peer> cuDeviceCanAccessPeer;
TypeOf<&Functions::device_primary_ctx_retain> cuDevicePrimaryCtxRetain;
TypeOf<&Functions::device_primary_ctx_release> cuDevicePrimaryCtxRelease_v2;
TypeOf<&Functions::device_primary_ctx_get_state> cuDevicePrimaryCtxGetState;
TypeOf<&Functions::ctx_push_current> cuCtxPushCurrent_v2;
TypeOf<&Functions::ctx_pop_current> cuCtxPopCurrent_v2;
TypeOf<&Functions::ctx_get_current> cuCtxGetCurrent;
TypeOf<&Functions::ctx_set_current> cuCtxSetCurrent;
TypeOf<&Functions::ctx_get_device> cuCtxGetDevice;
TypeOf<&Functions::ctx_synchronize> cuCtxSynchronize;
TypeOf<&Functions::ctx_enable_peer_access> cuCtxEnablePeerAccess;
TypeOf<&Functions::mem_get_info> cuMemGetInfo_v2;
TypeOf<&Functions::mem_alloc> cuMemAlloc_v2;
TypeOf<&Functions::mem_free> cuMemFree_v2;
TypeOf<&Functions::mem_get_address_range> cuMemGetAddressRange_v2;
TypeOf<&Functions::pointer_get_attribute> cuPointerGetAttribute;
TypeOf<&Functions::memcpy_htod_async> cuMemcpyHtoDAsync_v2;
TypeOf<&Functions::memcpy_dtoh_async> cuMemcpyDtoHAsync_v2;
TypeOf<&Functions::memcpy_dtod_async> cuMemcpyDtoDAsync_v2;
TypeOf<&Functions::memset_d8_async> cuMemsetD8Async;
TypeOf<&Functions::mem_host_alloc> cuMemHostAlloc;
TypeOf<&Functions::mem_free_host> cuMemFreeHost;
TypeOf<&Functions::mem_host_register> cuMemHostRegister_v2;
TypeOf<&Functions::mem_host_unregister> cuMemHostUnregister;
TypeOf<&Functions::mem_host_get_device_pointer> cuMemHostGetDevicePointer_v2;
TypeOf<&Functions::mem_get_allocation_granularity> cuMemGetAllocationGranularity;
TypeOf<&Functions::mem_create> cuMemCreate;
TypeOf<&Functions::mem_release> cuMemRelease;
TypeOf<&Functions::mem_address_reserve> cuMemAddressReserve;
TypeOf<&Functions::mem_address_free> cuMemAddressFree;
TypeOf<&Functions::mem_map> cuMemMap;
TypeOf<&Functions::mem_unmap> cuMemUnmap;
TypeOf<&Functions::mem_set_access> cuMemSetAccess;
TypeOf<&Functions::mem_export_to_shareable_handle> cuMemExportToShareableHandle;
TypeOf<&Functions::mem_import_from_shareable_handle> cuMemImportFromShareableHandle;
TypeOf<&Functions::mem_retain_allocation_handle> cuMemRetainAllocationHandle;
TypeOf<&Functions::mem_get_allocation_properties> cuMemGetAllocationPropertiesFromHandle;
TypeOf<&Functions::ipc_get_mem_handle> cuIpcGetMemHandle;
TypeOf<&Functions::ipc_open_mem_handle> cuIpcOpenMemHandle_v2;
TypeOf<&Functions::ipc_close_mem_handle> cuIpcCloseMemHandle;
TypeOf<&Functions::ipc_get_event_handle> cuIpcGetEventHandle;
TypeOf<&Functions::ipc_open_event_handle> cuIpcOpenEventHandle;
TypeOf<&Functions::stream_create> cuStreamCreate;
TypeOf<&Functions::stream_destroy> cuStreamDestroy_v2;
TypeOf<&Functions::stream_synchronize> cuStreamSynchronize;
TypeOf<&Functions::stream_query> cuStreamQuery;
TypeOf<&Functions::stream_wait_event> cuStreamWaitEvent;
TypeOf<&Functions::event_create> cuEventCreate;
TypeOf<&Functions::event_destroy> cuEventDestroy_v2;
TypeOf<&Functions::event_record> cuEventRecord;
TypeOf<&Functions::event_query> cuEventQuery;
TypeOf<&Functions::event_synchronize> cuEventSynchronize;
TypeOf<&Functions::event_elapsed_time> cuEventElapsedTime;
TypeOf<&Functions::module_load_data> cuModuleLoadData;
TypeOf<&Functions::module_unload> cuModuleUnload;
TypeOf<&Functions::module_get_function> cuModuleGetFunction;
TypeOf<&Functions::launch_kernel> cuLaunchKernel;
}

namespace forklift::device::cuda::fake {
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

}  // namespace forklift::device::cuda::fake
