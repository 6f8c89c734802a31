// expects: forklift: an element of this range is not what the function takes
#include <vector>

#include "forklift/pool.h"

int total(std::vector<int> numbers);

std::vector<int> run(forklift::Pool& pool) { return pool.map(total, std::vector<int>{1, 2, 3}); }
