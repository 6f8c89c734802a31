#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "device/cuda/gpu.h"
#include "device/device.h"
#include "device/simulated.h"
#include "node/node.h"

namespace forklift::inline abi_0_1::device {
namespace {

// FORKLIFT_DEVICE_TARGET; one that is not there is told when the first tensor is made there.
std::string first_target() {
  const char* const named = std::getenv("FORKLIFT_DEVICE_TARGET");
  return named != nullptr && *named != '\0' ? named : std::string(kCpu);
}

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<Device>> opened;
  std::string target = first_target();
};

// Set without the lock, for a thread that makes a tensor.
std::atomic<bool> cpu{first_target() == kCpu};

Registry& registry() {
  // Never destroyed: tensors may outlive main. The lock is held across a fork.
  static Registry* const instance = [] {
    auto* const made = new Registry;
    ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                     [] {
                       Registry& all = registry();
                       // The parent's devices stay its own: the child's copies of their claims are closed, or a device
                       // would not be free when the parent has ended.
                       for (const std::shared_ptr<Device>& each : all.opened) each->disown();
                       // Kept: what other libraries have lent to them is not the child's to give back.
                       static_cast<void>(new std::vector<std::shared_ptr<Device>>(std::move(all.opened)));
                       all.opened.clear();
                       all.target = kCpu;
                       cpu.store(true, std::memory_order_relaxed);
                       all.mutex.unlock();
                     });
    return made;
  }();
  return *instance;
}

Status not_found(std::string_view name) {
  std::string text = "no device '" + std::string(name) + "' here; there are:";
  for (const std::string& each : names()) text += ' ' + each;
  return {Code::kNotFound, text};
}

// Simulated devices have precedence, so that one may be called "GPU".
bool is_simulated(std::string_view name) {
  const std::vector<std::string> all = simulated_names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

// Of a GPU that nobody has asked the driver for, only whether there can be one: set_target() initialises nothing.
bool exists(std::string_view name) {
  if (cuda::ordinal_of(name) > 0 && cuda::Driver::is_there() && cuda::Driver::existing() == nullptr)
    return true;
  const std::vector<std::string> all = names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> all{std::string(kCpu)};
  for (std::string& name : simulated_names()) all.push_back(std::move(name));
  for (std::string& name : cuda::gpu_names()) {
    if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
  }
  return all;
}

Result<std::shared_ptr<Device>> open(std::string_view name) {
  if (name == kCpu) return std::shared_ptr<Device>();
  if (!exists(name)) return not_found(name);
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  for (const std::shared_ptr<Device>& each : all.opened) {
    if (each->name() == name) return each;
  }
  Result<std::shared_ptr<Device>> made = std::shared_ptr<Device>();
  if (is_simulated(name)) {
    made = open_simulated(std::string(name));
  } else {
    Result<std::shared_ptr<cuda::Gpu>> gpu = cuda::Gpu::open(cuda::ordinal_of(name));
    made = gpu ? Result<std::shared_ptr<Device>>(*std::move(gpu)) : gpu.status();
  }
  if (!made) return made;
  all.opened.push_back(*made);
  // After the driver was initialised, so that it runs before the driver's own end.
  static const int registered = std::atexit([] { leave(); });
  static_cast<void>(registered);
  return made;
}

Result<std::shared_ptr<Device>> open_gpu(int ordinal) {
  Result<std::shared_ptr<Device>> device = open(cuda::name_of(ordinal));
  if (device && (*device)->gpu() == nullptr)
    return Status(Code::kUnsupported,
                  "a tensor on a GPU, where " + (*device)->name() + " means a simulated device");
  return device;
}

Result<arena::LeasePtr> Device::share(const void*, std::size_t) {
  return Status(Code::kUnsupported, name() + " belongs to one process at a time, and so does its memory");
}

Result<arena::LeasePtr> Device::share_foreign(const void* memory, std::size_t bytes,
                                              const std::shared_ptr<const void>&) {
  return share(memory, bytes);
}

Status check_origin(const arena::Lease& lease) {
  const node::Node* const node = node::Node::of(lease.arena());
  return node == nullptr ? Status() : node->memory_pools().check_origin(lease);
}

void leave() {
  std::vector<std::shared_ptr<Device>> opened;
  {
    Registry& all = registry();
    const std::lock_guard held(all.mutex);
    opened = all.opened;
  }
  for (const std::shared_ptr<Device>& each : opened) each->leave();
}

Result<Opened> open_shared(arena::Lease& lease) {
  const node::Node* const node = node::Node::of(lease.arena());
  if (node == nullptr)
    return Status(Code::kNotAttached, "a lease of a domain that this process does not belong to");
  const Result<memory_pool::PieceInfo> piece = node->memory_pools().describe(lease);
  if (!piece) return piece.status();
  const Result<int> ordinal = cuda::find_by_uuid(piece->device);
  if (!ordinal) return ordinal.status();
  Result<std::shared_ptr<Device>> device = open_gpu(*ordinal);
  if (!device) return device.status();
  const Result<void*> memory = (*device)->gpu()->open(lease);
  if (!memory) return memory.status();
  return Opened{*std::move(device), *memory};
}

Status set_target(std::string_view name) {
  if (!exists(name)) return not_found(name);
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  all.target = name;
  cpu.store(name == kCpu, std::memory_order_relaxed);
  return {};
}

std::string target() {
  if (targets_cpu()) return std::string(kCpu);
  Registry& all = registry();
  const std::lock_guard held(all.mutex);
  return all.target;
}

namespace {
std::atomic<bool> waits_at_handover{true};
}  // namespace

void set_handover_waits(bool waits) noexcept { waits_at_handover.store(waits, std::memory_order_relaxed); }
bool handover_waits() noexcept { return waits_at_handover.load(std::memory_order_relaxed); }

bool targets_cpu() noexcept { return cpu.load(std::memory_order_relaxed); }

}  // namespace forklift::inline abi_0_1::device
