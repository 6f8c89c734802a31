#include "contexts.h"

#include <iterator>
#include <type_traits>

#include "devices.h"
#include "engine.h"
#include "events.h"
#include "modules.h"
#include "plain_memory.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

// A context's handle is an address that nothing has: a device's number from here on.
constexpr std::uintptr_t kFirst = 0xC0DE'0000;
constexpr std::uintptr_t kStep = 16;

// Nothing to destroy: functions of atexit() call the driver, and a thread's objects are destroyed before they run.
class Stack {
 public:
  bool empty() const { return depth_ == 0; }
  Context& back() { return contexts_[depth_ - 1]; }
  void pop_back() { --depth_; }
  // False: programs nest less than that.
  bool push_back(Context context) {
    if (depth_ == std::size(contexts_)) return false;
    contexts_[depth_++] = context;
    return true;
  }

 private:
  Context contexts_[64] = {};
  std::size_t depth_ = 0;
};
thread_local constinit Stack stack;
static_assert(std::is_trivially_destructible_v<Stack>);

}  // namespace

Contexts& contexts() {
  static auto* const made = new Contexts;
  return *made;
}

Context Contexts::of(DeviceNumber device) {
  return reinterpret_cast<Context>(kFirst + kStep * static_cast<std::uintptr_t>(device));
}

std::optional<DeviceNumber> Contexts::device_of(Context context) {
  const auto value = reinterpret_cast<std::uintptr_t>(context);
  if (value < kFirst || (value - kFirst) % kStep != 0) return std::nullopt;
  const auto device = static_cast<DeviceNumber>((value - kFirst) / kStep);
  if (!is_device(device)) return std::nullopt;
  return device;
}

CudaError Contexts::retain(DeviceNumber device, Context* context) {
  ++counts_[device];
  *context = of(device);
  return CudaError::kSuccess;
}

CudaError Contexts::release(DeviceNumber device, Lock& lock) {
  const auto found = counts_.find(device);
  if (found == counts_.end()) return CudaError::kInvalidContext;
  if (--found->second > 0) return CudaError::kSuccess;
  engine().end_context(device, lock);
  events().end_context(device, lock);
  modules().end_context(device);
  plain_memory().end_context(device);
  counts_.erase(device);
  peers_.erase(device);
  return CudaError::kSuccess;
}

bool Contexts::active(DeviceNumber device) const { return counts_.contains(device); }

long Contexts::retained() const { return static_cast<long>(counts_.size()); }

CudaError Contexts::push(Context context) {
  const std::optional<DeviceNumber> device = device_of(context);
  if (!device || !active(*device)) return CudaError::kInvalidContext;
  return stack.push_back(context) ? CudaError::kSuccess : CudaError::kInvalidValue;
}

CudaError Contexts::pop(Context* context) {
  if (stack.empty()) return CudaError::kInvalidContext;
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return CudaError::kSuccess;
}

// "If there exists a CUDA context stack on the calling CPU thread, this will replace the top of that stack with
// ctx. If ctx is NULL then this will be equivalent to popping the top of the calling CPU thread's CUDA context stack."
CudaError Contexts::set(Context context) {
  if (context == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CudaError::kSuccess;
  }
  const std::optional<DeviceNumber> device = device_of(context);
  if (!device || !active(*device)) return CudaError::kInvalidContext;
  if (stack.empty()) {
    stack.push_back(context);
  } else {
    stack.back() = context;
  }
  return CudaError::kSuccess;
}

Context Contexts::current() const { return stack.empty() ? nullptr : stack.back(); }

DeviceNumber Contexts::current_device() const { return device_of(current()).value_or(0); }

CudaError Contexts::check_current() const {
  if (stack.empty()) return CudaError::kInvalidContext;
  return active(current_device()) ? CudaError::kSuccess : CudaError::kContextIsDestroyed;
}

CudaError Contexts::enable_peer(DeviceNumber device, DeviceNumber peer) {
  if (device == peer) return CudaError::kInvalidDevice;
  if (!can_access_peer(device, peer)) return CudaError::kPeerAccessUnsupported;
  return peers_[device].insert(peer).second ? CudaError::kSuccess : CudaError::kPeerAccessAlreadyEnabled;
}

bool Contexts::may_access(DeviceNumber device, DeviceNumber memory) const {
  if (device == memory) return true;
  const auto found = peers_.find(device);
  return found != peers_.end() && found->second.contains(memory);
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake

namespace fake = forklift::device::cuda::fake;
using fake::contexts;
using fake::enter;
using fake::Lock;
using fake::Needs;
using forklift::device::cuda::Context;
using forklift::device::cuda::CudaError;
using forklift::device::cuda::DeviceNumber;

FAKE_CUDA CudaError cuDevicePrimaryCtxRetain(Context* context, DeviceNumber device) {
  return enter("cuDevicePrimaryCtxRetain", Needs::kInit, [&](Lock&) {
    if (context == nullptr) return CudaError::kInvalidValue;
    if (!fake::is_device(device)) return CudaError::kInvalidDevice;
    return contexts().retain(device, context);
  });
}

FAKE_CUDA CudaError cuDevicePrimaryCtxRelease_v2(DeviceNumber device) {
  return enter("cuDevicePrimaryCtxRelease", Needs::kInit, [&](Lock& lock) {
    if (!fake::is_device(device)) return CudaError::kInvalidDevice;
    return contexts().release(device, lock);
  });
}

FAKE_CUDA CudaError cuDevicePrimaryCtxGetState(DeviceNumber device, unsigned* flags, int* active) {
  return enter("cuDevicePrimaryCtxGetState", Needs::kInit, [&](Lock&) {
    if (flags == nullptr || active == nullptr) return CudaError::kInvalidValue;
    if (!fake::is_device(device)) return CudaError::kInvalidDevice;
    *flags = 0;
    *active = contexts().active(device) ? 1 : 0;
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuCtxPushCurrent_v2(Context context) {
  return enter("cuCtxPushCurrent", Needs::kInit, [&](Lock&) { return contexts().push(context); });
}

FAKE_CUDA CudaError cuCtxPopCurrent_v2(Context* context) {
  return enter("cuCtxPopCurrent", Needs::kInit, [&](Lock&) { return contexts().pop(context); });
}

FAKE_CUDA CudaError cuCtxGetCurrent(Context* context) {
  return enter("cuCtxGetCurrent", Needs::kInit, [&](Lock&) {
    if (context == nullptr) return CudaError::kInvalidValue;
    *context = contexts().current();
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuCtxSetCurrent(Context context) {
  return enter("cuCtxSetCurrent", Needs::kInit, [&](Lock&) { return contexts().set(context); });
}

FAKE_CUDA CudaError cuCtxGetDevice(DeviceNumber* device) {
  return enter("cuCtxGetDevice", Needs::kContext, [&](Lock&) {
    if (device == nullptr) return CudaError::kInvalidValue;
    *device = contexts().current_device();
    return CudaError::kSuccess;
  });
}

FAKE_CUDA CudaError cuCtxSynchronize() {
  return enter("cuCtxSynchronize", Needs::kContext, [&](Lock& lock) {
    fake::engine().finish_context(contexts().current_device(), lock);
    return fake::poison();
  });
}

FAKE_CUDA CudaError cuCtxEnablePeerAccess(Context peer, unsigned flags) {
  return enter("cuCtxEnablePeerAccess", Needs::kContext, [&](Lock&) {
    if (flags != 0) return CudaError::kInvalidValue;
    const auto device = fake::Contexts::device_of(peer);
    if (!device || !contexts().active(*device)) return CudaError::kInvalidContext;
    return contexts().enable_peer(contexts().current_device(), *device);
  });
}
