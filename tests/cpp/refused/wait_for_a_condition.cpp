// expects: forklift: a Condition or Barrier is waited for alone
#include "forklift/condition.h"
#include "forklift/wait_any.h"

void start(const forklift::Condition& changed) {
  (void)forklift::try_wait_any({changed}, std::chrono::seconds(1));
}
