// expects: forklift: a lock or event is waited for alone
#include "forklift/event.h"
#include "forklift/wait.h"

void start(const forklift::Event& event) { (void)forklift::wait_for({event}, std::chrono::seconds(1)); }
