#include "mpi/dispatcher.h"

#include <algorithm>
#include <utility>

#include "api/attached.h"
#include "base/log.h"
#include "message/message_builder.h"

namespace forklift::inline abi_0_1::mpi {
namespace {

constexpr std::int64_t kPollHooksNs = 200'000'000;  // so often
constexpr std::chrono::seconds kAnswers{5};         // a node that is asked
constexpr std::chrono::seconds kEnds{10};           // ... and that ends its workers

Payload payload_of(const channel::Outgoing& message) {
  Payload payload = Payload::copy_of(message.bytes, message.codec);
  for (const arena::LeasePtr& lease : message.leases)
    payload.buffers.push_back({lease, nullptr, lease->size()});
  return payload;
}

Payload encoded(node::Node& home, const Value::List& arguments) {
  message::MessageBuilder builder(home.arena());
  builder.leaves_domain();
  throw_if_failed(builder.add(Value(arguments)));
  return payload_of(builder.message());
}

}  // namespace

// The caller's part of a job.
struct Dispatcher::RemoteJob : workers::Job {
  std::deque<workers::Answer> answers;
  std::uint64_t running = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> slots;  // by index, of a job whose tasks can be cancelled
  bool cancellable = false;
  bool sealed = false;
  std::function<void()> on_end;
};

Dispatcher::Dispatcher(std::shared_ptr<JobCore> job, const PoolOptions& options, const Prepare& prepare)
    : job_(std::move(job)), exchange_(Exchange::of(*job_)), home_(forklift::detail::home_node()) {
  const Payload arguments = encoded(home_, prepare.arguments);
  pool_ = exchange_->enter(*this);
  const std::lock_guard lock(mutex_);
  std::size_t all = 0;
  for (const Node& node : job_->nodes()) all += static_cast<std::size_t>(node.workers);
  const std::size_t wanted = options.workers != 0 ? options.workers : all;
  std::vector<std::size_t> workers(job_->nodes().size());
  for (; workers_ < wanted; ++workers_) {
    // To the node that has the smallest part of what it could have.
    std::size_t least = 0;
    const auto part = [&](std::size_t node) {
      return static_cast<double>(workers[node]) / job_->nodes()[node].workers;
    };
    for (std::size_t node = 1; node < workers.size(); ++node)
      if (part(node) < part(least)) least = node;
    ++workers[least];
  }
  for (std::size_t number = 0; number < workers.size(); ++number) {
    if (workers[number] == 0) continue;
    const Node& node = job_->nodes()[number];
    Place& place = places_.emplace_back();
    place.seen.host = node.host;
    place.seen.agent = place.rank = node.agent;
    place.seen.workers = workers[number];
    place.since = place.moved = Clock::now();
    NodeMessage packet(Kind::kBegin, pool_);
    packet.put(static_cast<std::uint64_t>(workers[number]));
    packet.put(static_cast<std::uint64_t>(options.spares));
    packet.put(options.tasks_per_worker);
    packet.put(options.memory_per_worker);
    packet.put(options.name);
    packet.put(prepare.function);
    packet.put_payload(arguments);
    exchange_->post(place.rank, std::move(packet));
  }
}

Dispatcher::~Dispatcher() { shut_down(); }

void Dispatcher::note_end_locked(RemoteJob& job, workers::Answer answer) {
  job.slots.erase(answer.index);
  job.answers.push_back(std::move(answer));
  if (--job.running == 0 && job.on_end) calls_.push_back(std::exchange(job.on_end, nullptr));
}

// --- what callers do

workers::JobPtr Dispatcher::make_job(workers::JobOptions options) {
  auto job = std::make_shared<RemoteJob>();
  job->cancellable = options.cancellable;
  return job;
}

Status Dispatcher::submit(const workers::JobPtr& job, std::uint64_t index, const channel::Outgoing& message,
                          const workers::TaskOptions& options, bool more) {
  Payload payload = payload_of(message);
  {
    const std::lock_guard lock(mutex_);
    if (!trouble_.ok()) return trouble_;
    if (closed_ || terminated_) return {Code::kClosed, "the pool was closed"};
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(tasks_.size()));
      tasks_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    Task& task = tasks_[slot];
    task.job = std::static_pointer_cast<RemoteJob>(job);
    task.index = index;
    task.options = options;
    task.message = std::move(payload);
    task.node = kNowhere;
    task.cancelled = task.refused = false;
    if (task.job->cancellable) task.job->slots[index] = slot;
    ++task.job->running;
    ++outstanding_;
    waiting_.push_back({slot, task.generation});
  }
  if (!more) exchange_->wake();
  return {};
}

Status Dispatcher::after(const workers::JobPtr& job, std::function<void()> on_end) {
  std::unique_lock lock(mutex_);
  auto& remote = static_cast<RemoteJob&>(*job);
  remote.sealed = true;
  if (remote.running != 0) {
    remote.on_end = std::move(on_end);
    return {};
  }
  lock.unlock();
  on_end();
  return {};
}

template <class Done>
Status Dispatcher::await(std::unique_lock<std::mutex>& lock, os::Deadline deadline, channel::WaitHooks* hooks,
                         const Done& done) {
  while (!done()) {
    if (hooks != nullptr) {
      if (Status status = hooks->poll(); !status.ok()) return status;
    }
    if (deadline.passed()) return {Code::kTimeout, "the pool's nodes did not answer in time"};
    changed_.wait_for(lock, std::chrono::nanoseconds(deadline.left_ns(kPollHooksNs)));
  }
  return {};
}

Status Dispatcher::collect(workers::Job& job, std::vector<workers::Answer>& into, std::size_t most,
                           os::Deadline deadline, channel::WaitHooks* hooks) {
  into.clear();
  std::unique_lock lock(mutex_);
  auto& remote = static_cast<RemoteJob&>(job);
  Status status =
      await(lock, deadline, hooks, [&] { return !remote.answers.empty() || remote.running == 0; });
  if (!status.ok()) return status;
  for (; !remote.answers.empty() && into.size() < most; remote.answers.pop_front())
    into.push_back(std::move(remote.answers.front()));
  return {};
}

Status Dispatcher::wait(workers::Job& job, os::Deadline deadline, channel::WaitHooks* hooks) {
  std::unique_lock lock(mutex_);
  return await(lock, deadline, hooks, [&] { return static_cast<RemoteJob&>(job).running == 0; });
}

// A task that is on a node is asked back, and the node says whether it has begun.
bool Dispatcher::cancel(workers::Job& job, std::uint64_t index) {
  std::unique_lock lock(mutex_);
  auto& remote = static_cast<RemoteJob&>(job);
  const auto at = remote.slots.find(index);
  if (at == remote.slots.end()) return false;
  const std::uint32_t slot = at->second;
  Task& task = tasks_[slot];
  const std::uint32_t generation = task.generation;
  task.cancelled = true;
  if (task.node == kNowhere) {
    end_locked(slot, answer_of(workers::Ending::kCancelled, 0, 0, {}));
    finish(lock);
    return true;
  }
  task.refused = false;
  ask_back_locked(static_cast<std::size_t>(task.node), {slot});
  const auto ended = [&] { return task.generation != generation; };
  (void)await(lock, os::Deadline::after_ns(std::chrono::nanoseconds(kAnswers).count()), nullptr,
              [&] { return ended() || task.refused; });
  if (!ended()) {
    task.cancelled = false;
    return false;
  }
  return !remote.answers.empty() && remote.answers.back().ending == workers::Ending::kCancelled;
}

void Dispatcher::cancel_all(workers::Job& job) {
  std::unique_lock lock(mutex_);
  auto& remote = static_cast<RemoteJob&>(job);
  std::vector<std::vector<std::uint32_t>> on_nodes(places_.size());
  for (const auto& [index, slot] : std::unordered_map(remote.slots)) {
    Task& task = tasks_[slot];
    task.cancelled = true;
    if (task.node == kNowhere) {
      end_locked(slot, answer_of(workers::Ending::kCancelled, 0, 0, {}));
    } else {
      on_nodes[static_cast<std::size_t>(task.node)].push_back(slot);
    }
  }
  for (std::size_t place = 0; place < places_.size(); ++place)
    if (!on_nodes[place].empty()) ask_back_locked(place, on_nodes[place]);
  finish(lock);
}

// --- the end

void Dispatcher::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  close_if_done_locked();
}

void Dispatcher::close_if_done_locked() {
  if (!closed_ || outstanding_ != 0 || told_to_close_ || terminated_) return;
  told_to_close_ = true;
  for (const Place& place : places_) exchange_->post(place.rank, NodeMessage(Kind::kClose, pool_));
}

void Dispatcher::terminate() {
  std::unique_lock lock(mutex_);
  if (terminated_) return;
  terminated_ = true;
  end_all_locked();
  for (const Place& place : places_)
    if (!place.gone) exchange_->post(place.rank, NodeMessage(Kind::kTerminate, pool_));
  finish(lock);
}

Status Dispatcher::join(os::Deadline deadline, channel::WaitHooks* hooks) {
  std::unique_lock lock(mutex_);
  if (!closed_ && !terminated_)
    return {Code::kInvalid, "a pool that is neither closed nor terminated cannot be waited for"};
  return await(lock, deadline, hooks,
               [this] { return outstanding_ == 0 && std::ranges::all_of(places_, &Place::gone); });
}

void Dispatcher::shut_down() {
  if (pool_ == 0) return;
  terminate();
  if (const Status ended = join(os::Deadline::after_ns(std::chrono::nanoseconds(kEnds).count()), nullptr);
      !ended.ok())
    log(Severity::kWarning, "a pool's workers on another node have not ended within 10 s");
  exchange_->leave(std::exchange(pool_, 0));
}

Status Dispatcher::health(channel::Incoming* last_words) {
  if (last_words != nullptr) last_words->clear();  // they are in the status
  const std::lock_guard lock(mutex_);
  return trouble_;
}

std::vector<PoolNode> Dispatcher::nodes() {
  std::unique_lock lock(mutex_);
  for (Place& place : places_) {
    place.answered = place.gone || !place.seen.usable;
    place.seen.pids.clear();
    if (!place.answered) exchange_->post(place.rank, NodeMessage(Kind::kAsk, pool_));
  }
  (void)await(lock, os::Deadline::after_ns(std::chrono::nanoseconds(kAnswers).count()), nullptr,
              [this] { return std::ranges::all_of(places_, &Place::answered); });
  std::vector<PoolNode> nodes;
  for (const Place& place : places_) {
    PoolNode& node = nodes.emplace_back(place.seen);
    node.running = std::min(place.sent, node.workers);
    node.waiting = place.sent - node.running;
  }
  return nodes;
}

std::vector<pid_t> Dispatcher::pids() {
  std::vector<pid_t> all;
  for (const PoolNode& node : nodes()) all.insert(all.end(), node.pids.begin(), node.pids.end());
  return all;
}

void Dispatcher::wake() noexcept { changed_.notify_all(); }

}  // namespace forklift::inline abi_0_1::mpi
