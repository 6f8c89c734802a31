// expects: forklift: a pool calls registered functions only
#include <vector>

#include "forklift/pool.h"

int sum(forklift::Pool& pool, const std::vector<int>& numbers) {
  int sum = 0;
  for (const int each : pool.starmap([](int number) { return number; }, numbers)) sum += each;
  return sum;
}
