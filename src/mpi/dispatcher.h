// The engine of a pool whose workers are on the nodes of an MPI job: keeps the tasks, and sends each node as many as it has
// work for.
//
//   auto engine = std::make_unique<Dispatcher>(job, exchange, options, prepare);
//   workers::JobPtr job = engine->make_job({});
//   engine->submit(job, 0, message, {}, false);
//
// A node has as many tasks as its workers, and 30 ms more by the rate at which it answered last: so short tasks go in large
// batches, and long ones one by one. The driver keeps a task's message until it has ended: a node that cannot have workers gives its
// tasks back, and so does one on which tasks wait while another one has free workers.
//
// Which task is where is decided under one lock. Slots of tasks are used again, so that their numbers, by which the nodes know
// them, stay small.
//
// Thread safety: as workers::Engine. Errors: kClosed; kPeerDied: no node has workers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/pool_engine.h"
#include "forklift/mpi/pool.h"
#include "mpi/exchange.h"

namespace forklift::inline abi_0_1::mpi {

class Dispatcher final : public forklift::detail::PoolEngine, private Dealer {
 public:
  // Has the nodes start workers.
  Dispatcher(std::shared_ptr<JobCore> job, const PoolOptions& options, const Prepare& prepare);
  ~Dispatcher() override;

  std::size_t workers() const noexcept { return workers_; }
  std::vector<PoolNode> nodes();

  node::Node& node() const noexcept override { return home_; }
  bool is_remote() const noexcept override { return true; }
  workers::JobPtr make_job(workers::JobOptions options) override;
  Status submit(const workers::JobPtr& job, std::uint64_t index, const channel::Outgoing& message,
                const workers::TaskOptions& options, bool more) override;
  void flush() noexcept override { exchange_->wake(); }
  Status after(const workers::JobPtr& job, std::function<void()> on_end) override;
  Status collect(workers::Job& job, std::vector<workers::Answer>& into, std::size_t most,
                 os::Deadline deadline, channel::WaitHooks* hooks) override;
  Status wait(workers::Job& job, os::Deadline deadline, channel::WaitHooks* hooks) override;
  bool cancel(workers::Job& job, std::uint64_t index) override;
  void cancel_all(workers::Job& job) override;
  void close() override;
  void terminate() override;
  Status join(os::Deadline deadline, channel::WaitHooks* hooks) override;
  void shut_down() override;
  Status health(channel::Incoming* last_words) override;
  std::vector<pid_t> pids() override;
  void wake() noexcept override;

 private:
  using Clock = std::chrono::steady_clock;
  struct RemoteJob;
  static constexpr int kNowhere = -1;
  struct Task {
    std::shared_ptr<RemoteJob> job;  // null: the slot is free
    std::uint64_t index = 0;
    std::uint32_t generation = 0;
    workers::TaskOptions options;
    Payload message;
    int node = kNowhere;     // on which it is
    bool cancelled = false;  // by the caller
    bool refused = false;    // ... and the node says that it has begun
  };
  struct Waiting {
    std::uint32_t slot;
    std::uint32_t generation;
  };
  // A node with workers.
  struct Place {
    PoolNode seen;
    int rank = 0;
    std::size_t sent = 0;   // tasks that are there
    bool gone = false;      // its workers have ended
    bool answered = false;  // kAsk
    double rate = 0;        // tasks a second, as it answered last
    std::uint64_t counted = 0;
    Clock::time_point since;     // of the count
    Clock::time_point moved;     // when it last answered
    std::vector<Waiting> order;  // in which tasks were sent; those that have ended are still among them
    bool recalling = false;
  };

  void came(int from, Kind kind, Reader& reader) override;
  void deal() override;
  // With mutex_ held.
  std::size_t window(const Place& place) const noexcept;
  std::size_t fill_locked(std::size_t place, std::size_t most);
  void put_task_locked(std::size_t place, std::uint32_t slot, NodeMessage& packet);
  void recall_locked();
  void ask_back_locked(std::size_t place, const std::vector<std::uint32_t>& slots);
  Task* next_locked(std::uint32_t& slot);
  void answered_locked(Place& place, Reader& reader);
  void answer_locked(Place& place, Reader& reader);
  void end_locked(std::uint32_t slot, workers::Answer answer);
  void note_end_locked(RemoteJob& job, workers::Answer answer);
  void end_all_locked();
  void failed_locked(Place& place, const std::string& why);
  void close_if_done_locked();
  static workers::Answer answer_of(workers::Ending ending, pid_t pid, int exitcode, Payload payload);
  void finish(std::unique_lock<std::mutex>& lock);
  template <class Done>
  Status await(std::unique_lock<std::mutex>& lock, os::Deadline deadline, channel::WaitHooks* hooks,
               const Done& done);

  const std::shared_ptr<JobCore> job_;
  const std::shared_ptr<Exchange> exchange_;
  node::Node& home_;
  std::size_t workers_ = 0;
  std::uint64_t pool_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Place> places_;
  std::deque<Task> tasks_;
  std::vector<std::uint32_t> free_;
  std::deque<Waiting> waiting_;
  std::size_t outstanding_ = 0;
  std::size_t first_ = 0;                     // the place that gets the next task, if it has a free worker
  std::vector<std::function<void()>> calls_;  // of jobs that have ended, to be made without the lock
  bool closed_ = false;
  bool told_to_close_ = false;
  bool terminated_ = false;
  Status trouble_;  // why no node has workers
};

}  // namespace forklift::inline abi_0_1::mpi
