// Operations on the fake GPU beside the same ones on the CPU; for tests of this folder.
//
//   TEST_F(GpuOpsTest, Sum) {
//     expect_same({sample(DType::kFloat32, {30, 7})}, kExact, [](const Operands& x) { return ops::sum(x[0]); });
//   }
//
// The fake driver runs the kernels' own source, compiled for the host (tests/fake_cuda/host_kernels).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/gpu.h"
#include "forklift/error.h"
#include "forklift/ops.h"
#include "kernels/cuda/images.h"
#include "ops/element_type.h"
#include "support/fake_cuda.h"

namespace forklift::test {

using Operands = std::vector<Tensor>;
using Compute = std::function<Tensor(const Operands&)>;

// Relative to the larger of a number and 1. kExact: bit for bit, but for the sign and the payload of a NaN.
inline constexpr double kExact = 0;
// Of functions, which have several implementations.
inline double function_error(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128: return 1e-13;
    case DType::kFloat16: return 2e-3;
    case DType::kBFloat16: return 2e-2;
    default: return 3e-6;
  }
}

inline std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int code = kFirstDType; code <= kLastDType; ++code) all.push_back(static_cast<DType>(code));
  return all;
}

// Numbers with all that is special among them, not alike in two tensors with different seeds.
inline Tensor sample(DType dtype, const Dims& shape, int seed = 0) {
  const Tensor made = Tensor::empty(shape, dtype);
  ops::with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::byte* to = made.raw();
    std::uint64_t state = 0x9E3779B97F4A7C15u * static_cast<std::uint64_t>(seed + 1);
    for (std::int64_t i = 0; i < made.numel(); ++i, to += sizeof(T)) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto bits = state >> 33;
      if constexpr (std::is_same_v<T, bool>) {
        *to = static_cast<std::byte>(bits % 3);  // 2 is true, too
      } else if constexpr (std::is_integral_v<T>) {
        const T special[] = {
            T(0), T(1), T(-1), T(2), T(7), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
        ops::store(to, bits % 4 == 0 ? special[bits / 4 % 7] : static_cast<T>(state >> 40));
      } else {
        constexpr double kInfinity = HUGE_VAL;
        const double special[] = {0, -0.0, 1, -1, 0.5, -2.5, kInfinity, -kInfinity, NAN, 1e-3, 30000, -7};
        const auto real = [&](std::uint64_t number) {
          return number % 4 == 0 ? special[number / 4 % 12] : static_cast<double>(number % 4001) / 250 - 8;
        };
        if constexpr (ops::is_complex_v<T>) {
          using Part = typename T::value_type;
          ops::store(to, T(static_cast<Part>(real(bits % 1000)), static_cast<Part>(real(bits / 1000))));
        } else {
          ops::store(to, T(static_cast<float>(real(bits))));
        }
      }
    }
  });
  return made;
}

// Finite numbers only, from -8 to 8, of complex numbers too.
inline Tensor finite(DType dtype, const Dims& shape, int seed = 0) {
  const Tensor made = Tensor::empty(shape, dtype);
  std::uint64_t state = static_cast<std::uint64_t>(seed) + 7;
  ops::with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::byte* to = made.raw();
    for (std::int64_t i = 0; i < made.numel(); ++i, to += sizeof(T)) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double number = static_cast<double>((state >> 33) % 129) / 8 - 8;
      if constexpr (std::is_same_v<T, bool>) {
        ops::store(to, number > 0);
      } else if constexpr (std::is_integral_v<T>) {
        ops::store(to, static_cast<T>(std::is_signed_v<T> ? number : std::abs(number)));
      } else if constexpr (ops::is_complex_v<T>) {
        using Part = typename T::value_type;
        ops::store(to, T(static_cast<Part>(number), static_cast<Part>(number / 2 + 1)));
      } else {
        ops::store(to, T(static_cast<float>(number)));
      }
    }
  });
  return made;
}

inline std::complex<double> number_at(const Tensor& tensor, std::int64_t i) {
  return ops::with_element(tensor.dtype(), [&](auto zero) -> std::complex<double> {
    using T = decltype(zero);
    const T value = ops::load<T>(tensor.raw() + i * static_cast<std::int64_t>(sizeof(T)));
    if constexpr (ops::is_complex_v<T>) {
      return {value.real(), value.imag()};
    } else if constexpr (ops::is_narrow_v<T>) {
      return static_cast<double>(static_cast<float>(value));
    } else {
      return static_cast<double>(value);
    }
  });
}

inline bool is_near(double a, double b, double error) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return error > 0 || std::signbit(a) == std::signbit(b);
  return std::abs(a - b) <= error * std::max({1.0, std::abs(a), std::abs(b)});
}
inline bool is_near(const std::complex<double>& a, const std::complex<double>& b, double error) {
  if (is_near(a.real(), b.real(), error) && is_near(a.imag(), b.imag(), error)) return true;
  return std::isfinite(std::abs(a)) && std::abs(a - b) <= error * std::max(1.0, std::abs(a));
}

// Both on the CPU and without gaps.
inline void expect_equal(const Tensor& expected, const Tensor& got, double error) {
  ASSERT_EQ(expected.dtype(), got.dtype());
  ASSERT_EQ(expected.shape(), got.shape());
  int wrong = 0;
  for (std::int64_t i = 0; i < expected.numel() && wrong < 3; ++i) {
    const bool whole = expected.dtype() < DType::kFloat16;
    const auto item = static_cast<std::int64_t>(expected.item_size());
    const bool same = std::memcmp(expected.raw() + i * item, got.raw() + i * item, expected.item_size()) == 0;
    if (same) continue;
    const std::complex<double> a = number_at(expected, i);
    const std::complex<double> b = number_at(got, i);
    if (expected.dtype() == DType::kBool && a == b) continue;  // whatever the byte of a true one
    if (!whole && is_near(a, b, error)) continue;
    ADD_FAILURE() << "element " << i << " of " << expected.to_string() << ": " << a << " on the CPU, " << b
                  << " on the GPU";
    ++wrong;
  }
}

inline Tensor copied(const Tensor& tensor) { return ops::astype(tensor, tensor.dtype()); }
inline Tensor dense(const Tensor& tensor) { return tensor.is_contiguous() ? tensor : copied(tensor); }

class GpuOpsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cuda::has_images() && skipped_on_real_cuda("this build has no kernels for it")) return;
    // Lazy: nothing is computed before something waits for it.
    fake_.emplace(FakeCuda::load({"FORKLIFT_FAKE_CUDA_LAZY=1"}));
    ::setenv("FORKLIFT_LIBCUBLAS", "", 1);  // a real one would not know the fake driver
    if (!kernels::cuda::has_images()) write_images();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    // Nothing computes any more, and no tensor is left: the memory goes back to the driver.
    if (Result<std::shared_ptr<device::Device>> gpu = device::open("GPU"); gpu) {
      EXPECT_TRUE((*gpu)->complete());
      (*gpu)->gpu()->memory().trim();
      EXPECT_EQ((*gpu)->gpu()->memory().stats().bytes, 0U) << "device memory is left";
    }
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  const FakeCuda& fake() const { return *fake_; }

  // Computes it on the CPU and on the GPU. The same failure counts as the same.
  void expect_same(const Operands& operands, double error, const Compute& compute) {
    // First, since an operation may write one of its operands.
    Operands there;
    for (const Tensor& each : operands) there.push_back(each.to("GPU"));
    std::optional<Tensor> expected;
    Status refused;
    try {
      expected = dense(compute(operands));
      (void)expected->raw();
    } catch (const Error& failure) {
      expected.reset();
      refused = failure.status();
    }
    try {
      const Tensor got = compute(there);
      EXPECT_EQ(got.device(), "GPU");
      const Tensor here = got.to("CPU");
      if (!expected) {
        ADD_FAILURE() << "the GPU computes what the CPU refuses: " << refused.to_string();
        return;
      }
      expect_equal(*expected, here, error);
    } catch (const Error& failure) {
      if (expected || failure.status().code() != refused.code())
        ADD_FAILURE() << "on the GPU: " << failure.what() << "; on the CPU: " << refused.to_string();
    }
  }

 private:
  // A build without nvcc has no images; the fake looks at their first bytes only.
  void write_images() {
    folder_ = std::filesystem::temp_directory_path() / ("forklift-images-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
    for (const char* const name : {"map", "reduce", "matmul"})
      std::ofstream(folder_ / (std::string(name) + ".fatbin")) << "// kernels of the host";
    ::setenv("FORKLIFT_CUDA_IMAGES", folder_.c_str(), 1);
  }

  std::optional<FakeCuda> fake_;
  std::filesystem::path folder_;
};

}  // namespace forklift::test
