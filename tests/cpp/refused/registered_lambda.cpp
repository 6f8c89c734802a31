// expects: forklift: what is registered is a function
#include "forklift/spawn.h"
const auto work = [](int) {};
const forklift::Registered<&work> kWork{"work"};
