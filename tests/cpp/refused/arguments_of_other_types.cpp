// expects: forklift: a process's arguments are not what its function takes
#include <string>

#include "forklift/spawn.h"

void work(std::string name);

void start() { (void)forklift::Process::spawn(work, 7); }
