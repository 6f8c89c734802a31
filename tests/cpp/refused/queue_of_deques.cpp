// expects: forklift: this container cannot be sent to another process: use std::vector
#include <deque>

#include "forklift/queue.h"
forklift::Queue<std::deque<int>> queue;
