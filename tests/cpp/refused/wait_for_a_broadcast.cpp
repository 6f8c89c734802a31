// expects: forklift: a Broadcast is waited for by its readers
#include "forklift/broadcast.h"
#include "forklift/wait_any.h"

void start(const forklift::Broadcast<int>& ticks) { (void)forklift::wait_any({ticks}); }
