// expects: forklift: a pool calls registered functions only
#include "forklift/pool.h"

void start(int number) {
  forklift::Pool pool({.workers = 1}, [number] { (void)number; });
}
