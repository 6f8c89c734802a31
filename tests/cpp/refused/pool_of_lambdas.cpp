// expects: forklift: a pool calls registered functions only
#include "forklift/pool.h"

void start(forklift::Pool& pool, int number) {
  pool.apply([number] { return number; });
}
