// expects: forklift: a process needs as many arguments as its function has parameters
#include "forklift/context.h"

void work(int one, int two) { (void)(one + two); }

void start() { (void)forklift::forkserver_context().process(work, 1); }
