#include "ops/job.h"

#include <algorithm>
#include <utility>

#include "tensor/pending.h"

namespace forklift::inline abi_0_1::ops {

using detail::StorageAccess;

std::int64_t pieces_for(double nanoseconds) {
  if (nanoseconds < kInlineNs) return 1;
  const auto most = static_cast<double>(8 * runtime::Executor::instance().threads());
  return static_cast<std::int64_t>(std::clamp(nanoseconds / kPieceNs, 1.0, most));
}

std::string describe(std::string_view name, std::initializer_list<const Tensor*> operands) {
  std::string text(name);
  text += '(';
  for (const Tensor* const tensor : operands) {
    if (text.back() != '(') text += ", ";
    text += tensor->to_string();
  }
  return text + ')';
}

std::string TensorJob::describe() const { return signature_.empty() ? std::string(name_) : signature_; }

void TensorJob::fail(Status status) {
  const std::lock_guard held(failing_);
  if (failure_) failure_ = std::move(status);
}

void TensorJob::enter() {
  const std::shared_ptr<Job> self = shared_from_this();
  const auto note = [&](const Operand& operand) {
    if (operand.memory && !StorageAccess::note(*operand.memory, self)) open_ = true;
  };
  for (const Operand& input : inputs_) note(input);
  note(output_);
}

void TensorJob::finish() noexcept {
  combine();
  Status failure = failure_;
  for (const Operand& input : inputs_) {
    if (failure && input.memory) failure = StorageAccess::failure(*input.memory);
  }
  if (!failure && output_.memory) StorageAccess::fail(*output_.memory, failure);
}

void TensorJob::release() noexcept {
  for (Operand& input : inputs_) input.memory.reset();
  output_.memory.reset();
}

Status TensorJob::run_now() {
  for (std::int64_t i = 0; i < pieces_; ++i) run(i);
  combine();
  return failure_;
}

Status TensorJob::queue() {
  signature_ = std::string(name_) + '(';
  for (std::size_t i = 0; i < input_count_; ++i) {
    if (i != 0) signature_ += ", ";
    signature_ += inputs_[i].tensor->to_string();
  }
  signature_ += ')';
  runtime::Executor::instance().submit(shared_from_this());
  if (!open_) return {};
  if (Status status = wait(); !status) return status;
  const std::lock_guard held(failing_);
  return failure_;
}

Status dispatch(const std::shared_ptr<TensorJob>& job, double nanoseconds) {
  bool busy = false;
  for (const TensorJob::Operand& input : job->inputs_) {
    if (!input.memory || !StorageAccess::is_busy(*input.memory)) continue;
    if (Status status = StorageAccess::failure(*input.memory); !status) return status;
    busy = busy || StorageAccess::has_work(*input.memory);
  }
  busy = busy || (job->output_.memory && StorageAccess::has_work(*job->output_.memory));
  return nanoseconds < kInlineNs && !busy ? job->run_now() : job->queue();
}

}  // namespace forklift::inline abi_0_1::ops
