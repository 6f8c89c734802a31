// The fake driver's page-locked host memory, and its modules and kernels.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "../../fake_cuda/kernel_table.h"
#include "device/cuda_fixture.h"
#include "support/child.h"

namespace forklift::test {
namespace {

using cuda::Function;
using cuda::Module;
using cuda::Pointer;
using cuda::Stream;

constexpr const char* kLazy = "FORKLIFT_FAKE_CUDA_LAZY=1";

TEST(FakeCudaHostTest, RegistrationsAreChecked) {
  const CudaProcess process;
  std::vector<char> memory(10'000);
  EXPECT_EQ(process->mem_host_register(nullptr, 8, 0), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_host_register(memory.data(), 0, 0), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_host_unregister(memory.data()), CudaError::kHostMemoryNotRegistered);
  EXPECT_EQ(process->mem_host_register(memory.data() + 1'000, 5'000, cuda::kHostRegisterDeviceMap),
            CudaError::kSuccess);
  if (process.is_fake()) {
    EXPECT_EQ(process.fake.live().host_bytes, 5'000);
  }
  // Any overlap counts.
  EXPECT_EQ(process->mem_host_register(memory.data(), 1'001, 0), CudaError::kHostMemoryAlreadyRegistered);
  EXPECT_EQ(process->mem_host_register(memory.data() + 5'999, 1, 0), CudaError::kHostMemoryAlreadyRegistered);
  EXPECT_EQ(process->mem_host_register(memory.data(), 10'000, 0), CudaError::kHostMemoryAlreadyRegistered);
  EXPECT_EQ(process->mem_host_register(memory.data() + 6'000, 100, 0), CudaError::kSuccess);
  Pointer there = 0;
  EXPECT_EQ(process->mem_host_get_device_pointer(&there, memory.data() + 1'500, 0), CudaError::kSuccess);
  EXPECT_EQ(there, reinterpret_cast<std::uintptr_t>(memory.data() + 1'500));
  // "will fail if the CU_MEMHOSTALLOC_DEVICEMAP flag was not specified": driver 580.159.04 does not.
  EXPECT_EQ(process->mem_host_get_device_pointer(&there, memory.data() + 6'000, 0), CudaError::kSuccess);
  EXPECT_EQ(process->mem_host_get_device_pointer(&there, memory.data(), 0), CudaError::kInvalidValue);
  unsigned type = 0;
  EXPECT_EQ(process->pointer_get_attribute(&type, cuda::PointerAttribute::kMemoryType,
                                           reinterpret_cast<std::uintptr_t>(memory.data() + 6'000)),
            CudaError::kSuccess);
  EXPECT_EQ(type, static_cast<unsigned>(cuda::MemoryType::kHost));
  EXPECT_EQ(process->mem_host_unregister(memory.data() + 1'001), CudaError::kInvalidValue) << "in the middle";
  EXPECT_EQ(process->mem_host_unregister(memory.data() + 1'000), CudaError::kSuccess);
  EXPECT_EQ(process->mem_host_unregister(memory.data() + 6'000), CudaError::kSuccess);
}

// Where the device cannot use the host's address, each of the two finds nothing at the other's.
TEST(FakeCudaHostTest, RegisteredMemoryCanHaveAnotherAddressForTheDevice) {
  if (skipped_on_real_cuda(kNeedsSettings)) return;
  const CudaProcess process("FORKLIFT_FAKE_CUDA_OFF=91");
  std::string memory(100, 'h');
  ASSERT_EQ(process->mem_host_register(memory.data(), memory.size(), cuda::kHostRegisterDeviceMap),
            CudaError::kSuccess);
  Pointer there = 0;
  ASSERT_EQ(process->mem_host_get_device_pointer(&there, memory.data() + 10, 0), CudaError::kSuccess);
  const Pointer here = reinterpret_cast<std::uintptr_t>(memory.data() + 10);
  EXPECT_NE(there, here);
  EXPECT_EQ(process->memset_d8_async(here, 'd', 5, nullptr), CudaError::kInvalidValue);
  EXPECT_EQ(process->memset_d8_async(there, 'd', 5, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(memory.substr(8, 8), "hhdddddh");
  EXPECT_EQ(process->mem_host_unregister(memory.data()), CudaError::kSuccess);
  EXPECT_EQ(process->memset_d8_async(there, 'd', 5, nullptr), CudaError::kInvalidValue);
}

TEST(FakeCudaHostTest, OnlyMappedMemoryCanBeRegistered) {
  const CudaProcess process;
  constexpr std::size_t kPages = 2 * 4096;
  void* const pages = ::mmap(nullptr, kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::mprotect(pages, kPages, PROT_READ), 0);
  EXPECT_EQ(process->mem_host_register(pages, kPages, 0), CudaError::kInvalidValue) << "read-only";
  EXPECT_EQ(process->mem_host_register(pages, kPages, 8), CudaError::kSuccess) << "asked for as read-only";
  EXPECT_EQ(process->mem_host_unregister(pages), CudaError::kSuccess);
  ASSERT_EQ(::munmap(static_cast<char*>(pages) + 4096, 4096), 0);
  EXPECT_EQ(process->mem_host_register(pages, kPages, 8), CudaError::kInvalidValue) << "half of it is gone";
  ASSERT_EQ(::munmap(pages, 4096), 0);
}

TEST(FakeCudaHostTest, HostAllocationsAreTheDriversOwn) {
  const CudaProcess process;
  void* memory = nullptr;
  ASSERT_EQ(process->mem_host_alloc(&memory, 100, 0), CudaError::kSuccess);
  std::memset(memory, 'h', 100);
  EXPECT_EQ(process->mem_host_unregister(memory), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_host_register(memory, 100, 0), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_free_host(static_cast<char*>(memory) + 1), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_free_host(memory), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free_host(memory), CudaError::kInvalidValue);
}

TEST(FakeCudaHostTest, PageableMemoryIsReadAtTheCallAndPinnedMemoryWhenTheWorkIsDone) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  const CudaProcess process(kLazy);
  std::string pageable = "before";
  std::string pinned = "before";
  ASSERT_EQ(process->mem_host_register(pinned.data(), pinned.size(), 0), CudaError::kSuccess);
  const Pointer memory = process.allocate(16);
  const Stream stream = process.stream();
  EXPECT_EQ(process->memcpy_htod_async(memory, pageable.data(), 6, stream), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_htod_async(memory + 8, pinned.data(), 6, stream), CudaError::kSuccess);
  pageable = "after!";
  std::memcpy(pinned.data(), "after!", 6);
  EXPECT_EQ(process->stream_synchronize(stream), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 6), "before");
  EXPECT_EQ(process.peek(memory + 8, 6), "after!");
  // To the host: pageable memory has it when the call returns, pinned memory only after a synchronisation.
  EXPECT_EQ(process->memset_d8_async(memory, 'd', 16, stream), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_dtoh_async(pinned.data(), memory, 6, stream), CudaError::kSuccess);
  EXPECT_EQ(pinned, "after!");
  EXPECT_EQ(process->stream_synchronize(stream), CudaError::kSuccess);
  EXPECT_EQ(pinned, "dddddd");
  EXPECT_EQ(process->memset_d8_async(memory, 'e', 16, stream), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_dtoh_async(pageable.data(), memory, 6, stream), CudaError::kSuccess);
  EXPECT_EQ(pageable, "eeeeee");
  EXPECT_EQ(process->mem_host_unregister(pinned.data()), CudaError::kSuccess);
  EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

// With driver 580.159.04 such a copy succeeded, be it that it waited or that the copy was faster. Forklift relies on neither.
TEST(FakeCudaHostTest, MemoryThatIsUnregisteredTooEarlyIsIllegal) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  CudaProcess process(kLazy);
  process.is_poisoned = true;
  std::string pinned = "gone";
  ASSERT_EQ(process->mem_host_register(pinned.data(), pinned.size(), 0), CudaError::kSuccess);
  const Pointer memory = process.allocate(16);
  EXPECT_EQ(process->memcpy_htod_async(memory, pinned.data(), 4, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->mem_host_unregister(pinned.data()), CudaError::kSuccess);
  EXPECT_EQ(process->stream_synchronize(nullptr), CudaError::kIllegalAddress);
}

// --- kernels

// parameters: address, count, value
void fill(void** parameters, const unsigned* grid, const unsigned* block, const FakeCudaLaunch* launch) {
  Pointer address = 0;
  unsigned count = 0;
  int value = 0;
  std::memcpy(&address, parameters[0], sizeof address);
  std::memcpy(&count, parameters[1], sizeof count);
  std::memcpy(&value, parameters[2], sizeof value);
  EXPECT_GE(grid[0] * block[0], count);
  auto* const to = static_cast<int*>(launch->memory(launch, address, count * sizeof(int)));
  for (unsigned i = 0; to != nullptr && i < count; ++i) to[i] = value;
}

// parameter: the gate's address
void wait_at_a_gate(void** parameters, const unsigned*, const unsigned*, const FakeCudaLaunch*) {
  Gate* gate = nullptr;
  std::memcpy(&gate, parameters[0], sizeof gate);
  EXPECT_TRUE(gate->wait());
}

// parameters: address of an int, where it goes
void read_one(void** parameters, const unsigned*, const unsigned*, const FakeCudaLaunch* launch) {
  Pointer from = 0;
  Pointer to = 0;
  std::memcpy(&from, parameters[0], sizeof from);
  std::memcpy(&to, parameters[1], sizeof to);
  const void* const input = launch->input(launch, from, sizeof(int));
  void* const output = launch->memory(launch, to, sizeof(int));
  if (input != nullptr && output != nullptr) std::memcpy(output, input, sizeof(int));
}

constexpr std::size_t kFillSizes[] = {sizeof(Pointer), sizeof(unsigned), sizeof(int)};
constexpr std::size_t kWaitSizes[] = {sizeof(Gate*)};
constexpr std::size_t kReadSizes[] = {sizeof(Pointer), sizeof(Pointer)};
constexpr FakeCudaFunction kFunctions[] = {{"fill", fill, 3, kFillSizes},
                                           {"wait", wait_at_a_gate, 1, kWaitSizes},
                                           {"read", read_one, 2, kReadSizes}};
constexpr FakeCudaImage kImage = {FAKE_CUDA_MAGIC, 3, kFunctions};

class FakeCudaKernelTest : public testing::Test {
 protected:
  void SetUp() override { skipped_on_real_cuda("its kernels are functions of the host"); }
};

class Kernels {
 public:
  explicit Kernels(const CudaProcess& process) : process_(process) {
    EXPECT_EQ(process->module_load_data(&module_, &kImage), CudaError::kSuccess);
    EXPECT_EQ(process->module_get_function(&fill_, module_, "fill"), CudaError::kSuccess);
    EXPECT_EQ(process->module_get_function(&wait_, module_, "wait"), CudaError::kSuccess);
  }
  ~Kernels() { EXPECT_EQ(process_->module_unload(module_), CudaError::kSuccess); }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  CudaError launch_fill(Pointer memory, unsigned count, int value, Stream stream) const {
    void* parameters[] = {&memory, &count, &value};
    return process_->launch_kernel(fill_, (count + 31) / 32, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr);
  }
  CudaError launch_wait(Gate& gate, Stream stream) const {
    Gate* address = &gate;
    void* parameters[] = {&address};
    return process_->launch_kernel(wait_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  }
  Module module() const { return module_; }
  Function function() const { return fill_; }

 private:
  const CudaProcess& process_;
  Module module_ = nullptr;
  Function fill_ = nullptr;
  Function wait_ = nullptr;
};

std::string ints(int value, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

TEST_F(FakeCudaKernelTest, AKernelRunsInItsStreamWithTheParametersOfTheLaunch) {
  const CudaProcess process(kLazy);
  const Kernels kernels(process);
  const Pointer memory = process.allocate(100 * sizeof(int));
  const Stream stream = process.stream();
  EXPECT_EQ(kernels.launch_fill(memory, 100, 7, stream), CudaError::kSuccess);
  EXPECT_EQ(kernels.launch_fill(memory, 50, 8, stream), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, sizeof(int)), ints(0, 1));
  EXPECT_EQ(process->stream_synchronize(stream), CudaError::kSuccess);
  EXPECT_TRUE(process.peek(memory, 100 * sizeof(int)) == ints(8, 50) + ints(7, 50));
  EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST_F(FakeCudaKernelTest, AKernelReachesVirtualAndPinnedMemory) {
  const CudaProcess process;
  const Kernels kernels(process);
  const MappedMemory memory(process, kGranule);
  void* pinned = nullptr;
  ASSERT_EQ(process->mem_host_alloc(&pinned, 64, cuda::kHostRegisterDeviceMap), CudaError::kSuccess);
  EXPECT_EQ(kernels.launch_fill(memory.address() + 400, 3, 5, nullptr), CudaError::kSuccess);
  EXPECT_EQ(kernels.launch_fill(reinterpret_cast<std::uintptr_t>(pinned), 16, 6, nullptr),
            CudaError::kSuccess);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory.address() + 400, 12), ints(5, 3));
  EXPECT_EQ(std::memcmp(pinned, ints(6, 16).data(), 64), 0);
  EXPECT_EQ(process->mem_free_host(pinned), CudaError::kSuccess);
}

TEST_F(FakeCudaKernelTest, AKernelMayReadWhatIsMappedReadOnly) {
  CudaProcess process;
  const Kernels kernels(process);
  const Pointer plain = process.allocate(sizeof(int));
  {
    const MappedMemory memory(process, kGranule);
    EXPECT_EQ(kernels.launch_fill(memory.address(), 1, 9, nullptr), CudaError::kSuccess);
    EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
    cuda::AccessDescription read_only;
    read_only.flags = 1;
    EXPECT_EQ(process->mem_set_access(memory.address(), kGranule, &read_only, 1), CudaError::kSuccess);
    Function read = nullptr;
    EXPECT_EQ(process->module_get_function(&read, kernels.module(), "read"), CudaError::kSuccess);
    Pointer from = memory.address();
    Pointer to = plain;
    void* parameters[] = {&from, &to};
    EXPECT_EQ(process->launch_kernel(read, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr),
              CudaError::kSuccess);
    EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
    EXPECT_EQ(process.peek(plain, sizeof(int)), ints(9, 1));
  }
  EXPECT_EQ(process->mem_free(plain), CudaError::kSuccess);
}

// A copy or a memset is refused at the call (fake_cuda_virtual_test.cpp); of a kernel the driver knows no addresses.
TEST_F(FakeCudaKernelTest, AKernelReachesNoMappingWithoutAccess) {
  CudaProcess process;
  process.is_poisoned = true;
  Module module = nullptr;
  Function function = nullptr;
  ASSERT_EQ(process->module_load_data(&module, &kImage), CudaError::kSuccess);
  ASSERT_EQ(process->module_get_function(&function, module, "fill"), CudaError::kSuccess);
  const cuda::AllocationProperties properties = CudaProcess::properties();
  cuda::Allocation handle = 0;
  Pointer address = 0;
  ASSERT_EQ(process->mem_create(&handle, kGranule, &properties, 0), CudaError::kSuccess);
  ASSERT_EQ(process->mem_address_reserve(&address, kGranule, 0, 0, 0), CudaError::kSuccess);
  ASSERT_EQ(process->mem_map(address, kGranule, 0, handle, 0), CudaError::kSuccess);
  unsigned count = 1;
  int value = 1;
  void* parameters[] = {&address, &count, &value};
  EXPECT_EQ(process->launch_kernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr),
            CudaError::kSuccess);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kIllegalAddress);
  EXPECT_EQ(process->mem_unmap(address, kGranule), CudaError::kIllegalAddress);
}

TEST_F(FakeCudaKernelTest, AnIllegalAddressPoisonsTheContext) {
  CudaProcess process;
  process.is_poisoned = true;
  const Pointer memory = process.allocate(64);
  Module module = nullptr;
  Function function = nullptr;
  ASSERT_EQ(process->module_load_data(&module, &kImage), CudaError::kSuccess);
  ASSERT_EQ(process->module_get_function(&function, module, "fill"), CudaError::kSuccess);
  Pointer beyond = memory + 64;
  unsigned count = 1;
  int value = 1;
  void* parameters[] = {&beyond, &count, &value};
  EXPECT_EQ(process->launch_kernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr),
            CudaError::kSuccess);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kIllegalAddress);
  EXPECT_EQ(process->mem_free(memory), CudaError::kIllegalAddress);
}

TEST_F(FakeCudaKernelTest, ImagesNamesAndSizesAreChecked) {
  const CudaProcess process;
  const Kernels kernels(process);
  Module module = nullptr;
  EXPECT_EQ(process->module_load_data(&module, "something else"), static_cast<CudaError>(200));
  Function function = nullptr;
  EXPECT_EQ(process->module_get_function(&function, kernels.module(), "no such kernel"),
            CudaError::kNotFound);
  EXPECT_EQ(process->module_get_function(&function, nullptr, "fill"), CudaError::kInvalidHandle);
  void* parameters[] = {nullptr, nullptr, nullptr};
  const auto launch = [&](unsigned grid, unsigned block, unsigned depth) {
    return process->launch_kernel(kernels.function(), grid, 1, 1, block, 1, depth, 0, nullptr, parameters,
                                  nullptr);
  };
  EXPECT_EQ(launch(0, 1, 1), CudaError::kInvalidValue);
  EXPECT_EQ(launch(1, 1024, 2), CudaError::kInvalidValue);
  ASSERT_EQ(process->module_load_data(&module, &kImage), CudaError::kSuccess);
  ASSERT_EQ(process->module_get_function(&function, module, "fill"), CudaError::kSuccess);
  EXPECT_EQ(process->module_unload(module), CudaError::kSuccess);
  EXPECT_EQ(process->module_unload(module), CudaError::kInvalidHandle);
  EXPECT_EQ(process->launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr),
            CudaError::kInvalidHandle);
}

// While a kernel runs the process is free to call the driver, and other streams go on.
TEST_F(FakeCudaKernelTest, AKernelThatRunsHoldsUpItsOwnStreamOnly) {
  Gate may_end;
  const CudaProcess process;
  const Kernels kernels(process);
  const Pointer memory = process.allocate(8);
  const Stream busy = process.stream();
  const Stream other = process.stream();
  EXPECT_EQ(kernels.launch_wait(may_end, busy), CudaError::kSuccess);
  EXPECT_EQ(process->memset_d8_async(memory, 'o', 4, other), CudaError::kSuccess);
  EXPECT_EQ(process->stream_synchronize(other), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 4), "oooo");
  EXPECT_EQ(process->stream_query(busy), CudaError::kNotReady);
  may_end.open();
  EXPECT_EQ(process->stream_synchronize(busy), CudaError::kSuccess);
  EXPECT_EQ(process->stream_destroy(busy), CudaError::kSuccess);
  EXPECT_EQ(process->stream_destroy(other), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

}  // namespace
}  // namespace forklift::test
