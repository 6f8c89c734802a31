// expects: forklift: a process's arguments are not what its function takes
#include <vector>

#include "forklift/spawn.h"

void total(std::vector<int> numbers);

void run() { forklift::Process::spawn(total, 1000).start(); }
