// A process that uses the fake CUDA driver, with a current context on device 0; for tests and their children.
//
//   CudaProcess cuda("FORKLIFT_FAKE_CUDA_LAZY=1");
//   Pointer memory = cuda.allocate(100);
//   EXPECT_EQ(cuda->mem_free(memory), CudaError::kSuccess);
//
// Its end gives the context back, and fails where something of the driver's is left.
//
// On a real driver (support/fake_cuda.h) nothing is counted, and work is done when the device comes to it. A test that
// needs more of the fake one begins with
//
//   if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
//
// and a single claim is made `if (cuda.is_fake())`.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "device/cuda/driver.h"
#include "support/child.h"
#include "support/fake_cuda.h"

namespace forklift::device::cuda {

inline void PrintTo(CudaError error, std::ostream* out) { *out << "CudaError " << static_cast<int>(error); }

}  // namespace forklift::device::cuda

namespace forklift::test {

namespace cuda = device::cuda;
using cuda::CudaError;

inline constexpr std::size_t kGranule = std::size_t{2} << 20;

// Why a test is skipped on a real driver.
inline constexpr const char* kNeedsLazyStreams = "a device does what is queued whenever it comes to it";
inline constexpr const char* kNeedsFaults = "it makes calls fail";
inline constexpr const char* kNeedsSettings = "it needs a driver and devices as the environment says";

class CudaProcess {
 public:
  template <class... Settings>
  explicit CudaProcess(const Settings&... environment) : fake(FakeCuda::load({environment...})) {
    const Result<cuda::Driver*> loaded = cuda::Driver::get();
    EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
    if (!loaded.ok()) return;
    driver_ = *loaded;
    EXPECT_EQ(functions().device_primary_ctx_retain(&context, 0), CudaError::kSuccess);
    EXPECT_EQ(functions().ctx_set_current(context), CudaError::kSuccess);
  }
  ~CudaProcess() {
    if (driver_ == nullptr) return;
    if (!is_poisoned) expect_nothing_left();
    fake.reset();
    functions().ctx_set_current(nullptr);
    // A stream's thread may still be on its way out of a wait for another process's event.
    EXPECT_TRUE(eventually([] { return !has_event_page(); })) << "an event's page is left";
  }
  CudaProcess(const CudaProcess&) = delete;
  CudaProcess& operator=(const CudaProcess&) = delete;

  const cuda::Functions& functions() const { return driver_->functions(); }
  const cuda::Functions* operator->() const { return &driver_->functions(); }
  cuda::Driver& driver() const { return *driver_; }
  bool is_fake() const { return fake.is_loaded(); }  // otherwise it is the machine's own driver

  cuda::Pointer allocate(std::size_t bytes) const {
    cuda::Pointer memory = 0;
    EXPECT_EQ(functions().mem_alloc(&memory, bytes), CudaError::kSuccess);
    return memory;
  }
  cuda::Stream stream(unsigned flags = cuda::kStreamNonBlocking) const {
    cuda::Stream made = nullptr;
    EXPECT_EQ(functions().stream_create(&made, flags), CudaError::kSuccess);
    return made;
  }
  // The bytes as the device sees them now; empty: not all of them are mapped.
  std::string peek(cuda::Pointer memory, std::size_t bytes) const {
    std::string seen(bytes, '\0');
    if (!is_fake()) {  // a real driver copies in the order of the streams
      const CudaError copied = functions().memcpy_dtoh_async(seen.data(), memory, bytes, nullptr);
      return copied == CudaError::kSuccess && functions().stream_synchronize(nullptr) == CudaError::kSuccess
                 ? seen
                 : "";
    }
    return fake.peek(memory, seen.data(), bytes) ? seen : std::string();
  }
  static cuda::AllocationProperties properties(int device = 0) {
    cuda::AllocationProperties asked;
    asked.location.id = device;
    return asked;
  }

  const FakeCuda fake;
  cuda::Context context = nullptr;
  bool is_poisoned = false;  // set by a test that poisons the context: nothing can be given back after that
  long modules_of_the_context = 0;  // what a test leaves to the context's end

 private:
  void expect_nothing_left() const {
    EXPECT_EQ(functions().ctx_synchronize(), CudaError::kSuccess);
    if (!is_fake()) return;
    const FakeCudaLive left = fake.live();
    EXPECT_EQ(left.contexts, 1) << "retained by this object";
    EXPECT_EQ(left.physical, 0) << "device memory";
    EXPECT_EQ(left.reservations, 0);
    EXPECT_EQ(left.streams, 0);
    EXPECT_EQ(left.events, 0);
    EXPECT_EQ(left.modules, modules_of_the_context);
    EXPECT_EQ(left.host_ranges, 0);
    EXPECT_EQ(left.pending, 0);
  }

  static bool has_event_page() {
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd", error)) {
      const std::string target = std::filesystem::read_symlink(file.path(), error).string();
      if (!error && target.starts_with("/memfd:fake-cuda-event")) return true;
    }
    return false;
  }

  cuda::Driver* driver_ = nullptr;
};

// Memory of the virtual-memory API, mapped and accessible; gives everything back.
class MappedMemory {
 public:
  MappedMemory(const CudaProcess& process, std::size_t bytes) : process_(process), bytes_(bytes) {
    const cuda::AllocationProperties properties = CudaProcess::properties();
    EXPECT_EQ(process->mem_create(&handle_, bytes, &properties, 0), CudaError::kSuccess);
    map();
  }
  // Of a descriptor, which the caller keeps.
  MappedMemory(const CudaProcess& process, std::size_t bytes, int fd) : process_(process), bytes_(bytes) {
    void* const number = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
    EXPECT_EQ(process->mem_import_from_shareable_handle(&handle_, number, cuda::HandleType::kFileDescriptor),
              CudaError::kSuccess);
    map();
  }
  ~MappedMemory() {
    EXPECT_EQ(process_->mem_unmap(address_, bytes_), CudaError::kSuccess);
    EXPECT_EQ(process_->mem_address_free(address_, bytes_), CudaError::kSuccess);
    EXPECT_EQ(process_->mem_release(handle_), CudaError::kSuccess);
  }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  cuda::Pointer address() const { return address_; }
  cuda::Allocation handle() const { return handle_; }
  int export_descriptor() const {
    int fd = -1;
    EXPECT_EQ(process_->mem_export_to_shareable_handle(&fd, handle_, cuda::HandleType::kFileDescriptor, 0),
              CudaError::kSuccess);
    return fd;
  }

 private:
  void map() {
    const cuda::AccessDescription access;
    EXPECT_EQ(process_->mem_address_reserve(&address_, bytes_, 0, 0, 0), CudaError::kSuccess);
    EXPECT_EQ(process_->mem_map(address_, bytes_, 0, handle_, 0), CudaError::kSuccess);
    EXPECT_EQ(process_->mem_set_access(address_, bytes_, &access, 1), CudaError::kSuccess);
  }

  const CudaProcess& process_;
  std::size_t bytes_;
  cuda::Allocation handle_ = 0;
  cuda::Pointer address_ = 0;
};

}  // namespace forklift::test
