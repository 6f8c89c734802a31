#include "engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "contexts.h"
#include "event_page.h"
#include "settings.h"

namespace forklift::inline abi_0_1::device::cuda::fake {
namespace {

// How long a wait for another process goes on before it looks whether it is still wanted.
constexpr std::chrono::milliseconds kSlice{20};

// The calling thread's own default stream of each device.
thread_local std::map<DeviceNumber, std::shared_ptr<StreamState>> of_thread;

bool has_work(const StreamState& stream) { return stream.done < stream.queued; }

}  // namespace

Engine& engine() {
  static auto* const made = new Engine;
  return *made;
}

bool query_does_work(unsigned& polls) {
  if (!settings().lazy || settings().polls == 0) return false;
  if (++polls < settings().polls) return false;
  polls = 0;
  return true;
}

const std::shared_ptr<StreamState>& Engine::add(DeviceNumber device, bool blocking, bool legacy) {
  std::erase_if(all_, [](const auto& each) { return each->ending && !has_work(*each) && !each->running; });
  auto stream = std::make_shared<StreamState>();
  stream->device = device;
  stream->blocking = blocking;
  stream->legacy = legacy;
  return all_.emplace_back(std::move(stream));
}

std::shared_ptr<StreamState> Engine::find(Stream handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  const DeviceNumber device = contexts().current_device();
  if (handle == kLegacyStream || number == kLegacyStreamNumber || number == kPerThreadStreamNumber) {
    const bool legacy = number != kPerThreadStreamNumber;
    std::shared_ptr<StreamState>& stream = legacy ? legacy_[device] : of_thread[device];
    if (stream == nullptr || stream->ending) stream = add(device, true, legacy);
    return stream;
  }
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second;
}

Stream Engine::create(DeviceNumber device, bool blocking) {
  const auto handle = reinterpret_cast<Stream>(next_);  // never given twice: a stale one is recognised
  next_ += 16;
  streams_[handle] = add(device, blocking, false);
  return handle;
}

// "the function will return immediately and the resources associated with hStream will be released automatically
// once the device has completed all work in hStream" (cuStreamDestroy)
CudaError Engine::destroy(Stream handle) {
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return CudaError::kInvalidHandle;
  found->second->ending = true;
  streams_.erase(found);
  changed_.notify_all();
  return CudaError::kSuccess;
}

std::shared_ptr<StreamState> Engine::after_all(DeviceNumber device) {
  Work work;
  for (const auto& stream : of_context(device)) {
    if (has_work(*stream)) work.after.push_back({stream, stream->queued});
  }
  std::shared_ptr<StreamState> made = add(device, false, false);
  made->ending = true;  // it goes with its work
  submit(made, std::move(work));
  return made;
}

std::uint64_t Engine::submit(const std::shared_ptr<StreamState>& stream, Work work) {
  if (stream->legacy) {
    for (const auto& other : of_context(stream->device)) {
      if (other != stream && other->blocking && has_work(*other))
        work.after.push_back({other, other->queued});
    }
  } else if (stream->blocking) {
    const auto legacy = legacy_.find(stream->device);
    if (legacy != legacy_.end() && has_work(*legacy->second)) {
      work.after.push_back({legacy->second, legacy->second->queued});
    }
  }
  stream->queue.push_back(std::move(work));
  stream->polls = 0;
  if (!has_work(*stream)) {
    stream->due = std::chrono::steady_clock::now() + std::chrono::microseconds(settings().delay_us);
  }
  ++stream->queued;
  if (!settings().lazy) {
    start_thread(stream);
    changed_.notify_all();
  }
  return stream->queued;
}

bool Engine::finish(const std::shared_ptr<StreamState>& stream, std::uint64_t number, Lock& lock,
                    Waiting waiting) {
  while (stream->done < number) {
    if (stream->running) {
      if (waiting == Waiting::kNo) return false;
      changed_.wait(lock, [&] { return !stream->running; });
      continue;
    }
    bool waited = false;
    if (!finish_dependencies(*stream, lock, waiting, &waited)) return false;
    if (waited) continue;  // the lock was given up: another thread may have done the work
    const Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->running = true;
    if (poison() == CudaError::kSuccess && work.run) {
      if (const CudaError error = work.run(lock); error != CudaError::kSuccess) set_poison(error);
    }
    stream->running = false;
    ++stream->done;
    changed_.notify_all();
  }
  return true;
}

// Of the next work. `waited`: something was done or waited for, so that the stream may have changed.
bool Engine::finish_dependencies(const StreamState& stream, Lock& lock, Waiting waiting, bool* waited) {
  if (poison() != CudaError::kSuccess) return true;
  const std::vector<Point> after = stream.queue.front().after;
  const std::vector<RemotePoint> after_remote = stream.queue.front().after_remote;
  for (const Point& point : after) {
    if (point.stream->done >= point.number) continue;
    if (!finish(point.stream, point.number, lock, waiting)) return false;
    *waited = true;
  }
  for (const RemotePoint& point : after_remote) {
    if (point.page->is_done(point.number)) continue;
    point.page->ask_for(point.number);
    if (waiting == Waiting::kNo) return false;
    lock.unlock();
    point.page->wait(point.number, kSlice);
    lock.lock();
    *waited = true;
  }
  return true;
}

std::vector<std::shared_ptr<StreamState>> Engine::of_context(DeviceNumber device) {
  std::vector<std::shared_ptr<StreamState>> found;
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(found),
               [&](const auto& stream) { return stream->device == device; });
  return found;
}

bool Engine::finish_all(const std::shared_ptr<StreamState>& stream, Lock& lock, Waiting waiting) {
  bool all = true;
  if (stream->legacy) {
    for (const auto& other : of_context(stream->device)) {
      if (other->blocking) all = finish(other, other->queued, lock, waiting) && all;
    }
  }
  return finish(stream, stream->queued, lock, waiting) && all;
}

bool Engine::is_idle(const StreamState& stream) {
  if (has_work(stream)) return false;
  if (!stream.legacy) return true;
  const auto others = of_context(stream.device);
  return std::none_of(others.begin(), others.end(),
                      [](const auto& other) { return other->blocking && has_work(*other); });
}

void Engine::finish_context(DeviceNumber device, Lock& lock) {
  for (const auto& stream : of_context(device)) finish(stream, stream->queued, lock, Waiting::kYes);
}

void Engine::end_context(DeviceNumber device, Lock& lock) {
  for (const auto& stream : of_context(device)) {
    changed_.wait(lock, [&] { return !stream->running; });
    stream->ending = true;
    stream->queue.clear();
    stream->done = stream->queued;
  }
  std::erase_if(streams_, [&](const auto& each) { return each.second->device == device; });
  std::erase_if(all_, [&](const auto& stream) { return stream->device == device; });
  legacy_.erase(device);
  changed_.notify_all();
}

void Engine::wait_for_kernels(Lock& lock) {
  changed_.wait(lock, [&] { return kernels_ == 0; });
}

CudaError Engine::run_unlocked(Lock& lock, const std::function<CudaError()>& body) {
  ++kernels_;
  lock.unlock();
  const CudaError error = body();
  lock.lock();
  --kernels_;
  return error;
}

long Engine::pending() const {
  long count = 0;
  for (const auto& stream : all_) count += static_cast<long>(stream->queued - stream->done);
  return count;
}

void Engine::start_thread(const std::shared_ptr<StreamState>& stream) {
  if (stream->has_thread) return;
  stream->has_thread = true;
  std::thread([this, stream] { run_thread(stream); }).detach();
}

void Engine::run_thread(const std::shared_ptr<StreamState>& stream) {
  Lock lock(process_mutex());
  for (;;) {
    changed_.wait(lock, [&] { return has_work(*stream) || stream->ending; });
    if (!has_work(*stream)) return;
    // The delay ends early for a thread that synchronises: it does the work itself.
    const bool done = changed_.wait_until(lock, stream->due, [&] { return !has_work(*stream); });
    if (!done) finish(stream, stream->queued, lock, Waiting::kYes);
  }
}

}  // namespace forklift::inline abi_0_1::device::cuda::fake
