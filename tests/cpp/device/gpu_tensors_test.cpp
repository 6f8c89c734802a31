// Tensors on a GPU between processes: whoever made them, passes them on, ends or is killed.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "forklift/broadcast.h"
#include "forklift/device.h"
#include "support/gpu_fixture.h"
#include "support/shm_files.h"
#include "tensor/pending.h"

namespace forklift::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class GpuTensors : public GpuFixture {};

TEST_F(GpuTensors, AProcessGetsTheSameMemory) {
  Queue<Tensor> there;
  Queue<int> done;
  Gate seen, written;
  Child child([&] {
    Tensor x = there.get();
    EXPECT_EQ(x.device(), "GPU");
    EXPECT_THAT(values(x), ElementsAre(1, 2, 3));
    seen.open();
    EXPECT_TRUE(written.wait());
    EXPECT_THAT(values(x), ElementsAre(4, 5, 6));
    done.put(1);
  });
  const Tensor x = on_gpu({1, 2, 3});
  there.put(x);
  const Tensor other = on_gpu({4, 5, 6});
  ASSERT_TRUE(seen.wait());
  EXPECT_OK(gpu().copy_within(detail::StorageAccess::address(*x.storage()),
                              detail::StorageAccess::address(*other.storage()), 12));
  EXPECT_OK(gpu().complete());
  written.open();
  EXPECT_EQ(done.get(), 1);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(GpuTensors, StayWhenTheirProducerEnds) {
  Queue<Tensor> queue;
  Child child([&] { queue.put(on_gpu({7, 8})); });
  EXPECT_EQ(child.wait(), 0);
  const Tensor x = queue.get();
  EXPECT_THAT(values(x), ElementsAre(7, 8));
  queue.put(x);  // and can be sent on
  EXPECT_THAT(values(queue.get()), ElementsAre(7, 8));
}

TEST_F(GpuTensors, StayWhenTheirProducerIsKilled) {
  Queue<Tensor> queue;
  Gate sent;
  Child child([&] {
    const Tensor x = on_gpu({7, 8});
    queue.put(x);
    queue.put(x);
    sent.open();
    for (;;) ::pause();
  });
  ASSERT_TRUE(sent.wait());
  const Tensor opened = queue.get();
  EXPECT_THAT(values(opened), ElementsAre(7, 8));
  child.kill_now();
  EXPECT_THAT(values(opened), ElementsAre(7, 8));
  EXPECT_THAT(values(queue.get()), ElementsAre(7, 8));  // was in flight
}

TEST_F(GpuTensors, ArePassedOnToAThirdProcess) {
  Queue<Tensor> first, second;
  Queue<float> answer;
  Child reader([&] { answer.put(values(second.get()).at(1)); });
  Child relay([&] { second.put(first.get()); });
  {
    const Tensor x = on_gpu({1, 42});
    first.put(x);
  }
  EXPECT_EQ(relay.wait(), 0);
  EXPECT_EQ(answer.get(), 42);
  EXPECT_EQ(reader.wait(), 0);
}

TEST_F(GpuTensors, ComeBackToTheProcessThatPutThem) {
  Queue<Tensor> queue;
  const Tensor x = on_gpu({1, 2, 3});
  queue.put(x);
  const Tensor y = queue.get();
  EXPECT_EQ(detail::StorageAccess::address(*y.storage()), detail::StorageAccess::address(*x.storage()));
  EXPECT_THAT(values(y), ElementsAre(1, 2, 3));
}

TEST_F(GpuTensors, AreSharedByViewsOfOneMessageOnce) {
  Queue<std::vector<Tensor>> queue;
  const Tensor x = on_gpu({0, 1, 2, 3, 4, 5});
  queue.put({x.narrow(0, 1, 2), x.slice(0, {}, {}, 2)});
  EXPECT_EQ(node().memory_pools().live_pieces(), 1U);
  const std::vector<Tensor> got = queue.get();
  EXPECT_THAT(values(got.at(0)), ElementsAre(1, 2));
  EXPECT_EQ(got.at(1).strides()[0], 2);
  EXPECT_EQ(got.at(0).storage(), got.at(1).storage());
}

TEST_F(GpuTensors, AreBroadcastToEachReader) {
  Broadcast<Tensor> topic;
  Subscription<Tensor> one = topic.subscribe();
  Subscription<Tensor> other = topic.subscribe();
  topic.put(on_gpu({5}));
  EXPECT_THAT(values(one.get()), ElementsAre(5));
  EXPECT_THAT(values(other.get()), ElementsAre(5));
}

// Ranges go back to their owner when the last process has dropped them, and are used again.
TEST_F(GpuTensors, MemoryIsUsedAgainWhenNobodyHasIt) {
  Queue<Tensor> queue;
  Gate drop, dropped;
  Child child([&] {
    {
      const Tensor x = queue.get();
      EXPECT_TRUE(drop.wait());
    }
    dropped.open();
    EXPECT_TRUE(drop.wait());
  });
  std::byte* address = nullptr;
  {
    const Tensor x = on_gpu({1, 2});
    address = detail::StorageAccess::address(*x.storage());
    queue.put(x);
  }
  EXPECT_EQ(memory().used, 0U);
  EXPECT_EQ(memory().away, 512U);
  EXPECT_NE(detail::StorageAccess::address(*on_gpu({3}).storage()), address);
  drop.open();
  ASSERT_TRUE(dropped.wait());
  EXPECT_EQ(memory().away, 0U);
  EXPECT_EQ(detail::StorageAccess::address(*on_gpu({3}).storage()), address);
  drop.open();
  EXPECT_EQ(child.wait(), 0);
}

// A receiver has the pool mapped still when it has dropped its tensors, and lets go of it when its owner does, though it does
// nothing.
TEST_F(GpuTensors, MemoryThatIsGivenUpIsFreeAlthoughAReceiverHadIt) {
  if (skipped_on_real_cuda("it looks at the fake one's files")) return;
  const auto files = [] {
    int count = 0;
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(file.path(), gone).string();
      if (target.starts_with("/memfd:fake-cuda.")) ++count;
    }
    return count;
  };
  Queue<Tensor> queue;
  Gate dropped, given_up;
  Child child([&] {
    EXPECT_THAT(values(queue.get()), ElementsAre(1, 2));
    EXPECT_GT(files(), 0);
    dropped.open();
    ASSERT_TRUE(given_up.wait());
    EXPECT_TRUE(eventually([&] { return files() == 0; }));
  });
  queue.put(on_gpu({1, 2}));
  ASSERT_TRUE(dropped.wait());
  EXPECT_EQ(memory().away, 0U);
  EXPECT_GT(gpu().memory().trim(), 0U);
  given_up.open();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(GpuTensors, ManyInARowTakeNoMoreThanTheyNeed) {
  constexpr int kCount = 200;
  constexpr std::int64_t kElements = 1 << 20;
  Queue<Tensor> queue({.capacity = 2});
  Queue<int> wrong;
  Child child([&] {
    int bad = 0;
    for (int i = 0; i < kCount; ++i) {
      const std::vector<float> got = values(queue.get());
      if (got.front() != static_cast<float>(i) || got.back() != static_cast<float>(i)) ++bad;
    }
    wrong.put(bad);
  });
  for (int i = 0; i < kCount; ++i) queue.put(filled(kElements, static_cast<float>(i)));
  EXPECT_EQ(wrong.get(), 0);
  EXPECT_EQ(child.wait(), 0);
  // At most two in the queue, one in each process, and one that comes back late.
  EXPECT_LE(memory().bytes, 2 * device::cuda::DeviceMemory::kPoolBytes);
}

// What a child inherits cannot be used, and it is told at once.
TEST_F(GpuTensors, AForkedChildIsToldThatItCannotUseThem) {
  const Tensor x = on_gpu({1, 2});
  Queue<Tensor> queue;
  const long calls = fake().calls();
  Child child([&] {
    EXPECT_EQ(code_of([&] { values(x); }), Code::kBrokenByFork);
    EXPECT_EQ(code_of([&] { queue.put(x); }), Code::kBrokenByFork);
    EXPECT_EQ(code_of([] { on_gpu({1}); }), Code::kBrokenByFork);
    EXPECT_THAT(text_of([] { on_gpu({1}); }), HasSubstr("spawn or forkserver"));
    EXPECT_EQ(device_target(), "CPU");
    EXPECT_EQ(fake().forked_calls(), 0);
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(fake().calls(), calls);
  EXPECT_THAT(values(x), ElementsAre(1, 2));
}

// The consumer's hand-over: what the producer queued is done, though no stream of the fake's works by itself.
TEST_F(GpuTensors, WhatWasQueuedIsDoneWhenTheTensorIsSent) {
  if (skipped_on_real_cuda("it stops streams, and counts what is queued")) return;
  load({"FORKLIFT_FAKE_CUDA_LAZY=1"});
  Queue<Tensor> queue;
  Child child([&] { EXPECT_THAT(values(queue.get()), ElementsAre(4, 5)); });
  const Tensor x = on_gpu({1, 2});
  const Tensor y = on_gpu({4, 5});
  EXPECT_OK(gpu().copy_within(detail::StorageAccess::address(*x.storage()),
                              detail::StorageAccess::address(*y.storage()), 8));
  EXPECT_EQ(fake().live().pending, 1);
  queue.put(x);
  EXPECT_EQ(fake().live().pending, 0);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(GpuTensors, ThreadsMakeSendAndDropThem) {
  Queue<Tensor> queue;
  std::atomic<int> wrong{0};
  const auto work = [&](float value) {
    for (int i = 0; i < 100; ++i) {
      queue.put(on_gpu({value, value}));
      const std::vector<float> got = values(queue.get());
      if (got.size() != 2 || got[0] != got[1]) ++wrong;
    }
  };
  {
    const std::jthread one(work, 1.0F);
    const std::jthread two(work, 2.0F);
  }
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace forklift::test
