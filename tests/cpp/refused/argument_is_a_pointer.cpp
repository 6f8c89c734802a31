// expects: forklift: a parameter of this function cannot be sent to another process
#include "forklift/context.h"

void work(const int* there) { (void)*there; }

void start(const int* number) { (void)forklift::spawn_context().process(work, number); }
