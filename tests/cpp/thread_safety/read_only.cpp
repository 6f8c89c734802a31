// expects: writing variable 'price' requires holding shared_mutex 'prices' exclusively
#include "forklift/rw_lock.h"

namespace {
forklift::RWLock prices;
int price FORKLIFT_GUARDED_BY(prices) = 0;
}  // namespace

int main() {
  const forklift::SharedScopedLock guard(prices);
  price = 1;
}
