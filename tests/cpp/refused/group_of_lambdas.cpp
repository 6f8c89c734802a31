// expects: forklift: spawn.. runs registered functions
#include "forklift/group.h"

void start() {
  forklift::spawn([](int) {}, 3);
}
