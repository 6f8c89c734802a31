// Names of types and functions as people write them.
//
//   without_release("std::vector<forklift::abi_0_1::Tensor>")    // "std::vector<forklift::Tensor>"
//
// Thread and process safety: a function of its argument.
#pragma once

#include <string>
#include <string_view>

namespace forklift::inline abi_0_1 {

// Without the names of releases' namespaces (version.h), which demangled names have.
std::string without_release(std::string_view name);

}  // namespace forklift::inline abi_0_1
