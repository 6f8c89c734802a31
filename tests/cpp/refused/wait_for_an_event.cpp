// expects: forklift: a lock or event is waited for alone
#include "forklift/event.h"
#include "forklift/wait_any.h"

void start(const forklift::Event& event) { (void)forklift::try_wait_any({event}, std::chrono::seconds(1)); }
