// Element types of tensors.
//
//   static_assert(dtype_of<float>() == DType::kFloat32);
//   item_size(DType::kComplex128);                 // 16
//   name(DType::kBFloat16);                        // "bfloat16"
//   dtype_from_typestr("<f4");                     // DType::kFloat32, as NumPy spells it
//   Float16 h(0.1f);  float back = h;              // IEEE half precision, rounded to nearest, ties to even
//
// Thread and process safety: everything here is a value or a pure function. The numbers of DType travel
// between processes and between versions (docs/layout.md): they are never changed, only added to.
//
// Invariants: 0 is no dtype, so that cleared memory is never mistaken for one; Float16 and BFloat16 are
// trivially copyable and exactly two bytes, so that a block of them is a block of IEEE/bfloat bits; memory is
// little-endian (both supported platforms are), so a dtype never carries a byte order.
#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>
#include <type_traits>

namespace forklift::inline abi_0_1 {

static_assert(std::endian::native == std::endian::little, "the wire format and typestrings assume it");

// The types of elements. Their numbers are part of the wire format.
enum class DType : std::uint8_t {
  kBool = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUInt8 = 6,
  kUInt16 = 7,
  kUInt32 = 8,
  kUInt64 = 9,
  kFloat16 = 10,
  kBFloat16 = 11,
  kFloat32 = 12,
  kFloat64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
};

// The numbers of DType, from the first to the last.
inline constexpr std::uint8_t kFirstDType = 1;
inline constexpr std::uint8_t kLastDType = 15;

namespace detail {
// By number; 0 is no type.
struct Sizes {
  std::uint8_t item;
  std::uint8_t alignment;
};
inline constexpr Sizes kSizes[kLastDType + 1] = {{0, 1}, {1, 1}, {1, 1}, {2, 2}, {4, 4}, {8, 8},
                                                 {1, 1}, {2, 2}, {4, 4}, {8, 8}, {2, 2}, {2, 2},
                                                 {4, 4}, {8, 8}, {8, 4}, {16, 8}};
constexpr const Sizes& sizes_of(DType dtype) noexcept {
  const auto code = static_cast<std::uint8_t>(dtype);
  return kSizes[code <= kLastDType ? code : 0];
}

// Round to nearest, ties to even, as the hardware's conversions do; a NaN stays a NaN and keeps its sign and
// the upper bits of its payload.
constexpr std::uint16_t float_to_half(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520, half way between the largest half and 2^16
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal half
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else if (magnitude >= 0x33000000u) {  // 2^-25, half of the smallest subnormal
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    const std::uint32_t shift = 126u - (magnitude >> 23);  // 14 to 24
    const std::uint32_t rest = significand & ((1u << shift) - 1u);
    const std::uint32_t tie = 1u << (shift - 1u);
    half = significand >> shift;
    if (rest > tie || (rest == tie && (half & 1u) != 0)) ++half;
  }
  return static_cast<std::uint16_t>(sign | half);
}

constexpr float half_to_float(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: exact in float
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 0x1fu ? 0x7f800000u : (exponent + 112u) << 23;
  return std::bit_cast<float>(sign | wide | (fraction << 13));
}

constexpr std::uint16_t float_to_bfloat(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float bfloat_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
}  // namespace detail

// IEEE 754 half precision. Arithmetic happens in float, through the conversion.
struct Float16 {
  std::uint16_t bits;  // sign, 5 bits of exponent, 10 of fraction

  Float16() noexcept = default;
  // Rounds to the nearest, ties to even.
  constexpr explicit Float16(float value) noexcept : bits(detail::float_to_half(value)) {}
  // The number of that representation.
  static constexpr Float16 from_bits(std::uint16_t bits) noexcept {
    Float16 out(0.0f);
    out.bits = bits;
    return out;
  }
  // Exact.
  constexpr operator float() const noexcept { return detail::half_to_float(bits); }
};

// The upper half of a float32: its range, 8 bits of precision.
struct BFloat16 {
  std::uint16_t bits;  // sign, 8 bits of exponent, 7 of fraction

  BFloat16() noexcept = default;
  // Rounds to the nearest, ties to even.
  constexpr explicit BFloat16(float value) noexcept : bits(detail::float_to_bfloat(value)) {}
  // The number of that representation.
  static constexpr BFloat16 from_bits(std::uint16_t bits) noexcept {
    BFloat16 out(0.0f);
    out.bits = bits;
    return out;
  }
  // Exact.
  constexpr operator float() const noexcept { return detail::bfloat_to_float(bits); }
};

static_assert(sizeof(Float16) == 2 && std::is_trivially_copyable_v<Float16>);
static_assert(sizeof(BFloat16) == 2 && std::is_trivially_copyable_v<BFloat16>);

// Bytes of an element.
constexpr std::size_t item_size(DType dtype) noexcept { return detail::sizes_of(dtype).item; }
// What the type needs in memory: a complex number needs its component's alignment only.
constexpr std::size_t alignment(DType dtype) noexcept { return detail::sizes_of(dtype).alignment; }
// "float32", as NumPy and PyTorch name it; "invalid" for a number that is no dtype.
std::string_view name(DType dtype) noexcept;
// NumPy's array-interface string, "<f4"; empty for bfloat16, which NumPy has none for.
std::string_view typestr(DType dtype) noexcept;

// Its name.
std::ostream& operator<<(std::ostream& out, DType dtype);

// A number from another process. Nothing if it is no dtype of this version.
std::optional<DType> dtype_from_code(std::uint8_t code) noexcept;
std::optional<DType> dtype_from_name(std::string_view name) noexcept;
// Nothing for what has no dtype here: big-endian data, structured types, strings, dates, objects.
std::optional<DType> dtype_from_typestr(std::string_view typestr) noexcept;

namespace detail {
template <class T>
constexpr std::optional<DType> find_dtype() noexcept {
  using U = std::remove_cv_t<T>;
  if constexpr (std::same_as<U, bool>) {
    return DType::kBool;
  } else if constexpr (std::same_as<U, Float16>) {
    return DType::kFloat16;
  } else if constexpr (std::same_as<U, BFloat16>) {
    return DType::kBFloat16;
  } else if constexpr (std::same_as<U, float>) {
    return DType::kFloat32;
  } else if constexpr (std::same_as<U, double>) {
    return DType::kFloat64;
  } else if constexpr (std::same_as<U, std::complex<float>>) {
    return DType::kComplex64;
  } else if constexpr (std::same_as<U, std::complex<double>>) {
    return DType::kComplex128;
  } else if constexpr (std::same_as<U, char> || std::same_as<U, wchar_t> || std::same_as<U, char8_t> ||
                       std::same_as<U, char16_t> || std::same_as<U, char32_t>) {
    return std::nullopt;                    // text is no number
  } else if constexpr (std::integral<U>) {  // by size, so that long and long long both work
    constexpr int kFirst = static_cast<int>(std::is_signed_v<U> ? DType::kInt8 : DType::kUInt8);
    constexpr int kLog = std::countr_zero(sizeof(U));
    if constexpr (kLog > 3) return std::nullopt;
    return static_cast<DType>(kFirst + kLog);
  } else {
    return std::nullopt;
  }
}
}  // namespace detail

// A C++ type that some dtype describes: bool, the integers, float, double, Float16, BFloat16, std::complex.
template <class T>
concept Element = detail::find_dtype<T>().has_value();

// The dtype of a C++ type.
template <Element T>
constexpr DType dtype_of() noexcept {
  return *detail::find_dtype<T>();
}

}  // namespace forklift::inline abi_0_1
