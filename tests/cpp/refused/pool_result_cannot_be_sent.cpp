// expects: forklift: what this function returns cannot be sent back from a pool's worker
#include "forklift/pool.h"

const int* find(int number);

void start(forklift::Pool& pool) { (void)pool.submit(find, 3); }
