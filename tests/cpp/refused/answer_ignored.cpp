// expects: nodiscard
#pragma GCC diagnostic error "-Wunused-result"
#include "forklift/lock.h"
#include "forklift/queue.h"

void lose(forklift::Queue<int>& numbers, forklift::Lock& lock) {
  numbers.try_get();
  numbers.try_put(1);
  lock.try_lock();
}
