// expects: forklift: what is registered is a function
#include "forklift/spawn.h"
struct Robot {
  void work(int) {}
};
const forklift::Registered<&Robot::work> kWork{"work"};
