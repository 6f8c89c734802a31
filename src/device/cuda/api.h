// The part of CUDA's driver interface that Forklift uses, in declarations of our own: nothing of CUDA is needed to build.
//
// Names, numbers and layouts are those of NVIDIA's "CUDA Driver API" (cuda.h of CUDA 13.0); driver.cpp says
// which version of a function is asked for. Names drop the prefix where ours say the same. tests/cpp/device/cuda_header_test.cpp
// compares them with cuda.h where a toolkit is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace forklift::inline abi_0_1::device::cuda {

// CUresult. Only what is told apart somewhere has a name here.
enum class CudaError : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kMapFailed = 205,
  kPeerAccessUnsupported = 217,
  kEccUncorrectable = 214,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtx = 222,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kPeerAccessAlreadyEnabled = 704,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kUnknown = 999
};

using DeviceNumber = int;               // CUdevice
using Pointer = unsigned long long;     // CUdeviceptr
using Allocation = unsigned long long;  // CUmemGenericAllocationHandle

// Opaque, as in cuda.h.
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;

struct Uuid {
  char bytes[16];
};

enum class DeviceAttribute : int {
  kMultiprocessors = 16,
  kIntegrated = 18,
  kUnifiedAddressing = 41,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kUsesHostPointers = 91,  // registered host memory has the same address on the device
  kVirtualMemory = 102,
  kFileDescriptors = 103,  // allocations of virtual memory can be exported as descriptors
  kIpcEvents = 125
};

// --- virtual memory

enum class LocationType : int {
  kDevice = 1
};
struct Location {
  LocationType type = LocationType::kDevice;
  int id = 0;
};

enum class HandleType : int {
  kNone = 0,
  kFileDescriptor = 1
};

// CUmemAllocationProp. Cleared where not named.
struct AllocationProperties {
  int type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED, the only one
  HandleType handle_types = HandleType::kFileDescriptor;
  Location location;
  void* win32_meta_data = nullptr;
  struct {
    unsigned char compression_type = 0;
    unsigned char gpu_direct_rdma_capable = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  } flags;
};
static_assert(sizeof(AllocationProperties) == 32);

enum class Granularity : int {
  kMinimum = 0,
  kRecommended = 1
};

struct AccessDescription {
  Location location;
  int flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};
static_assert(sizeof(AccessDescription) == 12);

// --- memory of other processes by legacy handles

struct IpcMemoryHandle {
  char bytes[64];
};
struct IpcEventHandle {
  char bytes[64];
};
inline constexpr unsigned kIpcLazyPeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

enum class PointerAttribute : int {
  kContext = 1,
  kMemoryType = 2,  // unsigned: MemoryType
  kIsManaged = 8,
  kDeviceOrdinal = 9,
  kIsLegacyIpcCapable = 10,
  kRangeStart = 11,
  kRangeSize = 12,
  kMapped = 13,
  kAllowedHandleTypes = 14
};
enum class MemoryType : unsigned {
  kHost = 1,
  kDevice = 2,
  kArray = 3,
  kUnified = 4
};

// --- streams, events, host memory

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterDeviceMap = 2;

// The stream that is meant where a stream is null: it waits for all other blocking streams of the context.
inline constexpr std::nullptr_t kLegacyStream = nullptr;
// What other libraries say for the default stream (DLPack, __cuda_array_interface__): 1 legacy, 2 per thread.
inline constexpr std::uintptr_t kLegacyStreamNumber = 1;
inline constexpr std::uintptr_t kPerThreadStreamNumber = 2;

// --- the functions

// Filled by load_driver() (driver.h). A null pointer: this driver has no such function; Driver::require() says which.
struct Functions {
  CudaError (*init)(unsigned flags) = nullptr;
  CudaError (*driver_get_version)(int* version) = nullptr;
  CudaError (*get_error_name)(CudaError error, const char** text) = nullptr;
  CudaError (*get_error_string)(CudaError error, const char** text) = nullptr;

  CudaError (*device_get_count)(int* count) = nullptr;
  CudaError (*device_get)(DeviceNumber* device, int ordinal) = nullptr;
  CudaError (*device_get_name)(char* name, int length, DeviceNumber device) = nullptr;
  CudaError (*device_get_uuid)(Uuid* uuid, DeviceNumber device) = nullptr;
  CudaError (*device_get_attribute)(int* value, DeviceAttribute attribute, DeviceNumber device) = nullptr;
  CudaError (*device_total_mem)(std::size_t* bytes, DeviceNumber device) = nullptr;
  CudaError (*device_can_access_peer)(int* can, DeviceNumber device, DeviceNumber peer) = nullptr;
  CudaError (*device_primary_ctx_retain)(Context* context, DeviceNumber device) = nullptr;
  CudaError (*device_primary_ctx_release)(DeviceNumber device) = nullptr;
  CudaError (*device_primary_ctx_get_state)(DeviceNumber device, unsigned* flags, int* active) = nullptr;

  CudaError (*ctx_push_current)(Context context) = nullptr;
  CudaError (*ctx_pop_current)(Context* context) = nullptr;
  CudaError (*ctx_get_current)(Context* context) = nullptr;
  CudaError (*ctx_set_current)(Context context) = nullptr;
  CudaError (*ctx_get_device)(DeviceNumber* device) = nullptr;
  CudaError (*ctx_synchronize)() = nullptr;
  // From driver 12.5 on. The event is done when all that is queued in the context now is.
  CudaError (*ctx_record_event)(Context context, Event event) = nullptr;
  CudaError (*ctx_enable_peer_access)(Context peer, unsigned flags) = nullptr;

  CudaError (*mem_get_info)(std::size_t* free, std::size_t* total) = nullptr;
  CudaError (*mem_alloc)(Pointer* memory, std::size_t bytes) = nullptr;
  CudaError (*mem_free)(Pointer memory) = nullptr;
  CudaError (*mem_get_address_range)(Pointer* base, std::size_t* bytes, Pointer memory) = nullptr;
  CudaError (*pointer_get_attribute)(void* value, PointerAttribute attribute, Pointer memory) = nullptr;

  // Asynchronous; between pageable host memory and the device they may return later than when they are queued.
  CudaError (*memcpy_htod_async)(Pointer to, const void* from, std::size_t bytes, Stream stream) = nullptr;
  CudaError (*memcpy_dtoh_async)(void* to, Pointer from, std::size_t bytes, Stream stream) = nullptr;
  CudaError (*memcpy_dtod_async)(Pointer to, Pointer from, std::size_t bytes, Stream stream) = nullptr;
  CudaError (*memset_d8_async)(Pointer to, unsigned char value, std::size_t count, Stream stream) = nullptr;

  CudaError (*mem_host_alloc)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  CudaError (*mem_free_host)(void* memory) = nullptr;
  CudaError (*mem_host_register)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
  CudaError (*mem_host_unregister)(void* memory) = nullptr;
  CudaError (*mem_host_get_device_pointer)(Pointer* there, void* memory, unsigned flags) = nullptr;

  // Virtual memory, from driver 10.2 on.
  CudaError (*mem_get_allocation_granularity)(std::size_t* bytes, const AllocationProperties* properties,
                                              Granularity option) = nullptr;
  CudaError (*mem_create)(Allocation* made, std::size_t bytes, const AllocationProperties* properties,
                          unsigned long long flags) = nullptr;
  CudaError (*mem_release)(Allocation allocation) = nullptr;
  CudaError (*mem_address_reserve)(Pointer* address, std::size_t bytes, std::size_t alignment, Pointer wish,
                                   unsigned long long flags) = nullptr;
  CudaError (*mem_address_free)(Pointer address, std::size_t bytes) = nullptr;
  CudaError (*mem_map)(Pointer address, std::size_t bytes, std::size_t offset, Allocation allocation,
                       unsigned long long flags) = nullptr;
  CudaError (*mem_unmap)(Pointer address, std::size_t bytes) = nullptr;
  CudaError (*mem_set_access)(Pointer address, std::size_t bytes, const AccessDescription* access,
                              std::size_t count) = nullptr;
  // For HandleType::kFileDescriptor `handle` is an int*, and on import the descriptor itself, cast to a pointer.
  CudaError (*mem_export_to_shareable_handle)(void* handle, Allocation allocation, HandleType type,
                                              unsigned long long flags) = nullptr;
  CudaError (*mem_import_from_shareable_handle)(Allocation* allocation, void* handle,
                                                HandleType type) = nullptr;
  // From driver 11.0 on. Keeps the allocation that is mapped at an address; each is given back with mem_release.
  CudaError (*mem_retain_allocation_handle)(Allocation* allocation, void* address) = nullptr;
  CudaError (*mem_get_allocation_properties)(AllocationProperties* properties,
                                             Allocation allocation) = nullptr;

  CudaError (*ipc_get_mem_handle)(IpcMemoryHandle* handle, Pointer base) = nullptr;
  CudaError (*ipc_open_mem_handle)(Pointer* memory, IpcMemoryHandle handle, unsigned flags) = nullptr;
  CudaError (*ipc_close_mem_handle)(Pointer memory) = nullptr;
  CudaError (*ipc_get_event_handle)(IpcEventHandle* handle, Event event) = nullptr;
  CudaError (*ipc_open_event_handle)(Event* event, IpcEventHandle handle) = nullptr;

  CudaError (*stream_create)(Stream* stream, unsigned flags) = nullptr;
  CudaError (*stream_destroy)(Stream stream) = nullptr;
  CudaError (*stream_synchronize)(Stream stream) = nullptr;
  CudaError (*stream_query)(Stream stream) = nullptr;
  CudaError (*stream_wait_event)(Stream stream, Event event, unsigned flags) = nullptr;
  CudaError (*event_create)(Event* event, unsigned flags) = nullptr;
  CudaError (*event_destroy)(Event event) = nullptr;
  CudaError (*event_record)(Event event, Stream stream) = nullptr;
  CudaError (*event_query)(Event event) = nullptr;
  CudaError (*event_synchronize)(Event event) = nullptr;
  CudaError (*event_elapsed_time)(float* milliseconds, Event begin, Event end) = nullptr;

  CudaError (*module_load_data)(Module* module, const void* image) = nullptr;
  CudaError (*module_unload)(Module module) = nullptr;
  CudaError (*module_get_function)(Function* function, Module module, const char* name) = nullptr;
  CudaError (*launch_kernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                             Stream stream, void** parameters, void** extra) = nullptr;
};

}  // namespace forklift::inline abi_0_1::device::cuda
