// expects: forklift: what is published is a queue, a lock, a Broadcast, a Latest, a Tensor or other shared memory
#include "forklift/domain.h"

void start(forklift::Domain& domain) { domain.publish("it", 5); }
