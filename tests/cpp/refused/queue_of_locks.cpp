// expects: forklift: a handle .* does not travel in a message
#include "forklift/lock.h"
#include "forklift/queue.h"
forklift::Queue<forklift::Lock> queue;
