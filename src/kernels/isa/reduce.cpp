// Reductions: sums, products, extremes, all and any.
#include "kernels/isa/isa.h"
#include "kernels/isa/lanes.h"

namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA {
namespace {

// Both on numbers and on vectors of them.
struct Sum {
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
  template <class T>
  static T start() {
    return T{0};
  }
};
struct Product {
  template <class T>
  static T apply(T a, T b) {
    return a * b;
  }
  template <class T>
  static T start() {
    return T{1};
  }
};

template <class T>
constexpr T lowest() {
  if constexpr (sizeof(T) == 4 && is_real<T>) {
    return -__builtin_huge_valf();
  } else if constexpr (is_real<T>) {
    return -__builtin_huge_val();
  } else {
    return std::is_signed_v<T> ? static_cast<T>(std::make_unsigned_t<T>{1} << (sizeof(T) * 8 - 1)) : T{0};
  }
}
template <class T>
constexpr T highest() {
  if constexpr (is_real<T>) {
    return -lowest<T>();
  } else {
    return static_cast<T>(~lowest<T>());
  }
}

// A NaN wins. `a != a` is false of every integer.
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return a > b ? a : a != a ? a : b;  // NOLINT(misc-redundant-expression)
  }
  template <class T>
  static T start() {
    return lowest<T>();
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    return a < b ? a : a != a ? a : b;  // NOLINT(misc-redundant-expression)
  }
  template <class T>
  static T start() {
    return highest<T>();
  }
};

// How far ahead of its loads a long reduction fetches, in bytes: of elements of four bytes it takes up to a quarter less
// time on Zen 3 (decision 0338). With AVX-512 it was not measured.
#if defined(__AVX2__) && !defined(__AVX512F__)
inline constexpr std::ptrdiff_t kAhead = 4096;
#else
inline constexpr std::ptrdiff_t kAhead = 0;
#endif
inline constexpr std::ptrdiff_t kAheadFrom = std::ptrdiff_t{1} << 20;  // more than a core's own caches hold
inline constexpr std::ptrdiff_t kLine = 64;

template <class F, class In, class Acc>
void along(const std::byte* in, std::ptrdiff_t in_step, std::byte* into, std::ptrdiff_t count) {
  Acc total = at<Acc>(into, 0);
  std::ptrdiff_t i = 0;
  if (in_step == kStep<In>) {
    // Four vectors at a time, since each addition waits for the one before it.
    constexpr std::ptrdiff_t lanes = kVectorBytes / kStep<Acc>;
    typedef Acc AccVector __attribute__((vector_size(kVectorBytes)));
    typedef In InVector __attribute__((vector_size(lanes * sizeof(In))));
    if (count >= 4 * lanes) {
      AccVector totals[4];
      for (AccVector& each : totals) each = AccVector{} + F::template start<Acc>();
      [[maybe_unused]] const std::ptrdiff_t ahead = count * kStep<In> >= kAheadFrom ? kAhead : 0;
      for (; i + 4 * lanes <= count; i += 4 * lanes) {
        InVector loaded[4];
        __builtin_memcpy(loaded, in + i * kStep<In>, sizeof loaded);
        if constexpr (kAhead != 0) {
          // Where the reduction is short these are lines that it reads anyway.
          for (std::ptrdiff_t byte = 0; byte < std::ptrdiff_t{sizeof loaded}; byte += kLine)
            __builtin_prefetch(in + i * kStep<In> + ahead + byte);
        }
        totals[0] = F::apply(totals[0], __builtin_convertvector(loaded[0], AccVector));
        totals[1] = F::apply(totals[1], __builtin_convertvector(loaded[1], AccVector));
        totals[2] = F::apply(totals[2], __builtin_convertvector(loaded[2], AccVector));
        totals[3] = F::apply(totals[3], __builtin_convertvector(loaded[3], AccVector));
      }
      const AccVector both = F::apply(F::apply(totals[0], totals[1]), F::apply(totals[2], totals[3]));
      for (std::ptrdiff_t k = 0; k < lanes; ++k) total = F::apply(total, static_cast<Acc>(both[k]));
    }
  }
  for (; i < count; ++i) total = F::apply(total, static_cast<Acc>(at<In>(in, i * in_step)));
  at<Acc>(into, 0) = total;
}

template <class F, class In, class Acc>
void across(const std::byte* in, std::ptrdiff_t in_step, std::byte* into, std::ptrdiff_t count) {
  Acc* const totals = reinterpret_cast<Acc*>(into);
  if (in_step == kStep<In>) {
    const In* const from = reinterpret_cast<const In*>(in);
#pragma omp simd
    for (std::ptrdiff_t i = 0; i < count; ++i) totals[i] = F::apply(totals[i], static_cast<Acc>(from[i]));
    return;
  }
  for (std::ptrdiff_t i = 0; i < count; ++i)
    totals[i] = F::apply(totals[i], static_cast<Acc>(at<In>(in, i * in_step)));
}

template <class F, class Acc>
void merge(const std::byte* other, std::byte* into) {
  at<Acc>(into, 0) = F::apply(at<Acc>(into, 0), at<Acc>(other, 0));
}
template <class F, class Acc>
void start(std::byte* into) {
  at<Acc>(into, 0) = F::template start<Acc>();
}

template <class F, class In, class Acc>
ReduceLoops loops_of() {
  return {along<F, In, Acc>, across<F, In, Acc>, merge<F, Acc>, start<F, Acc>};
}

// The same of what has no vectors: bools and complex numbers. F::of converts an element.
template <class F, class In, class Acc>
void plain_along(const std::byte* in, std::ptrdiff_t in_step, std::byte* into, std::ptrdiff_t count) {
  Acc total = at<Acc>(into, 0);
  for (std::ptrdiff_t i = 0; i < count; ++i) total = F::apply(total, F::of(at<In>(in, i * in_step)));
  at<Acc>(into, 0) = total;
}
template <class F, class In, class Acc>
void plain_across(const std::byte* in, std::ptrdiff_t in_step, std::byte* into, std::ptrdiff_t count) {
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    at<Acc>(into, i * kStep<Acc>) = F::apply(at<Acc>(into, i * kStep<Acc>), F::of(at<In>(in, i * in_step)));
  }
}
template <class F, class In, class Acc>
ReduceLoops plain_loops_of() {
  return {plain_along<F, In, Acc>, plain_across<F, In, Acc>, merge<F, Acc>, start<F, Acc>};
}

using WideComplex = Complex<double>;
struct ComplexPart {
  template <class Real>
  static WideComplex of(Complex<Real> value) {
    return {value.re, value.im};
  }
};
struct ComplexSum : ComplexPart {
  static WideComplex apply(WideComplex a, WideComplex b) { return {a.re + b.re, a.im + b.im}; }
  template <class T>
  static WideComplex start() {
    return {0, 0};
  }
};
struct ComplexProduct : ComplexPart {
  static WideComplex apply(WideComplex a, WideComplex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  template <class T>
  static WideComplex start() {
    return {1, 0};
  }
};

struct Truth {
  template <class T>
  static Bool of(T value) {
    if constexpr (is_complex<T>) {
      return {static_cast<std::uint8_t>(value.re != 0 || value.im != 0)};
    } else if constexpr (std::is_same_v<T, Bool>) {
      return {static_cast<std::uint8_t>(value.byte != 0)};
    } else {
      return {static_cast<std::uint8_t>(value != 0)};
    }
  }
};
struct All : Truth {
  static Bool apply(Bool a, Bool b) { return {static_cast<std::uint8_t>(a.byte & b.byte)}; }
  template <class T>
  static Bool start() {
    return {1};
  }
};
struct Any : Truth {
  static Bool apply(Bool a, Bool b) { return {static_cast<std::uint8_t>(a.byte | b.byte)}; }
  template <class T>
  static Bool start() {
    return {0};
  }
};

struct CountTrue {
  static std::int64_t of(Bool value) { return value.byte != 0; }
};
struct BoolSum : CountTrue, Sum {};
struct BoolProduct : CountTrue, Product {};

template <class T>
ReduceLoops of_numbers(ReduceOp op) {
  // Unsigned also for signed integers: the bits are the same, and an overflow wraps around.
  using Acc = std::conditional_t<is_real<T>, double, std::uint64_t>;
  switch (op) {
    case ReduceOp::kSum: return loops_of<Sum, T, Acc>();
    case ReduceOp::kProd: return loops_of<Product, T, Acc>();
    case ReduceOp::kMax: return loops_of<Max, T, T>();
    case ReduceOp::kMin: return loops_of<Min, T, T>();
    default: return {};
  }
}

ReduceLoops of_bools(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return plain_loops_of<BoolSum, Bool, std::int64_t>();
    case ReduceOp::kProd: return plain_loops_of<BoolProduct, Bool, std::int64_t>();
    case ReduceOp::kMax: return plain_loops_of<Any, Bool, Bool>();
    case ReduceOp::kMin: return plain_loops_of<All, Bool, Bool>();
    default: return {};
  }
}

template <class T>
ReduceLoops of_complex(ReduceOp op) {
  if (op == ReduceOp::kSum) return plain_loops_of<ComplexSum, T, WideComplex>();
  if (op == ReduceOp::kProd) return plain_loops_of<ComplexProduct, T, WideComplex>();
  return {};
}

}  // namespace

ReduceLoops reduce(ReduceOp op, DType dtype) noexcept {
  return with_type(dtype, ReduceLoops{}, [op](auto type) -> ReduceLoops {
    using T = typename decltype(type)::type;
    if (op == ReduceOp::kAll) return plain_loops_of<All, T, Bool>();
    if (op == ReduceOp::kAny) return plain_loops_of<Any, T, Bool>();
    if constexpr (std::is_same_v<T, Bool>) {
      return of_bools(op);
    } else if constexpr (is_complex<T>) {
      return of_complex<T>(op);
    } else {
      return of_numbers<T>(op);
    }
  });
}

}  // namespace forklift::inline abi_0_1::kernels::FORKLIFT_ISA
