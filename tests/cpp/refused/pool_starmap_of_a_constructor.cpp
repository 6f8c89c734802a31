// expects: forklift: an element of this range is not what the function takes
#include <utility>
#include <vector>

#include "forklift/pool.h"

int total(std::vector<int> numbers, int more);

std::vector<int> run(forklift::Pool& pool) {
  return pool.starmap(total, std::vector<std::pair<int, int>>{{1, 2}});
}
