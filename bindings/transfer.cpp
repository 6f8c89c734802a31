#include "transfer.h"

#include <time.h>

#include <algorithm>
#include <string>

#include "arrival.h"
#include "draft.h"
#include "errors.h"
#include "gil.h"
#include "native.h"
#include "pickling.h"
#include "portable.h"
#include "stats.h"
#include "tensor/transport.h"

namespace forklift::py {

namespace {

// How long an unbounded wait for memory may last: a queue that nobody reads is a mistake to be told of.
constexpr std::int64_t kBudgetWaitNs = 2'000'000'000;
constexpr std::int64_t kBudgetPauseNs = 2'000'000;

// Calls `attempt` until it is not refused for memory, or until waiting for memory has no sense any more.
template <class Attempt>
Status with_memory(arena::Arena& arena, std::size_t bytes, os::Deadline deadline, bool block, PyHooks& hooks,
                   Attempt&& attempt) {
  Status status = attempt();
  if (status.code() != Code::kOverBudget || !block || bytes > arena.budget()) return status;
  const std::int64_t until = std::min(deadline.when_ns(), os::now_ns() + kBudgetWaitNs);
  while (status.code() == Code::kOverBudget && os::now_ns() < until) {
    const timespec pause{0, kBudgetPauseNs};
    ::nanosleep(&pause, nullptr);
    arena.domain().check_deaths();
    if (Status polled = hooks.poll(); !polled) return polled;
    status = attempt();
  }
  return status;
}

Status send_draft(channel::Channel& channel, Draft& draft, os::Deadline deadline, bool block, int orphan_fd) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  arena::Arena& arena = channel.hub().arena();
  const std::span<const std::byte> bytes(draft.bytes.data(), draft.bytes.size());
  Status status = with_memory(arena, draft.block_bytes + bytes.size(), deadline, block, hooks, [&] {
    if (Status filled = draft.fill(arena); !filled) return filled;
    return channel.put({bytes, draft.leases, draft.codec, 0}, deadline, &hooks);
  });
  draft.leases.clear();
  draft.shares.clear();
  return status;
}

Status send_parcel(channel::Channel& channel, const Value& value, os::Deadline deadline, bool block,
                   int orphan_fd) {
  GilRelease released;
  PyHooks hooks(released);
  hooks.orphan_fd = orphan_fd;
  arena::Arena& arena = channel.hub().arena();
  tensor::Parcel parcel(arena);
  Status status = with_memory(arena, 0, deadline, block, hooks, [&] {
    if (parcel.bytes().empty()) {
      if (Status added = parcel.add(value); !added) {
        parcel.clear();
        return added;
      }
    }
    return channel.put(parcel.message(), deadline, &hooks);
  });
  if (status) {
    for (const arena::LeasePtr& lease : parcel.leases()) count_block_bytes(lease->size());
    bump(counters.inline_bytes, parcel.bytes().size());
  }
  return status;
}

SendResult outcome(Status status) {
  if (status) {
    bump(counters.messages_put, 1);
    return {};
  }
  return {Sent::kFailed, std::move(status)};
}

}  // namespace

SendResult send_object(channel::Channel& channel, PyObject* object, Dialect dialect, os::Deadline deadline,
                       bool block, int orphan_fd) {
  if (dialect != Dialect::kPython) {
    Value value;
    if (!to_value(object, value)) return {Sent::kUnpicklable, {}};
    SendResult result = outcome(send_parcel(channel, value, deadline, block, orphan_fd));
    drop_value(std::move(value));
    return result;
  }
  const DraftLoan draft;
  switch (encode_native(object, *draft)) {
    case Encoded::kDone: break;
    case Encoded::kFailed: return {Sent::kUnpicklable, {}};
    case Encoded::kElsewhere:
      if (!encode_pickle(object, *draft)) return {Sent::kUnpicklable, {}};
  }
  const std::size_t inline_bytes = draft->bytes.size();
  SendResult result = outcome(send_draft(channel, *draft, deadline, block, orphan_fd));
  if (result.sent == Sent::kDone) bump(counters.inline_bytes, inline_bytes);
  return result;
}

namespace {

PyObject* decode(Arrival& arrival, Dialect dialect, Status& status) {
  switch (arrival.message.codec()) {
    case tensor::kNativeCodec: return decode_native(arrival);
    case tensor::kPickleCodec: return decode_pickle(arrival);
    case tensor::kPortableCodec: return from_message(arrival, dialect != Dialect::kPortableTensors);
    case tensor::kRawCodec:
      PyErr_SetString(
          PyExc_TypeError,
          "the message is an object of a C++ type; a queue with a Python end must be one of portable "
          "values (Queue<Value>, Queue<Tensor>)");
      return nullptr;
    default:
      status = {Code::kCorrupt, "a message has the unknown codec " + std::to_string(arrival.message.codec())};
      return nullptr;
  }
}

}  // namespace

PyObject* receive_object(channel::Channel& channel, Dialect dialect, os::Deadline deadline, int orphan_fd,
                         Status& status, const Delivery* delivery) {
  const ArrivalLoan arrival;
  {
    GilRelease released;
    PyHooks hooks(released);
    hooks.orphan_fd = orphan_fd;
    status = channel.get(arrival->message, deadline, &hooks);
    if (status) arrival->isolate();
  }
  if (!status) return nullptr;
  bump(counters.messages_got, 1);
  if (!delivery) return decode(*arrival, dialect, status);
  const Delivery::Scope scope(delivery);
  return delivery->finish(decode(*arrival, dialect, status));
}

}  // namespace forklift::py
