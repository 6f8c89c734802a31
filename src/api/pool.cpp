// Pool, Future and Batch over the engine.
#include "forklift/pool.h"

#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <new>
#include <utility>

#include "api/attached.h"
#include "api/pool_core.h"
#include "api/stop.h"
#include "base/log.h"
#include "node/node.h"
#include "os/proc.h"
#include "process/registry.h"
#include "process/report.h"
#include "sync/past_caches.h"
#include "tensor/arena_storage.h"

namespace forklift::inline abi_0_1 {

std::size_t default_workers() noexcept { return static_cast<std::size_t>(os::allowed_cpus()); }

namespace {

std::string death_line(const std::string& task, pid_t pid, int exitcode) {
  std::string line = "the worker (pid " + std::to_string(pid) + ") that ran \"" + task + "\" ";
  if (exitcode >= 0) return line + "exited with code " + std::to_string(exitcode);
  return line + "was ended by signal " + std::to_string(-exitcode) + " (" + ::strsignal(-exitcode) + ")";
}

}  // namespace

WorkerDiedError::WorkerDiedError(std::string task, pid_t pid, int exitcode)
    : Error({Code::kPeerDied, death_line(task, pid, exitcode)}),
      task_(std::move(task)),
      pid_(pid),
      exitcode_(exitcode) {}

namespace detail {
namespace {

class ProcessWorker : public workers::WorkerHandle {
 public:
  ProcessWorker(Process started, Call initializer)
      : process_(std::move(started)), initializer_(std::move(initializer)), pid_(process_.pid()) {}

  pid_t pid() const override { return pid_; }
  int sentinel() const override { return process_.sentinel(); }
  int wait() override {
    try {
      process_.join();
    } catch (const std::exception& error) {
      log(Severity::kError, std::string("a pool's worker failed: ") + error.what());
    }
    return process_.exitcode().value_or(255);
  }
  void signal(int number) override {
    try {
      number == SIGKILL ? process_.kill() : process_.terminate();
    } catch (const Error& error) {
      log(Severity::kError, std::string("a pool's worker cannot be told to end: ") + error.what());
    }
  }

 private:
  Process process_;
  Call initializer_;  // what it mentions has to be there until the worker has opened it
  pid_t pid_;
};

Tensor topic_tensor(const arena::LeasePtr& block) {
  return Tensor::wrap(tensor::storage_over(block), DType::kUInt8, {static_cast<std::int64_t>(block->size())});
}

std::string name_of_task(const TaskFunction& function) {
  const Result<std::string> name = process::name_of(function.function);
  return name ? *name : std::string("?");
}

}  // namespace

// --- outcomes

channel::Incoming& Outcome::result() {
  if (answer_.ending != workers::Ending::kValue) fail();
  return answer_.payload;
}

void Outcome::fail() {
  const std::string task = name_of_task(function_);
  switch (answer_.ending) {
    case workers::Ending::kError:
      throw RemoteError(value_or_throw(process::decode_report(answer_.payload.bytes())));
    case workers::Ending::kDied: throw WorkerDiedError(task, answer_.pid, answer_.exitcode);
    case workers::Ending::kTimedOut:
      throw TaskTimeoutError({Code::kTimeout, "\"" + task + "\" was over its time; its worker (pid " +
                                                  std::to_string(answer_.pid) + ") was killed"});
    case workers::Ending::kCancelled:
      throw CancelledError({Code::kInterrupted, "\"" + task + "\" was cancelled"});
    case workers::Ending::kUnreadable: {
      const std::span<const std::byte> text = answer_.payload.bytes();
      throw Error({Code::kCorrupt, "\"" + task + "\" could not be handed to a worker: " +
                                       std::string(reinterpret_cast<const char*>(text.data()), text.size())});
    }
    default: break;
  }
  if (const Status trouble = pool_.trouble(); !trouble.ok()) throw BrokenPoolError(trouble);
  throw Error({Code::kClosed, "the pool was terminated before \"" + task + "\" had ended"});
}

void expect_result(Outcome& outcome) { (void)outcome.result(); }

void result_bytes(Outcome& outcome, std::span<std::byte> out) {
  const channel::Incoming& message = outcome.result();
  if (message.codec() != message::kRawCodec || message.bytes().size() != out.size())
    throw_wrong_length(message.bytes().size(), out.size());
  sync::copy_bytes(out.data(), message.bytes().data(), out.size());
}

void result_sequence(Outcome& outcome, Sink sink, void* into) { sink(into, outcome.result().bytes()); }

Value result_value(Outcome& outcome) { return value_or_throw(message::unpack(outcome.result())); }

void throw_wait_over(const Wait& wait) {
  if (wait.stop().stop_requested())
    throw Error({Code::kInterrupted, "a stop was requested before the pool had the results"});
  throw Error({Code::kTimeout, "the pool did not have the results in time"});
}
void throw_no_more_results() { throw Closed({Code::kClosed, "all results of this stream were fetched"}); }
void throw_moved_stream() { throw Error({Code::kClosed, "this stream of results was moved from"}); }

// --- the pool

PoolCore::PoolCore(const PoolOptions& options, PrepareCall initializer)
    : options_(options), initializer_(std::move(initializer)), owner_(::getpid()) {}

PoolCore::~PoolCore() {
  if (!engine_ || is_mine()) return;
  (void)engine_.release();
  (void)callbacks_.release();
}

bool PoolCore::is_mine() const noexcept {
  const domain::Domain& domain = engine_->node().domain();
  return domain.attached() && domain.self() == owner_slot_;
}

PoolEngine& PoolCore::engine() const {
  if (!is_mine()) {
    throw Error({Code::kInvalid,
                 "this pool belongs to process " + std::to_string(owner_) + ", of which this one is a copy"});
  }
  return *engine_;
}

void PoolCore::start() {
  node::Node& node = home_node();
  if (options_.workers > UINT32_MAX / 2 || options_.spares > UINT32_MAX / 2)
    throw Error({Code::kInvalid, "a pool of " + std::to_string(options_.workers) + " workers"});
  const workers::EngineOptions engine{static_cast<std::uint32_t>(options_.workers),
                                      static_cast<std::uint32_t>(options_.spares), options_.tasks_per_worker,
                                      options_.memory_per_worker};
  owner_slot_ = node.domain().self();  // workers are started before create() returns
  start(std::make_unique<LocalEngine>(value_or_throw(workers::Engine::create(
      node, engine, [this](const workers::WorkerSlot& worker_slot) { return start_worker(worker_slot); }))));
}

void PoolCore::start(std::unique_ptr<PoolEngine> engine) {
  owner_slot_ = engine->node().domain().self();
  engine_ = std::move(engine);
}

Result<std::unique_ptr<workers::WorkerHandle>> PoolCore::start_worker(
    const workers::WorkerSlot& worker_slot) const {
  try {
    Call initializer;
    if (initializer_) initializer = initializer_();
    const Queue<Value> arguments(initializer_ ? initializer.arguments : ChannelRef(worker_slot.tasks));
    Process worker = options_.context.process(
        run_pool_worker, Queue<Value>(ChannelRef(worker_slot.tasks)),
        Queue<Value>(ChannelRef(worker_slot.answers)), topic_tensor(worker_slot.table),
        WorkerSetup{worker_slot.index, 0, worker_slot.most_tasks, worker_slot.most_memory},
        initializer.function, arguments);
    worker.set_name(options_.name + "-" + std::to_string(worker_slot.index)).set_daemon(true).start();
    return std::unique_ptr<workers::WorkerHandle>(
        new ProcessWorker(std::move(worker), std::move(initializer)));
  } catch (const Error& error) {
    return error.status();
  } catch (const std::exception& error) {
    return {Code::kSystem, error.what()};
  }
}

Status PoolCore::trouble() {
  channel::Incoming words;
  Status status = engine().health(&words);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (words.codec() == process::kErrorCodec) {
    Result<RemoteError::Details> details = process::decode_report(words.bytes());
    if (details) last_words_ = RemoteError(*std::move(details)).what();
  }
  if (status.ok() || last_words_.empty()) return status;
  return {status.code(), std::string(status.what()) + "; one said: " + last_words_};
}

void PoolCore::submit(const workers::JobPtr& job, std::uint64_t index, const CallOptions& options,
                      const TaskFunction& function, const TaskInput& input, bool more) {
  PoolEngine& engine = this->engine();
  thread_local message::MessageBuilder near(engine.node().arena()), far = [&] {
    message::MessageBuilder made(engine.node().arena());
    made.leaves_domain();
    return made;
  }();
  message::MessageBuilder& builder = engine.is_remote() ? far : near;
  builder.reset(engine.node().arena());
  struct Emptied {
    message::MessageBuilder& filled;
    ~Emptied() { filled.clear(); }
  } const emptied{builder};
  const TaskHeader header{function.key, function.signature};
  std::vector<std::byte>& bytes = builder.bytes();
  bytes.resize(sizeof header + input.bytes.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!input.bytes.empty()) std::memcpy(bytes.data() + sizeof header, input.bytes.data(), input.bytes.size());
  if (input.list != nullptr) throw_if_failed(builder.add(*input.list));
  const workers::TaskOptions task{options.timeout.count() > 0 ? options.timeout.count() : 0, options.retries};
  const Status sent = engine.submit(job, index, builder.message(), task, more);
  if (sent.ok()) return;
  if (const Status trouble = this->trouble(); !trouble.ok()) throw BrokenPoolError(trouble);
  throw Error(sent);
}

template <class Call>
bool PoolCore::wait(Limit limit, Call&& wait) {
  const os::Deadline deadline = deadline_of(limit);
  return settled(wait_stoppable(
      deadline.passed() ? nullptr : limit.stop,
      [&](channel::WaitHooks* hooks) { return wait(deadline, hooks); }, [this] { engine_->wake(); }));
}

std::shared_ptr<PoolCore> make_pool(const PoolOptions& options, PrepareCall initializer) {
  auto pool = std::make_shared<PoolCore>(options, std::move(initializer));
  pool->start();
  return pool;
}

void end_pool(const std::shared_ptr<PoolCore>& pool) noexcept {
  if (!pool->is_mine()) return;
  if (!pool->callbacks().is_here()) {
    pool->engine().shut_down();
    return pool->callbacks().finish();
  }
  // Inside of its own callback it cannot wait for itself: what is left stays until the process ends.
  pool->engine().terminate();
  (void)new (std::nothrow) std::shared_ptr<PoolCore>(pool);
}

void close_pool(PoolCore& pool) { pool.engine().close(); }
void terminate_pool(PoolCore& pool) { pool.engine().terminate(); }
std::vector<pid_t> pool_pids(PoolCore& pool) { return pool.engine().pids(); }

bool join_pool(PoolCore& pool, Limit limit) {
  PoolEngine& engine = pool.engine();
  const os::Deadline until = deadline_of(limit);
  const bool ended = pool.wait(
      limit, [&](os::Deadline deadline, channel::WaitHooks* hooks) { return engine.join(deadline, hooks); });
  return ended && pool.callbacks().wait(until, stop_of(limit));
}

TaskFunction task_function(Address function, std::uint64_t signature) {
  return {function, value_or_throw(process::key_of(function)), signature};
}

// --- one task

TaskPtr submit_task(const std::shared_ptr<PoolCore>& pool, const CallOptions& options,
                    const TaskFunction& function, const TaskInput& input) {
  auto task = std::make_shared<TaskState>();
  task->pool = pool;
  task->function = function;
  task->job = pool->engine().make_job({.cancellable = true});
  pool->submit(task->job, 0, options, function, input, false);
  return task;
}

bool wait_task(TaskState& task, Limit limit) {
  PoolEngine& engine = task.pool->engine();
  return task.pool->wait(limit, [&](os::Deadline deadline, channel::WaitHooks* hooks) {
    return engine.wait(*task.job, deadline, hooks);
  });
}

bool cancel_task(TaskState& task) { return task.pool->engine().cancel(*task.job, 0); }

void take_outcome(TaskState& task, void (*use)(void* into, Outcome& outcome), void* into) {
  std::vector<workers::Answer> answers;
  throw_if_failed(task.pool->engine().collect(*task.job, answers, 1, os::Deadline::never(), nullptr));
  Outcome outcome(*task.pool, task.function, answers.at(0));
  use(into, outcome);
}

// --- many

class Batch::State {
 public:
  std::shared_ptr<PoolCore> pool;
  CallOptions options;
  bool limited = false;  // options.wait ends some time
  TaskFunction function{};
  workers::JobPtr job;
  std::vector<workers::Answer> answers;
  std::size_t most = 0;
  std::uint64_t outstanding = 0;
};

namespace {
// So many tasks wait in the pool at most where the end of a wait may have to cancel them.
constexpr std::uint64_t kMostStoppable = workers::kCancelPlaces / 2;
}  // namespace

Batch::Batch(const std::shared_ptr<PoolCore>& pool, const CallOptions& options, const TaskFunction& function,
             bool all)
    : state_(std::make_unique<State>()) {
  state_->pool = pool;
  state_->options = options;
  state_->options.wait = options.wait.begun();
  state_->limited = !options.wait.is_forever();
  state_->function = function;
  state_->job = pool->engine().make_job({.bulk = all, .cancellable = state_->limited});
  state_->most = all ? 1024 : 64;
}
Batch::~Batch() = default;

void Batch::submit(std::uint64_t index, const TaskInput& input) const {
  state_->pool->submit(state_->job, index, state_->options, state_->function, input, true);
  ++state_->outstanding;
}

void Batch::flush() const noexcept {
  if (state_->pool->is_mine()) state_->pool->engine().flush();
}

bool Batch::collect(Deliver deliver, void* into, Limit limit) const {
  State& state = *state_;
  PoolEngine& engine = state.pool->engine();
  const bool came = state.pool->wait(limit, [&](os::Deadline deadline, channel::WaitHooks* hooks) {
    return engine.collect(*state.job, state.answers, state.most, deadline, hooks);
  });
  if (!came || state.answers.empty()) return false;
  state.outstanding -= state.answers.size();
  for (workers::Answer& answer : state.answers) {
    Outcome outcome(*state.pool, state.function, answer);
    deliver(into, answer.index, outcome);
  }
  state.answers.clear();
  return true;
}

bool Batch::over() const noexcept { return state_->options.wait.over(); }

bool Batch::collect_in_time(Deliver deliver, void* into) const {
  const Wait& wait = state_->options.wait;
  const bool came = collect(deliver, into, state_->limited ? Limit(wait) : Limit(kForever));
  if (!came && state_->outstanding != 0 && over()) {
    state_->pool->engine().cancel_all(*state_->job);
    throw_wait_over(wait);
  }
  return came;
}

void Batch::make_room(Deliver deliver, void* into) const {
  if (!state_->limited) return;
  while (state_->outstanding >= kMostStoppable || over()) {
    flush();
    if (!collect_in_time(deliver, into)) throw_wait_over(state_->options.wait);
  }
}

std::size_t Batch::ahead() const noexcept {
  return state_->options.ahead != 0 ? state_->options.ahead : 2 * state_->pool->workers() + 16;
}

}  // namespace detail
}  // namespace forklift::inline abi_0_1
