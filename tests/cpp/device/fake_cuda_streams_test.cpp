// The fake driver's streams and events: what is done when, and in which order.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "device/cuda_fixture.h"
#include "support/child.h"

namespace forklift::test {
namespace {

using cuda::Event;
using cuda::kLegacyStream;
using cuda::Pointer;
using cuda::Stream;

constexpr const char* kLazy = "FORKLIFT_FAKE_CUDA_LAZY=1";
constexpr unsigned kBlocking = 0;

Event new_event(const CudaProcess& process, unsigned flags = cuda::kEventDisableTiming) {
  Event made = nullptr;
  EXPECT_EQ(process->event_create(&made, flags), CudaError::kSuccess);
  return made;
}

TEST(FakeCudaStreamsTest, NothingHappensBeforeASynchronisation) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  const CudaProcess process(kLazy);
  const Pointer memory = process.allocate(8);
  const Stream stream = process.stream();
  EXPECT_EQ(process->memset_d8_async(memory, 'x', 8, stream), CudaError::kSuccess);
  EXPECT_EQ(process.fake.live().pending, 1);
  EXPECT_EQ(process.peek(memory, 1), std::string(1, '\0'));
  EXPECT_EQ(process->stream_synchronize(stream), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 1), "x");
  EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, AStreamsThreadDoesTheWorkUnasked) {
  const CudaProcess process;
  const Pointer memory = process.allocate(8);
  const Stream stream = process.stream();
  EXPECT_EQ(process->memset_d8_async(memory, 'x', 8, stream), CudaError::kSuccess);
  EXPECT_TRUE(eventually([&] { return process->stream_query(stream) == CudaError::kSuccess; }));
  EXPECT_EQ(process.peek(memory, 8), "xxxxxxxx");
  EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, TheThirdQueryDoesLazyWork) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  const CudaProcess process(kLazy);
  const Pointer memory = process.allocate(8);
  const Stream stream = process.stream();
  const Event event = new_event(process);
  EXPECT_EQ(process->stream_query(stream), CudaError::kSuccess);
  EXPECT_EQ(process->memset_d8_async(memory, 'x', 8, stream), CudaError::kSuccess);
  EXPECT_EQ(process->stream_query(stream), CudaError::kNotReady);
  EXPECT_EQ(process->stream_query(stream), CudaError::kNotReady);
  EXPECT_EQ(process->stream_query(stream), CudaError::kSuccess);
  EXPECT_EQ(process->event_record(event, stream), CudaError::kSuccess);
  EXPECT_EQ(process->event_query(event), CudaError::kNotReady);
  EXPECT_EQ(process->event_query(event), CudaError::kNotReady);
  EXPECT_EQ(process->event_query(event), CudaError::kSuccess);
  EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
  EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, WithoutPollsAQueryDoesNothing) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  const CudaProcess process(kLazy, "FORKLIFT_FAKE_CUDA_POLLS=0");
  const Pointer memory = process.allocate(8);
  const Stream stream = process.stream();
  EXPECT_EQ(process->memset_d8_async(memory, 'x', 8, stream), CudaError::kSuccess);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(process->stream_query(stream), CudaError::kNotReady);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(process->stream_query(stream), CudaError::kSuccess);
  EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, StreamsAreIndependentUntilAnEventOrdersThem) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  const CudaProcess process(kLazy);
  const Pointer memory = process.allocate(8);
  const Stream writer = process.stream();
  const Stream reader = process.stream();
  EXPECT_EQ(process->memset_d8_async(memory, 'w', 4, writer), CudaError::kSuccess);
  // Without an event the reader is first here: a race that a device would decide.
  EXPECT_EQ(process->memcpy_dtod_async(memory + 4, memory, 1, reader), CudaError::kSuccess);
  EXPECT_EQ(process->stream_synchronize(reader), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 5), std::string(5, '\0'));
  const Event event = new_event(process);
  EXPECT_EQ(process->event_record(event, writer), CudaError::kSuccess);
  EXPECT_EQ(process->stream_wait_event(reader, event, 0), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_dtod_async(memory + 4, memory, 1, reader), CudaError::kSuccess);
  // Destroyed or recorded again, the event changes nothing of what waits already.
  EXPECT_EQ(process->memset_d8_async(memory, 'z', 4, writer), CudaError::kSuccess);
  EXPECT_EQ(process->event_record(event, writer), CudaError::kSuccess);
  EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
  EXPECT_EQ(process->stream_synchronize(reader), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 5), "wwwww");
  EXPECT_EQ(process->stream_synchronize(writer), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 5), "zzzzw");
  EXPECT_EQ(process->stream_destroy(writer), CudaError::kSuccess);
  EXPECT_EQ(process->stream_destroy(reader), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, TheLegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  const CudaProcess process(kLazy);
  const Pointer memory = process.allocate(8);
  const Stream blocking = process.stream(kBlocking);
  const Stream other = process.stream(kBlocking);
  const Stream free = process.stream();
  EXPECT_EQ(process->memset_d8_async(memory, 'b', 1, blocking), CudaError::kSuccess);
  EXPECT_EQ(process->memset_d8_async(memory + 1, 'f', 1, free), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_dtod_async(memory + 2, memory, 2, kLegacyStream), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_dtod_async(memory + 4, memory + 2, 2, other), CudaError::kSuccess);
  // Finishing the last makes the first three happen, but not what is in the stream that does not block.
  EXPECT_EQ(process->stream_synchronize(other), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 6), std::string("b\0b\0b\0", 6));
  EXPECT_EQ(process->stream_query(free), CudaError::kNotReady);
  EXPECT_EQ(process->stream_synchronize(free), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 2), "bf");
  for (const Stream stream : {blocking, other, free}) {
    EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  }
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, SynchronisingTheLegacyStreamFinishesBlockingStreams) {
  const CudaProcess process(kLazy);
  const Pointer memory = process.allocate(8);
  const Stream blocking = process.stream(kBlocking);
  EXPECT_EQ(process->memset_d8_async(memory, 'b', 1, blocking), CudaError::kSuccess);
  if (process.is_fake()) {
    EXPECT_EQ(process->stream_query(kLegacyStream), CudaError::kNotReady);
  }
  EXPECT_EQ(process->stream_synchronize(reinterpret_cast<Stream>(cuda::kLegacyStreamNumber)),
            CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 1), "b");
  EXPECT_EQ(process->stream_destroy(blocking), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, EachThreadHasItsOwnStreamOfNumberTwo) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  const CudaProcess process(kLazy);
  const Pointer memory = process.allocate(8);
  const auto own = reinterpret_cast<Stream>(cuda::kPerThreadStreamNumber);
  EXPECT_EQ(process->memset_d8_async(memory, 'o', 1, own), CudaError::kSuccess);
  std::thread([&] {
    EXPECT_EQ(process->ctx_set_current(process.context), CudaError::kSuccess);
    EXPECT_EQ(process->stream_query(own), CudaError::kSuccess);
    EXPECT_EQ(process->stream_synchronize(own), CudaError::kSuccess);
  }).join();
  EXPECT_EQ(process.peek(memory, 1), std::string(1, '\0'));
  EXPECT_EQ(process->stream_synchronize(own), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 1), "o");
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, ADestroyedStreamEndsItsWorkAndIsRefused) {
  if (skipped_on_real_cuda("it crashes at a stream that is destroyed")) return;
  const CudaProcess process(kLazy);
  const Pointer memory = process.allocate(8);
  const Stream stream = process.stream();
  const Event event = new_event(process);
  EXPECT_EQ(process->memset_d8_async(memory, 'd', 1, stream), CudaError::kSuccess);
  EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  EXPECT_EQ(process->stream_destroy(stream), CudaError::kInvalidHandle);
  EXPECT_EQ(process->stream_synchronize(stream), CudaError::kInvalidHandle);
  EXPECT_EQ(process->stream_query(stream), CudaError::kInvalidHandle);
  EXPECT_EQ(process->memset_d8_async(memory, 'e', 1, stream), CudaError::kInvalidHandle);
  EXPECT_EQ(process->event_record(event, stream), CudaError::kInvalidHandle);
  EXPECT_EQ(process->stream_wait_event(stream, event, 0), CudaError::kInvalidHandle);
  EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
  EXPECT_EQ(process->event_query(event), CudaError::kInvalidHandle);
  EXPECT_EQ(process->ctx_synchronize(), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 1), "d");
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, FreeingMemoryDoesTheWorkBefore) {
  const CudaProcess process(kLazy);
  const Pointer source = process.allocate(8);
  const Pointer target = process.allocate(8);
  const Stream stream = process.stream();
  EXPECT_EQ(process->memset_d8_async(source, 's', 8, stream), CudaError::kSuccess);
  EXPECT_EQ(process->memcpy_dtod_async(target, source, 8, stream), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(source), CudaError::kSuccess);
  EXPECT_EQ(process.peek(target, 8), "ssssssss");
  EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(target), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, AnEventOfTheContextComesAfterEveryStream) {
  const CudaProcess process(kLazy);
  const Pointer memory = process.allocate(8);
  const Stream gone = process.stream();
  const Stream other = process.stream();
  const Stream waits = process.stream();
  EXPECT_EQ(process->memset_d8_async(memory, 'g', 4, gone), CudaError::kSuccess);
  EXPECT_EQ(process->memset_d8_async(memory + 4, 'o', 4, other), CudaError::kSuccess);
  EXPECT_EQ(process->stream_destroy(gone), CudaError::kSuccess);
  const Event event = new_event(process);
  EXPECT_EQ(process->ctx_record_event(process.context, event), CudaError::kSuccess);
  EXPECT_EQ(process->stream_wait_event(waits, event, 0), CudaError::kSuccess);
  EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
  EXPECT_EQ(process->stream_synchronize(waits), CudaError::kSuccess);
  EXPECT_EQ(process.peek(memory, 8), "ggggoooo");
  const Event again = new_event(process);
  EXPECT_EQ(process->ctx_record_event(process.context, again), CudaError::kSuccess);
  EXPECT_EQ(process->event_synchronize(again), CudaError::kSuccess);
  EXPECT_EQ(process->event_destroy(again), CudaError::kSuccess);
  for (const Stream stream : {other, waits}) EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
  EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, EventsMeasureTime) {
  const CudaProcess process;
  const Event begin = new_event(process, 0);
  const Event end = new_event(process, 0);
  const Event without = new_event(process);
  float milliseconds = -1;
  EXPECT_EQ(process->event_query(begin), CudaError::kSuccess) << "never recorded";
  EXPECT_EQ(process->event_elapsed_time(&milliseconds, begin, end), CudaError::kInvalidHandle);
  EXPECT_EQ(process->event_record(begin, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->event_record(end, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->event_synchronize(end), CudaError::kSuccess);
  EXPECT_EQ(process->event_elapsed_time(&milliseconds, begin, end), CudaError::kSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(process->event_elapsed_time(&milliseconds, begin, without), CudaError::kInvalidHandle);
  for (const Event event : {begin, end, without})
    EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
}

TEST(FakeCudaStreamsTest, AnUnfinishedEventHasNoTime) {
  if (skipped_on_real_cuda(kNeedsLazyStreams)) return;
  const CudaProcess process(kLazy);
  const Event begin = new_event(process, 0);
  const Event end = new_event(process, 0);
  EXPECT_EQ(process->event_record(begin, nullptr), CudaError::kSuccess);
  EXPECT_EQ(process->event_synchronize(begin), CudaError::kSuccess);
  EXPECT_EQ(process->event_record(end, nullptr), CudaError::kSuccess);
  float milliseconds = -1;
  EXPECT_EQ(process->event_elapsed_time(&milliseconds, begin, end), CudaError::kNotReady);
  EXPECT_EQ(process->event_synchronize(end), CudaError::kSuccess);
  for (const Event event : {begin, end}) EXPECT_EQ(process->event_destroy(event), CudaError::kSuccess);
}

// A program that ends while its streams' threads have work ends as usual.
const bool kEndsWithWork = add_helper("end_with_work", [](const std::vector<std::string>&) {
  FakeCuda::set_environment({"FORKLIFT_FAKE_CUDA_DELAY_US=1"});
  const Result<cuda::Driver*> driver = cuda::Driver::get();
  if (!driver.ok()) return 2;
  const cuda::Functions& functions = (*driver)->functions();
  cuda::Context context = nullptr;
  Pointer memory = 0;
  if (functions.device_primary_ctx_retain(&context, 0) != CudaError::kSuccess) return 3;
  if (functions.ctx_set_current(context) != CudaError::kSuccess) return 4;
  if (functions.mem_alloc(&memory, kGranule) != CudaError::kSuccess) return 5;
  for (int i = 0; i < 100; ++i) {
    Stream stream = nullptr;
    if (functions.stream_create(&stream, cuda::kStreamNonBlocking) != CudaError::kSuccess) return 6;
    if (functions.memset_d8_async(memory, 1, kGranule, stream) != CudaError::kSuccess) return 7;
  }
  return 0;
});

TEST(FakeCudaStreamsTest, AProgramCanEndWithWorkInItsStreams) {
  ASSERT_TRUE(kEndsWithWork);
  Child program = start_helper("end_with_work", {});
  EXPECT_EQ(program.wait(), 0);
}

TEST(FakeCudaStreamsTest, ManyThreadsUseManyStreams) {
  const CudaProcess process("FORKLIFT_FAKE_CUDA_DELAY_US=1");
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&process, i] {
      EXPECT_EQ(process->ctx_set_current(process.context), CudaError::kSuccess);
      const Stream stream = process.stream(static_cast<unsigned>(i) % 2);
      for (int round = 0; round < kRounds; ++round) {
        const Pointer memory = process.allocate(64);
        const auto value = static_cast<unsigned char>('a' + round % 26);
        EXPECT_EQ(process->memset_d8_async(memory, value, 64, stream), CudaError::kSuccess);
        EXPECT_EQ(process->stream_synchronize(stream), CudaError::kSuccess);
        EXPECT_EQ(process.peek(memory + 60, 1), std::string(1, static_cast<char>(value)));
        EXPECT_EQ(process->mem_free(memory), CudaError::kSuccess);
      }
      EXPECT_EQ(process->stream_destroy(stream), CudaError::kSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace forklift::test
