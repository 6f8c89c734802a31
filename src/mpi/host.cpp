#include "mpi/host.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "api/attached.h"
#include "api/pool_core.h"
#include "forklift/context.h"
#include "message/transport.h"

namespace forklift::inline abi_0_1::mpi {
namespace {

constexpr std::size_t kMostAnswers = 256;  // in one message
constexpr std::int64_t kLookNs = 200'000'000;

// The leases of a message for a channel. kOverBudget: there was no room for them when they came.
Result<std::vector<arena::LeasePtr>> leases_of(Payload& payload) {
  std::vector<arena::LeasePtr> leases;
  for (Buffer& each : payload.buffers) {
    if (!each.lease)
      return Status(Code::kOverBudget,
                    "the node's memory for tensors has no room for " + std::to_string(each.size) + " bytes");
    // Of the same process, where the driver's task keeps it.
    if (each.lease.use_count() > 1) {
      Result<arena::LeasePtr> another = each.lease->arena().another(each.lease);
      if (!another) return another.status();
      each.lease = *std::move(another);
    }
    leases.push_back(std::move(each.lease));
  }
  return leases;
}

Payload payload_of(channel::Incoming& message) {
  Payload payload = Payload::copy_of(message.bytes(), message.codec());
  for (arena::LeasePtr& lease : message.leases()) {
    const std::size_t size = lease->size();
    payload.buffers.push_back({std::move(lease), nullptr, size});
  }
  message.clear();
  return payload;
}

void put_answer(NodeMessage& packet, std::uint64_t task, workers::Ending ending, pid_t pid, int exitcode,
                const Payload& payload) {
  packet.put(task);
  packet.put(ending);
  packet.put(pid);
  packet.put(exitcode);
  packet.put_payload(payload);
}

// The arguments of an initializer, made anew for each worker.
forklift::detail::PrepareCall prepare_from(Reader& reader) {
  const std::string function = reader.take_text();
  Payload payload = reader.take_payload();
  if (function.empty()) return {};
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(payload.size);
  std::memcpy(bytes.get(), payload.bytes.get(), payload.size);
  channel::Incoming message(std::move(bytes), payload.size, value_or_throw(leases_of(payload)),
                            payload.codec);
  const Value value = value_or_throw(message::unpack(message));
  return [function, value] {
    forklift::detail::Call call{function, {}, {}, {}, {}};
    const auto* const list = value.get_if<Value::List>();
    call.arguments = forklift::detail::send_arguments(list != nullptr ? *list : Value::List{});
    return call;
  };
}

}  // namespace

class Hosted {
 public:
  Hosted(std::uint64_t pool, const cpu_set_t& cpus, const Host::Sink& sink)
      : pool_(pool), cpus_(cpus), sink_(sink), lane_([this] { run(); }) {}
  ~Hosted() {
    take(NodeMessage(Kind::kTerminate, pool_));
    lane_.join();
  }
  Hosted(const Hosted&) = delete;
  Hosted& operator=(const Hosted&) = delete;

  // Whether its workers are gone, so that it can be forgotten.
  bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }

  void take(NodeMessage packet) {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(packet));
    }
    called_.notify_one();
  }

 private:
  void run();
  bool perform(NodeMessage packet);
  void begin(Reader& reader);
  void submit(Reader& reader);
  void recall(Reader& reader);
  void answer_pids(Kind kind);
  void end();
  void collect();
  void report(std::vector<workers::Answer>& answers);
  void fail(const Status& why);

  const std::uint64_t pool_;
  const cpu_set_t cpus_;
  const Host::Sink& sink_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable called_, submitted_;
  std::deque<NodeMessage> calls_;
  std::uint64_t outstanding_ = 0;
  bool over_ = false;
  bool told_failure_ = false;
  std::atomic<bool> ended_{false};
  // the lane's alone
  std::shared_ptr<forklift::detail::PoolCore> core_;
  workers::JobPtr job_;
  std::thread collector_;
  std::thread lane_;  // last: it uses all of them
};

void Hosted::run() {
  // Children inherit it: workers may use the processors of all ranks of the node.
  (void)::sched_setaffinity(0, sizeof cpus_, &cpus_);
  while (true) {
    NodeMessage packet;
    {
      std::unique_lock lock(mutex_);
      called_.wait(lock, [this] { return !calls_.empty(); });
      packet = std::move(calls_.front());
      calls_.pop_front();
    }
    try {
      if (!perform(std::move(packet))) return;
    } catch (const Error& error) {
      fail(error.status());
    } catch (const std::exception& error) {
      fail({Code::kSystem, error.what()});
    }
  }
}

// False: the pool has ended.
bool Hosted::perform(NodeMessage packet) {
  Reader reader(packet);
  const auto kind = reader.take<Kind>();
  (void)reader.take<std::uint64_t>();
  switch (kind) {
    case Kind::kBegin: begin(reader); return true;
    case Kind::kTasks: submit(reader); return true;
    case Kind::kRecall: recall(reader); return true;
    case Kind::kAsk: answer_pids(Kind::kPids); return true;
    case Kind::kClose:
      if (core_) {
        core_->engine().close();
        (void)core_->engine().join(os::Deadline::never(), nullptr);
      }
      end();
      return false;
    default: end(); return false;
  }
}

void Hosted::begin(Reader& reader) {
  forklift::PoolOptions options;
  options.context = forkserver_context();
  options.workers = reader.take<std::uint64_t>();
  options.spares = reader.take<std::uint64_t>();
  options.tasks_per_worker = reader.take<std::uint64_t>();
  options.memory_per_worker = reader.take<std::uint64_t>();
  options.name = reader.take_text();
  auto core = std::make_shared<forklift::detail::PoolCore>(options, prepare_from(reader));
  core->start();
  core_ = std::move(core);
  job_ = core_->engine().make_job({.cancellable = true});
  collector_ = std::thread([this] { collect(); });
  answer_pids(Kind::kBegun);
}

void Hosted::submit(Reader& reader) {
  const auto count = reader.take<std::uint64_t>();
  NodeMessage refused(Kind::kAnswers, pool_);
  refused.put(std::uint64_t{0});
  std::uint64_t lost = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto task = reader.take<std::uint64_t>();
    const auto options = reader.take<workers::TaskOptions>();
    Payload payload = reader.take_payload();
    Status status = core_ ? Status() : Status(Code::kClosed, "the pool has no workers");
    if (status.ok()) {
      Result<std::vector<arena::LeasePtr>> leases = leases_of(payload);
      status = leases.status();
      if (status.ok()) {
        const channel::Outgoing message{
            .bytes = {payload.bytes.get(), payload.size}, .leases = *leases, .codec = payload.codec};
        {
          const std::lock_guard lock(mutex_);
          ++outstanding_;
        }
        status = core_->engine().submit(job_, task, message, options, i + 1 < count);
        if (!status.ok()) {
          const std::lock_guard lock(mutex_);
          --outstanding_;
        }
      }
    }
    if (status.ok()) continue;
    ++lost;
    if (status.code() == Code::kPeerDied) {
      if (const Status trouble = core_->trouble(); !trouble.ok())
        fail(trouble);  // with a worker's last words
    }
    const bool stopped = status.code() == Code::kClosed || status.code() == Code::kPeerDied;
    const std::string words = status.to_string();
    put_answer(refused, task, stopped ? workers::Ending::kStopped : workers::Ending::kUnreadable, 0, 0,
               Payload::copy_of(std::as_bytes(std::span(words))));
  }
  if (core_) core_->engine().flush();
  submitted_.notify_one();
  if (lost == 0) return;
  std::memcpy(refused.fields.data() + sizeof(Kind) + sizeof pool_, &lost, sizeof lost);
  sink_(std::move(refused));
}

void Hosted::recall(Reader& reader) {
  const auto count = reader.take<std::uint64_t>();
  NodeMessage refused(Kind::kRefused, pool_);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto task = reader.take<std::uint64_t>();
    if (!core_ || !core_->engine().cancel(*job_, task)) refused.put(task);
  }
  sink_(std::move(refused));
}

void Hosted::answer_pids(Kind kind) {
  NodeMessage packet(kind, pool_);
  if (core_) {
    for (const pid_t pid : core_->engine().pids()) packet.put(pid);
  }
  sink_(std::move(packet));
}

void Hosted::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  submitted_.notify_one();
  if (core_) {
    core_->engine().terminate();  // of a pool that was closed nothing is left
    collector_.join();
    core_->engine().shut_down();
    core_.reset();
  }
  sink_(NodeMessage(Kind::kEnded, pool_));
  ended_.store(true, std::memory_order_release);
}

void Hosted::fail(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(told_failure_, true)) return;
  }
  NodeMessage packet(Kind::kFailed, pool_);
  packet.put(std::string(why.what()));
  sink_(std::move(packet));
}

void Hosted::collect() {
  std::vector<workers::Answer> answers;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      submitted_.wait(lock, [this] { return outstanding_ != 0 || over_; });
      if (over_ && outstanding_ == 0) return;
    }
    const Status status =
        core_->engine().collect(*job_, answers, kMostAnswers, os::Deadline::after_ns(kLookNs), nullptr);
    if (!answers.empty()) report(answers);
    if (!status.ok() && status.code() != Code::kTimeout) return fail(status);
    const std::lock_guard lock(mutex_);
    if (over_ && answers.empty()) return;
  }
}

void Hosted::report(std::vector<workers::Answer>& answers) {
  NodeMessage packet(Kind::kAnswers, pool_);
  packet.put(static_cast<std::uint64_t>(answers.size()));
  bool stopped = false;
  for (workers::Answer& each : answers) {
    stopped = stopped || each.ending == workers::Ending::kStopped;
    put_answer(packet, each.index, each.ending, each.pid, each.exitcode, payload_of(each.payload));
  }
  if (stopped) {
    if (const Status trouble = core_->trouble(); !trouble.ok()) fail(trouble);
  }
  {
    const std::lock_guard lock(mutex_);
    outstanding_ -= answers.size();
  }
  sink_(std::move(packet));
}

// --- all pools

Host::Host(const cpu_set_t& cpus, Sink sink) : cpus_(cpus), sink_(std::move(sink)) {}
Host::~Host() { close(); }

void Host::came(NodeMessage packet) {
  Reader reader(packet);
  const auto kind = reader.take<Kind>();
  const auto pool = reader.take<std::uint64_t>();
  std::erase_if(pools_, [](const auto& each) { return each.second->has_ended(); });
  if (kind == Kind::kBegin) pools_.emplace(pool, std::make_unique<Hosted>(pool, cpus_, sink_));
  const auto at = pools_.find(pool);
  if (at != pools_.end()) at->second->take(std::move(packet));
}

void Host::close() { pools_.clear(); }

}  // namespace forklift::inline abi_0_1::mpi
