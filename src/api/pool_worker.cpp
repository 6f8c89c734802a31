// A pool's worker in C++: finds the function that a task names, calls it, and answers.
#include <csignal>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "api/pool_core.h"
#include "forklift/this_process.h"
#include "message/codec.h"
#include "process/registry.h"
#include "process/report.h"
#include "tensor/arena_storage.h"

namespace forklift::inline abi_0_1 {
namespace {

int own_index = -1;  // NOLINT: one for the process

}  // namespace

int worker_id() noexcept { return own_index; }

namespace detail {

class TaskIn {
 public:
  explicit TaskIn(channel::Incoming& message) : message_(message) {
    if (message.bytes().size() < sizeof header)
      throw TypeMismatch({Code::kCorrupt, "a task of " + std::to_string(message.bytes().size()) + " bytes"});
    std::memcpy(&header, message.bytes().data(), sizeof header);
  }
  std::span<const std::byte> body() const noexcept { return message_.bytes().subspan(sizeof header); }
  channel::Incoming& message() noexcept { return message_; }

  TaskHeader header{};

 private:
  channel::Incoming& message_;
};

class TaskOut {
 public:
  explicit TaskOut(message::MessageBuilder& parcel_to_fill) noexcept : builder(parcel_to_fill) {}
  message::MessageBuilder& builder;
  std::uint8_t codec = message::kRawCodec;
};

std::span<const std::byte> argument_bytes(TaskIn& in, std::size_t size) {
  const std::span<const std::byte> bytes = in.body();
  if (bytes.size() != size) throw_wrong_length(bytes.size(), size);
  return bytes;
}

Value::List argument_values(TaskIn& in, std::size_t count) {
  Value value = value_or_throw(message::unpack(in.message(), in.body()));
  auto* list = value.get_if<Value::List>();
  if (list == nullptr || list->size() != count) {
    throw TypeMismatch({Code::kInvalid, "a function of " + std::to_string(count) +
                                            " parameters was called with something else"});
  }
  return std::move(*list);
}

void reply_bytes(TaskOut& out, std::span<const std::byte> bytes) {
  out.builder.bytes().assign(bytes.begin(), bytes.end());
}

void reply_value(TaskOut& out, const Value& value) {
  out.codec = message::kPortableCodec;
  throw_if_failed(out.builder.add(value));
}

namespace {

struct Invokers {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Invoker> by_signature;
};

Invokers& invokers() {
  static Invokers* const all = new Invokers;  // filled by static objects of other files, in any order
  return *all;
}

struct Callee {
  Address function;
  Invoker invoker;
};

Callee find_callee(const TaskHeader& header) {
  const Address function = value_or_throw(process::function_of(header.key));
  Invokers& all = invokers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto at = all.by_signature.find(header.signature);
  if (at == all.by_signature.end())
    throw TypeMismatch({Code::kInvalid, "no function of the type that was sent is called on a pool here"});
  return {function, at->second};
}

// One worker's: what it has called before is found without a lock.
class Callees {
 public:
  const Callee& find(const TaskHeader& header) {
    const auto at = known_.find(header.key ^ header.signature);
    if (at != known_.end()) return at->second;
    return known_.emplace(header.key ^ header.signature, find_callee(header)).first->second;
  }

 private:
  std::unordered_map<std::uint64_t, Callee> known_;
};

std::vector<std::byte> report_of(RemoteError::Details details) {
  details.process = this_process().name;
  details.pid = ::getpid();
  return process::encode_report(details);
}

void serve(workers::Worker& worker, channel::Incoming& task, Callees& callees,
           message::MessageBuilder& builder) {
  TaskOut out(builder);
  builder.clear();
  std::optional<RemoteError::Details> failure = process::failure_of([&] {
    TaskIn in(task);
    const Callee& callee = callees.find(in.header);
    if (worker.is_traced()) [[unlikely]]
      worker.name_task(process::name_of(callee.function).value_or("?"));
    callee.invoker(callee.function, in, out);
  });
  task.clear();
  if (!failure) {
    const Status sent = worker.answer(workers::Ending::kValue, builder.message(out.codec));
    builder.clear();
    if (sent.ok() || sent.code() == Code::kClosed) return;
    failure = process::failure_of([&] { throw_if_failed(sent); });
  }
  const std::vector<std::byte> report = report_of(*std::move(failure));
  const Status told =
      worker.answer(workers::Ending::kError, {.bytes = report, .codec = process::kErrorCodec});
  if (!told.ok() && told.code() != Code::kClosed) throw Error(told);
}

bool make_ready(workers::Worker& worker, const std::string& initializer, const ChannelRef& arguments) {
  if (initializer.empty()) return true;
  std::optional<RemoteError::Details> failure =
      process::failure_of([&] { value_or_throw(process::runner_of(initializer))(arguments.get()); });
  if (!failure) return true;
  throw_if_failed(worker.fail(report_of(*std::move(failure)), process::kErrorCodec));
  return false;
}

const Registered<&run_pool_worker> registered_worker{"forklift.pool.worker"};

}  // namespace

bool register_invoker(std::uint64_t signature, Invoker invoker) noexcept {
  Invokers& all = invokers();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.by_signature.emplace(signature, invoker).second;
}

int run_pool_worker(const Queue<Value>& tasks, const Queue<Value>& answers, const Tensor& table,
                    const WorkerSetup& setup, const std::string& initializer,
                    const Queue<Value>& initializer_arguments) {
  ::signal(SIGTERM, SIG_DFL);  // a forked one has the handlers of its parent
  own_index = static_cast<int>(setup.index);
  const arena::LeasePtr* block = tensor::share_lease(*table.storage());
  if (block == nullptr) throw Error({Code::kCorrupt, "a pool's table that is no shared memory"});
  workers::Worker worker =
      value_or_throw(workers::Worker::open({ChannelRef(tasks).get(), ChannelRef(answers).get(), *block,
                                            setup.index, setup.most_tasks, setup.most_memory}));
  if (!make_ready(worker, initializer, initializer_arguments)) return 1;
  channel::Incoming task;
  Callees callees;
  message::MessageBuilder builder(worker.arena());
  Status status = worker.ready();
  while (status && (status = worker.next(task))) serve(worker, task, callees, builder);
  if (status.code() != Code::kClosed) throw Error(status);
  return 0;
}

}  // namespace detail
}  // namespace forklift::inline abi_0_1
