// expects: forklift: this type cannot be sent to another process
#include <memory>

#include "forklift/queue.h"

void start() { forklift::Queue<std::unique_ptr<int>> queue; }
