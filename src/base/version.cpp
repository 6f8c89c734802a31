#include "forklift/version.h"

namespace forklift::inline abi_0_1 {

std::string_view version() noexcept { return kVersion; }

}  // namespace forklift::inline abi_0_1
