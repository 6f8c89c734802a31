#include "kernels/loops.h"

#include <cstdlib>
#include <cstring>

#include "kernels/variants.h"

namespace forklift::inline abi_0_1::kernels {

namespace {

#if defined(__x86_64__)
// AMD's Zen 4 halves accesses of 64 bytes. Loops that take less time than the memory, which are those with streaming
// stores, are as fast with 32 bytes in the first two caches and up to a fifth faster beyond (decision 0333). Roots are
// slower.
namespace amd {
UnaryLoop unary(UnaryOp op, DType dtype) noexcept {
  const bool light = op != UnaryOp::kSqrt && avx512::kLoops.streaming_unary(op, dtype) != nullptr;
  return (light ? avx2::kLoops : avx512::kLoops).unary(op, dtype);
}
BinaryLoop binary(BinaryOp op, DType dtype) noexcept {
  const bool light = avx512::kLoops.streaming_binary(op, dtype) != nullptr;
  return (light ? avx2::kLoops : avx512::kLoops).binary(op, dtype);
}
Loops make() noexcept {
  Loops loops = avx512::kLoops;
  loops.unary = unary;
  loops.binary = binary;
  return loops;
}
const Loops& loops() noexcept {
  static const Loops made = make();
  return made;
}
}  // namespace amd
#endif

const Loops& choose() noexcept {
#if defined(__x86_64__)
  const char* const wanted = std::getenv("FORKLIFT_CPU");
  const auto allowed = [wanted](const char* name) {
    return wanted == nullptr || std::strcmp(wanted, name) == 0 ||
           (std::strcmp(wanted, "avx512") == 0 && std::strcmp(name, "avx2") == 0);
  };
  if (allowed("avx512") && avx512::can_run())
    return wanted == nullptr && __builtin_cpu_is("amd") != 0 ? amd::loops() : avx512::kLoops;
  if (allowed("avx2") && avx2::can_run()) return avx2::kLoops;
#endif
  return base::kLoops;
}

bool is_complex(DType dtype) noexcept { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

}  // namespace

const Loops& loops() noexcept {
  static const Loops& chosen = choose();
  return chosen;
}

DType result_of(UnaryOp op, DType dtype) noexcept {
  switch (op) {
    case UnaryOp::kIsNan:
    case UnaryOp::kIsInf:
    case UnaryOp::kIsFinite:
    case UnaryOp::kSignbit:
    case UnaryOp::kLogicalNot: return DType::kBool;
    case UnaryOp::kAbs:
    case UnaryOp::kReal:
    case UnaryOp::kImag:
      if (is_complex(dtype)) return dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
      return dtype;
    default: return dtype;
  }
}

DType result_of(BinaryOp op, DType dtype) noexcept {
  return is_comparison(op) || is_logical(op) ? DType::kBool : dtype;
}

DType accumulator_of(ReduceOp op, DType dtype) noexcept {
  if (op == ReduceOp::kAll || op == ReduceOp::kAny) return DType::kBool;
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) return dtype;
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64: return DType::kFloat64;
    case DType::kComplex64:
    case DType::kComplex128: return DType::kComplex128;
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: return DType::kUInt64;
    default: return DType::kInt64;
  }
}

}  // namespace forklift::inline abi_0_1::kernels
