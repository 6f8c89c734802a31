#include "collective/request_plan.h"

#include <string>

#include "collective/combine.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::collective {
namespace {

bool has_root(Operation operation) {
  return operation == Operation::kBroadcast || operation == Operation::kReduce ||
         operation == Operation::kGather || operation == Operation::kScatter;
}
bool reduces(Operation operation) {
  return operation == Operation::kReduce || operation == Operation::kAllReduce ||
         operation == Operation::kReduceScatter;
}
// Does the posted tensor have a part for each rank?
bool posts_parts(Operation operation) {
  return operation == Operation::kScatter || operation == Operation::kReduceScatter ||
         operation == Operation::kAllToAll;
}

Status check_memory(const Tensor& tensor, const char* which) {
  if (tensor.storage() && tensor.storage()->on_device())
    return {Code::kUnsupported, std::string(which) + " " + tensor.to_string() + " lies on " +
                                    tensor.device() +
                                    ": collectives are for memory of the CPU, so copy it there first"};
  return tensor::settle(tensor);
}

Status check_output(const Tensor& out) {
  if (out.readonly())
    return {Code::kInvalid, "the result cannot be written to the read-only " + out.to_string()};
  return {};
}

// Has `whole` one part like `part` for each rank?
Status check_parts(const Tensor& whole, const Tensor& part, int size) {
  if (whole.dtype() == part.dtype() && whole.numel() == part.numel() * size) return {};
  return {Code::kInvalid, whole.to_string() + " has not one " + part.to_string() + " for each of the " +
                              std::to_string(size) +
                              " ranks: its dtype has to be the same, and its elements " +
                              std::to_string(size) + " times as many"};
}

Status check_parts(const Request& request, bool posts, bool receives, int size) {
  switch (request.operation) {
    case Operation::kGather:
    case Operation::kAllGather: return receives ? check_parts(request.out, request.in, size) : Status();
    case Operation::kScatter: return posts ? check_parts(request.in, request.out, size) : Status();
    case Operation::kReduceScatter: return check_parts(request.in, request.out, size);
    case Operation::kAllToAll:
      if (request.in.numel() % size != 0)
        return {Code::kInvalid, request.in.to_string() + " cannot be cut into " + std::to_string(size) +
                                    " equal parts, one for each rank"};
      if (request.in.dtype() != request.out.dtype() || request.in.numel() != request.out.numel())
        return {Code::kInvalid, "all_to_all of " + request.in.to_string() + " into " +
                                    request.out.to_string() +
                                    ": both have to have the same dtype and as many elements"};
      return {};
    default: return {};
  }
}

}  // namespace

Communicator::Plan Communicator::plan(const Request& request) const {
  const int rank = transport_->rank(), size = transport_->size();
  const Operation operation = request.operation;
  Plan plan;
  plan.call.operation = operation;
  if (operation == Operation::kBarrier) {
    plan.small = true;
    return plan;
  }
  const bool is_root = !has_root(operation) || request.root == rank;
  plan.posts = is_root || operation == Operation::kReduce || operation == Operation::kGather;
  plan.receives = is_root || operation == Operation::kBroadcast || operation == Operation::kScatter;
  const bool by_part = operation == Operation::kScatter || operation == Operation::kReduceScatter;
  const Tensor& part = by_part ? request.out : request.in;
  plan.call.dtype = part.dtype();
  plan.call.op = request.op;
  plan.call.root = has_root(operation) ? request.root : -1;
  plan.call.shape = part.shape();
  plan.count = static_cast<std::size_t>(part.numel());
  if (operation == Operation::kAllToAll) plan.count /= static_cast<std::size_t>(size);
  plan.posted = plan.count * part.item_size() *
                (posts_parts(operation) ? static_cast<std::size_t>(size) : std::size_t{1});
  plan.small = plan.posted <= transport_->small_bytes();

  Status& refused = plan.refused;
  if (has_root(operation) && (request.root < 0 || request.root >= size)) {
    refused = {Code::kInvalid, "root " + std::to_string(request.root) + " of a group of " +
                                   std::to_string(size) + " ranks: they go from 0 to " +
                                   std::to_string(size - 1)};
    plan.call.root = -1;
  }
  if (refused && reduces(operation)) refused = check_reduction(request.op, plan.call.dtype);
  if (refused && plan.posts) refused = check_memory(request.in, "the tensor");
  if (refused && plan.receives) refused = check_memory(request.out, "the result");
  if (refused && plan.receives) refused = check_output(request.out);
  if (refused) refused = check_parts(request, plan.posts, plan.receives, size);
  return plan;
}

}  // namespace forklift::inline abi_0_1::collective
