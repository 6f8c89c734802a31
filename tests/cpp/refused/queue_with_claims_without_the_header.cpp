// expects: forklift: a Queue with Delivery::kAtLeastOnce needs #include
#include "forklift/queue.h"
forklift::Queue<int, forklift::Delivery::kAtLeastOnce> queue;
