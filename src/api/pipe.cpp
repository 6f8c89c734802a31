// Connections and waiting on many, as far as they are no templates.
#include "forklift/pipe.h"

#include <fcntl.h>

#include <cerrno>

#include "api/attached.h"
#include "api/stop.h"
#include "channel/pipe.h"
#include "forklift/wait_any.h"
#include "node/wait_any.h"

namespace forklift::detail {

class PipeCore {
 public:
  PipeCore(os::Fd fd, channel::ChannelPtr in, channel::ChannelPtr out)
      : fd_(std::move(fd)), end_(fd_.get(), std::move(in), std::move(out)) {}
  ~PipeCore() {
    fd_.close();
    end_.let_go();
  }
  PipeCore(const PipeCore&) = delete;
  PipeCore& operator=(const PipeCore&) = delete;
  channel::PipeEnd& end() noexcept { return end_; }

 private:
  os::Fd fd_;
  channel::PipeEnd end_;
};

namespace {

channel::PipeEnd& opened(PipeCore* core) {
  if (core == nullptr) throw Error({Code::kClosed, "this connection is closed, or was moved from"});
  return core->end();
}

}  // namespace

void ClosePipe::operator()(PipeCore* core) const noexcept { delete core; }

std::pair<PipePtr, PipePtr> open_pipe(bool duplex) {
  channel::PipePair made = value_or_throw(channel::make_pipe(attached_node().channels(), duplex));
  return {PipePtr(new PipeCore(std::move(made.first_fd), made.second_to_first, made.first_to_second)),
          PipePtr(new PipeCore(std::move(made.second_fd), made.first_to_second, made.second_to_first))};
}

channel::PipeEnd* end_of(PipeCore* core) noexcept { return core == nullptr ? nullptr : &core->end(); }

bool poll_pipe(PipeCore* core, Limit limit) {
  const os::Deadline until = deadline_of(limit);
  if (limit.stop == nullptr) return settled(opened(core).wait_readable(until));
  const node::Source source{.pipe = &opened(core)};
  std::vector<std::size_t> ready;
  return settled(node::wait_any({&source, 1}, until, *limit.stop, ready));
}

int pipe_descriptor(PipeCore* core) {
  channel::PipeEnd& end = opened(core);
  throw_if_failed(end.make_selectable());
  return end.fd();
}

std::vector<std::size_t> wait_within(std::span<const Waitable> objects, Limit limit) {
  std::vector<node::Source> sources;
  sources.reserve(objects.size());
  for (const Waitable& object : objects) {
    if (!object.queue() && object.pipe() == nullptr && object.descriptor() < 0 && !object.reader() &&
        !object.lock().get())
      throw Error({Code::kClosed, "a handle to wait for is empty: closed, reset or moved from"});
    // To poll() it would be ready; or it is the next one that is opened, which may be our own.
    if (object.descriptor() >= 0 && ::fcntl(object.descriptor(), F_GETFD) < 0)
      throw Error(Status::system("wait", errno, "descriptor " + std::to_string(object.descriptor())));
    sources.push_back({object.queue().get(), object.pipe(), object.descriptor(), object.reader().get(),
                       object.lock().get().get()});
  }
  std::vector<std::size_t> ready;
  (void)settled(node::wait_any(sources, deadline_of(limit), stop_of(limit), ready));
  return ready;
}

}  // namespace forklift::detail
