#include "forklift/version.h"

namespace forklift {

std::string_view version() noexcept { return kVersion; }

}  // namespace forklift
