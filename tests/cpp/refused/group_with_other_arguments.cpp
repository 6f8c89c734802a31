// expects: forklift: a process's arguments are not what its function takes
#include <string>

#include "forklift/group.h"

void greet_all(int rank, const std::string& name);

void start() { (void)forklift::spawn({.join = false}, greet_all, 2, 7); }
