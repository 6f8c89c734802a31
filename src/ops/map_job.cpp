#include "ops/map_job.h"

#include <algorithm>

#include "os/limits.h"

namespace forklift::inline abi_0_1::ops {

void MapJob::output(const Tensor& tensor) {
  writes(tensor);
  walk_.add(tensor);
  out_ = address(tensor);
  if (tensor.dtype() != program_.result) out_cast_ = kernels::loops().cast(program_.result, tensor.dtype());
  plain_ = out_cast_ == nullptr && std::all_of(casts_.begin(), casts_.end(), [](auto cast) { return !cast; });
  walk_.finish();
  bytes_ += tensor.nbytes();
  if (plain_ && goes_past_caches(tensor.item_size())) {
    if (program_.streaming_unary != nullptr) program_.unary = program_.streaming_unary;
    if (program_.streaming_binary != nullptr) program_.binary = program_.streaming_binary;
  }
}

bool MapJob::goes_past_caches(std::size_t item_size) const noexcept {
  constexpr std::int64_t kLeastRow = 1024;
  constexpr std::size_t kSmall = std::size_t{1} << 20;  // no reason to ask the kernel for its cache's size
  return bytes_ > kSmall && bytes_ > os::last_level_cache() && walk_.ndim() > 0 &&
         walk_.inner_step(inputs_) == static_cast<std::ptrdiff_t>(item_size) &&
         walk_.length(walk_.ndim() - 1) >= kLeastRow &&
         std::find(bases_.begin(), bases_.end(), out_) == bases_.end();
}

void MapJob::run(std::int64_t piece) noexcept {
  const std::int64_t size = walk_.size();
  const std::int64_t first = share_of(size, total_pieces_, piece);
  walk_.for_each(first, share_of(size, total_pieces_, piece + 1),
                 [this](const std::int64_t* offsets, std::int64_t count) {
                   if (plain_) {
                     const std::byte* from[kMostInputs];
                     std::ptrdiff_t steps[kMostInputs];
                     for (std::size_t k = 0; k < inputs_; ++k) {
                       from[k] = bases_[k] + offsets[k];
                       steps[k] = walk_.inner_step(k);
                     }
                     call(from, steps, out_ + offsets[inputs_], walk_.inner_step(inputs_), count);
                   } else {
                     convert_and_call(offsets, count);
                   }
                 });
}

void MapJob::call(const std::byte* const* from, const std::ptrdiff_t* steps, std::byte* to,
                  std::ptrdiff_t step, std::int64_t count) noexcept {
  if (program_.refuses_negative_exponents) check_exponents(from[1], steps[1], count);
  call_loop(program_, from, steps, to, step, count);
}

void MapJob::convert_and_call(const std::int64_t* offsets, std::int64_t count) noexcept {
  alignas(64) std::byte buffers[kMostInputs + 1][kRun * kMostItemBytes];
  for (std::int64_t done = 0; done < count; done += kRun) {
    const std::int64_t run = std::min(kRun, count - done);
    const std::byte* from[kMostInputs];
    std::ptrdiff_t steps[kMostInputs];
    for (std::size_t k = 0; k < inputs_; ++k) {
      steps[k] = walk_.inner_step(k);
      from[k] = bases_[k] + offsets[k] + done * steps[k];
      if (casts_[k] == nullptr) continue;
      const auto item = static_cast<std::ptrdiff_t>(item_size(program_.inputs[k]));
      casts_[k](from[k], steps[k], buffers[k], item, steps[k] == 0 ? 1 : run);
      from[k] = buffers[k];
      if (steps[k] != 0) steps[k] = item;
    }
    const std::ptrdiff_t out_step = walk_.inner_step(inputs_);
    std::byte* const to = out_ + offsets[inputs_] + done * out_step;
    if (out_cast_ == nullptr) {
      call(from, steps, to, out_step, run);
      continue;
    }
    const auto item = static_cast<std::ptrdiff_t>(item_size(program_.result));
    call(from, steps, buffers[kMostInputs], item, run);
    out_cast_(buffers[kMostInputs], item, to, out_step, run);
  }
}

void MapJob::check_exponents(const std::byte* exponents, std::ptrdiff_t step, std::int64_t count) {
  std::byte least[8];
  const kernels::ReduceLoops smallest = kernels::loops().reduce(kernels::ReduceOp::kMin, program_.inputs[1]);
  smallest.start(least);
  smallest.along(exponents, step, least, count);
  const std::byte sign = least[item_size(program_.inputs[1]) - 1];
  if ((sign & std::byte{0x80}) != std::byte{0})
    fail({Code::kInvalid, "pow: integers to negative integer powers are not allowed"});
}

}  // namespace forklift::inline abi_0_1::ops
