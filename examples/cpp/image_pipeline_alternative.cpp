// The same pipeline in threads, and in processes with pipes, without Forklift. See image_pipeline.cpp.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "image_pipeline.h"

namespace {

using FramePtr = std::unique_ptr<Frame>;

// A bounded queue between threads; an empty pointer is the end.
class FrameQueue {
 public:
  explicit FrameQueue(std::size_t capacity) : capacity_(capacity) {}

  void put(FramePtr frame) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return frames_.size() < capacity_; });
    frames_.push_back(std::move(frame));
    changed_.notify_all();
  }
  FramePtr get() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !frames_.empty(); });
    FramePtr frame = std::move(frames_.front());
    frames_.pop_front();
    changed_.notify_all();
    return frame;
  }
  bool empty() {
    const std::lock_guard lock(mutex_);
    return frames_.empty();
  }

 private:
  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<FramePtr> frames_;
};

// An end of a pipe.
class Pipe {
 public:
  explicit Pipe(int fd) : fd_(fd) {}
  Pipe(Pipe&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Pipe() { close(); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  void write(const Frame& frame) const { (void)all("write", ::write, reinterpret_cast<const char*>(&frame)); }
  // False: the end.
  bool read(Frame& frame) const { return all("read", ::read, reinterpret_cast<char*>(&frame)); }

 private:
  template <class Call, class Byte>
  bool all(const char* name, Call call, Byte* frame) const {
    for (std::size_t done = 0; done < sizeof(Frame);) {
      const ssize_t n = call(fd_, frame + done, sizeof(Frame) - done);
      if (n == 0) return false;
      if (n < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), name);
      if (n > 0) done += static_cast<std::size_t>(n);
    }
    return true;
  }
  int fd_;
};

std::pair<Pipe, Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  (void)::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);  // as large as an ordinary user may: fewer switches
  return {Pipe(ends[0]), Pipe(ends[1])};
}

template <class Stage>
pid_t fork_stage(Stage stage) {
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child > 0) return child;
  try {
    stage();
    ::_exit(0);
  } catch (...) {
    ::_exit(1);
  }
}

}  // namespace

Report with_threads(std::uint64_t count) {
  FrameQueue taken(4), smoothed(4), used(SIZE_MAX);
  std::jthread camera([&] {
    for (std::uint64_t i = 0; i < count; ++i) {
      // What was used is used again: fresh memory is dear. This thread alone takes it.
      FramePtr frame = used.empty() ? std::make_unique<Frame>() : used.get();
      capture(i, *frame);
      taken.put(std::move(frame));
    }
    taken.put(nullptr);
  });
  std::jthread filter([&] {
    FramePtr out = std::make_unique<Frame>();
    while (FramePtr in = taken.get()) {
      smooth(*in, *out);
      smoothed.put(std::exchange(out, std::move(in)));  // what came in is written next
    }
    smoothed.put(nullptr);
  });
  Report report;
  while (FramePtr frame = smoothed.get()) {
    report.add(*frame);
    used.put(std::move(frame));
  }
  return report;
}

Report with_pipes(std::uint64_t count) {
  auto [taken, taken_in] = make_pipe();
  auto [smoothed, smoothed_in] = make_pipe();
  const auto frame = std::make_unique<Frame>();
  const auto out = std::make_unique<Frame>();
  const pid_t camera = fork_stage([&, &taken_in = taken_in] {
    for (std::uint64_t i = 0; i < count; ++i) {
      capture(i, *frame);
      taken_in.write(*frame);
    }
  });
  taken_in.close();  // else the filter never sees the end
  const pid_t filter = fork_stage([&, &taken = taken, &smoothed_in = smoothed_in] {
    while (taken.read(*frame)) {
      smooth(*frame, *out);
      smoothed_in.write(*out);
    }
  });
  smoothed_in.close();
  taken.close();
  Report report;
  while (smoothed.read(*frame)) report.add(*frame);
  ::waitpid(camera, nullptr, 0);
  ::waitpid(filter, nullptr, 0);
  return report;
}
