// The fake driver's devices, contexts, cuMemAlloc, copies and faults.
#include "../../fake_cuda/fake_cuda.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda_fixture.h"
#include "support/child.h"

namespace forklift::test {
namespace {

using cuda::Context;
using cuda::DeviceAttribute;
using cuda::Pointer;

std::string uuid_of(const CudaProcess& process, int device) {
  cuda::Uuid uuid{};
  EXPECT_EQ(process->device_get_uuid(&uuid, device), CudaError::kSuccess);
  return {uuid.bytes, sizeof uuid.bytes};
}

TEST(FakeCudaTest, NothingWorksBeforeInit) {
  if (skipped_on_real_cuda("it calls the fake driver's library by itself")) return;
  const FakeCuda fake = FakeCuda::load();
  int count = -1;
  EXPECT_EQ(fake.symbol<CudaError(int*)>("cuDeviceGetCount")(&count), CudaError::kNotInitialized);
  Pointer memory = 0;
  EXPECT_EQ(fake.symbol<CudaError(Pointer*, std::size_t)>("cuMemAlloc_v2")(&memory, 8),
            CudaError::kNotInitialized);
  int version = 0;
  EXPECT_EQ(fake.symbol<CudaError(int*)>("cuDriverGetVersion")(&version), CudaError::kSuccess);
  EXPECT_EQ(version, 13000);
  EXPECT_EQ(fake.symbol<CudaError(unsigned)>("cuInit")(1), CudaError::kInvalidValue);
  EXPECT_EQ(fake.symbol<CudaError(unsigned)>("cuInit")(0), CudaError::kSuccess);
  EXPECT_EQ(fake.symbol<CudaError(int*)>("cuDeviceGetCount")(&count), CudaError::kSuccess);
  EXPECT_EQ(count, 1);
}

TEST(FakeCudaTest, DevicesHaveDistinctUuidsAndTheirSize) {
  if (skipped_on_real_cuda(kNeedsSettings)) return;
  const CudaProcess process("FORKLIFT_FAKE_CUDA_DEVICES=3", "FORKLIFT_FAKE_CUDA_BYTES=33554432");
  int count = 0;
  EXPECT_EQ(process->device_get_count(&count), CudaError::kSuccess);
  EXPECT_EQ(count, 3);
  std::set<std::string> uuids;
  for (int device = 0; device < 3; ++device) uuids.insert(uuid_of(process, device));
  EXPECT_EQ(uuids.size(), 3U);
  std::size_t bytes = 0;
  EXPECT_EQ(process->device_total_mem(&bytes, 2), CudaError::kSuccess);
  EXPECT_EQ(bytes, 33554432U);
  EXPECT_EQ(process->device_total_mem(&bytes, 3), CudaError::kInvalidDevice);
  int number = -1;
  EXPECT_EQ(process->device_get(&number, 3), CudaError::kInvalidDevice);
  char name[64];
  EXPECT_EQ(process->device_get_name(name, sizeof name, 1), CudaError::kSuccess);
  EXPECT_STREQ(name, "Fake CUDA device 1");
  int can = 0;
  EXPECT_EQ(process->device_can_access_peer(&can, 0, 2), CudaError::kSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(process->device_can_access_peer(&can, 1, 1), CudaError::kSuccess);
  EXPECT_EQ(can, 0);
}

TEST(FakeCudaTest, VisibleDevicesAreThoseThatAreNamedInTheirOrder) {
  if (skipped_on_real_cuda(kNeedsSettings)) return;
  // Device 2 by its UUID, then 0; 9 does not exist, so that 1 after it is not visible.
  const CudaProcess process("FORKLIFT_FAKE_CUDA_DEVICES=3",
                            "CUDA_VISIBLE_DEVICES=GPU-f04b11f7-face-4fed-8001-000000000002,0,9,1");
  int count = 0;
  EXPECT_EQ(process->device_get_count(&count), CudaError::kSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(uuid_of(process, 0).back(), 2);
  EXPECT_EQ(uuid_of(process, 1).back(), 0);
}

TEST(FakeCudaTest, AnEmptyListOfVisibleDevicesLeavesNone) {
  if (skipped_on_real_cuda("it calls the fake driver's library by itself")) return;
  const FakeCuda fake = FakeCuda::load({"CUDA_VISIBLE_DEVICES="});
  EXPECT_EQ(fake.symbol<CudaError(unsigned)>("cuInit")(0), CudaError::kNoDevice);
}

TEST(FakeCudaTest, AttributesCanBeSwitchedOff) {
  if (skipped_on_real_cuda(kNeedsSettings)) return;
  const CudaProcess process("FORKLIFT_FAKE_CUDA_OFF=103,125");
  const auto value = [&](DeviceAttribute attribute) {
    int read = -1;
    EXPECT_EQ(process->device_get_attribute(&read, attribute, 0), CudaError::kSuccess);
    return read;
  };
  EXPECT_EQ(value(DeviceAttribute::kCapabilityMajor), 9);
  EXPECT_EQ(value(DeviceAttribute::kVirtualMemory), 1);
  EXPECT_EQ(value(DeviceAttribute::kFileDescriptors), 0);
  EXPECT_EQ(value(DeviceAttribute::kIpcEvents), 0);
  cuda::Allocation handle = 0;
  cuda::AllocationProperties properties = CudaProcess::properties();
  EXPECT_EQ(process->mem_create(&handle, kGranule, &properties, 0), CudaError::kNotSupported);
  properties.handle_types = cuda::HandleType::kNone;
  ASSERT_EQ(process->mem_create(&handle, kGranule, &properties, 0), CudaError::kSuccess);
  EXPECT_EQ(process->mem_release(handle), CudaError::kSuccess);
  const Pointer memory = process.allocate(8);
  unsigned capable = 1;
  EXPECT_EQ(process->pointer_get_attribute(&capable, cuda::PointerAttribute::kIsLegacyIpcCapable, memory),
            CudaError::kSuccess);
  EXPECT_EQ(capable, 0U);
  cuda::IpcMemoryHandle ipc{};
  EXPECT_EQ(process->ipc_get_mem_handle(&ipc, memory), CudaError::kNotSupported);
  EXPECT_EQ(process->ipc_open_mem_handle(nullptr, ipc, cuda::kIpcLazyPeerAccess), CudaError::kNotSupported);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaTest, PrimaryContextsAreCounted) {
  const CudaProcess process;  // retains it once
  Context again = nullptr;
  ASSERT_EQ(process->device_primary_ctx_retain(&again, 0), CudaError::kSuccess);
  EXPECT_EQ(again, process.context);
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(process->device_primary_ctx_release(0), CudaError::kSuccess);
  EXPECT_EQ(process->device_primary_ctx_get_state(0, &flags, &active), CudaError::kSuccess);
  EXPECT_EQ(active, 1);
  const Pointer memory = process.allocate(8);
  EXPECT_EQ(process->device_primary_ctx_release(0), CudaError::kSuccess);
  // Its memory went with it, and so did what is current to this thread.
  EXPECT_EQ(process.fake.live().allocations, 0);
  EXPECT_EQ(process->mem_free(memory), CudaError::kContextIsDestroyed);
  EXPECT_EQ(process->device_primary_ctx_get_state(0, &flags, &active), CudaError::kSuccess);
  EXPECT_EQ(active, 0);
  EXPECT_EQ(process->device_primary_ctx_release(0), CudaError::kInvalidContext);
  ASSERT_EQ(process->device_primary_ctx_retain(&again, 0), CudaError::kSuccess);
}

TEST(FakeCudaTest, EachThreadHasAStackOfCurrentContexts) {
  if (skipped_on_real_cuda("it needs two devices")) return;
  const CudaProcess process("FORKLIFT_FAKE_CUDA_DEVICES=2");
  Context other = nullptr;
  ASSERT_EQ(process->device_primary_ctx_retain(&other, 1), CudaError::kSuccess);
  int device = -1;
  EXPECT_EQ(process->ctx_push_current(other), CudaError::kSuccess);
  EXPECT_EQ(process->ctx_get_device(&device), CudaError::kSuccess);
  EXPECT_EQ(device, 1);
  std::thread([&] {
    Context current = other;
    EXPECT_EQ(process->ctx_get_current(&current), CudaError::kSuccess);
    EXPECT_EQ(current, nullptr);
    EXPECT_EQ(process->ctx_get_device(&device), CudaError::kInvalidContext);
    Pointer memory = 0;
    EXPECT_EQ(process->mem_alloc(&memory, 8), CudaError::kInvalidContext);
    EXPECT_EQ(process->ctx_pop_current(&current), CudaError::kInvalidContext);
  }).join();
  Context popped = nullptr;
  EXPECT_EQ(process->ctx_pop_current(&popped), CudaError::kSuccess);
  EXPECT_EQ(popped, other);
  EXPECT_EQ(process->ctx_get_device(&device), CudaError::kSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(process->device_primary_ctx_release(1), CudaError::kSuccess);
  EXPECT_EQ(process->ctx_push_current(other), CudaError::kInvalidContext);
}

TEST(FakeCudaTest, MemoryIsAnsweredForFromTheMiddle) {
  const CudaProcess process;
  const Pointer memory = process.allocate(10'000);
  Pointer base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(process->mem_get_address_range(&base, &bytes, memory + 9'999), CudaError::kSuccess);
  EXPECT_EQ(base, memory);
  EXPECT_EQ(bytes, 10'000U);
  EXPECT_EQ(process->mem_get_address_range(&base, &bytes, memory + 10'000), CudaError::kNotFound);
  unsigned type = 0;
  int device = -1;
  Pointer start = 0;
  EXPECT_EQ(process->pointer_get_attribute(&type, cuda::PointerAttribute::kMemoryType, memory + 5),
            CudaError::kSuccess);
  EXPECT_EQ(type, static_cast<unsigned>(cuda::MemoryType::kDevice));
  EXPECT_EQ(process->pointer_get_attribute(&device, cuda::PointerAttribute::kDeviceOrdinal, memory + 5),
            CudaError::kSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(process->pointer_get_attribute(&start, cuda::PointerAttribute::kRangeStart, memory + 5),
            CudaError::kSuccess);
  EXPECT_EQ(start, memory);
  int on_the_heap = 0;
  EXPECT_EQ(process->pointer_get_attribute(&type, cuda::PointerAttribute::kMemoryType,
                                           reinterpret_cast<std::uintptr_t>(&on_the_heap)),
            CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_free(memory + 8), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_free(0), CudaError::kSuccess);
}

TEST(FakeCudaTest, TheDevicesMemoryIsFiniteAndSharedByProcesses) {
  if (skipped_on_real_cuda(kNeedsSettings)) return;
  const CudaProcess process("FORKLIFT_FAKE_CUDA_BYTES=8388608");
  const auto free_bytes = [&] {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_EQ(process->mem_get_info(&free, &total), CudaError::kSuccess);
    EXPECT_EQ(total, 8388608U);
    return free;
  };
  EXPECT_EQ(free_bytes(), 8388608U);
  const Pointer first = process.allocate(kGranule);
  EXPECT_EQ(free_bytes(), 3 * kGranule);
  Pointer second = 0;
  EXPECT_EQ(process->mem_alloc(&second, 3 * kGranule + 1), CudaError::kOutOfMemory);
  // A process that keeps a descriptor keeps the memory, although it does not use the driver.
  cuda::Allocation handle = 0;
  const cuda::AllocationProperties properties = CudaProcess::properties();
  ASSERT_EQ(process->mem_create(&handle, 2 * kGranule, &properties, 0), CudaError::kSuccess);
  int fd = -1;
  ASSERT_EQ(process->mem_export_to_shareable_handle(&fd, handle, cuda::HandleType::kFileDescriptor, 0),
            CudaError::kSuccess);
  Gate ready;
  Child keeper([&] {
    ready.open();
    ::pause();
  });
  ASSERT_TRUE(ready.wait());
  ::close(fd);
  EXPECT_EQ(process->mem_release(handle), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(first), CudaError::kSuccess);
  EXPECT_EQ(process.fake.live().physical, 0);
  EXPECT_EQ(free_bytes(), kGranule);  // the fork has the descriptors of both
  keeper.kill_now();
  EXPECT_EQ(free_bytes(), 4 * kGranule);
}

TEST(FakeCudaTest, TheProcessorCannotReadDeviceMemory) {
  const CudaProcess process;
  const Pointer memory = process.allocate(4096);
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  // The kernel reads it with this process's rights, and says so where a load would end the process.
  EXPECT_EQ(::write(ends[1], reinterpret_cast<void*>(memory), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaTest, CopiesGoThereAndBack) {
  const CudaProcess process;
  const Pointer memory = process.allocate(64);
  const std::string sent = "the words that are sent";
  std::string got(sent.size(), '?');
  EXPECT_EQ(process->memset_d8_async(memory, '-', 64, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_htod_async(memory, sent.data(), sent.size(), nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_dtod_async(memory + 32, memory, sent.size(), nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_dtoh_async(got.data(), memory + 32, sent.size(), nullptr), CudaError::kSuccess);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(process.peek(memory + sent.size(), 1), "-");
  // An address that no allocation has is refused at the call, and poisons nothing.
  EXPECT_EQ(process->memset_d8_async(memory, 0, 65, nullptr), CudaError::kInvalidValue);
  EXPECT_EQ(process->memcpy_htod_async(0x1000, sent.data(), 1, nullptr), CudaError::kInvalidValue);
  // A real driver takes a device's address for the host's, too, and copies from there.
  if (process.is_fake()) {
    EXPECT_EQ(process->memcpy_htod_async(memory, reinterpret_cast<void*>(memory), 1, nullptr),
              CudaError::kInvalidValue);
  }
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaTest, ACallCanBeMadeToFail) {
  if (skipped_on_real_cuda(kNeedsFaults)) return;
  const CudaProcess process;
  const long before = process.fake.calls();
  Pointer memory = 0;
  process.fake.fail_function("cuMemAlloc", 2, 2);
  EXPECT_EQ(process->mem_alloc(&memory, 8), CudaError::kSuccess);
  Pointer none = 77;
  EXPECT_EQ(process->mem_alloc(&none, 8), CudaError::kOutOfMemory);
  EXPECT_EQ(none, 77U);
  EXPECT_EQ(process.fake.live().allocations, 1);
  process.fake.fail_at(2, 999);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kUnknown);
  EXPECT_EQ(process.fake.live().allocations, 1);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
  EXPECT_EQ(process.fake.calls(), before + 5);
}

TEST(FakeCudaTest, TheEnvironmentMakesCallsFail) {
  if (skipped_on_real_cuda(kNeedsFaults)) return;
  const CudaProcess process("FORKLIFT_FAKE_CUDA_FAIL=cuMemAlloc:2:2,cuCtxGetDevice:1:201");
  const Pointer memory = process.allocate(8);
  Pointer none = 0;
  EXPECT_EQ(process->mem_alloc(&none, 8), CudaError::kOutOfMemory);
  int device = 0;
  EXPECT_EQ(process->ctx_get_device(&device), CudaError::kInvalidContext);
  EXPECT_EQ(process->ctx_get_device(&device), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaTest, APoisonedContextFailsEachCall) {
  if (skipped_on_real_cuda("it poisons the context by hand")) return;
  const CudaProcess process;
  process.fake.poison(719);
  Pointer memory = 0;
  EXPECT_EQ(process->mem_alloc(&memory, 8), CudaError::kLaunchFailed);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kLaunchFailed);
  const char* name = nullptr;
  EXPECT_EQ(process->get_error_name(CudaError::kLaunchFailed, &name), CudaError::kSuccess);
  EXPECT_STREQ(name, "CUDA_ERROR_LAUNCH_FAILED");
  process.fake.poison(0);
}

TEST(FakeCudaTest, AForkedChildCannotUseIt) {
  const CudaProcess process;
  Child child([&] {
    const long before = process.fake.calls();
    int count = 0;
    EXPECT_EQ(process->device_get_count(&count), CudaError::kNotInitialized);
    EXPECT_EQ(process->init(0), CudaError::kNotInitialized);
    if (process.is_fake()) {
      EXPECT_EQ(process.fake.forked_calls(), 2);
    }
    EXPECT_EQ(process.fake.calls(), before);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(process.fake.forked_calls(), 0);
}

// Whatever the parent's threads held at the fork, the functions for tests work in the child.
TEST(FakeCudaTest, AForkedChildCanLookWhileItsParentsThreadsCall) {
  if (skipped_on_real_cuda("a forked child cannot look at its memory")) return;
  const CudaProcess process;
  const Pointer memory = process.allocate(64);
  std::atomic<bool> stop{false};
  std::thread caller([&] {
    EXPECT_EQ(process->ctx_set_current(process.context), CudaError::kSuccess);
    while (!stop) {
      EXPECT_EQ(process->memset_d8_async(memory, 'f', 64, nullptr), CudaError::kSuccess);
      EXPECT_EQ(process->stream_synchronize(nullptr), CudaError::kSuccess);
    }
  });
  for (int i = 0; i < 30; ++i) {
    Child child([&] {
      EXPECT_EQ(process.peek(memory, 64).size(), 64U);
      EXPECT_EQ(process.fake.live().allocations, 1);
    });
    EXPECT_EQ(child.wait(), 0);
  }
  stop = true;
  caller.join();
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaTest, FunctionsAreFoundByNameAndVersion) {
  if (skipped_on_real_cuda("it calls the fake driver's library by itself")) return;
  const FakeCuda fake = FakeCuda::load({"FORKLIFT_FAKE_CUDA_VERSION=11040"});
  auto* const ask =
      fake.symbol<CudaError(const char*, void**, int, std::uint64_t, int*)>("cuGetProcAddress_v2");
  void* address = nullptr;
  int status = -1;
  EXPECT_EQ(ask("cuMemAlloc", &address, 3020, 0, &status), CudaError::kSuccess);
  EXPECT_EQ(address, reinterpret_cast<void*>(fake.symbol<void()>("cuMemAlloc_v2")));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ask("cuMemCreate", &address, 10010, 0, &status), CudaError::kSuccess);
  EXPECT_EQ(address, nullptr);
  EXPECT_EQ(status, 2);  // CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
  EXPECT_EQ(ask("cuNoSuchFunction", &address, 11040, 0, &status), CudaError::kSuccess);
  EXPECT_EQ(status, 1);  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  EXPECT_EQ(ask("cuMemCreate", &address, 12000, 0, &status), CudaError::kInvalidValue);
  auto* const ask_old = fake.symbol<CudaError(const char*, void**, int, std::uint64_t)>("cuGetProcAddress");
  EXPECT_EQ(ask_old("cuMemCreate", &address, 10010, 0), CudaError::kNotFound);
  EXPECT_EQ(ask_old("cuMemCreate", &address, 10020, 0), CudaError::kSuccess);
}

}  // namespace
}  // namespace forklift::test
