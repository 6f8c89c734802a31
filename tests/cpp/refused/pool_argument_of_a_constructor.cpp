// expects: forklift: a task's arguments are not what its function takes
#include <vector>

#include "forklift/pool.h"

int total(std::vector<int> numbers);

// Would be a thousand zeros.
int run(forklift::Pool& pool) { return pool.apply(total, 1000); }
