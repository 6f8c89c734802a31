// expects: forklift: a task's arguments are not what its function takes
#include "forklift/pool.h"

int square(int x);

void start(forklift::Pool& pool) { (void)pool.apply(square, "three"); }
