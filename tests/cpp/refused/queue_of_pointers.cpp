// expects: forklift: a pointer, view or reference means nothing in another process
#include "forklift/queue.h"

void start() { forklift::Queue<int*> queue; }
