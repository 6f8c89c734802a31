// expects: forklift: a parameter of this function cannot be sent to a pool's worker
#include "forklift/broadcast.h"
#include "forklift/pool.h"

int take(forklift::Broadcast<int>& shared);

void start(forklift::Pool& pool, forklift::Broadcast<int>& shared) { (void)pool.apply(take, shared); }
