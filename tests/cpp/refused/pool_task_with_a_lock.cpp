// expects: forklift: a parameter of this function cannot be sent to a pool's worker
#include "forklift/lock.h"
#include "forklift/pool.h"

int take(forklift::Lock& shared);

void start(forklift::Pool& pool, forklift::Lock& shared) { (void)pool.apply(take, shared); }
