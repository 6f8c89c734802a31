// What runs a pool's tasks, as Pool, Future and Batch use it: the engine of this machine (workers/engine.h), or one that hands
// the tasks on to the engines of other machines (src/mpi).
//
//   std::unique_ptr<PoolEngine> engine = local_engine(...);
//   workers::JobPtr job = engine->make_job({.bulk = true});
//   engine->submit(job, 0, message, {}, false);
//
// The members mean what they mean in workers::Engine. Thread safety, errors: as there.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "workers/engine.h"

namespace forklift::inline abi_0_1::detail {

class PoolEngine {
 public:
  PoolEngine() = default;
  virtual ~PoolEngine() = default;
  PoolEngine(const PoolEngine&) = delete;
  PoolEngine& operator=(const PoolEngine&) = delete;

  virtual node::Node& node() const noexcept = 0;
  // Whether messages leave the domain (MessageBuilder::leaves_domain).
  virtual bool is_remote() const noexcept { return false; }
  virtual workers::JobPtr make_job(workers::JobOptions options) = 0;
  virtual Status submit(const workers::JobPtr& job, std::uint64_t index, const channel::Outgoing& message,
                        const workers::TaskOptions& options, bool more) = 0;
  virtual void flush() noexcept = 0;
  virtual Status after(const workers::JobPtr& job, std::function<void()> on_end) = 0;
  virtual Status collect(workers::Job& job, std::vector<workers::Answer>& into, std::size_t most,
                         os::Deadline deadline, channel::WaitHooks* hooks) = 0;
  virtual Status wait(workers::Job& job, os::Deadline deadline, channel::WaitHooks* hooks) = 0;
  virtual bool cancel(workers::Job& job, std::uint64_t index) = 0;
  virtual void cancel_all(workers::Job& job) = 0;
  virtual void close() = 0;
  virtual void terminate() = 0;
  virtual Status join(os::Deadline deadline, channel::WaitHooks* hooks) = 0;
  virtual void shut_down() = 0;
  virtual Status health(channel::Incoming* last_words) = 0;
  virtual std::vector<pid_t> pids() = 0;
  virtual void wake() noexcept = 0;
};

// The pool's own machine.
class LocalEngine final : public PoolEngine {
 public:
  explicit LocalEngine(std::unique_ptr<workers::Engine> engine) noexcept : engine_(std::move(engine)) {}

  node::Node& node() const noexcept override { return engine_->node(); }
  workers::JobPtr make_job(workers::JobOptions options) override {
    return workers::Engine::make_job(std::move(options));
  }
  Status submit(const workers::JobPtr& job, std::uint64_t index, const channel::Outgoing& message,
                const workers::TaskOptions& options, bool more) override {
    return engine_->submit(job, index, message, options, more);
  }
  void flush() noexcept override { engine_->flush(); }
  Status after(const workers::JobPtr& job, std::function<void()> on_end) override {
    return engine_->after(job, std::move(on_end));
  }
  Status collect(workers::Job& job, std::vector<workers::Answer>& into, std::size_t most,
                 os::Deadline deadline, channel::WaitHooks* hooks) override {
    return engine_->collect(job, into, most, deadline, hooks);
  }
  Status wait(workers::Job& job, os::Deadline deadline, channel::WaitHooks* hooks) override {
    return engine_->wait(job, deadline, hooks);
  }
  bool cancel(workers::Job& job, std::uint64_t index) override { return engine_->cancel(job, index); }
  void cancel_all(workers::Job& job) override { engine_->cancel_all(job); }
  void close() override { engine_->close(); }
  void terminate() override { engine_->terminate(); }
  Status join(os::Deadline deadline, channel::WaitHooks* hooks) override {
    return engine_->join(deadline, hooks);
  }
  void shut_down() override { engine_->shut_down(); }
  Status health(channel::Incoming* last_words) override { return engine_->health(last_words); }
  std::vector<pid_t> pids() override { return engine_->pids(); }
  void wake() noexcept override { engine_->wake(); }

 private:
  std::unique_ptr<workers::Engine> engine_;
};

}  // namespace forklift::inline abi_0_1::detail
