// expects: forklift: an element of this range is not what the function takes
#include <string>
#include <utility>
#include <vector>

#include "forklift/pool.h"

int repeat(const std::string& text, int times);

void start(forklift::Pool& pool, const std::vector<std::pair<int, int>>& pairs) {
  (void)pool.starmap(repeat, pairs);
}
