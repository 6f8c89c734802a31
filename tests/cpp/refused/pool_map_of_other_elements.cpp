// expects: forklift: an element of this range is not what the function takes
#include <string>
#include <vector>

#include "forklift/pool.h"

int length(std::string text);

void start(forklift::Pool& pool, const std::vector<int>& numbers) { (void)pool.map(length, numbers); }
