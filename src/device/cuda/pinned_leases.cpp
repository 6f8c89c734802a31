#include "device/cuda/pinned_leases.h"

#include <algorithm>
#include <iterator>

namespace forklift::inline abi_0_1::device::cuda {
namespace {

// Does nobody but the entry hold the block? That stays so: another right can be had by a right only.
bool is_idle(const arena::LeasePtr& lease) { return lease->arena().holders(*lease) == 1; }

Status complete(const Driver& driver, DeviceNumber device) {
  const Functions& functions = driver.functions();
  unsigned flags = 0;
  int active = 0;
  Status done = driver.call("cuDevicePrimaryCtxGetState", functions.device_primary_ctx_get_state, device,
                            &flags, &active);
  if (!done || active == 0) return done;
  Context context = nullptr;
  done = driver.call("cuDevicePrimaryCtxRetain", functions.device_primary_ctx_retain, &context, device);
  if (!done) return done;
  {
    const Current current(driver, context);
    done = current.status();
    if (done) done = driver.call("cuCtxSynchronize", functions.ctx_synchronize);
  }
  Status released = driver.call("cuDevicePrimaryCtxRelease", functions.device_primary_ctx_release, device);
  return done ? released : done;
}

}  // namespace

// Never destroyed: leases are given back by the process's end.
PinnedLeases& PinnedLeases::of_process() {
  static auto* const made = new PinnedLeases;
  return *made;
}

bool PinnedLeases::pin(const MemoryPlace& place, const arena::LeasePtr& lease) {
  if (place.driver->is_forked()) return false;
  if (lease->object().kind != arena::ObjectKind::kBlock || lease->kind() != arena::Kind::kShare) return false;
  (void)collect(false);
  const std::lock_guard held(mutex_);
  driver_ = place.driver;
  for (const Entry& each : entries_) {
    if (each.lease->object() == lease->object() && &each.lease->arena() == &lease->arena()) return true;
  }
  const Current current(*place.driver, place.context);
  if (!current.status()) return false;
  Result<arena::LeasePtr> own = lease->arena().another(lease);
  if (!own) return false;
  PinnedArena::Use use = PinnedArena::of_process().keep(place, lease->data(), lease->size());
  if (!use.is_pinned()) return false;
  entries_.push_back({*std::move(own), std::move(use)});
  return true;
}

std::size_t PinnedLeases::collect(bool all) {
  std::vector<Entry> idle;
  {
    const std::lock_guard held(mutex_);
    if (entries_.empty() || driver_->is_forked()) return 0;
    const auto first = std::partition(entries_.begin(), entries_.end(),
                                      [](const Entry& each) { return !is_idle(each.lease); });
    const auto count = static_cast<std::size_t>(entries_.end() - first);
    if (count == 0 || (!all && count < kMostIdle)) return 0;
    idle.assign(std::make_move_iterator(first), std::make_move_iterator(entries_.end()));
    entries_.erase(first, entries_.end());
  }
  if (complete_all()) return idle.size();
  // Without an answer nobody knows what still reads the blocks.
  const std::lock_guard held(mutex_);
  std::move(idle.begin(), idle.end(), std::back_inserter(entries_));
  idle.clear();
  return 0;
}

std::size_t PinnedLeases::count() {
  const std::lock_guard held(mutex_);
  return entries_.size();
}

// Of every device that any library of this process uses.
Status PinnedLeases::complete_all() const {
  int devices = 0;
  Status done = driver_->call("cuDeviceGetCount", driver_->functions().device_get_count, &devices);
  for (int ordinal = 0; done && ordinal < devices; ++ordinal) {
    DeviceNumber device = 0;
    done = driver_->call("cuDeviceGet", driver_->functions().device_get, &device, ordinal);
    if (done) done = complete(*driver_, device);
  }
  return done;
}

}  // namespace forklift::inline abi_0_1::device::cuda
