// expects: forklift: starmap.. takes a range of pairs or tuples
#include <vector>

#include "forklift/pool.h"

int add(int left, int right);

void start(forklift::Pool& pool, const std::vector<int>& numbers) { (void)pool.starmap(add, numbers); }
