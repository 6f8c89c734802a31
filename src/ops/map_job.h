// The job of an elementwise operation: one loop over runs of elements, between conversions.
//
//   Program program{.name = "add", .binary = loops().binary(...), ...};
//   auto job = std::make_shared<MapJob>(program, pieces_for(nanoseconds), out.nbytes());
//   job->walk().begin(shape);
//   job->input(a); job->input(b); job->output(out);
//   Status status = dispatch(job, nanoseconds);
//
// Thread safety: as TensorJob.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "forklift/ops.h"
#include "kernels/loops.h"
#include "ops/job.h"
#include "ops/promotion.h"
#include "ops/walk.h"

namespace forklift::inline abi_0_1::ops {

inline constexpr std::size_t kMostInputs = 3;

// What a job does with runs of elements: one of the three loops, between conversions.
struct Program {
  std::string_view name;
  std::uint16_t op =
      0;  // as a GPU's kernels number it (kernels/cuda/parameters.h); 0 is no loss: the CPU has its loop
  kernels::UnaryLoop unary = nullptr;
  kernels::BinaryLoop binary = nullptr;
  kernels::SelectLoop select = nullptr;
  // What replaces `unary` or `binary` where the result is too large for caches; may be null.
  kernels::UnaryLoop streaming_unary = nullptr;
  kernels::BinaryLoop streaming_binary = nullptr;
  double element_ns = 0;
  DType inputs[kMostInputs] = {};  // what each operand is converted to
  DType result{};                  // of the loop
  bool refuses_negative_exponents = false;
};

// Calls the program's loop, whose operands have the loop's dtypes already.
inline void call_loop(const Program& program, const std::byte* const* from, const std::ptrdiff_t* steps,
                      std::byte* to, std::ptrdiff_t step, std::int64_t count) noexcept {
  if (program.unary != nullptr) {
    program.unary(from[0], steps[0], to, step, count);
  } else if (program.binary != nullptr) {
    program.binary(from[0], steps[0], from[1], steps[1], to, step, count);
  } else {
    program.select(from[0], steps[0], from[1], steps[1], from[2], steps[2], to, step, count);
  }
}

class MapJob final : public TensorJob {
 public:
  MapJob(const Program& program, std::int64_t pieces, std::size_t bytes)
      : TensorJob(program.name, pieces, bytes), program_(program), total_pieces_(pieces) {}

  // Begun with the shape of the result before the inputs are added.
  Walk& walk() noexcept { return walk_; }

  void input(const Tensor& tensor) {
    const std::size_t k = inputs_++;
    reads(tensor);
    walk_.add(tensor);
    bases_[k] = address(tensor);
    bytes_ += tensor.nbytes();
    if (tensor.dtype() != program_.inputs[k])
      casts_[k] = kernels::loops().cast(tensor.dtype(), program_.inputs[k]);
  }

  // False: it does not fit into the dtype.
  bool input(const Number& number) {
    const std::size_t k = inputs_++;
    walk_.add_constant();
    bases_[k] = constants_[k].data();
    return write_number(number, program_.inputs[k], constants_[k].data());
  }

  // After the inputs.
  void output(const Tensor& tensor);

 private:
  // Is the result new to the caches, too large for them, and in long rows?
  bool goes_past_caches(std::size_t item_size) const noexcept;

  void run(std::int64_t piece) noexcept override;

  void call(const std::byte* const* from, const std::ptrdiff_t* steps, std::byte* to, std::ptrdiff_t step,
            std::int64_t count) noexcept;
  void convert_and_call(const std::int64_t* offsets, std::int64_t count) noexcept;
  // Of exponents that have the loop's dtype.
  void check_exponents(const std::byte* exponents, std::ptrdiff_t step, std::int64_t count);

  Program program_;
  const std::int64_t total_pieces_;
  Walk walk_;
  std::size_t inputs_ = 0;
  std::array<std::byte*, kMostInputs> bases_{};
  std::array<kernels::UnaryLoop, kMostInputs> casts_{};
  alignas(16) std::array<std::array<std::byte, kMostItemBytes>, kMostInputs> constants_{};
  std::byte* out_ = nullptr;
  std::size_t bytes_ = 0;  // of all tensors
  kernels::UnaryLoop out_cast_ = nullptr;
  bool plain_ = false;
};

}  // namespace forklift::inline abi_0_1::ops
