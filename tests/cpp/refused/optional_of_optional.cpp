// expects: forklift: an optional of what may be null itself
#include <optional>
#include <string>

#include "forklift/value.h"
forklift::Value value = std::optional<std::optional<std::string>>(std::optional<std::string>());
