// The storm over tensors on a GPU: producers, relays and consumers are killed at random, and now and then the brokers,
// both of them too. Every tensor that arrives is whole, or says that its memory went with its process; in the end no
// piece, no pool, no broker and no device memory is left: of the fake driver's (tests/fake_cuda), or with
// FORKLIFT_TEST_REAL_CUDA=1 of the machine's GPU, which nobody else may use meanwhile.
//
// FORKLIFT_STORM_SECONDS (20, of which this takes a third) and FORKLIFT_STORM_SEED choose length and dice.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "device/cuda/gpu.h"
#include "forklift/error.h"
#include "forklift/queue.h"
#include "forklift/tensor.h"
#include "node/node.h"
#include "storm.h"
#include "support/child.h"
#include "support/fake_cuda.h"
#include "support/pool_fixture.h"
#include "support/shm_files.h"
#include "tensor/device_storage.h"

namespace forklift::test {
namespace {

constexpr std::int64_t kProgressNs = 6 * kSecond * kSlower;
constexpr std::size_t kWorkers = 6;
constexpr std::chrono::milliseconds kPatience(20);
// Microseconds between kills: of six processes, some have to live long enough to open a GPU.
constexpr unsigned kStartOfARealDriver = 400'000;

// Outside of the domain.
struct Account {
  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint64_t> read{0};
  std::atomic<std::uint64_t> lost{0};  // whose process was killed, of memory that ends with it
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<bool> stop{false};
};

// Device memory that any process of this machine still has, of the fake driver's: names of its files.
std::set<std::string> device_memory(const std::string& machine) {
  namespace fs = std::filesystem;
  std::set<std::string> found;
  std::error_code error;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc", error)) {
    for (const fs::directory_entry& file : fs::directory_iterator(process.path() / "fd", error)) {
      const std::string target = fs::read_symlink(file.path(), error).string();
      if (target.find("/memfd:fake-cuda." + machine + ".") == 0) found.insert(target);
    }
  }
  return found;
}

// What all processes have of the GPU, and a context: asked in a program of its own, since the test must not initialise CUDA
// before it forks. In MiB.
const bool kAsksForMemory = add_helper("used_gpu_memory", [](const std::vector<std::string>& arguments) {
  const auto gpu = device::open_gpu(0);
  if (!gpu.ok()) return 1;
  const device::cuda::Driver& driver = (*gpu)->gpu()->driver();
  const device::cuda::Current current(driver, (*gpu)->gpu()->context());
  std::size_t free = 0;
  std::size_t total = 0;
  if (!driver.call("cuMemGetInfo", driver.functions().mem_get_info, &free, &total)) return 1;
  return std::ofstream(arguments.at(0)) << (total - free) / (std::size_t{1} << 20) ? 0 : 1;
});
std::size_t used_gpu_memory() {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("forklift-gpu-memory-" + std::to_string(::getpid()));
  EXPECT_EQ(start_helper("used_gpu_memory", {file.string()}).wait(), 0);
  // Until it ran its own program it was a fork of this process, which held what this process holds.
  node::Node::for_each([](node::Node& node) { node.domain().reap(); });
  std::size_t used = 0;
  EXPECT_TRUE(std::ifstream(file) >> used);
  std::filesystem::remove(file);
  return used;
}

class GpuStorm : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(kAsksForMemory);
    if (tests_real_cuda()) used_before_ = used_gpu_memory();
    machine_ = "storm-" + std::to_string(::getpid());
    (void)FakeCuda::load({"FORKLIFT_FAKE_CUDA_MACHINE=" + machine_});
    ASSERT_TRUE(node::Node::current().ok());
    token_ = node().domain().header().domain_id;
    void* memory =
        ::mmap(nullptr, sizeof(Account), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    account_ = new (memory) Account;
  }
  void TearDown() override {
    if (account_ != nullptr) ::munmap(account_, sizeof(Account));
  }
  static node::Node& node() { return **node::Node::current(); }

  void complain(const std::string& what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    ++account_->wrong;
  }

  // A tensor whose elements are all one number. Every third lies in memory that this process has from the driver.
  Tensor make(std::mt19937& dice) {
    const float value = static_cast<float>(dice() % 100'000);
    const std::int64_t count = 1 + static_cast<std::int64_t>(dice() % 30'000);
    Tensor here = Tensor::empty({count}, DType::kFloat32);
    here.fill(value);
    if (dice() % 3 != 0) return here.to("GPU");
    return foreign(here);
  }
  Tensor foreign(const Tensor& from) {
    device::cuda::Gpu& gpu = *value_or_throw(device::open_gpu(0))->gpu();
    const device::cuda::Current current(gpu.driver(), gpu.context());
    memory_pool::OriginHandle unused{};
    const std::shared_ptr<device::cuda::DeviceRange> range =
        value_or_throw(device::cuda::DeviceRange::allocate(gpu.place(), from.nbytes(), &unused));
    auto* const memory = reinterpret_cast<void*>(range->base());
    throw_if_failed(gpu.copy_in(memory, from.raw(), from.nbytes()));
    return Tensor::wrap(value_or_throw(tensor::foreign_on_device(0, memory, from.nbytes(), range)),
                        DType::kFloat32, from.shape());
  }

  void check(const Tensor& tensor) {
    const Tensor here = tensor.to("CPU");
    const auto all = here.span<const float>();
    for (const float each : all) {
      if (each == all.front()) continue;
      // Nobody promises the reading of memory whose process is killed in the middle of it.
      if (!tensor::check_usable(tensor)) {
        ++account_->lost;
        return;
      }
      return complain("a tensor with " + std::to_string(all.front()) + " and " + std::to_string(each));
    }
    ++account_->read;
  }

  // What may happen when others are killed.
  template <class Action>
  void forgive(const char* what, Action&& action) {
    try {
      action();
    } catch (const Error& error) {
      // The origin is gone (its memory can no longer be opened, too), or the broker was killed twice within the patience.
      if (error.code() == Code::kPeerDied || error.code() == Code::kDevice) {
        ++account_->lost;
        return;
      }
      complain(std::string(what) + ": " + error.what());
    }
  }

  void work(unsigned role, Queue<Tensor>& first, Queue<Tensor>& second) {
    std::mt19937 dice(static_cast<unsigned>(::getpid()));
    while (!account_->stop) {
      forgive(role == 0   ? "a producer"
              : role == 1 ? "a relay"
                          : "a consumer",
              [&] {
                if (role == 0) {
                  if (first.try_put(make(dice), kPatience)) ++account_->made;
                  return;
                }
                const std::optional<Tensor> tensor =
                    role == 1 ? first.try_get(kPatience) : second.try_get(kPatience);
                if (!tensor) return;
                if (role == 2 || dice() % 2 == 0) check(*tensor);
                if (role == 1) (void)second.try_put(*tensor, kPatience);
              });
    }
  }

  pid_t start(unsigned worker, Queue<Tensor>& first, Queue<Tensor>& second) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    work(worker % 3, first, second);
    ::_exit(0);
  }

  void expect_nothing_left() {
    EXPECT_TRUE(eventually([] {
      node().domain().reap();
      return node().memory_pools().live_pieces() == 0 && node().memory_pools().live_pools() == 0;
    })) << node().memory_pools().live_pieces()
        << " pieces and " << node().memory_pools().live_pools() << " pools are left";
    EXPECT_EQ(node().audit(), std::vector<std::string>());
    EXPECT_TRUE(eventually([&] { return device_memory(machine_).empty(); }))
        << device_memory(machine_).size() << " pieces of device memory are left";
    if (tests_real_cuda()) {
      EXPECT_TRUE(eventually([&] { return used_gpu_memory() <= used_before_; }))
          << used_gpu_memory() << " MiB of the GPU are in use, " << used_before_ << " were before";
    }
  }

  std::string machine_;
  std::size_t used_before_ = 0;
  std::uint64_t token_ = 0;
  Account* account_ = nullptr;
};

TEST_F(GpuStorm, KillsLeaveNoDeviceMemory) {
  std::mt19937 dice(static_cast<unsigned>(storm_seed(18)));
  Queue<Tensor> first({.capacity = 20}), second({.capacity = 20});
  std::array<pid_t, kWorkers> workers{};
  for (unsigned i = 0; i < kWorkers; ++i) workers[i] = start(i, first, second);
  Progress reads(account_->read, kProgressNs, "nobody reads a tensor");
  std::uint64_t brokers_killed = 0;
  const std::uint64_t kills = kill_at_random(
      workers, dice, storm_seconds() * kSecond / 3, tests_real_cuda() ? kStartOfARealDriver : 30'000,
      [&](unsigned worker) { return start(worker, first, second); },
      [&] {
        reads.look();
        if (dice() % 20 != 0) return;
        for (const pid_t pid : brokers(token_)) {
          if (::kill(pid, SIGKILL) == 0) ++brokers_killed;
          if (dice() % 2 == 0) break;
        }
      });
  account_->stop = true;
  for (const pid_t pid : workers) expect_clean_end(pid);
  Child last([&] {
    for (Queue<Tensor>* const queue : {&first, &second}) {
      while (!queue->empty()) forgive("the last reader", [&] { check(queue->get()); });
    }
  });
  EXPECT_EQ(last.wait(), 0);
  std::printf("  %llu kills, %llu of brokers: %llu tensors made, %llu read, %llu lost with their process\n",
              static_cast<unsigned long long>(kills), static_cast<unsigned long long>(brokers_killed),
              static_cast<unsigned long long>(account_->made),
              static_cast<unsigned long long>(account_->read),
              static_cast<unsigned long long>(account_->lost));
  EXPECT_EQ(account_->wrong, 0U);
  EXPECT_GT(kills, 20U);
  EXPECT_GT(account_->read, 20U);
  expect_nothing_left();
}

}  // namespace
}  // namespace forklift::test
