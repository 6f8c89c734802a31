// expects: forklift: a parameter of this function cannot be sent to another process
#include <memory>

#include "forklift/spawn.h"

void work(std::unique_ptr<int> mine) { *mine = 1; }
const forklift::Registered<&work> kWork{"work"};
