// expects: forklift: what is published is a queue, a lock, a Broadcast or a Latest
#include "forklift/domain.h"
#include "forklift/shared_value.h"

void start(forklift::Domain& domain, const forklift::SharedValue<int>& shared) {
  domain.publish("it", shared);
}
