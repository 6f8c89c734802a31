// A job on tensors, and where it is computed: now, or by the executor's threads.
//
//   auto job = std::make_shared<SumJob>(...);          // derived from TensorJob
//   if (Status status = dispatch(job, nanoseconds); !status) return status;
//   return result;                                     // its value may be on its way
//
// A job that takes less than kInlineNs is computed by the caller, since handing it over would take longer. A longer one
// is queued. If any of its tensors' memory is open (tensor/pending.h), dispatch() waits for it, computing along.
//
// Thread safety: a job is used by the caller until it was dispatched, and by the executor from then on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "forklift/tensor.h"
#include "runtime/executor.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::ops {

// How long an operation may keep its caller before it is worth to be handed over.
inline constexpr double kInlineNs = 20'000;
// How much of it a piece should be.
inline constexpr double kPieceNs = 15'000;

// How many pieces to make of so much work.
std::int64_t pieces_for(double nanoseconds);

// Where part number `part` of `parts` begins in [0, count); without overflow.
inline std::int64_t share_of(std::int64_t count, std::int64_t parts, std::int64_t part) noexcept {
  return count / parts * part + count % parts * part / parts;
}

class TensorJob : public runtime::Job {
 public:
  TensorJob(std::string_view name, std::int64_t pieces, std::size_t bytes) noexcept
      : Job(pieces, bytes), pieces_(pieces), name_(name) {}

  // The tensors that it reads (at most kMostOperands), and the one that it writes. They live until the job was
  // dispatched; it keeps their memory until it is done.
  void reads(const Tensor& tensor) noexcept { inputs_[input_count_++] = {tensor.storage(), &tensor}; }
  void writes(const Tensor& tensor) noexcept { output_ = {tensor.storage(), &tensor}; }
  static constexpr std::size_t kMostOperands = 3;

  // Without waiting: the first element, or null of a tensor without elements.
  static std::byte* address(const Tensor& tensor) noexcept {
    return tensor.storage() ? detail::StorageAccess::address(*tensor.storage()) + tensor.byte_offset()
                            : nullptr;
  }

  // What dispatch() does.
  Status run_now();
  Status queue();

 protected:
  // During run(): the operation has no result.
  void fail(Status status);

  std::string describe() const final;

 private:
  void enter() final;
  void finish() noexcept final;
  void release() noexcept final;
  // After the last piece: the last part of the work, by one thread.
  virtual void combine() noexcept {}

  const std::int64_t pieces_;
  const std::string_view name_;
  struct Operand {
    std::shared_ptr<Storage> memory;
    const Tensor* tensor = nullptr;  // until dispatch() has returned
  };
  std::array<Operand, kMostOperands> inputs_;
  std::size_t input_count_ = 0;
  Operand output_;
  std::string signature_;  // made when the job is queued
  bool open_ = false;      // the program knows the address of one of them
  std::mutex failing_;
  Status failure_;

  friend Status dispatch(const std::shared_ptr<TensorJob>& job, double nanoseconds);
};

// Computes or queues it. The failure of an operation that should have made one of its inputs, or of this one if it
// was computed already.
Status dispatch(const std::shared_ptr<TensorJob>& job, double nanoseconds);

// "add(int32(3), float32(2, 2))".
std::string describe(std::string_view name, std::initializer_list<const Tensor*> operands);

}  // namespace forklift::inline abi_0_1::ops
