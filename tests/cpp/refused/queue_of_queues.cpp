// expects: forklift: a handle .* does not travel in a message
#include "forklift/queue.h"
forklift::Queue<forklift::Queue<int>> queue;
