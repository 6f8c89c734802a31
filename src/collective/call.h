// What a rank calls: the operation and everything in which all ranks must agree.
//
//   Call call{.operation = Operation::kAllReduce, .dtype = DType::kFloat32, .reduction = Op::kSum, .shape = x.shape()};
//   call.to_string();                     // "all_reduce(float32(480, 640), sum)"
//
// Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collective/tables.h"
#include "forklift/dtype.h"
#include "forklift/shape.h"
#include "forklift/status.h"

namespace forklift::inline abi_0_1::collective {

enum class Operation : std::uint8_t {
  kBarrier,
  kBroadcast,
  kReduce,
  kAllReduce,
  kGather,
  kAllGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
};
inline constexpr auto kLastOperation = Operation::kAllToAll;
std::string_view name_of(Operation operation) noexcept;

enum class Op : std::uint8_t {
  kNone,
  kSum,
  kProduct,
  kMin,
  kMax,
  kMean,
  kFunction,  // the caller's
};
inline constexpr auto kLastOp = Op::kFunction;
std::string_view name_of(Op op) noexcept;

struct Call {
  Operation operation = Operation::kBarrier;
  DType dtype = DType::kUInt8;
  Op op = Op::kNone;
  int root = -1;
  Dims shape{};
  // Why this rank cannot take part; it comes to the call all the same, so that the others learn of it.
  Code refused = Code::kOk;

  std::uint64_t word() const noexcept;
  std::uint64_t layout() const noexcept;
  std::uint64_t count() const noexcept;
  std::string to_string() const;
};

// As another rank posted it, checked: bytes that are no call give a text that says so.
std::string posted_text(const Post& post);
bool is_refused(std::uint64_t call_word) noexcept;
// "rank 0: barrier(); ranks 1, 2: all_reduce(float32(4), sum)"
std::string by_ranks(const std::vector<std::string>& texts);

}  // namespace forklift::inline abi_0_1::collective
