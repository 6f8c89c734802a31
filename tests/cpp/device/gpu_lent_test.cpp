// Device memory that another library allocates from Forklift.
#include <thread>

#include "support/gpu_fixture.h"
#include "tensor/device_storage.h"
#include "tensor/lent_memory.h"
#include "tensor/operations.h"
#include "tensor/pending.h"

namespace forklift::test {
namespace {

using device::cuda::Current;
using device::cuda::kStreamNonBlocking;
using device::cuda::Pointer;
using device::cuda::Stream;
using tensor::lend_memory;
using tensor::take_back_memory;

constexpr std::size_t kBytes = std::size_t{1} << 20;

class GpuLentMemory : public GpuFixture {
 protected:
  void SetUp() override {
    load({"FORKLIFT_FAKE_CUDA_LAZY=1"});  // work is done late, so that a missing order shows
    ASSERT_TRUE(node::Node::current().ok());
  }
  static Stream make_stream() {
    Stream stream = nullptr;
    const Current current(gpu().driver(), gpu().context());
    EXPECT_OK(gpu().driver().call("cuStreamCreate", gpu().driver().functions().stream_create, &stream,
                                  kStreamNonBlocking));
    return stream;
  }
  static void destroy(Stream stream) {
    const Current current(gpu().driver(), gpu().context());
    EXPECT_OK(gpu().driver().call("cuStreamDestroy", gpu().driver().functions().stream_destroy, stream));
  }
  static std::uintptr_t number(Stream stream) { return reinterpret_cast<std::uintptr_t>(stream); }
  static void fill(void* memory, unsigned char value, Stream stream) {
    const Current current(gpu().driver(), gpu().context());
    EXPECT_OK(gpu().driver().call("cuMemsetD8Async", gpu().driver().functions().memset_d8_async,
                                  reinterpret_cast<Pointer>(memory), value, kBytes, stream));
  }
  static void synchronize(Stream stream) {
    const Current current(gpu().driver(), gpu().context());
    EXPECT_OK(
        gpu().driver().call("cuStreamSynchronize", gpu().driver().functions().stream_synchronize, stream));
  }
  // As the device sees it now. A real one copies on the default stream, which waits for none of the test's.
  std::string peek(void* memory) const {
    std::string seen(kBytes, '\0');
    const auto there = reinterpret_cast<Pointer>(memory);
    if (fake().is_loaded()) {
      EXPECT_TRUE(fake().peek(there, seen.data(), kBytes));
      return seen;
    }
    {
      const Current current(gpu().driver(), gpu().context());
      EXPECT_OK(gpu().driver().call("cuMemcpyDtoHAsync", gpu().driver().functions().memcpy_dtoh_async,
                                    seen.data(), there, kBytes, device::cuda::kLegacyStream));
    }
    synchronize(device::cuda::kLegacyStream);
    return seen;
  }
};

TEST_F(GpuLentMemory, CountsAsForkliftsOwn) {
  void* const memory = *lend_memory(0, kBytes, 0);
  const std::shared_ptr<Storage> found = tensor::find_on_device(static_cast<std::byte*>(memory) + 100, 1000);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(detail::StorageAccess::address(*found), memory);
  EXPECT_EQ(GpuFixture::memory().used, kBytes);
  EXPECT_OK(take_back_memory(memory, 0));
  EXPECT_EQ(GpuFixture::memory().used, kBytes);  // a storage of Forklift's is over it
  EXPECT_CODE(Code::kInvalid, take_back_memory(memory, 0));
}

// The next owner, on another stream, works after what the last one has queued.
TEST_F(GpuLentMemory, MemoryIsNotUsedAgainBeforeTheStreamThatGaveItBack) {
  const Stream first = make_stream();
  const Stream second = make_stream();
  void* const memory = *lend_memory(0, kBytes, number(first));
  fill(memory, 1, first);
  EXPECT_OK(take_back_memory(memory, number(first)));
  void* const again = *lend_memory(0, kBytes, number(second));
  ASSERT_EQ(again, memory);
  fill(again, 2, second);
  synchronize(second);
  EXPECT_EQ(peek(again), std::string(kBytes, 2));
  synchronize(first);
  EXPECT_EQ(peek(again), std::string(kBytes, 2)) << "the first owner's work came last";
  EXPECT_OK(take_back_memory(again, number(second)));
  destroy(first);
  destroy(second);
}

// Forklift's own tensors have their order with the stream, too.
TEST_F(GpuLentMemory, ForkliftsTensorsFollowTheStream) {
  const Stream stream = make_stream();
  void* const memory = *lend_memory(0, kBytes, number(stream));
  fill(memory, 7, stream);
  EXPECT_OK(take_back_memory(memory, number(stream)));
  const Tensor x = filled(static_cast<std::int64_t>(kBytes / sizeof(float)), 3);
  ASSERT_EQ(detail::StorageAccess::address(*x.storage()), memory);
  synchronize(stream);
  EXPECT_THAT(values(x), testing::Each(3));
  destroy(stream);
}

// A stream that its owner has destroyed. A real driver crashes at its handle, so Forklift must not give it to the driver.
TEST_F(GpuLentMemory, AStreamThatIsGoneIsWaitedFor) {
  const Stream stream = make_stream();
  void* const memory = *lend_memory(0, kBytes, number(stream));
  destroy(stream);
  EXPECT_OK(take_back_memory(memory, number(stream)));
  EXPECT_EQ(GpuFixture::memory().used, 0U);
}

// It is a piece of Forklift's pool, which stays while its receiver has it.
TEST_F(GpuLentMemory, IsSentAsAPieceOfThePool) {
  Queue<Tensor> queue;
  Gate freed, seen;
  Child child([&] {
    const Tensor x = queue.get();
    ASSERT_TRUE(freed.wait());
    EXPECT_EQ(values(x), std::vector<float>(kBytes / sizeof(float), 0));
    seen.open();
  });
  void* const memory = *lend_memory(0, kBytes, 0);
  fill(memory, 0, gpu().stream());
  {
    const std::shared_ptr<Storage> storage = tensor::find_on_device(memory, kBytes);
    queue.put(
        *tensor::wrap(storage, DType::kFloat32, Dims{static_cast<std::int64_t>(kBytes / sizeof(float))}));
  }
  EXPECT_OK(take_back_memory(memory, 0));
  EXPECT_EQ(gpu().foreign().shared(), 0U);
  EXPECT_EQ(GpuFixture::memory().away, kBytes);
  void* const other = *lend_memory(0, kBytes, 0);
  EXPECT_NE(other, memory);
  fill(other, 9, gpu().stream());
  EXPECT_OK(take_back_memory(other, 0));
  freed.open();
  ASSERT_TRUE(seen.wait());
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(GpuLentMemory, ErrorsOfTheDriverLeaveNothing) {
  if (skipped_on_real_cuda("it makes calls fail")) return;
  EXPECT_CODE(Code::kNotFound, lend_memory(7, kBytes, 0).status());
  static_cast<void>(gpu());
  EXPECT_CODE(Code::kNoSpace, lend_memory(0, std::size_t{100} << 30, 0).status());
  fake().fail_function("cuStreamWaitEvent", 1, 999);
  EXPECT_CODE(Code::kDevice, lend_memory(0, kBytes, 0).status());
  EXPECT_EQ(GpuFixture::memory().used, 0U);
  fake().fail_no_more();
  void* const memory = *lend_memory(0, kBytes, 0);
  fake().fail_function("cuEventRecord", 1, 999);
  EXPECT_OK(take_back_memory(memory, 0));  // by waiting
  EXPECT_EQ(GpuFixture::memory().used, 0U);
}

TEST_F(GpuLentMemory, AForkedChildGivesNothingBack) {
  void* const memory = *lend_memory(0, kBytes, 0);
  Child child([&] {
    EXPECT_OK(take_back_memory(memory, 0));
    EXPECT_EQ(fake().forked_calls(), 0);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_OK(take_back_memory(memory, 0));
}

TEST_F(GpuLentMemory, ThreadsShareTheTable) {
  static_cast<void>(gpu());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        const Result<void*> memory = lend_memory(0, kBytes, 0);
        ASSERT_OK(memory.status());
        EXPECT_OK(take_back_memory(*memory, 0));
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(GpuFixture::memory().used, 0U);
}

}  // namespace
}  // namespace forklift::test
