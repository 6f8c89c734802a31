#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <type_traits>

namespace forklift::inline abi_0_1::device::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

// A function's name in the driver, the version of CUDA whose interface of it is meant, and its place in the table.
struct Entry {
  const char* name;
  int version;
  int older;  // an interface with the same parameters, for drivers that have not the other; 0: none
  bool required;
  void (*store)(Functions& functions, void* address);
};

template <auto Member>
constexpr Entry entry(const char* name, int version, bool required = true, int older = 0) {
  return {name, version, older, required, [](Functions& functions, void* address) {
            auto& place = functions.*Member;
            place = reinterpret_cast<std::remove_reference_t<decltype(place)>>(address);
          }};
}

using F = Functions;
constexpr Entry kEntries[] = {
    entry<&F::init>("cuInit", 2000),
    entry<&F::driver_get_version>("cuDriverGetVersion", 2020),
    entry<&F::get_error_name>("cuGetErrorName", 6000),
    entry<&F::get_error_string>("cuGetErrorString", 6000),
    entry<&F::device_get_count>("cuDeviceGetCount", 2000),
    entry<&F::device_get>("cuDeviceGet", 2000),
    entry<&F::device_get_name>("cuDeviceGetName", 2000),
    entry<&F::device_get_uuid>("cuDeviceGetUuid", 11040, true, 9020),
    entry<&F::device_get_attribute>("cuDeviceGetAttribute", 2000),
    entry<&F::device_total_mem>("cuDeviceTotalMem", 3020),
    entry<&F::device_can_access_peer>("cuDeviceCanAccessPeer", 4000),
    entry<&F::device_primary_ctx_retain>("cuDevicePrimaryCtxRetain", 7000),
    entry<&F::device_primary_ctx_release>("cuDevicePrimaryCtxRelease", 11000, true, 7000),
    entry<&F::device_primary_ctx_get_state>("cuDevicePrimaryCtxGetState", 7000),
    entry<&F::ctx_push_current>("cuCtxPushCurrent", 4000),
    entry<&F::ctx_pop_current>("cuCtxPopCurrent", 4000),
    entry<&F::ctx_get_current>("cuCtxGetCurrent", 4000),
    entry<&F::ctx_set_current>("cuCtxSetCurrent", 4000),
    entry<&F::ctx_get_device>("cuCtxGetDevice", 2000),
    entry<&F::ctx_synchronize>("cuCtxSynchronize", 2000),
    entry<&F::ctx_record_event>("cuCtxRecordEvent", 12050, false),
    entry<&F::ctx_enable_peer_access>("cuCtxEnablePeerAccess", 4000),
    entry<&F::mem_get_info>("cuMemGetInfo", 3020),
    entry<&F::mem_alloc>("cuMemAlloc", 3020),
    entry<&F::mem_free>("cuMemFree", 3020),
    entry<&F::mem_get_address_range>("cuMemGetAddressRange", 3020),
    entry<&F::pointer_get_attribute>("cuPointerGetAttribute", 4000),
    entry<&F::memcpy_htod_async>("cuMemcpyHtoDAsync", 3020),
    entry<&F::memcpy_dtoh_async>("cuMemcpyDtoHAsync", 3020),
    entry<&F::memcpy_dtod_async>("cuMemcpyDtoDAsync", 3020),
    entry<&F::memset_d8_async>("cuMemsetD8Async", 3020),
    entry<&F::mem_host_alloc>("cuMemHostAlloc", 2020),
    entry<&F::mem_free_host>("cuMemFreeHost", 2000),
    entry<&F::mem_host_register>("cuMemHostRegister", 6050, true, 4000),
    entry<&F::mem_host_unregister>("cuMemHostUnregister", 4000),
    entry<&F::mem_host_get_device_pointer>("cuMemHostGetDevicePointer", 3020),
    entry<&F::mem_get_allocation_granularity>("cuMemGetAllocationGranularity", 10020, false),
    entry<&F::mem_create>("cuMemCreate", 10020, false),
    entry<&F::mem_release>("cuMemRelease", 10020, false),
    entry<&F::mem_address_reserve>("cuMemAddressReserve", 10020, false),
    entry<&F::mem_address_free>("cuMemAddressFree", 10020, false),
    entry<&F::mem_map>("cuMemMap", 10020, false),
    entry<&F::mem_unmap>("cuMemUnmap", 10020, false),
    entry<&F::mem_set_access>("cuMemSetAccess", 10020, false),
    entry<&F::mem_export_to_shareable_handle>("cuMemExportToShareableHandle", 10020, false),
    entry<&F::mem_import_from_shareable_handle>("cuMemImportFromShareableHandle", 10020, false),
    entry<&F::mem_retain_allocation_handle>("cuMemRetainAllocationHandle", 11000, false),
    entry<&F::mem_get_allocation_properties>("cuMemGetAllocationPropertiesFromHandle", 10020, false),
    entry<&F::ipc_get_mem_handle>("cuIpcGetMemHandle", 4010, false),
    entry<&F::ipc_open_mem_handle>("cuIpcOpenMemHandle", 11000, false, 4010),
    entry<&F::ipc_close_mem_handle>("cuIpcCloseMemHandle", 4010, false),
    entry<&F::ipc_get_event_handle>("cuIpcGetEventHandle", 4010, false),
    entry<&F::ipc_open_event_handle>("cuIpcOpenEventHandle", 4010, false),
    entry<&F::stream_create>("cuStreamCreate", 2000),
    entry<&F::stream_destroy>("cuStreamDestroy", 4000),
    entry<&F::stream_synchronize>("cuStreamSynchronize", 2000),
    entry<&F::stream_query>("cuStreamQuery", 2000),
    entry<&F::stream_wait_event>("cuStreamWaitEvent", 3020),
    entry<&F::event_create>("cuEventCreate", 2000),
    entry<&F::event_destroy>("cuEventDestroy", 4000),
    entry<&F::event_record>("cuEventRecord", 2000),
    entry<&F::event_query>("cuEventQuery", 2000),
    entry<&F::event_synchronize>("cuEventSynchronize", 2000),
    entry<&F::event_elapsed_time>("cuEventElapsedTime", 2000),
    entry<&F::module_load_data>("cuModuleLoadData", 2000),
    entry<&F::module_unload>("cuModuleUnload", 2000),
    entry<&F::module_get_function>("cuModuleGetFunction", 2000),
    entry<&F::launch_kernel>("cuLaunchKernel", 4000),
};

const char* library_path() noexcept {
  const char* const named = std::getenv("FORKLIFT_LIBCUDA");
  return named != nullptr && *named != '\0' ? named : kLibrary;
}

std::atomic<Driver*> the_driver{nullptr};

// After which the driver's documentation calls the context unusable: every later call fails.
bool poisons(CudaError error) noexcept {
  switch (error) {
    case CudaError::kEccUncorrectable:
    case CudaError::kIllegalAddress:
    case CudaError::kContextIsDestroyed:
    case CudaError::kAssert:
    case CudaError::kHardwareStackError:
    case CudaError::kIllegalInstruction:
    case CudaError::kMisalignedAddress:
    case CudaError::kInvalidAddressSpace:
    case CudaError::kInvalidPc:
    case CudaError::kLaunchFailed: return true;
    default: return false;
  }
}

// Of a driver that has not been asked for its functions yet.
std::string text_of(const Functions& functions, CudaError error) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions.get_error_name != nullptr) functions.get_error_name(error, &name);
  if (functions.get_error_string != nullptr) functions.get_error_string(error, &text);
  std::string said = name != nullptr ? name : "CUDA error " + std::to_string(static_cast<int>(error));
  if (text != nullptr) said += std::string(" (") + text + ")";
  return said;
}

}  // namespace

bool Driver::is_there() noexcept {
  if (existing() != nullptr) return true;
  if (std::getenv("FORKLIFT_LIBCUDA") != nullptr) return ::access(library_path(), R_OK) == 0;
  // The driver's module makes this file, also in containers; WSL has another one.
  struct stat file{};
  return ::stat("/dev/nvidiactl", &file) == 0 || ::stat("/dev/dxg", &file) == 0;
}

Driver* Driver::existing() noexcept { return the_driver.load(std::memory_order_acquire); }

Result<Driver*> Driver::get() {
  if (Driver* const loaded = existing()) {
    if (Status usable = loaded->check("cuInit", true); !usable) return usable;
    return loaded;
  }
  static std::mutex mutex;
  const std::lock_guard held(mutex);
  if (Driver* const loaded = existing()) return loaded;
  return load();
}

Result<Driver*> Driver::load() {
  // Never unloaded: memory may be freed by destructors of static objects.
  Driver* const made = new Driver;
  Status ready = made->open(library_path());
  if (ready) ready = made->resolve();
  if (!ready) {
    // The library stays: unloading a driver that has threads of its own is not safe.
    delete made;
    return ready;
  }
  made->owner_ = ::getpid();
  the_driver.store(made, std::memory_order_release);
  return made;
}

Status Driver::open(const std::string& path) {
  library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ != nullptr) return {};
  const char* const why = ::dlerror();
  return {Code::kNotFound, "no CUDA driver: " + std::string(why != nullptr ? why : path.c_str())};
}

Status Driver::resolve() {
  // Since CUDA 11.3; version 2 since 12.0. Without it each function is found by its name with the suffix of its version.
  using Ask = CudaError (*)(const char*, void**, int, std::uint64_t);
  using Ask2 = CudaError (*)(const char*, void**, int, std::uint64_t, int*);
  const auto ask2 = reinterpret_cast<Ask2>(::dlsym(library_, "cuGetProcAddress_v2"));
  const auto ask = reinterpret_cast<Ask>(::dlsym(library_, "cuGetProcAddress"));
  const auto find_version = [&](const char* name, int version) {
    void* address = nullptr;
    int found = 0;
    const CudaError error =
        ask2 != nullptr ? ask2(name, &address, version, 0, &found) : ask(name, &address, version, 0);
    return error == CudaError::kSuccess ? address : nullptr;
  };
  const auto find = [&](const Entry& each) {
    void* address = nullptr;
    if (ask2 != nullptr || ask != nullptr) {
      address = find_version(each.name, each.version);
      if (address == nullptr && each.older != 0) address = find_version(each.name, each.older);
    } else {
      for (const char* const suffix : {"_v2", ""}) {
        address = ::dlsym(library_, (std::string(each.name) + suffix).c_str());
        if (address != nullptr) break;
      }
    }
    each.store(functions_, address);
    return address != nullptr;
  };
  std::string missing;
  for (const Entry& each : kEntries) {
    if (!find(each) && each.required) missing += std::string(missing.empty() ? "" : ", ") + each.name;
  }
  if (!missing.empty()) return {Code::kVersion, "the CUDA driver is too old: it has no " + missing};
  if (const CudaError error = functions_.init(0); error != CudaError::kSuccess) {
    const Code code = error == CudaError::kNoDevice ? Code::kNotFound : Code::kDevice;
    return {code, "cuInit: " + text_of(functions_, error)};
  }
  functions_.driver_get_version(&version_);
  return {};
}

bool Driver::is_forked() const noexcept { return ::getpid() != owner_; }

Status Driver::check(const char* name, bool is_there) const {
  if (is_forked()) {
    return {Code::kBrokenByFork,
            std::string(name) + ": CUDA was initialised in process " + std::to_string(owner_) +
                ", from which this one was forked, and cannot be used here; start processes that use a "
                "GPU by spawn or forkserver"};
  }
  if (is_there) [[likely]]
    return {};
  return {Code::kUnsupported, std::string(name) + ": the CUDA driver is of version " +
                                  std::to_string(version_ / 1000) + "." +
                                  std::to_string(version_ % 1000 / 10) + ", which has no such function"};
}

Status Driver::failure(const char* name, CudaError error) const {
  std::string text = std::string(name) + ": " + text_of(functions_, error);
  if (poisons(error)) {
    poison_.store(error, std::memory_order_relaxed);
    text += "; CUDA cannot be used any more in this process";
  }
  switch (error) {
    case CudaError::kOutOfMemory: return {Code::kNoSpace, text};
    case CudaError::kNotSupported: return {Code::kUnsupported, text};
    default: return {Code::kDevice, text};
  }
}

Current::~Current() {
  Context popped = nullptr;
  if (status_) driver_.functions().ctx_pop_current(&popped);
}

}  // namespace forklift::inline abi_0_1::device::cuda
