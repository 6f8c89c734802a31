#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "device/device.h"
#include "device/simulated.h"

namespace forklift::device {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<Device>> opened;
  std::string target{kCpu};
};

// Set without the lock, for whoever makes a tensor.
std::atomic<bool> cpu{true};

Registry& registry() {
  // Never destroyed: tensors may outlive main. The lock is held across a fork.
  static Registry* const instance = [] {
    static Registry made;
    ::pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                     [] {
                       Registry& all = registry();
                       // The parent's devices stay its own: the child's copies of their claims are closed, or a device
                       // would not be free when the parent has ended.
                       for (const std::shared_ptr<Device>& each : all.opened) each->disown();
                       all.opened.clear();
                       all.target = kCpu;
                       cpu.store(true, std::memory_order_relaxed);
                       all.mutex.unlock();
                     });
    return &made;
  }();
  return *instance;
}

Status not_found(std::string_view name) {
  std::string text = "no device '" + std::string(name) + "' here; there are:";
  for (const std::string& each : names()) text += ' ' + each;
  return {Code::kNotFound, text};
}

bool exists(std::string_view name) {
  const std::vector<std::string> all = names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> all{std::string(kCpu)};
  for (std::string& name : simulated_names()) all.push_back(std::move(name));
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
  Result<std::shared_ptr<Device>> made = open_simulated(std::string(name));
  if (made) all.opened.push_back(*made);
  return made;
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

bool targets_cpu() noexcept { return cpu.load(std::memory_order_relaxed); }

}  // namespace forklift::device
