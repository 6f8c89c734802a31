#include "forklift/wait_set.h"

#include <map>
#include <mutex>
#include <vector>

#include "api/attached.h"
#include "api/stop.h"
#include "api/waitable.h"
#include "node/wait_set.h"

namespace forklift::inline abi_0_1 {

class WaitSet::Members {
 public:
  Members() : set(detail::attached_node()) {}

  node::WaitSet set;
  std::vector<Key> ready;
  std::mutex mutex;              // of what is kept; in a forked child nobody takes it
  std::map<Key, Waitable> kept;  // what the members refer to
};

namespace {
[[noreturn]] void throw_moved() { throw Error({Code::kClosed, "this wait set was moved from"}); }
}  // namespace

WaitSet::WaitSet() : members_(std::make_unique<Members>()) {}
WaitSet::WaitSet(WaitSet&&) noexcept = default;
WaitSet& WaitSet::operator=(WaitSet&&) noexcept = default;
WaitSet::~WaitSet() = default;

WaitSet::Key WaitSet::add(const Waitable& object) {
  if (!members_) throw_moved();
  const Key key = value_or_throw(members_->set.add(detail::source_of(object)));
  const std::lock_guard<std::mutex> lock(members_->mutex);
  members_->kept.emplace(key, object);
  return key;
}

bool WaitSet::remove(Key key) {
  if (!members_ || !members_->set.remove(key)) return false;
  // The object's own end waits until the lock is free again: it may be the last handle.
  std::map<Key, Waitable>::node_type dropped;
  const std::lock_guard<std::mutex> lock(members_->mutex);
  dropped = members_->kept.extract(key);
  return true;
}

std::size_t WaitSet::size() const { return members_ ? members_->set.size() : 0; }

std::span<const WaitSet::Key> WaitSet::wait_within(detail::Limit limit) {
  if (!members_) throw_moved();
  (void)detail::settled(
      members_->set.wait(members_->ready, detail::deadline_of(limit), detail::stop_of(limit)));
  return members_->ready;
}

void WaitSet::wake() {
  if (members_) members_->set.wake();
}

int WaitSet::fileno() {
  if (!members_) throw_moved();
  return value_or_throw(members_->set.descriptor());
}

}  // namespace forklift::inline abi_0_1
