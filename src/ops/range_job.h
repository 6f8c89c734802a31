// A job whose pieces are parts of a range of numbers: lines, results, elements.
//
//   return compute_range("roll", {&x}, out, rows, nanoseconds, [=](std::int64_t first, std::int64_t last) { ... });
//
// The function runs in any thread, several parts at once, possibly after compute_range() has returned: it holds
// addresses (address_of) and copies, no references. The job keeps the memory of the tensors that are named.
//
// Thread safety: as ops/job.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "ops/job.h"
#include "ops/on_gpu.h"
#include "tensor/device_storage.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::ops {

template <class Part>
class RangeJob final : public TensorJob {
 public:
  RangeJob(std::string_view name, std::int64_t count, std::int64_t pieces, std::size_t bytes, Part work)
      : TensorJob(name, pieces, bytes), count_(count), pieces_(pieces), work_(std::move(work)) {}

 private:
  void run(std::int64_t piece) noexcept override {
    try {
      work_(share_of(count_, pieces_, piece), share_of(count_, pieces_, piece + 1));
    } catch (const std::bad_alloc&) {
      fail({Code::kNoSpace, describe() + ": no memory for what it keeps in between"});
    }
  }

  const std::int64_t count_;
  const std::int64_t pieces_;
  const Part work_;
};

// Calls work(first, last) for parts that together are [0, count). At most three inputs. `work` may throw
// std::bad_alloc: the operation fails with kNoSpace.
template <class Part>
Status compute_range(std::string_view name, std::initializer_list<const Tensor*> inputs, const Tensor& out,
                     std::int64_t count, double nanoseconds, Part work) {
  if (count == 0) return {};
  if (tensor::device_of(out) != nullptr) {
    if (Status status = refuse_on_gpu(name, {&out}); !status) return status;
  }
  const auto job = std::make_shared<RangeJob<Part>>(name, count, std::min(pieces_for(nanoseconds), count),
                                                    out.nbytes(), std::move(work));
  for (const Tensor* const input : inputs) job->reads(*input);
  job->writes(out);
  return dispatch(job, nanoseconds);
}

// The first element without waiting, for jobs and for memory that nobody else has seen; null without elements.
inline std::byte* address_of(const Tensor& tensor) noexcept {
  return tensor.storage() ? detail::StorageAccess::address(*tensor.storage()) + tensor.byte_offset()
                          : nullptr;
}

// Waits until the elements may be read through address_of(), also those on a device. The failure of the operation that
// should have made them.
inline Status await_elements(const Tensor& tensor) {
  if (!tensor.storage()) return {};
  if (tensor.storage()->on_device()) {
    if (Status status = refuse_on_gpu("reading by the CPU", {&tensor}); !status) return status;
    return tensor::check_usable(tensor);
  }
  return tensor::settle_for_reading(tensor);
}

}  // namespace forklift::inline abi_0_1::ops
