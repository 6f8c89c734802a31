// expects: forklift: a process's arguments are not what its function takes
#include <string>

#include "forklift/context.h"

void work(std::string name);

void start() { (void)forklift::fork_context().process(work, 7); }
