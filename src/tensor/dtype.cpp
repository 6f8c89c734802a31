#include "forklift/dtype.h"

#include <array>
#include <ostream>

namespace forklift::inline abi_0_1 {
namespace {

struct Row {
  std::string_view name;
  std::string_view typestr;
};

// Indexed by the dtype's number.
constexpr std::array<Row, kLastDType + 1> kRows = {{
    {"invalid", ""},
    {"bool", "|b1"},
    {"int8", "|i1"},
    {"int16", "<i2"},
    {"int32", "<i4"},
    {"int64", "<i8"},
    {"uint8", "|u1"},
    {"uint16", "<u2"},
    {"uint32", "<u4"},
    {"uint64", "<u8"},
    {"float16", "<f2"},
    {"bfloat16", ""},
    {"float32", "<f4"},
    {"float64", "<f8"},
    {"complex64", "<c8"},
    {"complex128", "<c16"},
}};

static_assert(alignof(std::complex<float>) == 4 && alignof(std::complex<double>) == 8);
static_assert(sizeof(bool) == 1);

const Row& row(DType dtype) noexcept {
  const auto code = static_cast<std::uint8_t>(dtype);
  return kRows[code <= kLastDType ? code : 0];
}

}  // namespace

std::string_view name(DType dtype) noexcept { return row(dtype).name; }
std::string_view typestr(DType dtype) noexcept { return row(dtype).typestr; }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

std::optional<DType> dtype_from_code(std::uint8_t code) noexcept {
  if (code < kFirstDType || code > kLastDType) return std::nullopt;
  return static_cast<DType>(code);
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (std::uint8_t code = kFirstDType; code <= kLastDType; ++code) {
    if (kRows[code].name == name) return static_cast<DType>(code);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_typestr(std::string_view typestr) noexcept {
  if (typestr.size() < 3) return std::nullopt;
  const char order = typestr[0];
  const std::string_view kind = typestr.substr(1);
  // One byte has no order: NumPy writes '|' but takes any. More bytes need ours ('=' is "native").
  const bool one_byte = kind.substr(1) == "1";
  if (!(order == '<' || order == '=' || (one_byte && (order == '|' || order == '>')))) return std::nullopt;
  for (std::uint8_t code = kFirstDType; code <= kLastDType; ++code) {
    const std::string_view mine = kRows[code].typestr;
    if (!mine.empty() && mine.substr(1) == kind) return static_cast<DType>(code);
  }
  return std::nullopt;
}

}  // namespace forklift::inline abi_0_1
