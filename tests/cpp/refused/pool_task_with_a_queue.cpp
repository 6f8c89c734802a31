// expects: forklift: a parameter of this function cannot be sent to a pool's worker
#include "forklift/pool.h"

int take(forklift::Queue<int>& queue);

void start(forklift::Pool& pool, forklift::Queue<int>& queue) { (void)pool.apply(take, queue); }
