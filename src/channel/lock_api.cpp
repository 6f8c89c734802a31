// The public classes over locks/: what they need of the process is its hub. Exceptions are born here.
#include <stop_token>
#include <string>
#include <utility>

#include "channel/hub.h"
#include "channel/stop.h"
#include "forklift/barrier.h"
#include "forklift/condition.h"
#include "forklift/event.h"
#include "forklift/lock.h"
#include "forklift/semaphore.h"
#include "locks/barrier.h"
#include "locks/condition.h"
#include "locks/event.h"
#include "locks/mutex.h"
#include "locks/semaphore.h"

namespace forklift {

namespace {

locks::Table& table() { return need(channel::Hub::current())->locks(); }

// Without asking the clock where it does not matter.
os::Deadline deadline(std::int64_t ns) noexcept {
  return ns == detail::kForever ? os::Deadline::never() : os::Deadline::after_ns(ns);
}

// False: the time is over, or stop was requested.
template <class Wait, class Wake>
bool wait_stoppable(const std::stop_token* stop, Wait&& wait, Wake&& wake) {
  const Status status = channel::wait_stoppable(stop, std::forward<Wait>(wait), std::forward<Wake>(wake));
  if (status.ok()) return true;
  if (status.code() == Code::kTimeout || status.code() == Code::kInterrupted) return false;
  throw Error(status);
}

// The object behind a handle.
template <class Object>
Object& behind(const std::shared_ptr<Object>& handle) {
  if (!handle) [[unlikely]]
    throw Error({Code::kClosed, "this lock, or the like, was moved from"});
  return *handle;
}
template <class Object>
LockRef ref_of(const std::shared_ptr<Object>& handle) {
  (void)behind(handle);
  return LockRef(handle);
}

locks::LockId id_of(detail::LockName name) { return {name.index, name.generation}; }

}  // namespace

namespace detail {

LockName name_of(const LockRef& lock) {
  const locks::LockId id = lock.get()->id();
  return {id.index, id.generation};
}

MutexHandle::MutexHandle(bool recursive) : mutex_(need(locks::Mutex::create(table(), recursive))) {}

MutexHandle::MutexHandle(LockName name, bool recursive)
    : mutex_(need(locks::Mutex::open(table(), id_of(name)))) {
  if (mutex_->recursive() != recursive)
    throw TypeMismatch({Code::kInvalid, "a Lock where an RLock was expected, or the reverse"});
}

bool MutexHandle::lock_within(std::int64_t ns, const std::stop_token* stop) {
  locks::Mutex& mutex = behind(mutex_);
  if (mutex.try_before_waiting() != locks::Took::kNo) [[likely]]
    return true;
  locks::Took how = locks::Took::kNo;
  return wait_stoppable(
      stop, [&](locks::WaitHooks* hooks) { return mutex.acquire(deadline(ns), hooks, how); },
      [&mutex] { mutex.wake_all(); });
}

void MutexHandle::unlock() {
  switch (behind(mutex_).release()) {
    case locks::Released::kYes: return;
    case locks::Released::kNotHeld: throw Error({Code::kInvalid, "unlock() of a Lock that nobody holds"});
    case locks::Released::kNotOwner:
      throw Error({Code::kInvalid, "unlock() of an RLock that this thread does not hold"});
    case locks::Released::kNotAttached: throw Error(mutex_->table().domain().not_attached());
  }
}

bool MutexHandle::locked() const { return behind(mutex_).locked(); }
bool MutexHandle::mine() const { return behind(mutex_).mine(); }
bool MutexHandle::abandoned() const { return behind(mutex_).abandoned(); }
bool MutexHandle::recovers() const { return behind(mutex_).recovers(); }
LockRef MutexHandle::ref() const { return ref_of(mutex_); }

ConditionPlace::ConditionPlace(const std::shared_ptr<locks::Condition>& condition)
    : condition_(condition), place_(need(behind(condition).enrol())) {}
ConditionPlace::~ConditionPlace() { condition_->leave(place_); }

bool ConditionPlace::wait(std::int64_t ns, const std::stop_token* stop) {
  return wait_stoppable(
      stop, [&](locks::WaitHooks* hooks) { return condition_->wait(place_, deadline(ns), hooks); },
      [this] { condition_->ring(place_); });
}

void throw_not_owned() { throw Error({Code::kInvalid, "a wait on a condition without its lock"}); }

}  // namespace detail

Semaphore::Semaphore(const SemaphoreOptions& options)
    : semaphore_(need(locks::Semaphore::create(table(), {options.value, options.most, options.recover}))) {}
Semaphore Semaphore::found(detail::LockName name) {
  return Semaphore(need(locks::Semaphore::open(table(), id_of(name))));
}
bool Semaphore::acquire_within(std::int64_t ns, const std::stop_token* stop) {
  locks::Semaphore& semaphore = behind(semaphore_);
  bool taken = false;
  check(semaphore.try_before_waiting(taken));
  if (taken) return true;
  return wait_stoppable(
      stop, [&](locks::WaitHooks* hooks) { return semaphore.acquire(deadline(ns), hooks); },
      [&semaphore] { semaphore.wake_all(); });
}
void Semaphore::release(std::uint32_t units) { check(behind(semaphore_).release(units)); }
std::uint32_t Semaphore::value() const { return behind(semaphore_).value(); }
LockRef Semaphore::ref() const { return ref_of(semaphore_); }

Condition::Condition() : condition_(need(locks::Condition::create(table()))) {}
Condition Condition::found(detail::LockName name) {
  return Condition(need(locks::Condition::open(table(), id_of(name))));
}
std::size_t Condition::notify(std::size_t most) { return behind(condition_).notify(most); }
std::size_t Condition::waiting() const { return behind(condition_).waiting(); }
LockRef Condition::ref() const { return ref_of(condition_); }

Event::Event() : event_(need(locks::Event::create(table()))) {}
Event Event::found(detail::LockName name) { return Event(need(locks::Event::open(table(), id_of(name)))); }
void Event::set() { check(behind(event_).set()); }
void Event::clear() { check(behind(event_).clear()); }
bool Event::is_set() const { return behind(event_).is_set(); }
bool Event::wait_within(std::int64_t ns, const std::stop_token* stop) const {
  locks::Event& event = behind(event_);
  return wait_stoppable(
      stop, [&](locks::WaitHooks* hooks) { return event.wait(deadline(ns), hooks); },
      [&event] { event.wake_all(); });
}
LockRef Event::ref() const { return ref_of(event_); }

Barrier::Barrier(std::uint32_t parties, std::function<void()> completion)
    : barrier_(need(locks::Barrier::create(table(), parties))), completion_(std::move(completion)) {}
Barrier Barrier::found(detail::LockName name) {
  return Barrier(need(locks::Barrier::open(table(), id_of(name))));
}

std::optional<std::uint32_t> Barrier::pass(std::int64_t ns, const std::stop_token* stop) {
  const auto broken = [this] {
    return BrokenBarrier({Code::kPeerDied, "the barrier of " + std::to_string(parties()) +
                                               " parties is broken: aborted, reset, out of time, or a party "
                                               "died"});
  };
  const locks::Arrival here = need(behind(barrier_).arrive(nullptr));
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
    passed = need(barrier_->open_up(here));
  } else {
    const Status ended = channel::wait_stoppable(
        stop,
        [&](locks::WaitHooks* hooks) {
          const Result<bool> waited = barrier_->wait(here, deadline(ns), hooks);
          if (waited) passed = *waited;
          return waited.status();
        },
        [this] { barrier_->wake_all(); });
    if (ended.code() == Code::kInterrupted) {
      abort();
      return std::nullopt;
    }
    check(ended);
  }
  if (!passed) throw broken();
  return here.index;
}
void Barrier::abort() { check(behind(barrier_).abort()); }
void Barrier::reset() { check(behind(barrier_).reset()); }
bool Barrier::broken() const { return behind(barrier_).broken(); }
std::uint32_t Barrier::parties() const { return behind(barrier_).parties(); }
std::uint32_t Barrier::waiting() const { return behind(barrier_).waiting(); }
LockRef Barrier::ref() const { return ref_of(barrier_); }

}  // namespace forklift
