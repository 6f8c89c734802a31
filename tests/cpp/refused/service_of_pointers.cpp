// expects: forklift: a pointer, view or reference means nothing in another process
#include "forklift/service.h"

void serve(const forklift::Domain& domain) { (void)forklift::Service<int, int*>::serve(domain, "name"); }
