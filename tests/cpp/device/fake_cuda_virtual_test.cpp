// The fake driver's virtual memory: cuMemCreate, descriptors, reservations, mappings, access.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "device/cuda_fixture.h"
#include "device/wire.h"
#include "support/child.h"

namespace forklift::test {
namespace {

using cuda::AccessDescription;
using cuda::Allocation;
using cuda::AllocationProperties;
using cuda::HandleType;
using cuda::Pointer;

Allocation create(const CudaProcess& process, std::size_t bytes) {
  Allocation handle = 0;
  const AllocationProperties properties = CudaProcess::properties();
  EXPECT_EQ(process->mem_create(&handle, bytes, &properties, 0), CudaError::kSuccess);
  return handle;
}

Pointer reserve(const CudaProcess& process, std::size_t bytes) {
  Pointer address = 0;
  EXPECT_EQ(process->mem_address_reserve(&address, bytes, 0, 0, 0), CudaError::kSuccess);
  return address;
}

TEST(FakeCudaVirtualTest, SizesAreMultiplesOfTheGranularity) {
  const CudaProcess process;
  AllocationProperties properties = CudaProcess::properties();
  std::size_t granularity = 0;
  EXPECT_EQ(process->mem_get_allocation_granularity(&granularity, &properties, cuda::Granularity::kMinimum),
            CudaError::kSuccess);
  EXPECT_EQ(granularity, kGranule);
  Allocation handle = 0;
  EXPECT_EQ(process->mem_create(&handle, kGranule + 4096, &properties, 0), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_create(&handle, 0, &properties, 0), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_create(&handle, kGranule, &properties, 1), CudaError::kInvalidValue);
  properties.location.id = 1;
  EXPECT_EQ(process->mem_create(&handle, kGranule, &properties, 0), CudaError::kInvalidDevice);
  Pointer address = 0;
  EXPECT_EQ(process->mem_address_reserve(&address, 100, 0, 0, 0), CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_address_reserve(&address, kGranule, 3, 0, 0), CudaError::kInvalidValue);
  constexpr std::size_t kAlignment = std::size_t{1} << 30;
  ASSERT_EQ(process->mem_address_reserve(&address, kGranule, kAlignment, 0, 0), CudaError::kSuccess);
  EXPECT_EQ(address % kAlignment, 0U);
  EXPECT_EQ(process->mem_address_free(address, kGranule), CudaError::kSuccess);
}

TEST(FakeCudaVirtualTest, AMappingIsRefusedWhereItDoesNotFit) {
  const CudaProcess process;
  const Allocation handle = create(process, 2 * kGranule);
  const Pointer address = reserve(process, 4 * kGranule);
  EXPECT_EQ(process->mem_map(address, kGranule, kGranule, handle, 0), CudaError::kNotSupported) << "offset";
  EXPECT_EQ(process->mem_map(address, 3 * kGranule, 0, handle, 0), CudaError::kNotSupported) << "size";
  EXPECT_EQ(process->mem_map(address + 4096, kGranule, 0, handle, 0), CudaError::kNotSupported) << "address";
  // A real driver maps behind the reservation's end.
  if (process.is_fake()) {
    EXPECT_EQ(process->mem_map(address + 3 * kGranule, 2 * kGranule, 0, handle, 0), CudaError::kInvalidValue)
        << "end";
  }
  EXPECT_EQ(process->mem_map(address, kGranule, 0, handle + 1, 0), CudaError::kInvalidValue) << "handle";
  EXPECT_EQ(process->mem_map(address, 2 * kGranule, 0, handle, 0), CudaError::kSuccess);
  EXPECT_EQ(process->mem_map(address + kGranule, 2 * kGranule, 0, handle, 0), CudaError::kInvalidValue)
      << "taken";
  if (process.is_fake()) {
    EXPECT_EQ(process.fake.live().mappings, 1);
  }

  EXPECT_EQ(process->mem_unmap(address, kGranule), CudaError::kInvalidValue) << "a part of a mapping";
  // A real driver has nothing to unmap, and succeeds.
  if (process.is_fake()) {
    EXPECT_EQ(process->mem_unmap(address + 2 * kGranule, kGranule), CudaError::kInvalidValue) << "not mapped";
  }
  EXPECT_EQ(process->mem_address_free(address, 4 * kGranule), CudaError::kInvalidValue) << "still mapped";
  EXPECT_EQ(process->mem_unmap(address, 2 * kGranule), CudaError::kSuccess);
  EXPECT_EQ(process->mem_address_free(address, 2 * kGranule), CudaError::kInvalidValue) << "another size";
  EXPECT_EQ(process->mem_address_free(address, 4 * kGranule), CudaError::kSuccess);
  EXPECT_EQ(process->mem_release(handle), CudaError::kSuccess);
  EXPECT_EQ(process->mem_release(handle), CudaError::kInvalidValue) << "twice";
}

TEST(FakeCudaVirtualTest, TheMemoryStaysUntilItIsUnmapped) {
  const CudaProcess process;
  const Allocation handle = create(process, kGranule);
  const Pointer address = reserve(process, kGranule);
  const AccessDescription access;
  ASSERT_EQ(process->mem_map(address, kGranule, 0, handle, 0), CudaError::kSuccess);
  ASSERT_EQ(process->mem_set_access(address, kGranule, &access, 1), CudaError::kSuccess);
  EXPECT_EQ(process->mem_release(handle), CudaError::kSuccess);
  if (process.is_fake()) {
    EXPECT_EQ(process.fake.live().handles, 0);
  }
  EXPECT_EQ(process->memset_d8_async(address, 'x', kGranule, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(process.peek(address + kGranule - 2, 2), "xx");
  // The handle can be had back from the address, under its value.
  Allocation again = 0;
  EXPECT_EQ(process->mem_retain_allocation_handle(&again, reinterpret_cast<void*>(address + 77)),
            CudaError::kSuccess);
  EXPECT_EQ(again, handle);
  AllocationProperties properties;
  EXPECT_EQ(process->mem_get_allocation_properties(&properties, again), CudaError::kSuccess);
  EXPECT_EQ(properties.handle_types, HandleType::kFileDescriptor);
  EXPECT_EQ(process->mem_release(again), CudaError::kSuccess);
  EXPECT_EQ(process->mem_unmap(address, kGranule), CudaError::kSuccess);
  if (process.is_fake()) {
    EXPECT_EQ(process.fake.live().physical, 0);
  }
  EXPECT_EQ(process->mem_retain_allocation_handle(&again, reinterpret_cast<void*>(address)),
            CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_address_free(address, kGranule), CudaError::kSuccess);
  // cuMemAlloc's memory has no handle.
  const Pointer plain = process.allocate(8);
  EXPECT_EQ(process->mem_retain_allocation_handle(&again, reinterpret_cast<void*>(plain)),
            CudaError::kInvalidValue);
  EXPECT_EQ(process->mem_free(plain), CudaError::kSuccess);
}

TEST(FakeCudaVirtualTest, NeighbouringMappingsAreOneRangeForTheDevice) {
  const CudaProcess process;
  const Allocation first = create(process, kGranule);
  const Allocation second = create(process, kGranule);
  const Pointer address = reserve(process, 2 * kGranule);
  const AccessDescription access;
  ASSERT_EQ(process->mem_map(address, kGranule, 0, first, 0), CudaError::kSuccess);
  EXPECT_EQ(process->mem_set_access(address, 2 * kGranule, &access, 1), CudaError::kInvalidValue) << "a hole";
  ASSERT_EQ(process->mem_map(address + kGranule, kGranule, 0, second, 0), CudaError::kSuccess);
  EXPECT_EQ(process->mem_set_access(address, 2 * kGranule, &access, 1), CudaError::kSuccess);
  // An address's range is one mapping for cuMemGetAddressRange, and the reservation for the attributes.
  Pointer base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(process->mem_get_address_range(&base, &bytes, address + kGranule + 5), CudaError::kSuccess);
  EXPECT_EQ(base, address + kGranule);
  EXPECT_EQ(bytes, kGranule);
  EXPECT_EQ(
      process->pointer_get_attribute(&base, cuda::PointerAttribute::kRangeStart, address + kGranule + 5),
      CudaError::kSuccess);
  EXPECT_EQ(base, address);
  EXPECT_EQ(
      process->pointer_get_attribute(&bytes, cuda::PointerAttribute::kRangeSize, address + kGranule + 5),
      CudaError::kSuccess);
  EXPECT_EQ(bytes, 2 * kGranule);
  const std::string words = "over the border";
  EXPECT_EQ(process->memcpy_htod_async(address + kGranule - 8, words.data(), words.size(), nullptr),
            CudaError::kSuccess);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(process.peek(address + kGranule - 8, words.size()), words);
  EXPECT_EQ(process->mem_unmap(address, 2 * kGranule), CudaError::kSuccess);
  EXPECT_EQ(process->mem_address_free(address, 2 * kGranule), CudaError::kSuccess);
  EXPECT_EQ(process->mem_release(first), CudaError::kSuccess);
  EXPECT_EQ(process->mem_release(second), CudaError::kSuccess);
}

void give_back(const CudaProcess& process, Pointer address, Allocation handle) {
  EXPECT_EQ(process->mem_unmap(address, kGranule), CudaError::kSuccess);
  EXPECT_EQ(process->mem_address_free(address, kGranule), CudaError::kSuccess);
  EXPECT_EQ(process->mem_release(handle), CudaError::kSuccess);
}

// By a kernel it is an illegal address: AKernelReachesNoMappingWithoutAccess (fake_cuda_host_test.cpp).
TEST(FakeCudaVirtualTest, AMappingWithoutAccessIsRefusedAtTheCall) {
  const CudaProcess process;
  const Allocation handle = create(process, kGranule);
  const Pointer address = reserve(process, kGranule);
  ASSERT_EQ(process->mem_map(address, kGranule, 0, handle, 0), CudaError::kSuccess);
  EXPECT_EQ(process->memset_d8_async(address, 0, 8, nullptr), CudaError::kInvalidValue);
  if (process.is_fake()) {  // not tried on a real driver
    char host = '?';
    EXPECT_EQ(process->memcpy_dtoh_async(&host, address, 1, nullptr), CudaError::kInvalidValue);
    EXPECT_EQ(process->memcpy_htod_async(address, &host, 1, nullptr), CudaError::kInvalidValue);
    EXPECT_EQ(process->memcpy_dtod_async(address, address + 8, 1, nullptr), CudaError::kInvalidValue);
  }
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess) << "nothing is poisoned";
  give_back(process, address, handle);
}

TEST(FakeCudaVirtualTest, ReadOnlyAccessRefusesWrites) {
  const CudaProcess process;
  const Allocation handle = create(process, kGranule);
  const Pointer address = reserve(process, kGranule);
  AccessDescription access;
  access.flags = 1;
  ASSERT_EQ(process->mem_map(address, kGranule, 0, handle, 0), CudaError::kSuccess);
  ASSERT_EQ(process->mem_set_access(address, kGranule, &access, 1), CudaError::kSuccess);
  char read = '?';
  EXPECT_EQ(process->memcpy_dtoh_async(&read, address, 1, nullptr), CudaError::kSuccess);
  EXPECT_EQ(read, '\0');
  EXPECT_EQ(process->memset_d8_async(address, 1, 1, nullptr), CudaError::kInvalidValue);
  EXPECT_EQ(process->stream_synchronize(nullptr), CudaError::kSuccess) << "nothing is poisoned";
  give_back(process, address, handle);
}

TEST(FakeCudaVirtualTest, WorkThatComesAfterTheUnmappingIsIllegal) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  CudaProcess process("FORKLIFT_FAKE_CUDA_LAZY=1");
  process.is_poisoned = true;
  const Allocation handle = create(process, kGranule);
  const Pointer address = reserve(process, kGranule);
  const AccessDescription access;
  ASSERT_EQ(process->mem_map(address, kGranule, 0, handle, 0), CudaError::kSuccess);
  ASSERT_EQ(process->mem_set_access(address, kGranule, &access, 1), CudaError::kSuccess);
  EXPECT_EQ(process->memset_d8_async(address, 1, 1, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->mem_unmap(address, kGranule), CudaError::kSuccess);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kLaunchFailed);
  Pointer memory = 0;
  EXPECT_EQ(process->mem_alloc(&memory, 8), CudaError::kLaunchFailed) << "the context is poisoned";
}

TEST(FakeCudaVirtualTest, OnlyWhatMayBeExportedIs) {
  const CudaProcess process;
  AllocationProperties properties = CudaProcess::properties();
  properties.handle_types = HandleType::kNone;
  Allocation handle = 0;
  ASSERT_EQ(process->mem_create(&handle, kGranule, &properties, 0), CudaError::kSuccess);
  int fd = -1;
  EXPECT_EQ(process->mem_export_to_shareable_handle(&fd, handle, HandleType::kFileDescriptor, 0),
            CudaError::kInvalidValue);
  EXPECT_EQ(fd, -1);
  EXPECT_EQ(process->mem_release(handle), CudaError::kSuccess);
  const os::Fd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const int number : {other.get(), 999}) {
    EXPECT_EQ(process->mem_import_from_shareable_handle(
                  &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(number)),
                  HandleType::kFileDescriptor),
              CudaError::kUnknown);
  }
}

TEST(FakeCudaVirtualTest, AnImportIsAnotherHandleOnTheSameMemory) {
  const CudaProcess process;
  const MappedMemory made(process, kGranule);
  const os::Fd exported(made.export_descriptor());
  const MappedMemory imported(process, kGranule, exported.get());
  EXPECT_NE(imported.handle(), made.handle());
  EXPECT_NE(imported.address(), made.address());
  EXPECT_EQ(process->memset_d8_async(made.address(), 'm', 4, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(process.peek(imported.address(), 4), "mmmm");
  if (!process.is_fake()) return;
  EXPECT_EQ(process.fake.live().handles, 2);
  EXPECT_EQ(process.fake.live().physical, 1);
}

// The memory goes from a child to here through a socket, and outlives the child's death.
TEST(FakeCudaVirtualTest, MemoryOutlivesTheProcessThatMadeIt) {
  FakeCuda::set_environment({"FORKLIFT_FAKE_CUDA_BYTES=4194304"});
  Wire wire;
  Child child([&] {
    Wire::End end = wire.child();
    const CudaProcess process;
    const MappedMemory memory(process, kGranule);
    EXPECT_EQ(process->memset_d8_async(memory.address(), 'c', kGranule, nullptr), CudaError::kSuccess);
    EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
    const os::Fd exported(memory.export_descriptor());
    const int files[] = {exported.get()};
    end.send(kGranule, files);
    end.wait();  // until it is killed
  });
  Wire::End end = wire.parent();
  const CudaProcess process;
  ASSERT_EQ(end.receive<std::size_t>(), kGranule);
  std::size_t free = 0;
  std::size_t total = 0;
  {
    os::Fd received = end.take_file();
    const MappedMemory memory(process, kGranule, received.get());
    received.close();
    EXPECT_EQ(process.peek(memory.address() + 100, 3), "ccc");
    EXPECT_EQ(process->memset_d8_async(memory.address(), 'p', 1, nullptr), CudaError::kSuccess);
    child.kill_now();
    EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
    EXPECT_EQ(process.peek(memory.address(), 3), "pcc");
    EXPECT_EQ(process->mem_get_info(&free, &total), CudaError::kSuccess);
    if (process.is_fake()) {
      EXPECT_EQ(free, kGranule);
    }
  }
  EXPECT_EQ(process->mem_get_info(&free, &total), CudaError::kSuccess);
  if (process.is_fake()) {
    EXPECT_EQ(free, 2 * kGranule);
  }
}

TEST(FakeCudaVirtualTest, AKilledProcessLeavesNoDeviceMemory) {
  if (skipped_on_real_cuda(kNeedsSettings)) return;
  FakeCuda::set_environment({"FORKLIFT_FAKE_CUDA_BYTES=4194304"});
  Wire wire;
  Child child([&] {
    Wire::End end = wire.child();
    const CudaProcess process;
    const MappedMemory memory(process, kGranule);
    process.allocate(kGranule);
    end.signal();
    end.wait();
  });
  Wire::End end = wire.parent();
  const CudaProcess process;
  end.wait();
  Pointer memory = 0;
  EXPECT_EQ(process->mem_alloc(&memory, 1), CudaError::kOutOfMemory);
  child.kill_now();
  EXPECT_EQ(process->mem_alloc(&memory, 2 * kGranule), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

}  // namespace
}  // namespace forklift::test
