// expects: forklift: a pointer, view or reference means nothing in another process
#include <string_view>
#include <vector>

#include "forklift/queue.h"
forklift::Queue<std::vector<std::string_view>> queue;
