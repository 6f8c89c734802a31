// expects: forklift: a pointer, view or reference means nothing in another process
#include <string_view>

#include "forklift/queue.h"
forklift::Queue<std::string_view> queue;
