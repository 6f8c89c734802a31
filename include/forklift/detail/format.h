// std::format of a DType, a shape and a Tensor, where the standard library has it; included by tensor.h.
//
//   std::format("{} {}", image, image.shape())          // "float32(2, 2) [[1, 2], [3, 4]] (2, 2)"
//
// Thread and process safety: as writing to a stream.
#pragma once

#include <version>

#if defined(__cpp_lib_format)
#include <format>
#include <sstream>
#include <string>

#include "forklift/dtype.h"
#include "forklift/shape.h"

namespace forklift::inline abi_0_1 {
class Tensor;
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

namespace detail {
// As operator<< writes it, aligned as a string is.
template <class T>
struct StreamFormatter : std::formatter<std::string> {
  template <class Context>
  auto format(const T& object, Context& context) const {
    std::ostringstream text;
    text << object;
    return std::formatter<std::string>::format(text.str(), context);
  }
};
}  // namespace detail
}  // namespace forklift::inline abi_0_1

template <>
struct std::formatter<forklift::Tensor> : forklift::detail::StreamFormatter<forklift::Tensor> {};
template <>
struct std::formatter<forklift::DType> : forklift::detail::StreamFormatter<forklift::DType> {};
template <>
struct std::formatter<forklift::Dims> : forklift::detail::StreamFormatter<forklift::Dims> {};
#endif
