#include "collective/call.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace forklift::inline abi_0_1::collective {
namespace {

constexpr std::array<std::string_view, 9> kOperations = {"barrier",    "broadcast",      "reduce",
                                                         "all_reduce", "gather",         "all_gather",
                                                         "scatter",    "reduce_scatter", "all_to_all"};
constexpr std::array<std::string_view, 7> kOps = {"", "sum", "product", "min", "max", "mean", "function"};

// Call::word(): operation, dtype, op, number of dimensions and Code in a byte each, then the root + 1.
constexpr unsigned kDTypeAt = 8, kOpAt = 16, kNdimAt = 24, kRefusedAt = 32, kRootAt = 40;

constexpr std::uint64_t byte_at(std::uint64_t word, unsigned at) { return (word >> at) & 0xff; }

std::string text_of(const Call& call, std::size_t ndim) {
  std::string text(name_of(call.operation));
  text += "(";
  if (call.operation != Operation::kBarrier) {
    text += std::string(name(call.dtype)) + "(";
    for (std::size_t i = 0; i < call.shape.size(); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(call.shape[i]);
    if (ndim > call.shape.size()) text += ", ...";
    text += ")";
  }
  if (call.op != Op::kNone) text += ", " + std::string(name_of(call.op));
  if (call.root >= 0) text += ", root " + std::to_string(call.root);
  text += ")";
  if (call.refused != Code::kOk) text += ", refused there: " + std::string(code_name(call.refused));
  return text;
}

// Nothing: the word is no call's.
std::optional<Call> call_of(std::uint64_t word) {
  const std::uint64_t operation = byte_at(word, 0), dtype = byte_at(word, kDTypeAt),
                      op = byte_at(word, kOpAt);
  if (operation > static_cast<std::uint64_t>(kLastOperation) || dtype < kFirstDType || dtype > kLastDType ||
      op > static_cast<std::uint64_t>(kLastOp))
    return std::nullopt;
  Call call;
  call.operation = static_cast<Operation>(operation);
  call.dtype = static_cast<DType>(dtype);
  call.op = static_cast<Op>(op);
  call.root = static_cast<int>(word >> kRootAt) - 1;
  call.refused = static_cast<Code>(byte_at(word, kRefusedAt));
  return call;
}

}  // namespace

std::string_view name_of(Operation operation) noexcept {
  return kOperations[static_cast<std::size_t>(operation)];
}
std::string_view name_of(Op op) noexcept { return kOps[static_cast<std::size_t>(op)]; }

std::uint64_t Call::word() const noexcept {
  return static_cast<std::uint64_t>(operation) | static_cast<std::uint64_t>(dtype) << kDTypeAt |
         static_cast<std::uint64_t>(op) << kOpAt | static_cast<std::uint64_t>(shape.size()) << kNdimAt |
         static_cast<std::uint64_t>(refused) << kRefusedAt | static_cast<std::uint64_t>(root + 1) << kRootAt;
}

// FNV-1a over the lengths.
std::uint64_t Call::layout() const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < shape.size(); ++i)
    hash = (hash ^ static_cast<std::uint64_t>(shape[i])) * 0x100000001b3;
  return hash;
}

std::uint64_t Call::count() const noexcept {
  std::uint64_t product = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) product *= static_cast<std::uint64_t>(shape[i]);
  return product;
}

std::string Call::to_string() const { return text_of(*this, shape.size()); }

bool is_refused(std::uint64_t call_word) noexcept { return byte_at(call_word, kRefusedAt) != 0; }

std::string posted_text(const Post& post) {
  const std::uint64_t word = post.call.load(std::memory_order_relaxed);
  std::optional<Call> call = call_of(word);
  if (!call) return "a call that cannot be read";
  const std::uint64_t ndim = byte_at(word, kNdimAt);
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < std::min<std::size_t>(ndim, kShownDims); ++i)
    dims.push_back(static_cast<std::int64_t>(post.dims[i].load(std::memory_order_relaxed)));
  call->shape = Dims(DimSpan(dims.data(), dims.size()));
  return text_of(*call, ndim);
}

std::string by_ranks(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> groups;  // text, ranks
  std::vector<std::size_t> counts;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    std::size_t at = 0;
    while (at < groups.size() && groups[at].first != texts[rank]) ++at;
    if (at == groups.size()) {
      groups.emplace_back(texts[rank], std::to_string(rank));
      counts.push_back(1);
    } else {
      groups[at].second += ", " + std::to_string(rank);
      ++counts[at];
    }
  }
  std::string all;
  for (std::size_t i = 0; i < groups.size(); ++i)
    all += (i == 0 ? "" : "; ") + std::string(counts[i] == 1 ? "rank " : "ranks ") + groups[i].second + ": " +
           groups[i].first;
  return all;
}

}  // namespace forklift::inline abi_0_1::collective
