// Device memory of other libraries (cudaMalloc's, or virtual memory) between processes: it is kept as long as anybody
// has it, sent on as its origin's, and copied when the origin ends.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "forklift/dlpack.h"
#include "support/gpu_fixture.h"
#include "tensor/device_storage.h"
#include "tensor/pending.h"

namespace forklift::test {
namespace {

using device::cuda::Current;
using device::cuda::Pointer;
using testing::ElementsAre;
using testing::HasSubstr;

// What a library like torch has: memory that it allocated by itself, and a DLPack tensor over a part of it that tells when it
// is not needed any more.
class Library {
 public:
  explicit Library(device::cuda::Gpu& gpu, std::size_t bytes = std::size_t{1} << 20) : gpu_(gpu) {
    const Current current(gpu.driver(), gpu.context());
    must(gpu.driver().call("cuMemAlloc", gpu.driver().functions().mem_alloc, &base_, bytes));
  }
  ~Library() { free(); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void free() {
    if (base_ == 0) return;
    const Current current(gpu_.driver(), gpu_.context());
    must(gpu_.driver().call("cuMemFree", gpu_.driver().functions().mem_free, base_));
    base_ = 0;
  }
  void write(std::int64_t offset, const std::vector<float>& values) {
    must(gpu_.copy_in(at(offset), values.data(), values.size() * sizeof(float)));
  }
  // Elements [offset, offset + count) as a tensor of Forklift's.
  Tensor lend(std::int64_t offset, std::int64_t count) {
    auto* const lent = new Lent{given_back_, {}, count, 1};
    lent->managed.version = dlpack::kVersion;
    lent->managed.manager_context = lent;
    lent->managed.deleter = [](dlpack::ManagedTensorVersioned* self) {
      auto* const owner = static_cast<Lent*>(self->manager_context);
      ++*owner->given_back;
      delete owner;
    };
    dlpack::PlainTensor& plain = lent->managed.tensor;
    plain.data = at(offset);
    plain.device = {dlpack::kCuda, gpu_.ordinal()};
    plain.ndim = 1;
    plain.dtype = {dlpack::kFloat, 32, 1};
    plain.shape = &lent->shape;
    plain.strides = &lent->stride;
    return dlpack::import_versioned(&lent->managed);
  }

  int given_back() const { return *given_back_; }

 private:
  struct Lent {
    std::shared_ptr<int> given_back;  // the tensor may outlive its library
    dlpack::ManagedTensorVersioned managed;
    std::int64_t shape;
    std::int64_t stride;
  };
  void* at(std::int64_t offset) const {
    return reinterpret_cast<void*>(base_ + static_cast<Pointer>(offset) * sizeof(float));
  }
  static void must(const Status& status) {
    if (!status) throw Error(status);
  }
  device::cuda::Gpu& gpu_;
  Pointer base_ = 0;
  const std::shared_ptr<int> given_back_ = std::make_shared<int>(0);
};

class GpuForeign : public GpuFixture {};

TEST_F(GpuForeign, AreTheSameMemoryInAnotherProcess) {
  Queue<Tensor> queue;
  Gate read, written, read_again;
  Child child([&] {
    const Tensor x = queue.get();
    EXPECT_THAT(values(x), ElementsAre(1, 2));
    read.open();
    EXPECT_TRUE(written.wait());
    EXPECT_THAT(values(x), ElementsAre(3, 4));
    read_again.open();
  });
  Library library(gpu());
  library.write(10, {1, 2});
  queue.put(library.lend(10, 2));
  ASSERT_TRUE(read.wait());
  library.write(10, {3, 4});
  written.open();
  EXPECT_TRUE(read_again.wait());
  EXPECT_EQ(child.wait(), 0);
}

// The library's memory is not given back before the last process has dropped it.
TEST_F(GpuForeign, AreKeptAsLongAsAnotherProcessHasThem) {
  Queue<Tensor> queue;
  Gate got, drop, dropped, end;
  Child child([&] {
    {
      const Tensor x = queue.get();
      got.open();
      EXPECT_TRUE(drop.wait());
    }
    dropped.open();
    EXPECT_TRUE(end.wait());
  });
  Library library(gpu());
  library.write(0, {1, 2});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = library.lend(0, 2);
    if (i == 0) queue.put(x);
  }
  EXPECT_EQ(library.given_back(), 2);
  ASSERT_TRUE(got.wait());
  gpu().foreign().collect();
  EXPECT_EQ(library.given_back(), 2);
  drop.open();
  ASSERT_TRUE(dropped.wait());
  gpu().foreign().collect();
  EXPECT_EQ(library.given_back(), 3);
  end.open();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(GpuForeign, AreSentOnAsTheOriginsOwn) {
  Queue<Tensor> first, second, back;
  Child last([&] { back.put(second.get()); });
  Child relay([&] { second.put(first.get()); });
  Library library(gpu());
  library.write(0, {1, 2});
  {
    const Tensor x = library.lend(0, 2);
    first.put(x);
  }
  EXPECT_EQ(relay.wait(), 0);
  EXPECT_EQ(last.wait(), 0);
  {
    const Tensor returned = back.get();
    EXPECT_THAT(values(returned), ElementsAre(1, 2));
    library.write(0, {5, 6});  // the same memory, after three hops
    EXPECT_THAT(values(returned), ElementsAre(5, 6));
  }
  node().domain().reap();
  gpu().foreign().collect();
  EXPECT_EQ(library.given_back(), 1);
}

TEST_F(GpuForeign, MayOverlapEachOther) {
  Queue<Tensor> queue;
  Child child([&] {
    EXPECT_THAT(values(queue.get()), ElementsAre(1, 2, 3));
    EXPECT_THAT(values(queue.get()), ElementsAre(2, 3));
    EXPECT_THAT(values(queue.get()), ElementsAre(1));
  });
  Library library(gpu());
  library.write(0, {1, 2, 3});
  queue.put(library.lend(0, 3));
  queue.put(library.lend(1, 2));
  queue.put(library.lend(0, 1));
  EXPECT_EQ(child.wait(), 0);
}

// The address is used again by other memory: another handle.
TEST_F(GpuForeign, ABaseThatWasFreedAndAllocatedAnewIsOther) {
  Queue<Tensor> queue;
  Gate next;
  Child child([&] {
    for (const float expected : {1.0F, 2.0F}) EXPECT_THAT(values(queue.get()), ElementsAre(expected));
  });
  for (const float value : {1.0F, 2.0F}) {
    Library library(gpu());
    library.write(0, {value});
    queue.put(library.lend(0, 1));
    ASSERT_TRUE(eventually([&] {
      node().domain().reap();
      gpu().foreign().collect();
      return library.given_back() == 1;
    }));
  }
  EXPECT_EQ(child.wait(), 0);
}

// --- the origin ends

// What messages carry is copied once, and they carry the copy.
TEST_F(GpuForeign, WhatIsInFlightWhenTheOriginEndsIsCopied) {
  Queue<Tensor> queue;
  Child origin([&] {
    Library library(gpu());
    library.write(0, {1, 2, 3, 4});
    queue.put(library.lend(0, 2));
    queue.put(library.lend(2, 2));
    device::leave();
  });
  ASSERT_EQ(origin.wait(), 0);
  EXPECT_THAT(values(queue.get()), ElementsAre(1, 2));
  EXPECT_THAT(values(queue.get()), ElementsAre(3, 4));
}

TEST_F(GpuForeign, AnOriginThatEndsWaitsForThoseThatOpenedIt) {
  Queue<Tensor> queue;
  Gate opened, leaving, read;
  Child origin([&] {
    Library library(gpu());
    library.write(0, {1, 2});
    queue.put(library.lend(0, 2));
    EXPECT_TRUE(opened.wait());
    leaving.open();
    device::leave();
    EXPECT_TRUE(read.wait(0)) << "it has not waited";
  });
  {
    const Tensor x = queue.get();
    opened.open();
    ASSERT_TRUE(leaving.wait());
    EXPECT_THAT(values(x), ElementsAre(1, 2));
    read.open();
  }
  EXPECT_EQ(origin.wait(), 0);
}

TEST_F(GpuForeign, AnOriginWaitsForABoundedTimeAndNamesTheOther) {
  ::setenv("FORKLIFT_DEVICE_EXIT_SECONDS", "0.05", 1);
  Queue<Tensor> queue;
  Queue<std::string> said;
  Gate opened;
  Child origin([&] {
    Library library(gpu());
    library.write(0, {1, 2});
    queue.put(library.lend(0, 2));
    EXPECT_TRUE(opened.wait());
    testing::internal::CaptureStderr();
    device::leave();
    said.put(testing::internal::GetCapturedStderr());
  });
  const Tensor x = queue.get();
  opened.open();
  EXPECT_THAT(said.get(), HasSubstr("process " + std::to_string(::getpid()) + " still has memory open"));
  EXPECT_EQ(origin.wait(), 0);
}

TEST_F(GpuForeign, AnOriginCanWaitUntilMessagesAreTaken) {
  ::setenv("FORKLIFT_DEVICE_EXIT", "wait", 1);
  Queue<Tensor> queue;
  Gate sent;
  Child origin([&] {
    Library library(gpu());
    library.write(0, {1, 2});
    queue.put(library.lend(0, 2));
    sent.open();
    device::leave();
    EXPECT_EQ(gpu().foreign().shared(), 0U);
    EXPECT_EQ(library.given_back(), 0) << "what its owner belongs to may have ended";
    EXPECT_EQ(memory().pools, 0U) << "it has copied";
  });
  ASSERT_TRUE(sent.wait());
  EXPECT_THAT(values(queue.get()), ElementsAre(1, 2));
  EXPECT_EQ(origin.wait(), 0);
}

TEST_F(GpuForeign, AKilledOriginIsAClearError) {
  Queue<Tensor> queue;
  Gate sent;
  Child origin([&] {
    Library library(gpu());
    library.write(0, {1, 2});
    queue.put(library.lend(0, 2));
    queue.put(library.lend(0, 2));
    sent.open();
    for (;;) ::pause();
  });
  ASSERT_TRUE(sent.wait());
  const Tensor opened = queue.get();
  origin.kill_now();
  EXPECT_EQ(code_of([&] { values(opened); }), Code::kPeerDied);
  EXPECT_EQ(code_of([&] { values(queue.get()); }), Code::kPeerDied);
}

// --- other kinds of memory

// As torch's expandable segments: shared by descriptor, so it outlives its process.
TEST_F(GpuForeign, VirtualMemoryIsSharedByDescriptor) {
  Queue<Tensor> queue;
  Child origin([&] {
    device::cuda::Gpu& device = gpu();
    const Current current(device.driver(), device.context());
    os::Fd unused;
    const Result<std::shared_ptr<device::cuda::DeviceRange>> range =
        device::cuda::DeviceRange::create(device.place(), std::size_t{2} << 20, &unused);
    ASSERT_TRUE(range.ok());
    auto* const memory = reinterpret_cast<float*>((*range)->base()) + 100;
    const std::vector<float> data{1, 2};
    ASSERT_TRUE(device.copy_in(memory, data.data(), 8).ok());
    const Result<std::shared_ptr<Storage>> storage = tensor::foreign_on_device(0, memory, 8, *range);
    ASSERT_TRUE(storage.ok());
    queue.put(Tensor::wrap(*storage, DType::kFloat32, {2}));
  });
  ASSERT_EQ(origin.wait(), 0);
  EXPECT_THAT(values(queue.get()), ElementsAre(1, 2));
}

// What comes back from another library is Forklift's own again, and is sent as it.
TEST_F(GpuForeign, ForkliftsOwnMemoryIsRecognised) {
  const Tensor x = on_gpu({1, 2, 3});
  const Tensor view = dlpack::import_versioned(dlpack::export_versioned(x.narrow(0, 1, 2)));
  EXPECT_EQ(view.storage(), x.storage());
  EXPECT_THAT(values(view), ElementsAre(2, 3));
  Queue<Tensor> queue;
  queue.put(view);
  EXPECT_EQ(gpu().foreign().shared(), 0U);
  EXPECT_THAT(values(queue.get()), ElementsAre(2, 3));
}

}  // namespace
}  // namespace forklift::test
