#include "forklift/dtype.h"

#include <array>

namespace forklift {
namespace {

struct Row {
  std::size_t size;
  std::size_t align;
  std::string_view name;
  std::string_view typestr;
};

// Indexed by the dtype's number.
constexpr std::array<Row, kLastDType + 1> kRows = {{
    {0, 1, "invalid", ""},
    {1, 1, "bool", "|b1"},
    {1, 1, "int8", "|i1"},
    {2, 2, "int16", "<i2"},
    {4, 4, "int32", "<i4"},
    {8, 8, "int64", "<i8"},
    {1, 1, "uint8", "|u1"},
    {2, 2, "uint16", "<u2"},
    {4, 4, "uint32", "<u4"},
    {8, 8, "uint64", "<u8"},
    {2, 2, "float16", "<f2"},
    {2, 2, "bfloat16", ""},
    {4, 4, "float32", "<f4"},
    {8, 8, "float64", "<f8"},
    {8, 4, "complex64", "<c8"},
    {16, 8, "complex128", "<c16"},
}};

static_assert(alignof(std::complex<float>) == 4 && alignof(std::complex<double>) == 8);
static_assert(sizeof(bool) == 1);

const Row& row(DType dtype) noexcept {
  const auto code = static_cast<std::uint8_t>(dtype);
  return kRows[code <= kLastDType ? code : 0];
}

}  // namespace

std::size_t item_size(DType dtype) noexcept { return row(dtype).size; }
std::size_t alignment(DType dtype) noexcept { return row(dtype).align; }
std::string_view name(DType dtype) noexcept { return row(dtype).name; }
std::string_view typestr(DType dtype) noexcept { return row(dtype).typestr; }

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

}  // namespace forklift
