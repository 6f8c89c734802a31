// What goes wrong with tensors on a GPU: no device, an old driver, no memory, a device that is not seen, an error at
// each call of the driver.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "forklift/attempt.h"
#include "forklift/device.h"
#include "support/gpu_fixture.h"
#include "tensor/dlpack.h"

namespace forklift::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class GpuErrors : public GpuFixture {};
// Tests that load the driver themselves.
class GpuSettings : public GpuFixture {
 protected:
  void SetUp() override {
    if (skipped_on_real_cuda("it sets how many devices there are, with what memory and which driver")) return;
    ASSERT_TRUE(node::Node::current().ok());
  }
};

TEST(GpuWithoutDriver, ADeviceThatIsNotThereIsNamedWithThoseThatAre) {
  ::setenv("FORKLIFT_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  EXPECT_EQ(devices(), std::vector<std::string>{"CPU"});
  try {
    static_cast<void>(Tensor::zeros({1}, DType::kFloat32).to("GPU"));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("no device 'GPU' here; there are: CPU"));
  }
}

TEST_F(GpuErrors, NothingIsInitialisedBeforeADeviceIsNeeded) {
  EXPECT_THAT(devices(), ElementsAre("CPU", "GPU"));
  set_device_target("GPU");
  EXPECT_EQ(device::cuda::Driver::existing(), nullptr);
  set_device_target("CPU");
  EXPECT_EQ(fake().calls(), 0);
}

TEST_F(GpuSettings, AnOldDriverSharesByHandlesAndSaysSo) {
  load({"FORKLIFT_FAKE_CUDA_VERSION=10010"});
  Queue<Tensor> queue;
  Gate go;
  Child child([&] {
    ASSERT_TRUE(go.wait());
    const Tensor x = queue.get();
    EXPECT_THAT(values(x), ElementsAre(1, 2));
    queue.put(x);  // passed on as the origin's
  });
  testing::internal::CaptureStderr();
  const Tensor x = on_gpu({1, 2});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("no virtual memory with descriptors (driver 10.1)"), HasSubstr("lose them")));
  testing::internal::CaptureStderr();
  const Tensor other = filled(40 << 20, 1);  // another pool: said once
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  queue.put(x);
  go.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_THAT(values(queue.get()), ElementsAre(1, 2));
}

TEST_F(GpuSettings, ADeviceWithoutDescriptorsSharesByHandles) {
  load({"FORKLIFT_FAKE_CUDA_OFF=103"});
  Queue<Tensor> queue;
  Child child([&] { EXPECT_THAT(values(queue.get()), ElementsAre(3)); });
  const Tensor x = on_gpu({3});
  queue.put(x);
  EXPECT_EQ(child.wait(), 0);
}

// Memory that ends with its process: told, and not read.
TEST_F(GpuSettings, TheEarlyDeathOfAnOriginIsAClearError) {
  load({"FORKLIFT_FAKE_CUDA_OFF=102"});
  Queue<Tensor> queue;
  Gate sent;
  Child origin([&] {
    const Tensor x = on_gpu({1, 2});
    queue.put(x);
    queue.put(x);
    sent.open();
    for (;;) ::pause();
  });
  ASSERT_TRUE(sent.wait());
  const Tensor opened = queue.get();
  EXPECT_THAT(values(opened), ElementsAre(1, 2));
  origin.kill_now();
  EXPECT_EQ(code_of([&] { values(opened); }), Code::kPeerDied);
  EXPECT_EQ(code_of([&] { queue.put(opened); }), Code::kPeerDied);
  EXPECT_THAT(text_of([&] { values(queue.get()); }), HasSubstr("belonged to a process that has ended"));
}

TEST_F(GpuSettings, AProcessThatCannotSeeTheDeviceIsTold) {
  load({"FORKLIFT_FAKE_CUDA_DEVICES=2"});
  Queue<Tensor> queue;
  Gate go;
  Child sees([&] {
    ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    ASSERT_TRUE(go.wait());
    const Tensor x = queue.get();
    EXPECT_EQ(x.device(), "GPU");  // another number, the same device
    EXPECT_THAT(values(x), ElementsAre(1, 2));
  });
  Child does_not([&] {
    ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    ASSERT_TRUE(go.wait());
    const std::string text = text_of([&] { static_cast<void>(queue.get()); });
    EXPECT_THAT(
        text, AllOf(HasSubstr("cannot see"), HasSubstr("CUDA_VISIBLE_DEVICES is \"0\""), HasSubstr("GPU-")));
    EXPECT_EQ(devices(), (std::vector<std::string>{"CPU", "GPU"}));
  });
  EXPECT_EQ(on_gpu({1}).device(), "GPU");
  EXPECT_THAT(devices(), ElementsAre("CPU", "GPU", "GPU:1"));
  {
    const Tensor x = on_gpu({1, 2}, "GPU:1");
    EXPECT_EQ(x.device(), "GPU:1");
    queue.put(x);
    queue.put(x);
  }
  EXPECT_THAT(text_of([] { on_gpu({1}, "GPU:2"); }), HasSubstr("there are: CPU GPU GPU:1"));
  go.open(2);
  EXPECT_EQ(sees.wait(), 0);
  EXPECT_EQ(does_not.wait(), 0);
  EXPECT_TRUE(eventually([] {
    node().domain().reap();
    const auto now = gpu(1).memory().stats();
    return now.used == 0 && now.away == 0;
  }));
  gpu(1).memory().trim();
}

TEST_F(GpuSettings, NoMemoryIsAnErrorWithTheFigures) {
  load({"FORKLIFT_FAKE_CUDA_BYTES=134217728"});
  {
    const Tensor x = filled(4 << 20, 1);
    EXPECT_EQ(code_of([] { filled(100 << 20, 1); }), Code::kNoSpace);
    EXPECT_THAT(text_of([] { filled(100 << 20, 1); }),
                AllOf(HasSubstr("no memory for 419430400 bytes"), HasSubstr("of 134217728 bytes are free"),
                      HasSubstr("this process has 67108864 in 1 pools")));
    EXPECT_FLOAT_EQ(values(x).front(), 1);
  }
  // What is kept for later goes back first.
  EXPECT_EQ(memory().bytes, std::uint64_t{64} << 20);
  EXPECT_FLOAT_EQ(values(filled(30 << 20, 2)).back(), 2);
}

TEST_F(GpuErrors, TheBudgetIsTheDomains) {
  ::setenv("FORKLIFT_DEVICE_BUDGET", "100M", 1);
  Gate made, end;
  Child child([&] {
    const Tensor x = on_gpu({1});  // a pool of 64 MiB
    made.open();
    EXPECT_TRUE(end.wait());
  });
  ASSERT_TRUE(made.wait());
  EXPECT_EQ(code_of([] { filled(20 << 20, 1); }), Code::kOverBudget);
  EXPECT_THAT(text_of([] { filled(20 << 20, 1); }),
              AllOf(HasSubstr("67108864 are in use by all processes"), HasSubstr("104857600 are allowed")));
  EXPECT_THAT(values(on_gpu({2})), ElementsAre(2));  // what fits, in a pool of its size
  end.open();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(eventually([] {
    node().domain().reap();
    return code_of([] { filled(20 << 20, 1); }) == Code::kOk;
  }));
  ::setenv("FORKLIFT_DEVICE_BUDGET", "many", 1);
  EXPECT_EQ(code_of([] { filled(60 << 20, 1); }), Code::kInvalid);
  ::unsetenv("FORKLIFT_DEVICE_BUDGET");
}

TEST_F(GpuErrors, AContextThatAnErrorHasPoisonedIsTold) {
  if (skipped_on_real_cuda("it makes an error")) return;
  Queue<Tensor> queue;
  const Tensor x = on_gpu({1, 2});
  fake().poison(700);
  EXPECT_EQ(code_of([&] { values(x); }), Code::kDevice);
  EXPECT_THAT(text_of([&] { queue.put(x); }),
              AllOf(HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"), HasSubstr("cannot be used any more")));
  EXPECT_THAT(text_of([] { on_gpu({1}); }), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_TRUE(queue.empty());
}

// Memory of the host that is said to be a device's.
TEST_F(GpuErrors, WhatIsNoDeviceMemoryIsNotShared) {
  std::vector<float> host(4);
  device::cuda::Gpu& device = gpu();
  EXPECT_EQ(device.share_foreign(host.data(), 16, nullptr).code(), Code::kInvalid);
  EXPECT_EQ(device.share(host.data(), 16).code(), Code::kInvalid);
}

// A fault at each call of the driver, one after the other: the operation fails with a typed error or does what it
// should, nothing is left behind, and the next one works.
class GpuFaults : public GpuFixture {
 protected:
  void SetUp() override {
    if (skipped_on_real_cuda("it makes calls fail")) return;
    GpuFixture::SetUp();
  }
  static constexpr int kError = 999;
  inline static const std::set<std::string> kGivesBack{
      "cuMemRelease", "cuMemUnmap", "cuMemAddressFree", "cuMemFree", "cuIpcCloseMemHandle", "cuEventDestroy"};
  // Runs `operation` with a failure at its first call, its second, … until it does not meet the failure.
  void fail_each_call(const std::string& what, const std::function<void()>& operation, int least) {
    operation();
    trim();
    const auto left = [&] {
      const FakeCudaLive now = fake().live();
      return std::vector<long>{now.allocations, now.handles, now.physical, now.reservations, now.mappings,
                               now.ipc_opened,  now.streams, now.events,   now.host_ranges};
    };
    std::vector<long> before = left();
    const long calls_before = fake().calls();
    operation();
    const long calls = fake().calls() - calls_before;
    trim();
    int failed = 0;
    for (long call = 1; call <= calls; ++call) {
      fake().fail_at(call, kError);
      const Code code = code_of(operation);
      const std::string name = fake().failed_function();
      fake().fail_no_more();
      if (code != Code::kOk) ++failed;
      EXPECT_TRUE(code == Code::kOk || code == Code::kDevice || code == Code::kNotFound)
          << what << ", " << name;
      trim();
      // What the driver refuses to take back stays, in the driver.
      if (!kGivesBack.contains(name))
        EXPECT_EQ(left(), before) << what << ": left behind by a failure of " << name << ", call " << call;
      else
        before = left();
      const Status again = attempt(operation);
      EXPECT_TRUE(again) << what << ": does not work after a failure of " << name << ", call " << call << ": "
                         << again.what();
      trim();
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GE(failed, least) << what << " of " << calls << " calls";
    std::printf("  %-40s %3ld calls, %3d of their failures reached the caller\n", what.c_str(), calls,
                failed);
  }
  // What the driver refuses to take back stays in the process.
  static void in_a_process(const std::function<void()>& body) { EXPECT_EQ(Child(body).wait(), 0); }
  static void trim() {
    node().domain().reap();
    node().memory_pools().let_go(memory_pool::Pools::Idle::kAll);
    gpu().foreign().collect();
    gpu().memory().trim();
  }
};

TEST_F(GpuFaults, MakingATensor) {
  in_a_process([&] {
    fail_each_call("make a tensor", [] { EXPECT_THAT(values(on_gpu({1, 2})), ElementsAre(1, 2)); }, 12);
  });
}

TEST_F(GpuFaults, SendingAndReceiving) {
  Queue<Tensor> queue;
  in_a_process([&] {
    fail_each_call(
        "put and get a tensor",
        [&] {
          const Tensor x = on_gpu({1, 2});
          queue.put(x);
          try {
            EXPECT_THAT(values(queue.get()), ElementsAre(1, 2));
          } catch (...) {
            while (!queue.empty()) static_cast<void>(queue.get());
            throw;
          }
        },
        12);
  });
}

// Of another process, so that the memory is imported each time.
TEST_F(GpuFaults, ImportingMemory) {
  Queue<Tensor> ask, answer;
  Child child([&] {
    const Tensor x = on_gpu({1, 2});
    for (;;) {
      static_cast<void>(ask.get());
      answer.put(x);
    }
  });
  in_a_process([&] {
    fail_each_call(
        "import and read a tensor",
        [&] {
          ask.put(Tensor());
          EXPECT_THAT(values(answer.get()), ElementsAre(1, 2));
        },
        8);
  });
  child.kill_now();
}

// Calls that hand out the device's memory to another library.
TEST_F(GpuFaults, LendingMemory) {
  in_a_process([&] {
    fail_each_call(
        "export by DLPack",
        [] {
          const Tensor x = on_gpu({1, 2});
          dlpack::ManagedTensorVersioned* const lent = value_or_throw(tensor::export_versioned(x, false, 1));
          lent->deleter(lent);
        },
        12);
  });
}

TEST_F(GpuFaults, OpeningTheDevice) {
  // The first use happens once a process: each failure gets a process of its own.
  int failed = 0;
  int calls = 1;
  for (int call = 1; call <= calls; ++call) {
    Queue<int> answer;
    Child child([&] {
      fake().fail_at(call, kError);
      const Code code = code_of([] { on_gpu({1}); });
      answer.put(static_cast<int>(code));
      answer.put(static_cast<int>(fake().calls()));
      fake().fail_no_more();
      if (code == Code::kOk) return;
      EXPECT_EQ(code_of([] { EXPECT_THAT(values(on_gpu({1})), ElementsAre(1)); }), Code::kOk);
    });
    const auto code = static_cast<Code>(answer.get());
    if (code == Code::kOk) {
      calls = answer.get();
    } else {
      calls = std::max(calls, answer.get() + 1);
      ++failed;
    }
    EXPECT_EQ(child.wait(), 0) << "call " << call;
    EXPECT_THAT(code, testing::AnyOf(Code::kOk, Code::kDevice, Code::kNotFound)) << "call " << call;
  }
  EXPECT_GE(failed, 10);
}

}  // namespace
}  // namespace forklift::test
