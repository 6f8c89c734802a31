#include "node/watched.h"

namespace forklift::inline abi_0_1::node {

Result<Watched> Watched::of(const Source& source) {
  Watched made(source);
  if (source.lock == nullptr) return made;
  Result<locks::Observed> observed = locks::Observed::of(*source.lock);
  if (!observed) return observed.status();
  made.lock_ = *observed;
  return made;
}

sync::EventCount& Watched::event() const {
  if (lock_) return lock_->event();
  return source_.channel != nullptr ? source_.channel->items() : source_.reader->topic()->items();
}

domain::Domain& Watched::domain() const {
  if (lock_) return lock_->domain();
  return source_.channel != nullptr ? source_.channel->domain() : source_.reader->topic()->domain();
}

const arena::Arena& Watched::arena() const {
  if (lock_) return source_.lock->table().arena();
  return source_.channel != nullptr ? source_.channel->arena() : source_.reader->topic()->arena();
}

bool Watched::ready() const {
  if (lock_) return lock_->ready();
  if (source_.channel != nullptr) return !source_.channel->empty() || source_.channel->at_end();
  return source_.reader->ready();
}

void Watched::look_anew() {
  if (!lock_) return;
  if (Result<locks::Observed> observed = locks::Observed::of(*source_.lock)) lock_ = *observed;
}

}  // namespace forklift::inline abi_0_1::node
