// Events of a GPU: within a process, between processes, and instead of waiting at the hand-over.
#include "forklift/device_event.h"

#include "support/gpu_fixture.h"
#include "tensor/pending.h"

namespace forklift::test {
namespace {

using testing::ElementsAre;

// Nothing is done on the fake device before somebody waits for it. A real one may be done at any time.
class GpuEvents : public GpuFixture {
 protected:
  void SetUp() override {
    load({"FORKLIFT_FAKE_CUDA_LAZY=1", "FORKLIFT_FAKE_CUDA_POLLS=0"});
    ASSERT_TRUE(node::Node::current().ok());
  }
  void TearDown() override {
    set_device_handover(Handover::kWait);
    GpuFixture::TearDown();
  }
  static void copy(const Tensor& to, const Tensor& from) {
    throw_if_failed(gpu().copy_within(detail::StorageAccess::address(*to.storage()),
                                      detail::StorageAccess::address(*from.storage()), to.nbytes()));
  }
};

TEST_F(GpuEvents, TellWhetherTheDeviceHasComeSoFar) {
  const Tensor x = on_gpu({1, 2});
  const Tensor y = on_gpu({3, 4});
  DeviceEvent event;
  EXPECT_TRUE(event.done());
  copy(x, y);
  event.record();
  if (fake().is_loaded()) {
    EXPECT_FALSE(event.done());
  }
  event.synchronize();
  EXPECT_TRUE(event.done());
  EXPECT_THAT(values(x), ElementsAre(3, 4));
}

TEST_F(GpuEvents, OrderTheStreamsOfAProcess) {
  const device::cuda::Functions& functions = gpu().driver().functions();
  const device::cuda::Current current(gpu().driver(), gpu().context());
  device::cuda::Stream other = nullptr;
  ASSERT_TRUE(gpu().driver().call("cuStreamCreate", functions.stream_create, &other, 1U).ok());
  const Tensor x = on_gpu({1});
  const Tensor y = on_gpu({2});
  const Tensor z = on_gpu({0});
  DeviceEvent event;
  copy(x, y);  // on Forklift's stream
  event.record();
  event.wait(other);
  const auto at = [](const Tensor& tensor) {
    return reinterpret_cast<device::cuda::Pointer>(detail::StorageAccess::address(*tensor.storage()));
  };
  ASSERT_TRUE(
      gpu().driver().call("cuMemcpyDtoDAsync", functions.memcpy_dtod_async, at(z), at(x), 4U, other).ok());
  ASSERT_TRUE(gpu().driver().call("cuStreamSynchronize", functions.stream_synchronize, other).ok());
  EXPECT_THAT(values(z), ElementsAre(2));
  ASSERT_TRUE(gpu().driver().call("cuStreamDestroy", functions.stream_destroy, other).ok());
  // A stream that was destroyed: a real driver crashes.
  if (fake().is_loaded()) {
    EXPECT_EQ(code_of([&] { event.record(other); }), Code::kDevice);
  }
}

// put() returns with work queued; the consumer's work comes after the producer's.
TEST_F(GpuEvents, ReplaceTheWaitAtTheHandOver) {
  Queue<Tensor> queue;
  Queue<DeviceEvent::Handle> events;
  Gate sent, looked;
  Child producer([&] {
    set_device_handover(Handover::kEvent);
    const Tensor x = on_gpu({1, 2});
    const Tensor y = on_gpu({3, 4});
    DeviceEvent ready;
    copy(x, y);
    ready.record();
    queue.put(x);
    events.put(ready.handle());
    if (fake().is_loaded()) {
      EXPECT_EQ(fake().live().pending, 2) << "put() has waited";
    }
    sent.open();
    ASSERT_TRUE(looked.wait());
    ready.synchronize();
    ASSERT_TRUE(looked.wait());
  });
  ASSERT_TRUE(sent.wait());
  const Tensor x = queue.get();
  const DeviceEvent ready(events.get());
  if (fake().is_loaded()) {
    EXPECT_FALSE(ready.done());
  }
  looked.open();
  ready.wait();
  EXPECT_THAT(values(x), ElementsAre(3, 4));
  EXPECT_TRUE(ready.done());
  looked.open();
  EXPECT_EQ(producer.wait(), 0);
}

TEST_F(GpuEvents, OfNoGpuOrOfTheirOwnProcessAreRefused) {
  EXPECT_EQ(code_of([] { DeviceEvent event("CPU"); }), Code::kUnsupported);
  EXPECT_EQ(code_of([] { DeviceEvent event("GPU:7"); }), Code::kNotFound);
  const DeviceEvent event;
  EXPECT_EQ(code_of([&] { DeviceEvent again(event.handle()); }), Code::kDevice);
  DeviceEvent::Handle elsewhere = event.handle();
  elsewhere.device[0] ^= std::byte{1};
  EXPECT_EQ(code_of([&] { DeviceEvent again(elsewhere); }), Code::kNotFound);
  Child child([&] { EXPECT_EQ(code_of([&] { event.synchronize(); }), Code::kBrokenByFork); });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace forklift::test
