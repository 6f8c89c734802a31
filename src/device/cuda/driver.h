// CUDA's driver, loaded when a device is first needed, and its failures as Status.
//
//   Result<Driver*> driver = Driver::get();                      // loads and initialises; kNotFound: there is none
//   Status made = (*driver)->call("cuMemCreate", (*driver)->functions().mem_create, &allocation, bytes, &properties, 0);
//
// libcuda.so.1 (FORKLIFT_LIBCUDA: another file) is opened with dlopen() and its functions are asked for by the
// driver's cuGetProcAddress, with the version of their interface. Nothing of CUDA is linked, and nothing is loaded
// or initialised before the first get(): is_there() only looks whether the library could be.
//
// A process that was forked after the driver was initialised cannot use it: CUDA's documentation says so, and calls
// may hang. get() and call() then fail with kBrokenByFork before they reach the driver.
//
// Errors: kNotFound: no library, no device, or none that this process may see; kVersion: the driver is too old;
// of calls: kNoSpace for memory, kUnsupported, kBrokenByFork, kDevice otherwise, with the function, CUDA's name and its
// text of the error. An error that poisons the context for good says so.
//
// Thread safety: all functions.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "device/cuda/api.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::device::cuda {

class Driver {
 public:
  // The process's only one.
  static Result<Driver*> get();
  // Was it loaded in this process, or in a parent before a fork? Loads nothing.
  static Driver* existing() noexcept;
  // Could it be loaded? Looks for the library and for a device's file, without loading or initialising anything.
  static bool is_there() noexcept;

  const Functions& functions() const noexcept { return functions_; }
  int version() const noexcept { return version_; }  // 13000: 13.0
  bool is_forked() const noexcept;

  // Calls a function of the table. kUnsupported: this driver has no such function.
  template <class... Parameters, class... Arguments>
  Status call(const char* name, CudaError (*function)(Parameters...), Arguments... arguments) const {
    if (Status usable = check(name, function != nullptr); !usable) return usable;
    const CudaError error = function(static_cast<Parameters>(arguments)...);
    if (error == CudaError::kSuccess) [[likely]]
      return {};
    return failure(name, error);
  }
  Status failure(const char* name, CudaError error) const;

  // The error that made the context unusable for the rest of the process; kSuccess: none yet.
  CudaError poison() const noexcept { return poison_.load(std::memory_order_relaxed); }

 private:
  Driver() = default;
  static Result<Driver*> load();
  Status open(const std::string& path);
  Status resolve();
  Status check(const char* name, bool is_there) const;

  void* library_ = nullptr;
  Functions functions_;
  int version_ = 0;
  pid_t owner_ = 0;
  mutable std::atomic<CudaError> poison_{CudaError::kSuccess};
};

// Makes a context the calling thread's current one, and the former one again in the end.
class Current {
 public:
  Current(const Driver& driver, Context context) : driver_(driver) {
    status_ = driver.call("cuCtxPushCurrent", driver.functions().ctx_push_current, context);
  }
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  const Status& status() const noexcept { return status_; }

 private:
  const Driver& driver_;
  Status status_;
};

}  // namespace forklift::inline abi_0_1::device::cuda
