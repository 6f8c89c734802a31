// The driver's functions that the library exports, declared by the types that Forklift calls them by: a definition
// with other parameters does not compile.
#pragma once

#include <type_traits>

#include "device/cuda/api.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

template <auto Member>
using TypeOf = std::remove_pointer_t<std::remove_reference_t<decltype(Functions{}.*Member)>>;

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
TypeOf<&Functions::ctx_record_event> cuCtxRecordEvent;
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

}  // namespace forklift::inline abi_0_1::device::cuda::fake
