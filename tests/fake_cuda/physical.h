// Device memory as it lies behind a descriptor: a memfd whose name says on which device and how large it is.
//
//   CudaError error = Physical::create(device, bytes, Physical::Kind::kVirtual, true, &memory);
//   int copy = memory->duplicate();             // what cuMemExportToShareableHandle gives away
//   Physical::adopt(copy, &memory);             // ... and cuMemImportFromShareableHandle takes
//
// A process has one Physical for each memory, however often it is imported. The memory lives as long as any process
// has a descriptor of it, which is as long as a Physical of it lives anywhere, or a descriptor is kept by a process
// that does not use the driver. A device's use is the sum over all memory that is alive, found by looking at the
// descriptors of all processes of this user; so a killed process leaves nothing. Descriptors that are under way in
// a socket are not seen there. That takes milliseconds, so an allocation does it only if FORKLIFT_FAKE_CUDA_BYTES is
// set: otherwise it is measured by what this process alone has.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "entry.h"

namespace forklift::inline abi_0_1::device::cuda::fake {

class Physical {
 public:
  enum class Kind : char {
    kPlain = 'p',   // by cuMemAlloc: a page behind the memory says what has become of it (ipc_memory.h)
    kVirtual = 'v'  // by cuMemCreate
  };

  // kOutOfMemory if the device has less left.
  static CudaError create(int machine_device, std::size_t bytes, Kind kind, bool exportable,
                          std::shared_ptr<Physical>* made);
  // The memory behind a descriptor, which the caller keeps. kInvalidValue if it is none.
  static CudaError adopt(int fd, std::shared_ptr<Physical>* made);
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  int fd() const { return fd_; }
  int duplicate() const;
  int machine_device() const { return machine_device_; }
  std::size_t bytes() const { return bytes_; }
  // Of the memfd without what describes it: whole pages.
  std::size_t mapped_bytes() const;
  Kind kind() const { return kind_; }
  bool exportable() const { return exportable_; }
  const std::string& token() const { return token_; }
  // Of the memfd, as /proc shows it.
  const std::string& name() const { return name_; }

  static long live();
  static long live_bytes();

 private:
  Physical() = default;
  bool read_name(const std::string& name);

  int fd_ = -1;
  int machine_device_ = 0;
  std::size_t bytes_ = 0;
  Kind kind_ = Kind::kPlain;
  bool exportable_ = false;
  std::string token_;
  std::string name_;
};

// What all processes of this user use of a device of this machine.
std::size_t used_bytes(int machine_device);

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kGranularity = std::size_t{2} << 20;

// The name of the memfd that a link of /proc/<pid>/fd leads to; empty: it leads elsewhere.
std::string memfd_name(const std::string& link);
// Words of this process's making that no other memory has.
std::string new_token();

}  // namespace forklift::inline abi_0_1::device::cuda::fake
