#include "forklift/condition.h"

#include "api/lock_support.h"
#include "locks/condition.h"

namespace forklift::inline abi_0_1 {
namespace detail {

ConditionPlace::ConditionPlace(const std::shared_ptr<locks::Condition>& condition)
    : condition_(condition), place_(value_or_throw(object_of(condition).enrol())) {}
ConditionPlace::~ConditionPlace() { condition_->leave(place_); }

bool ConditionPlace::wait(Limit limit) {
  return wait_for_lock(
      limit,
      [&](os::Deadline until, locks::WaitHooks* hooks) { return condition_->wait(place_, until, hooks); },
      [this] { condition_->ring(place_); });
}

void throw_not_owned() { throw Error({Code::kInvalid, "a wait on a condition without its lock"}); }

}  // namespace detail

Condition::Condition() : condition_(value_or_throw(locks::Condition::create(detail::lock_table()))) {}
Condition Condition::open(detail::LockName name) {
  return Condition(value_or_throw(locks::Condition::open(detail::lock_table(name), detail::id_of(name))));
}
std::size_t Condition::notify(std::size_t most) { return detail::object_of(condition_).notify(most); }
std::size_t Condition::waiting() const { return detail::object_of(condition_).waiting(); }
LockRef Condition::ref() const { return detail::ref_of(condition_); }

}  // namespace forklift::inline abi_0_1
