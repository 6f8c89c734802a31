// Templates over the type of a tensor's elements.
//
//   with_element(x.dtype(), [&](auto zero) { using T = decltype(zero); ... load<T>(address) ... });
//
// Thread safety: pure functions.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "forklift/dtype.h"

namespace forklift::inline abi_0_1::ops {

// Calls visit(T{}) with the type of the elements. The compiler makes `visit` for each of them.
template <class Visit>
auto with_element(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kBool: return visit(bool{});
    case DType::kInt8: return visit(std::int8_t{});
    case DType::kInt16: return visit(std::int16_t{});
    case DType::kInt32: return visit(std::int32_t{});
    case DType::kInt64: return visit(std::int64_t{});
    case DType::kUInt8: return visit(std::uint8_t{});
    case DType::kUInt16: return visit(std::uint16_t{});
    case DType::kUInt32: return visit(std::uint32_t{});
    case DType::kUInt64: return visit(std::uint64_t{});
    case DType::kFloat16: return visit(Float16(0.0F));
    case DType::kBFloat16: return visit(BFloat16(0.0F));
    case DType::kFloat32: return visit(float{});
    case DType::kFloat64: return visit(double{});
    case DType::kComplex64: return visit(std::complex<float>{});
    case DType::kComplex128: break;
  }
  return visit(std::complex<double>{});
}

// One element. A bool is true if its byte is not zero, since another process may have written any.
template <class T>
T load(const std::byte* from) noexcept {
  if constexpr (std::is_same_v<T, bool>) {
    return *from != std::byte{0};
  } else {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
}

template <class T>
void store(std::byte* to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
inline constexpr bool is_complex_v =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
template <class T>
inline constexpr bool is_narrow_v = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// Copies one element of `size` bytes (1, 2, 4, 8 or 16).
inline void copy_item(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  switch (size) {
    case 1: *to = *from; return;
    case 2: std::memcpy(to, from, 2); return;
    case 4: std::memcpy(to, from, 4); return;
    case 8: std::memcpy(to, from, 8); return;
    default: std::memcpy(to, from, 16);
  }
}

}  // namespace forklift::inline abi_0_1::ops
