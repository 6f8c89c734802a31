// expects: forklift: a fresh process runs registered functions only
#include "forklift/spawn.h"

void start(int number) {
  (void)forklift::Process::spawn([number] { return number; });
}
