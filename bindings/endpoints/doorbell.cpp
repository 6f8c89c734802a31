#include "bindings/endpoints/doorbell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "os/fd.h"
#include "os/thread.h"

namespace forklift::py {

struct Doorbell::State {
  channel::ChannelPtr channel;
  os::Fd fd;
  pid_t owner = 0;
  std::mutex mutex;
  std::condition_variable changed;
  Rings rings = Rings::kForMessages;
  bool armed = true;
  std::uint32_t taken = 0;
  std::atomic<bool> stop{false};

  Status wait(channel::WaitHooks* hooks) {
    if (rings == Rings::kForRoom) return channel->wait_taken(taken, os::Deadline::never(), hooks);
    Status status;
    while (status && channel->empty() && !channel->at_end())
      status = channel->wait_readable(os::Deadline::never(), hooks);
    return status;
  }

  void run() {
    struct Stop final : channel::WaitHooks {
      explicit Stop(const std::atomic<bool>& flag) : stop(flag) {}
      Status poll() override {
        return stop.load() ? Status(Code::kInterrupted, "the doorbell was removed") : Status();
      }
      const std::atomic<bool>& stop;
    } hooks(stop);
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return armed || stop.load(); });
      if (stop.load()) break;
      lock.unlock();
      (void)wait(&hooks);
      lock.lock();
      if (stop.load()) break;
      ring();
      armed = false;
    }
    lock.unlock();
    channel.reset();
  }

  void ring() const {
    const std::uint64_t one = 1;
    (void)!::write(fd.get(), &one, sizeof one);
  }
};

Result<std::unique_ptr<Doorbell>> Doorbell::make(channel::ChannelPtr channel, Rings rings) {
  auto state = std::make_shared<State>();
  state->fd = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->fd.valid()) return Status::system("eventfd", errno, "a queue's doorbell");
  state->channel = std::move(channel);
  state->owner = ::getpid();
  state->rings = rings;
  state->armed = rings == Rings::kForMessages;
  std::thread thread;
  Status status = os::start_thread(thread, [state] { state->run(); }, "a queue's doorbell");
  if (!status) return status;
  thread.detach();
  return std::unique_ptr<Doorbell>(new Doorbell(std::move(state)));
}

Doorbell::~Doorbell() {
  if (!usable()) {
    // The thread, and perhaps its hold on the mutex, stayed in the parent: nothing here may be destroyed.
    state_->fd.close();
    new std::shared_ptr<State>(std::move(state_));
    return;
  }
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->stop.store(true);
  state_->changed.notify_all();
}

int Doorbell::fd() const noexcept { return state_->fd.get(); }
bool Doorbell::usable() const noexcept { return state_->owner == ::getpid(); }

void Doorbell::rearm(std::uint32_t taken) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->armed) return;
  state_->taken = taken;
  std::uint64_t rings = 0;
  (void)!::read(state_->fd.get(), &rings, sizeof rings);
  state_->armed = true;
  state_->changed.notify_all();
}

}  // namespace forklift::py
