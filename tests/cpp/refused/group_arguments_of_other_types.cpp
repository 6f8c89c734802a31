// expects: forklift: a process's arguments are not what its function takes
#include <string>

#include "forklift/group.h"

void work(int rank, std::string name);

void start() { forklift::spawn(work, 3, 7); }
