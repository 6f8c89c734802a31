// expects: forklift: a parameter of this function cannot be sent to a pool's worker
#include "forklift/latest.h"
#include "forklift/pool.h"

int take(forklift::Latest<int>& shared);

void start(forklift::Pool& pool, forklift::Latest<int>& shared) { (void)pool.apply(take, shared); }
