// Our declarations of the driver's interface (src/device/cuda/api.h) beside NVIDIA's own, where a toolkit is installed:
// numbers, layouts, and each function's parameters at the version that is asked for. All of it is checked by the
// compiler; the test says whether it was.
#include <gtest/gtest.h>

#include "device/cuda/api.h"

#ifdef FORKLIFT_TEST_CUDA_HEADER

#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace forklift::device::cuda {
namespace {

template <class Ours, class Theirs>
constexpr bool same_number(Ours ours, Theirs theirs) {
  return static_cast<long long>(ours) == static_cast<long long>(theirs);
}

// Passed in the same way: pointers, numbers of one size, or structures of one size and alignment.
template <class Ours, class Theirs>
constexpr bool passed_alike() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else if constexpr (std::is_class_v<Ours> || std::is_class_v<Theirs>) {
    return std::is_class_v<Ours> && std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
           alignof(Ours) == alignof(Theirs);
  } else {
    return std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs> &&
           sizeof(Ours) == sizeof(Theirs);
  }
}

template <class Ours, class Theirs>
struct Alike : std::false_type {};
template <class OurResult, class... Ours, class TheirResult, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct Alike<OurResult (*)(Ours...), TheirResult (*)(Theirs...)>
    : std::bool_constant<passed_alike<OurResult, TheirResult>() && (passed_alike<Ours, Theirs>() && ...)> {};

using F = Functions;
template <auto Member, class Theirs>
constexpr bool same_function = Alike<std::remove_reference_t<decltype(F{}.*Member)>, Theirs>::value;

static_assert(same_number(CudaError::kSuccess, CUDA_SUCCESS));
static_assert(same_number(CudaError::kInvalidValue, CUDA_ERROR_INVALID_VALUE));
static_assert(same_number(CudaError::kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(same_number(CudaError::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(same_number(CudaError::kDeinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(same_number(CudaError::kNoDevice, CUDA_ERROR_NO_DEVICE));
static_assert(same_number(CudaError::kInvalidDevice, CUDA_ERROR_INVALID_DEVICE));
static_assert(same_number(CudaError::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT));
static_assert(same_number(CudaError::kMapFailed, CUDA_ERROR_MAP_FAILED));
static_assert(same_number(CudaError::kPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED));
static_assert(same_number(CudaError::kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE));
static_assert(same_number(CudaError::kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(same_number(CudaError::kInvalidPtx, CUDA_ERROR_INVALID_PTX));
static_assert(same_number(CudaError::kUnsupportedPtx, CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(same_number(CudaError::kOperatingSystem, CUDA_ERROR_OPERATING_SYSTEM));
static_assert(same_number(CudaError::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE));
static_assert(same_number(CudaError::kNotFound, CUDA_ERROR_NOT_FOUND));
static_assert(same_number(CudaError::kNotReady, CUDA_ERROR_NOT_READY));
static_assert(same_number(CudaError::kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(same_number(CudaError::kPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED));
static_assert(same_number(CudaError::kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED));
static_assert(same_number(CudaError::kAssert, CUDA_ERROR_ASSERT));
static_assert(same_number(CudaError::kHostMemoryAlreadyRegistered,
                          CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED));
static_assert(same_number(CudaError::kHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
static_assert(same_number(CudaError::kHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR));
static_assert(same_number(CudaError::kIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION));
static_assert(same_number(CudaError::kMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS));
static_assert(same_number(CudaError::kInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE));
static_assert(same_number(CudaError::kInvalidPc, CUDA_ERROR_INVALID_PC));
static_assert(same_number(CudaError::kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED));
static_assert(same_number(CudaError::kNotPermitted, CUDA_ERROR_NOT_PERMITTED));
static_assert(same_number(CudaError::kNotSupported, CUDA_ERROR_NOT_SUPPORTED));
static_assert(same_number(CudaError::kSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY));
static_assert(same_number(CudaError::kSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
static_assert(same_number(CudaError::kUnknown, CUDA_ERROR_UNKNOWN));

static_assert(same_number(DeviceAttribute::kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(same_number(DeviceAttribute::kIntegrated, CU_DEVICE_ATTRIBUTE_INTEGRATED));
static_assert(same_number(DeviceAttribute::kUnifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING));
static_assert(same_number(DeviceAttribute::kCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(same_number(DeviceAttribute::kCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(same_number(DeviceAttribute::kUsesHostPointers,
                          CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM));
static_assert(same_number(DeviceAttribute::kVirtualMemory,
                          CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
static_assert(same_number(DeviceAttribute::kFileDescriptors,
                          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
static_assert(same_number(DeviceAttribute::kIpcEvents, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED));

static_assert(same_number(PointerAttribute::kContext, CU_POINTER_ATTRIBUTE_CONTEXT));
static_assert(same_number(PointerAttribute::kMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
static_assert(same_number(PointerAttribute::kIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED));
static_assert(same_number(PointerAttribute::kDeviceOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
static_assert(same_number(PointerAttribute::kIsLegacyIpcCapable,
                          CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE));
static_assert(same_number(PointerAttribute::kRangeStart, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR));
static_assert(same_number(PointerAttribute::kRangeSize, CU_POINTER_ATTRIBUTE_RANGE_SIZE));
static_assert(same_number(PointerAttribute::kMapped, CU_POINTER_ATTRIBUTE_MAPPED));
static_assert(same_number(PointerAttribute::kAllowedHandleTypes, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES));

static_assert(same_number(MemoryType::kHost, CU_MEMORYTYPE_HOST));
static_assert(same_number(MemoryType::kDevice, CU_MEMORYTYPE_DEVICE));
static_assert(same_number(MemoryType::kArray, CU_MEMORYTYPE_ARRAY));
static_assert(same_number(MemoryType::kUnified, CU_MEMORYTYPE_UNIFIED));
static_assert(same_number(LocationType::kDevice, CU_MEM_LOCATION_TYPE_DEVICE));
static_assert(same_number(HandleType::kNone, CU_MEM_HANDLE_TYPE_NONE));
static_assert(same_number(HandleType::kFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
static_assert(same_number(Granularity::kMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
static_assert(same_number(Granularity::kRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
static_assert(kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kEventInterprocess == CU_EVENT_INTERPROCESS);
static_assert(kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kHostRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);

static_assert(sizeof(Pointer) == sizeof(CUdeviceptr));
static_assert(sizeof(Allocation) == sizeof(CUmemGenericAllocationHandle));
static_assert(sizeof(DeviceNumber) == sizeof(CUdevice));
static_assert(sizeof(Uuid) == sizeof(CUuuid));
static_assert(sizeof(IpcMemoryHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(IpcEventHandle) == sizeof(CUipcEventHandle));

static_assert(sizeof(Location) == sizeof(CUmemLocation));
static_assert(offsetof(Location, type) == offsetof(CUmemLocation, type));
static_assert(offsetof(Location, id) == offsetof(CUmemLocation, id));

using Properties = AllocationProperties;
static_assert(sizeof(Properties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(Properties, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(Properties, handle_types) == offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(Properties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(Properties, win32_meta_data) == offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(Properties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(Properties::flags) == sizeof(CUmemAllocationProp::allocFlags));
static_assert(same_number(Properties{}.type, CU_MEM_ALLOCATION_TYPE_PINNED));

static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
static_assert(offsetof(AccessDescription, location) == offsetof(CUmemAccessDesc, location));
static_assert(offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(same_number(AccessDescription{}.flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));

// The same versions as in driver.cpp: the toolkit's names of the functions' types carry them.
static_assert(same_function<&F::init, PFN_cuInit_v2000>);
static_assert(same_function<&F::driver_get_version, PFN_cuDriverGetVersion_v2020>);
static_assert(same_function<&F::get_error_name, PFN_cuGetErrorName_v6000>);
static_assert(same_function<&F::get_error_string, PFN_cuGetErrorString_v6000>);
static_assert(same_function<&F::device_get_count, PFN_cuDeviceGetCount_v2000>);
static_assert(same_function<&F::device_get, PFN_cuDeviceGet_v2000>);
static_assert(same_function<&F::device_get_name, PFN_cuDeviceGetName_v2000>);
static_assert(same_function<&F::device_get_uuid, PFN_cuDeviceGetUuid_v11040>);
static_assert(same_function<&F::device_get_attribute, PFN_cuDeviceGetAttribute_v2000>);
static_assert(same_function<&F::device_total_mem, PFN_cuDeviceTotalMem_v3020>);
static_assert(same_function<&F::device_can_access_peer, PFN_cuDeviceCanAccessPeer_v4000>);
static_assert(same_function<&F::device_primary_ctx_retain, PFN_cuDevicePrimaryCtxRetain_v7000>);
static_assert(same_function<&F::device_primary_ctx_release, PFN_cuDevicePrimaryCtxRelease_v11000>);
static_assert(same_function<&F::device_primary_ctx_get_state, PFN_cuDevicePrimaryCtxGetState_v7000>);
static_assert(same_function<&F::ctx_push_current, PFN_cuCtxPushCurrent_v4000>);
static_assert(same_function<&F::ctx_pop_current, PFN_cuCtxPopCurrent_v4000>);
static_assert(same_function<&F::ctx_get_current, PFN_cuCtxGetCurrent_v4000>);
static_assert(same_function<&F::ctx_set_current, PFN_cuCtxSetCurrent_v4000>);
static_assert(same_function<&F::ctx_get_device, PFN_cuCtxGetDevice_v2000>);
static_assert(same_function<&F::ctx_synchronize, PFN_cuCtxSynchronize_v2000>);
static_assert(same_function<&F::ctx_record_event, PFN_cuCtxRecordEvent_v12050>);
static_assert(same_function<&F::ctx_enable_peer_access, PFN_cuCtxEnablePeerAccess_v4000>);
static_assert(same_function<&F::mem_get_info, PFN_cuMemGetInfo_v3020>);
static_assert(same_function<&F::mem_alloc, PFN_cuMemAlloc_v3020>);
static_assert(same_function<&F::mem_free, PFN_cuMemFree_v3020>);
static_assert(same_function<&F::mem_get_address_range, PFN_cuMemGetAddressRange_v3020>);
static_assert(same_function<&F::pointer_get_attribute, PFN_cuPointerGetAttribute_v4000>);
static_assert(same_function<&F::memcpy_htod_async, PFN_cuMemcpyHtoDAsync_v3020>);
static_assert(same_function<&F::memcpy_dtoh_async, PFN_cuMemcpyDtoHAsync_v3020>);
static_assert(same_function<&F::memcpy_dtod_async, PFN_cuMemcpyDtoDAsync_v3020>);
static_assert(same_function<&F::memset_d8_async, PFN_cuMemsetD8Async_v3020>);
static_assert(same_function<&F::mem_host_alloc, PFN_cuMemHostAlloc_v2020>);
static_assert(same_function<&F::mem_free_host, PFN_cuMemFreeHost_v2000>);
static_assert(same_function<&F::mem_host_register, PFN_cuMemHostRegister_v6050>);
static_assert(same_function<&F::mem_host_unregister, PFN_cuMemHostUnregister_v4000>);
static_assert(same_function<&F::mem_host_get_device_pointer, PFN_cuMemHostGetDevicePointer_v3020>);
static_assert(same_function<&F::mem_get_allocation_granularity, PFN_cuMemGetAllocationGranularity_v10020>);
static_assert(same_function<&F::mem_create, PFN_cuMemCreate_v10020>);
static_assert(same_function<&F::mem_release, PFN_cuMemRelease_v10020>);
static_assert(same_function<&F::mem_address_reserve, PFN_cuMemAddressReserve_v10020>);
static_assert(same_function<&F::mem_address_free, PFN_cuMemAddressFree_v10020>);
static_assert(same_function<&F::mem_map, PFN_cuMemMap_v10020>);
static_assert(same_function<&F::mem_unmap, PFN_cuMemUnmap_v10020>);
static_assert(same_function<&F::mem_set_access, PFN_cuMemSetAccess_v10020>);
static_assert(same_function<&F::mem_export_to_shareable_handle, PFN_cuMemExportToShareableHandle_v10020>);
static_assert(same_function<&F::mem_import_from_shareable_handle, PFN_cuMemImportFromShareableHandle_v10020>);
static_assert(same_function<&F::mem_retain_allocation_handle, PFN_cuMemRetainAllocationHandle_v11000>);
static_assert(
    same_function<&F::mem_get_allocation_properties, PFN_cuMemGetAllocationPropertiesFromHandle_v10020>);
static_assert(same_function<&F::ipc_get_mem_handle, PFN_cuIpcGetMemHandle_v4010>);
static_assert(same_function<&F::ipc_open_mem_handle, PFN_cuIpcOpenMemHandle_v11000>);
static_assert(same_function<&F::ipc_close_mem_handle, PFN_cuIpcCloseMemHandle_v4010>);
static_assert(same_function<&F::ipc_get_event_handle, PFN_cuIpcGetEventHandle_v4010>);
static_assert(same_function<&F::ipc_open_event_handle, PFN_cuIpcOpenEventHandle_v4010>);
static_assert(same_function<&F::stream_create, PFN_cuStreamCreate_v2000>);
static_assert(same_function<&F::stream_destroy, PFN_cuStreamDestroy_v4000>);
static_assert(same_function<&F::stream_synchronize, PFN_cuStreamSynchronize_v2000>);
static_assert(same_function<&F::stream_query, PFN_cuStreamQuery_v2000>);
static_assert(same_function<&F::stream_wait_event, PFN_cuStreamWaitEvent_v3020>);
static_assert(same_function<&F::event_create, PFN_cuEventCreate_v2000>);
static_assert(same_function<&F::event_destroy, PFN_cuEventDestroy_v4000>);
static_assert(same_function<&F::event_record, PFN_cuEventRecord_v2000>);
static_assert(same_function<&F::event_query, PFN_cuEventQuery_v2000>);
static_assert(same_function<&F::event_synchronize, PFN_cuEventSynchronize_v2000>);
static_assert(same_function<&F::event_elapsed_time, PFN_cuEventElapsedTime_v2000>);
static_assert(same_function<&F::module_load_data, PFN_cuModuleLoadData_v2000>);
static_assert(same_function<&F::module_unload, PFN_cuModuleUnload_v2000>);
static_assert(same_function<&F::module_get_function, PFN_cuModuleGetFunction_v2000>);
static_assert(same_function<&F::launch_kernel, PFN_cuLaunchKernel_v4000>);

// The comparison itself tells functions apart.
static_assert(!same_function<&F::mem_alloc, PFN_cuMemFree_v3020>);
static_assert(!same_function<&F::mem_free, PFN_cuMemGetInfo_v3020>);

}  // namespace
}  // namespace forklift::device::cuda

TEST(CudaHeaderTest, OurDeclarationsAreThoseOfTheToolkit) {
  RecordProperty("CUDA_VERSION", CUDA_VERSION);
  EXPECT_GE(CUDA_VERSION, 12000) << "the version of the toolkit whose cuda.h was compared";
}

#else

TEST(CudaHeaderTest, OurDeclarationsAreThoseOfTheToolkit) {
  GTEST_SKIP()
      << "no cuda.h was found when this was configured (set CUDA_PATH), so that there is nothing to compare";
}

#endif
