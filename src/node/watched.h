// A source that is waited for by an event in shared memory: a channel, a reader of a topic, a lock.
#pragma once

#include <optional>

#include "locks/observed.h"
#include "node/source.h"

namespace forklift::inline abi_0_1::node {

class Watched {
 public:
  static bool fits(const Source& source) noexcept {
    return source.channel != nullptr || source.reader != nullptr || source.lock != nullptr;
  }
  // kInvalid: a condition, a barrier. kNotAttached. Refers to what the source refers to.
  static Result<Watched> of(const Source& source);

  sync::EventCount& event() const;
  domain::Domain& domain() const;
  const arena::Arena& arena() const;
  bool ready() const;
  bool ready_after_deaths() const { return lock_ ? lock_->ready_after_deaths() : ready(); }
  // Is it one whose readiness a death may bring about without a notification?
  bool is_lock() const noexcept { return lock_.has_value(); }
  // An event that was set and cleared again since the look began is no longer ready from here on.
  void look_anew();

 private:
  explicit Watched(const Source& source) noexcept : source_(source) {}
  Source source_;
  std::optional<locks::Observed> lock_;
};

}  // namespace forklift::inline abi_0_1::node
