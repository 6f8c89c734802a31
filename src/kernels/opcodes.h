// The operations that have loops, by number.
//
//   name(BinaryOp::kFloorDivide);      // "floor_divide": as the Array API standard or else NumPy names it
//
// Thread safety: constants.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace forklift::inline abi_0_1::kernels {

enum class UnaryOp : std::uint8_t {
  kNegative,
  kPositive,
  kAbs,
  kSign,
  kSquare,
  kReciprocal,
  kSqrt,
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kCbrt,
  kErf,
  kCeil,
  kFloor,
  kTrunc,
  kRound,
  kIsNan,
  kIsInf,
  kIsFinite,
  kSignbit,
  kLogicalNot,
  kBitwiseInvert,
  kReal,
  kImag,
  kConj,
};

inline constexpr std::array<std::string_view, 41> kUnaryNames = {
    "negative", "positive", "abs",      "sign",    "square",      "reciprocal",     "sqrt",  "exp",
    "exp2",     "expm1",    "log",      "log2",    "log10",       "log1p",          "sin",   "cos",
    "tan",      "asin",     "acos",     "atan",    "sinh",        "cosh",           "tanh",  "asinh",
    "acosh",    "atanh",    "cbrt",     "erf",     "ceil",        "floor",          "trunc", "round",
    "isnan",    "isinf",    "isfinite", "signbit", "logical_not", "bitwise_invert", "real",  "imag",
    "conj"};

enum class BinaryOp : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kPow,
  kMaximum,
  kMinimum,
  kAtan2,
  kHypot,
  kCopysign,
  kNextafter,
  kLogaddexp,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
  kBitwiseLeftShift,
  kBitwiseRightShift,
};

inline constexpr std::array<std::string_view, 28> kBinaryNames = {"add",
                                                                  "subtract",
                                                                  "multiply",
                                                                  "divide",
                                                                  "floor_divide",
                                                                  "remainder",
                                                                  "pow",
                                                                  "maximum",
                                                                  "minimum",
                                                                  "atan2",
                                                                  "hypot",
                                                                  "copysign",
                                                                  "nextafter",
                                                                  "logaddexp",
                                                                  "equal",
                                                                  "not_equal",
                                                                  "less",
                                                                  "less_equal",
                                                                  "greater",
                                                                  "greater_equal",
                                                                  "logical_and",
                                                                  "logical_or",
                                                                  "logical_xor",
                                                                  "bitwise_and",
                                                                  "bitwise_or",
                                                                  "bitwise_xor",
                                                                  "bitwise_left_shift",
                                                                  "bitwise_right_shift"};

enum class ReduceOp : std::uint8_t {
  kSum,
  kProd,
  kMax,
  kMin,
  kAll,
  kAny,
};

inline constexpr std::array<std::string_view, 6> kReduceNames = {"sum", "prod", "max", "min", "all", "any"};

constexpr std::string_view name(UnaryOp op) noexcept { return kUnaryNames[static_cast<std::size_t>(op)]; }
constexpr std::string_view name(BinaryOp op) noexcept { return kBinaryNames[static_cast<std::size_t>(op)]; }
constexpr std::string_view name(ReduceOp op) noexcept { return kReduceNames[static_cast<std::size_t>(op)]; }

static_assert(name(UnaryOp::kConj) == "conj" && name(UnaryOp::kIsNan) == "isnan");
static_assert(name(BinaryOp::kBitwiseRightShift) == "bitwise_right_shift" &&
              name(BinaryOp::kEqual) == "equal");

constexpr bool is_comparison(BinaryOp op) noexcept {
  return op >= BinaryOp::kEqual && op <= BinaryOp::kGreaterEqual;
}
constexpr bool is_logical(BinaryOp op) noexcept {
  return op >= BinaryOp::kLogicalAnd && op <= BinaryOp::kLogicalXor;
}
constexpr bool is_bitwise(BinaryOp op) noexcept { return op >= BinaryOp::kBitwiseAnd; }

}  // namespace forklift::inline abi_0_1::kernels
