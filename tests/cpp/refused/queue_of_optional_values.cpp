// expects: forklift: an optional of what may be null itself
#include <optional>

#include "forklift/queue.h"
forklift::Queue<std::optional<forklift::Value>> queue;
