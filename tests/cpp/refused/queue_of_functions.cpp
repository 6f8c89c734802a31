// expects: forklift: a callable does not travel in a message
#include <functional>

#include "forklift/queue.h"
forklift::Queue<std::function<void()>> queue;
