#include "base/release.h"

#include "forklift/detail/hash.h"

namespace forklift::inline abi_0_1 {

std::string without_release(std::string_view name) {
  std::string text;
  text.reserve(name.size());
  for (std::size_t at = 0; at < name.size(); ++at) {
    at = detail::after_release(name, at);
    if (at < name.size()) text += name[at];
  }
  return text;
}

}  // namespace forklift::inline abi_0_1
