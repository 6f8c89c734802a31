#include "forklift/barrier.h"

#include <string>
#include <utility>

#include "api/lock_support.h"
#include "locks/barrier.h"

namespace forklift::inline abi_0_1 {

Barrier::Barrier(std::uint32_t parties, std::function<void()> completion)
    : barrier_(value_or_throw(locks::Barrier::create(detail::lock_table(), parties))),
      completion_(std::move(completion)) {}
Barrier Barrier::open(detail::LockName name) {
  return Barrier(value_or_throw(locks::Barrier::open(detail::lock_table(name), detail::id_of(name))));
}

std::optional<std::uint32_t> Barrier::pass(detail::Limit limit) {
  const auto broken = [this] {
    return BrokenBarrier({Code::kPeerDied, "the barrier of " + std::to_string(parties()) +
                                               " parties is broken: aborted, reset, out of time, or a party "
                                               "died"});
  };
  const locks::Arrival here = value_or_throw(detail::object_of(barrier_).arrive(nullptr));
  if (here.broken) throw broken();
  struct Leaving {
    locks::Barrier& barrier;
    const locks::Arrival& arrival;
    ~Leaving() { (void)barrier.leave(arrival); }
  };
  const Leaving leaving{*barrier_, here};
  bool passed = false;
  if (here.last) {
    try {
      if (completion_) completion_();
    } catch (...) {
      abort();
      throw;
    }
    passed = value_or_throw(barrier_->open_up(here));
  } else {
    const os::Deadline deadline = detail::deadline_of(limit);
    const Status ended = detail::wait_stoppable(
        limit.stop,
        [&](locks::WaitHooks* hooks) {
          const Result<bool> waited = barrier_->wait(here, deadline, hooks);
          if (waited) passed = *waited;
          return waited.status();
        },
        [this] { barrier_->wake_all(); });
    if (!detail::settled(ended)) abort();
    // The lock itself breaks the barrier when the time is over, and does not say why it is broken.
    const bool stopped = limit.stop != nullptr && limit.stop->stop_requested();
    if (!passed && (stopped || deadline.passed())) return std::nullopt;
  }
  if (!passed) throw broken();
  return here.index;
}
void Barrier::abort() { throw_if_failed(detail::object_of(barrier_).abort()); }
void Barrier::reset() { throw_if_failed(detail::object_of(barrier_).reset()); }
bool Barrier::broken() const { return detail::object_of(barrier_).broken(); }
std::uint32_t Barrier::parties() const { return detail::object_of(barrier_).parties(); }
std::uint32_t Barrier::waiting() const { return detail::object_of(barrier_).waiting(); }
LockRef Barrier::ref() const { return detail::ref_of(barrier_); }

}  // namespace forklift::inline abi_0_1
