// The fake driver with several devices: whose memory which device may reach, here and in another process.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "../../fake_cuda/kernel_table.h"
#include "device/cuda_fixture.h"
#include "device/wire.h"
#include "support/child.h"

namespace forklift::test {
namespace {

using cuda::Context;
using cuda::Pointer;

constexpr const char* kTwo = "FORKLIFT_FAKE_CUDA_DEVICES=2";
constexpr const char* kNoPeer = "FORKLIFT_FAKE_CUDA_NO_PEER=1";

// The context of device 1, current while this lives.
class SecondDevice {
 public:
  explicit SecondDevice(const CudaProcess& process) : process_(process) {
    EXPECT_EQ(process->device_primary_ctx_retain(&context, 1), CudaError::kSuccess);
    EXPECT_EQ(process->ctx_push_current(context), CudaError::kSuccess);
  }
  ~SecondDevice() {
    Context popped = nullptr;
    EXPECT_EQ(process_->ctx_pop_current(&popped), CudaError::kSuccess);
    EXPECT_EQ(process_->device_primary_ctx_release(1), CudaError::kSuccess);
  }
  SecondDevice(const SecondDevice&) = delete;
  SecondDevice& operator=(const SecondDevice&) = delete;

  Context context = nullptr;

 private:
  const CudaProcess& process_;
};

class FakeCudaPeersTest : public testing::Test {
 protected:
  void SetUp() override {
    skipped_on_real_cuda("it needs two devices, peers or not as the environment says");
  }
};

// Writes 'k' to the address that is its parameter.
void touch(void** parameters, const unsigned*, const unsigned*, const FakeCudaLaunch* launch) {
  Pointer address = 0;
  std::memcpy(&address, parameters[0], sizeof address);
  if (void* const there = launch->memory(launch, address, 1)) *static_cast<char*>(there) = 'k';
}
constexpr std::size_t kSizes[] = {sizeof(Pointer)};
constexpr FakeCudaFunction kFunctions[] = {{"touch", touch, 1, kSizes}};
constexpr FakeCudaImage kImage = {FAKE_CUDA_MAGIC, 1, kFunctions};

// Launches it in the current context, and synchronises.
CudaError run_touch(const CudaProcess& process, Pointer address) {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  EXPECT_EQ(process->module_load_data(&module, &kImage), CudaError::kSuccess);
  EXPECT_EQ(process->module_get_function(&function, module, "touch"), CudaError::kSuccess);
  void* parameters[] = {&address};
  EXPECT_EQ(process->launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr),
            CudaError::kSuccess);
  const CudaError error = process->ctx_synchronize();
  if (error == CudaError::kSuccess) {
    EXPECT_EQ(process->module_unload(module), CudaError::kSuccess);
  }
  return error;
}

TEST_F(FakeCudaPeersTest, CopiesGoBetweenDevicesThatAreNoPeers) {
  const CudaProcess process(kTwo, kNoPeer);
  const Pointer here = process.allocate(8);
  const SecondDevice second(process);
  const Pointer there = process.allocate(8);
  int device = -1;
  EXPECT_EQ(process->pointer_get_attribute(&device, cuda::PointerAttribute::kDeviceOrdinal, there),
            CudaError::kSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(process->memset_d8_async(there, 't', 8, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_dtod_async(here, there, 8, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(process.peek(here, 8), "tttttttt");
  EXPECT_EQ(process->mem_free(here), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(there), CudaError::kSuccess);
}

TEST_F(FakeCudaPeersTest, AKernelReachesAPeersMemoryOnceThatIsEnabled) {
  const CudaProcess process(kTwo);
  const Pointer here = process.allocate(8);
  const SecondDevice second(process);
  EXPECT_EQ(process->ctx_enable_peer_access(process.context, 0), CudaError::kSuccess);
  EXPECT_EQ(process->ctx_enable_peer_access(process.context, 0), CudaError::kPeerAccessAlreadyEnabled);
  EXPECT_EQ(process->ctx_enable_peer_access(second.context, 0), CudaError::kInvalidDevice) << "itself";
  EXPECT_EQ(process->ctx_enable_peer_access(nullptr, 0), CudaError::kInvalidContext);
  EXPECT_EQ(run_touch(process, here), CudaError::kSuccess);
  EXPECT_EQ(process.peek(here, 1), "k");
  EXPECT_EQ(process->mem_free(here), CudaError::kSuccess);
}

TEST_F(FakeCudaPeersTest, AKernelDoesNotReachAnotherDevicesMemoryOtherwise) {
  CudaProcess process(kTwo);
  process.is_poisoned = true;
  const Pointer here = process.allocate(8);
  Context second = nullptr;
  ASSERT_EQ(process->device_primary_ctx_retain(&second, 1), CudaError::kSuccess);
  ASSERT_EQ(process->ctx_set_current(second), CudaError::kSuccess);
  EXPECT_EQ(run_touch(process, here), CudaError::kIllegalAddress);
}

TEST_F(FakeCudaPeersTest, DevicesThatCannotBePeersAreRefused) {
  const CudaProcess process(kTwo, kNoPeer);
  int can = -1;
  EXPECT_EQ(process->device_can_access_peer(&can, 0, 1), CudaError::kSuccess);
  EXPECT_EQ(can, 0);
  const MappedMemory memory(process, kGranule);
  cuda::AccessDescription access;
  access.location.id = 1;
  EXPECT_EQ(process->mem_set_access(memory.address(), kGranule, &access, 1), CudaError::kInvalidDevice);
  const SecondDevice second(process);
  EXPECT_EQ(process->ctx_enable_peer_access(process.context, 0), CudaError::kPeerAccessUnsupported);
}

TEST_F(FakeCudaPeersTest, VirtualMemoryGivesAccessToEachDeviceByItself) {
  CudaProcess process(kTwo);
  process.is_poisoned = true;
  const cuda::AllocationProperties properties = CudaProcess::properties();
  cuda::Allocation handle = 0;
  Pointer address = 0;
  ASSERT_EQ(process->mem_create(&handle, kGranule, &properties, 0), CudaError::kSuccess);
  ASSERT_EQ(process->mem_address_reserve(&address, kGranule, 0, 0, 0), CudaError::kSuccess);
  ASSERT_EQ(process->mem_map(address, kGranule, 0, handle, 0), CudaError::kSuccess);
  cuda::AccessDescription access;
  access.location.id = 1;
  ASSERT_EQ(process->mem_set_access(address, kGranule, &access, 1), CudaError::kSuccess);
  Context second = nullptr;
  ASSERT_EQ(process->device_primary_ctx_retain(&second, 1), CudaError::kSuccess);
  ASSERT_EQ(process->ctx_push_current(second), CudaError::kSuccess);
  EXPECT_EQ(run_touch(process, address), CudaError::kSuccess);
  EXPECT_EQ(process.peek(address, 1), "k");
  Context popped = nullptr;
  ASSERT_EQ(process->ctx_pop_current(&popped), CudaError::kSuccess);
  // The device whose memory it is has no access: nobody has set it.
  EXPECT_EQ(run_touch(process, address), CudaError::kIllegalAddress);
}

// The other process sees only device 1, as its device 0; it opens memory of device 0, which is not visible to it.
TEST_F(FakeCudaPeersTest, AHandleCanBeOpenedWhereItsDeviceIsNotVisible) {
  FakeCuda::set_environment({kTwo});
  Wire wire;
  Child child([&] {
    FakeCuda::set_environment({"CUDA_VISIBLE_DEVICES=1"});
    Wire::End end = wire.child();
    const CudaProcess process;
    Pointer memory = 0;
    const auto handle = end.receive<cuda::IpcMemoryHandle>();
    EXPECT_EQ(process->ipc_open_mem_handle(&memory, handle, cuda::kIpcLazyPeerAccess), CudaError::kSuccess);
    EXPECT_EQ(run_touch(process, memory), CudaError::kSuccess);
    EXPECT_EQ(process->ipc_close_mem_handle(memory), CudaError::kSuccess);
    // Virtual memory of such a device cannot be mapped.
    EXPECT_EQ(end.receive<char>(), 'v');
    const os::Fd file = end.take_file();
    cuda::Allocation imported = 0;
    EXPECT_EQ(process->mem_import_from_shareable_handle(
                  &imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(file.get())),
                  cuda::HandleType::kFileDescriptor),
              CudaError::kInvalidValue);
  });
  Wire::End end = wire.parent();
  const CudaProcess process;
  const Pointer memory = process.allocate(8);
  cuda::IpcMemoryHandle handle{};
  EXPECT_EQ(process->ipc_get_mem_handle(&handle, memory), CudaError::kSuccess);
  end.send(handle);
  {
    const MappedMemory virtual_memory(process, kGranule);
    const os::Fd exported(virtual_memory.export_descriptor());
    const int files[] = {exported.get()};
    end.send('v', files);
  }
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(process.peek(memory, 1), "k");
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST_F(FakeCudaPeersTest, AHandleOfADeviceThatIsNoPeerIsRefused) {
  FakeCuda::set_environment({kTwo, kNoPeer});
  Wire wire;
  Child child([&] {
    Wire::End end = wire.child();
    const CudaProcess process;
    const auto handle = end.receive<cuda::IpcMemoryHandle>();
    Pointer memory = 0;
    {
      const SecondDevice second(process);
      EXPECT_EQ(process->ipc_open_mem_handle(&memory, handle, cuda::kIpcLazyPeerAccess),
                CudaError::kPeerAccessUnsupported);
    }
    EXPECT_EQ(process->ipc_open_mem_handle(&memory, handle, cuda::kIpcLazyPeerAccess), CudaError::kSuccess);
    EXPECT_EQ(process->ipc_close_mem_handle(memory), CudaError::kSuccess);
  });
  Wire::End end = wire.parent();
  const CudaProcess process;
  const Pointer memory = process.allocate(8);
  cuda::IpcMemoryHandle handle{};
  EXPECT_EQ(process->ipc_get_mem_handle(&handle, memory), CudaError::kSuccess);
  end.send(handle);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

}  // namespace
}  // namespace forklift::test
