// Comparisons and logical operations: of any numbers, the results being bools.
#include "kernels/isa/isa.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
namespace {

template <class T>
bool truth(T value) {
  if constexpr (is_complex<T>) {
    return value.re != 0 || value.im != 0;
  } else if constexpr (std::is_same_v<T, Bool>) {
    return value.byte != 0;
  } else {
    return value != 0;
  }
}

Bool as_bool(bool value) { return {static_cast<std::uint8_t>(value)}; }

// A bool counts as 0 or 1, whatever its byte.
template <class T>
auto comparable(T value) {
  if constexpr (std::is_same_v<T, Bool>) {
    return static_cast<std::uint8_t>(value.byte != 0);
  } else {
    return value;
  }
}

struct Equal {
  template <class T>
  static Bool apply(T a, T b) {
    if constexpr (is_complex<T>) {
      return as_bool(a.re == b.re && a.im == b.im);
    } else {
      return as_bool(comparable(a) == comparable(b));
    }
  }
};
struct NotEqual {
  template <class T>
  static Bool apply(T a, T b) {
    return as_bool(Equal::apply(a, b).byte == 0);
  }
};
struct Less {
  template <class T>
  static Bool apply(T a, T b) {
    return as_bool(comparable(a) < comparable(b));
  }
};
struct LessEqual {
  template <class T>
  static Bool apply(T a, T b) {
    return as_bool(comparable(a) <= comparable(b));
  }
};
struct Greater {
  template <class T>
  static Bool apply(T a, T b) {
    return as_bool(comparable(a) > comparable(b));
  }
};
struct GreaterEqual {
  template <class T>
  static Bool apply(T a, T b) {
    return as_bool(comparable(a) >= comparable(b));
  }
};
struct And {
  template <class T>
  static Bool apply(T a, T b) {
    return as_bool(truth(a) && truth(b));
  }
};
struct Or {
  template <class T>
  static Bool apply(T a, T b) {
    return as_bool(truth(a) || truth(b));
  }
};
struct Xor {
  template <class T>
  static Bool apply(T a, T b) {
    return as_bool(truth(a) != truth(b));
  }
};

}  // namespace

BinaryLoop compare(BinaryOp op, DType dtype) noexcept {
  return with_type(dtype, BinaryLoop(nullptr), [op](auto type) -> BinaryLoop {
    using T = typename decltype(type)::type;
    switch (op) {
      case BinaryOp::kEqual: return binary_loop<Equal, T, Bool>;
      case BinaryOp::kNotEqual: return binary_loop<NotEqual, T, Bool>;
      case BinaryOp::kLogicalAnd: return binary_loop<And, T, Bool>;
      case BinaryOp::kLogicalOr: return binary_loop<Or, T, Bool>;
      case BinaryOp::kLogicalXor: return binary_loop<Xor, T, Bool>;
      default: break;
    }
    if constexpr (!is_complex<T>) {
      switch (op) {
        case BinaryOp::kLess: return binary_loop<Less, T, Bool>;
        case BinaryOp::kLessEqual: return binary_loop<LessEqual, T, Bool>;
        case BinaryOp::kGreater: return binary_loop<Greater, T, Bool>;
        case BinaryOp::kGreaterEqual: return binary_loop<GreaterEqual, T, Bool>;
        default: break;
      }
    }
    return nullptr;
  });
}

}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
