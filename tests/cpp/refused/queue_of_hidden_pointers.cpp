// expects: forklift: a pointer, view or reference means nothing in another process
#include <variant>

#include "forklift/queue.h"
forklift::Queue<std::variant<int, const char*>> queue;
