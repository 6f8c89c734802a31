// The fake driver's legacy handles: memory and events of other processes, and their ends.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>

#include "device/cuda_fixture.h"
#include "device/wire.h"
#include "support/child.h"

namespace forklift::test {
namespace {

using cuda::Event;
using cuda::IpcEventHandle;
using cuda::IpcMemoryHandle;
using cuda::Pointer;

constexpr unsigned kLazyPeer = cuda::kIpcLazyPeerAccess;
constexpr std::size_t kBytes = 10'000;

IpcMemoryHandle handle_of(const CudaProcess& process, Pointer memory) {
  IpcMemoryHandle handle{};
  EXPECT_EQ(process->ipc_get_mem_handle(&handle, memory), CudaError::kSuccess);
  return handle;
}

// A child that fills memory with 'a' and sends its handle; then it does what it is told: free it, or end.
class Owner {
 public:
  Owner() {
    FakeCuda::set_environment();
    child_ = Child([this] { run(); });
    end_.emplace(wire_.parent());
  }
  // Before the first call this process must not have initialised the driver: call it in a test's first line.
  IpcMemoryHandle receive() { return end_->receive<IpcMemoryHandle>(); }
  // The child frees the memory.
  void free() {
    end_->signal();
    end_->wait();
  }
  void kill() { child_.kill_now(); }
  int finish() {
    end_->signal();
    return child_.wait();
  }

 private:
  void run() {
    Wire::End end = wire_.child();
    const CudaProcess process;
    const Pointer memory = process.allocate(kBytes);
    EXPECT_EQ(process->memset_d8_async(memory, 'a', kBytes, nullptr), CudaError::kSuccess);
    EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
    end.send(handle_of(process, memory));
    end.wait();
    EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
    end.signal();
    end.wait();
  }

  Wire wire_;
  Child child_;
  std::optional<Wire::End> end_;
};

TEST(FakeCudaIpcTest, TheSameMemoryIsInBothProcesses) {
  Owner owner;
  const CudaProcess process;
  const IpcMemoryHandle handle = owner.receive();
  Pointer memory = 0;
  EXPECT_EQ(process->ipc_open_mem_handle(&memory, handle, 0), CudaError::kInvalidValue) << "without the flag";
  ASSERT_EQ(process->ipc_open_mem_handle(&memory, handle, kLazyPeer), CudaError::kSuccess);
  std::string got(5, '?');
  EXPECT_EQ(process->memcpy_dtoh_async(got.data(), memory + kBytes - 5, 5, nullptr), CudaError::kSuccess);
  EXPECT_EQ(got, "aaaaa");
  Pointer base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(process->mem_get_address_range(&base, &bytes, memory + 17), CudaError::kSuccess);
  EXPECT_EQ(base, memory);
  EXPECT_EQ(bytes, kBytes);
  IpcMemoryHandle again{};
  EXPECT_EQ(process->ipc_get_mem_handle(&again, memory), CudaError::kInvalidValue)
      << "it is not this process's";
  EXPECT_EQ(process->mem_free(memory), CudaError::kInvalidValue);
  EXPECT_EQ(process->ipc_close_mem_handle(memory), CudaError::kSuccess);
  EXPECT_EQ(process->ipc_close_mem_handle(memory), CudaError::kInvalidValue);
  owner.free();
  EXPECT_EQ(owner.finish(), 0);
}

TEST(FakeCudaIpcTest, OpeningTwiceGivesTheSameAddressAndCounts) {
  Owner owner;
  const CudaProcess process;
  const IpcMemoryHandle handle = owner.receive();
  Pointer first = 0;
  Pointer second = 0;
  ASSERT_EQ(process->ipc_open_mem_handle(&first, handle, kLazyPeer), CudaError::kSuccess);
  ASSERT_EQ(process->ipc_open_mem_handle(&second, handle, kLazyPeer), CudaError::kSuccess);
  EXPECT_EQ(second, first);
  if (process.is_fake()) {
    EXPECT_EQ(process.fake.live().ipc_opened, 2);
  }
  EXPECT_EQ(process->ipc_close_mem_handle(first), CudaError::kSuccess);
  EXPECT_EQ(process.peek(first, 1), "a");
  EXPECT_EQ(process->ipc_close_mem_handle(first), CudaError::kSuccess);
  EXPECT_EQ(process.peek(first, 1), "");
}

TEST(FakeCudaIpcTest, AProcessCannotOpenItsOwnHandle) {
  const CudaProcess process;
  const Pointer memory = process.allocate(8);
  Pointer opened = 0;
  EXPECT_EQ(process->ipc_open_mem_handle(&opened, handle_of(process, memory), kLazyPeer),
            CudaError::kInvalidContext);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaIpcTest, VirtualMemoryHasNoLegacyHandle) {
  const CudaProcess process;
  const MappedMemory memory(process, kGranule);
  IpcMemoryHandle handle{};
  EXPECT_EQ(process->ipc_get_mem_handle(&handle, memory.address()), CudaError::kInvalidValue);
  unsigned capable = 7;
  EXPECT_EQ(
      process->pointer_get_attribute(&capable, cuda::PointerAttribute::kIsLegacyIpcCapable, memory.address()),
      CudaError::kSuccess);
  EXPECT_EQ(capable, 0U);
}

TEST(FakeCudaIpcTest, AnAddressInsideGivesTheHandleOfTheWhole) {
  const CudaProcess process;
  const Pointer memory = process.allocate(64);
  const IpcMemoryHandle whole = handle_of(process, memory);
  const IpcMemoryHandle inside = handle_of(process, memory + 10);
  EXPECT_EQ(std::memcmp(&whole, &inside, sizeof whole), 0);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

// The documentation calls the bytes undefined; driver 580.159.04 does not overwrite them so. The fake does on purpose: tests are to
// notice who reads them.
TEST(FakeCudaIpcTest, MemoryThatItsOriginFreedIsRecognisable) {
  Owner owner;
  const CudaProcess process;
  const IpcMemoryHandle handle = owner.receive();
  Pointer memory = 0;
  ASSERT_EQ(process->ipc_open_mem_handle(&memory, handle, kLazyPeer), CudaError::kSuccess);
  owner.free();
  const std::string freed(kBytes, static_cast<char>(FAKE_CUDA_FREED_BYTE));
  if (process.is_fake()) {
    EXPECT_TRUE(process.peek(memory, kBytes) == freed);
  }
  EXPECT_EQ(process->ipc_close_mem_handle(memory), CudaError::kSuccess);
  EXPECT_EQ(process->ipc_open_mem_handle(&memory, handle, kLazyPeer), CudaError::kInvalidValue);
  EXPECT_EQ(owner.finish(), 0);
}

TEST(FakeCudaIpcTest, MemoryWhoseOriginDiedIsRecognisable) {
  Owner owner;
  const CudaProcess process;
  const IpcMemoryHandle handle = owner.receive();
  Pointer memory = 0;
  ASSERT_EQ(process->ipc_open_mem_handle(&memory, handle, kLazyPeer), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 1), "a");
  owner.kill();
  std::string got(2, '?');
  EXPECT_EQ(process->memcpy_dtoh_async(got.data(), memory + 50, 2, nullptr), CudaError::kSuccess);
  if (process.is_fake()) {
    EXPECT_EQ(got, std::string(2, static_cast<char>(FAKE_CUDA_FREED_BYTE)));
  }
  EXPECT_EQ(process->ipc_close_mem_handle(memory), CudaError::kSuccess);
  EXPECT_EQ(process->ipc_open_mem_handle(&memory, handle, kLazyPeer), CudaError::kInvalidHandle);
}

TEST(FakeCudaIpcTest, AHandleThatIsNoneIsRefused) {
  const CudaProcess process;
  IpcMemoryHandle handle{};
  Pointer memory = 0;
  EXPECT_EQ(process->ipc_open_mem_handle(&memory, handle, kLazyPeer), CudaError::kInvalidValue);
  IpcEventHandle event_handle{};
  std::memset(event_handle.bytes, 'x', sizeof event_handle.bytes);
  Event event = nullptr;
  EXPECT_EQ(process->ipc_open_event_handle(&event, event_handle), CudaError::kMapFailed);
}

TEST(FakeCudaIpcTest, OnlyAnInterprocessEventHasAHandle) {
  const CudaProcess process;
  Event event = nullptr;
  EXPECT_EQ(process->event_create(&event, cuda::kEventInterprocess), CudaError::kInvalidValue)
      << "with timing";
  ASSERT_EQ(process->event_create(&event, cuda::kEventDisableTiming), CudaError::kSuccess);
  IpcEventHandle handle{};
  EXPECT_EQ(process->ipc_get_event_handle(&handle, event), CudaError::kInvalidHandle);
  EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
  ASSERT_EQ(process->event_create(&event, cuda::kEventDisableTiming | cuda::kEventInterprocess),
            CudaError::kSuccess);
  ASSERT_EQ(process->ipc_get_event_handle(&handle, event), CudaError::kSuccess);
  Event opened = nullptr;
  EXPECT_EQ(process->ipc_open_event_handle(&opened, handle), CudaError::kInvalidContext) << "of this process";
  EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
}

struct EventAndMemory {
  IpcEventHandle event;
  IpcMemoryHandle memory;
};

// The child fills memory in a stream that is not synchronised and records an event; its work is seen here after the
// event and, with lazy streams, not before.
void order_by_an_event(bool lazy, bool in_a_stream) {
  FakeCuda::set_environment({lazy ? "FORKLIFT_FAKE_CUDA_LAZY=1" : "FORKLIFT_FAKE_CUDA_LAZY=0"});
  Wire wire;
  Child child([&] {
    Wire::End end = wire.child();
    const CudaProcess process;
    const Pointer memory = process.allocate(kBytes);
    const cuda::Stream stream = process.stream();
    Event event = nullptr;
    EXPECT_EQ(process->event_create(&event, cuda::kEventDisableTiming | cuda::kEventInterprocess),
              CudaError::kSuccess);
    EventAndMemory sent{};
    EXPECT_EQ(process->ipc_get_event_handle(&sent.event, event), CudaError::kSuccess);
    sent.memory = handle_of(process, memory);
    EXPECT_EQ(process->memset_d8_async(memory, 'e', kBytes, stream), CudaError::kSuccess);
    EXPECT_EQ(process->event_record(event, stream), CudaError::kSuccess);
    end.send(sent);
    end.wait();
    EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
    EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
    EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
  });
  {
    Wire::End end = wire.parent();
    const CudaProcess process;
    const auto got = end.receive<EventAndMemory>();
    Event event = nullptr;
    Pointer memory = 0;
    ASSERT_EQ(process->ipc_open_event_handle(&event, got.event), CudaError::kSuccess);
    ASSERT_EQ(process->ipc_open_mem_handle(&memory, got.memory, kLazyPeer), CudaError::kSuccess);
    if (lazy) {
      EXPECT_EQ(process->event_query(event), CudaError::kNotReady);
      EXPECT_EQ(process.peek(memory, 1), std::string(1, '\0'));
    }
    if (in_a_stream) {
      const cuda::Stream stream = process.stream();
      const Pointer copy = process.allocate(kBytes);
      EXPECT_EQ(process->stream_wait_event(stream, event, 0), CudaError::kSuccess);
      EXPECT_EQ(process->memcpy_dtod_async(copy, memory, kBytes, stream), CudaError::kSuccess);
      EXPECT_EQ(process->stream_synchronize(stream), CudaError::kSuccess);
      EXPECT_TRUE(process.peek(copy, kBytes) == std::string(kBytes, 'e'));
      EXPECT_EQ(process->mem_free(copy), CudaError::kSuccess);
      EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
    } else {
      EXPECT_EQ(process->event_synchronize(event), CudaError::kSuccess);
      EXPECT_TRUE(process.peek(memory, kBytes) == std::string(kBytes, 'e'));
    }
    EXPECT_EQ(process->event_query(event), CudaError::kSuccess);
    EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
    EXPECT_EQ(process->ipc_close_mem_handle(memory), CudaError::kSuccess);
    end.signal();
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST(FakeCudaIpcTest, AnEventOrdersProcesses) { order_by_an_event(false, false); }
TEST(FakeCudaIpcTest, AnEventOrdersStreamsOfProcesses) { order_by_an_event(false, true); }
TEST(FakeCudaIpcTest, AnEventOrdersLazyProcesses) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  order_by_an_event(true, false);
}
TEST(FakeCudaIpcTest, AnEventOrdersLazyStreamsOfProcesses) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  order_by_an_event(true, true);
}

// The opener records, and the process that made the event waits.
TEST(FakeCudaIpcTest, AnOpenedEventCanBeRecorded) {
  FakeCuda::set_environment({"FORKLIFT_FAKE_CUDA_LAZY=1"});
  Wire wire;
  Child child([&] {
    Wire::End end = wire.child();
    const CudaProcess process;
    Event event = nullptr;
    ASSERT_EQ(process->ipc_open_event_handle(&event, end.receive<IpcEventHandle>()), CudaError::kSuccess);
    EXPECT_EQ(process->event_query(event), CudaError::kSuccess) << "not recorded";
    const Pointer memory = process.allocate(8);
    EXPECT_EQ(process->memset_d8_async(memory, 'r', 8, nullptr), CudaError::kSuccess);
    EXPECT_EQ(process->event_record(event, nullptr), CudaError::kSuccess);
    end.signal();
    end.wait();
    EXPECT_EQ(process.peek(memory, 1), "r") << "the other process's question has made it happen";
    EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
    EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
  });
  Wire::End end = wire.parent();
  const CudaProcess process;
  Event event = nullptr;
  ASSERT_EQ(process->event_create(&event, cuda::kEventDisableTiming | cuda::kEventInterprocess),
            CudaError::kSuccess);
  IpcEventHandle handle{};
  ASSERT_EQ(process->ipc_get_event_handle(&handle, event), CudaError::kSuccess);
  end.send(handle);
  end.wait();
  if (process.is_fake()) {
    EXPECT_EQ(process->event_query(event), CudaError::kNotReady);
  }
  EXPECT_EQ(process->event_synchronize(event), CudaError::kSuccess);
  end.signal();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
}

TEST(FakeCudaIpcTest, AnEventWhoseProcessDiedIsNeverDone) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  FakeCuda::set_environment({"FORKLIFT_FAKE_CUDA_LAZY=1"});
  Wire wire;
  Child child([&] {
    Wire::End end = wire.child();
    const CudaProcess process;
    Event event = nullptr;
    EXPECT_EQ(process->event_create(&event, cuda::kEventDisableTiming | cuda::kEventInterprocess),
              CudaError::kSuccess);
    IpcEventHandle handle{};
    EXPECT_EQ(process->ipc_get_event_handle(&handle, event), CudaError::kSuccess);
    EXPECT_EQ(process->event_record(event, nullptr), CudaError::kSuccess);
    end.send(handle);
    end.wait();
  });
  Wire::End end = wire.parent();
  const CudaProcess process;
  Event event = nullptr;
  ASSERT_EQ(process->ipc_open_event_handle(&event, end.receive<IpcEventHandle>()), CudaError::kSuccess);
  child.kill_now();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(process->event_query(event), CudaError::kNotReady);
  EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
}

}  // namespace
}  // namespace forklift::test
