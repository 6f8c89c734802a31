#include "forklift/version.h"

namespace forklift {
inline namespace abi_0_1 {

std::string_view version() noexcept { return kVersion; }

}  // namespace abi_0_1
}  // namespace forklift
