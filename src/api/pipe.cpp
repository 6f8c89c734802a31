// Connections, as far as they are no templates.
#include "forklift/pipe.h"

#include "api/attached.h"
#include "api/stop.h"
#include "channel/pipe.h"
#include "node/wait_any.h"

namespace forklift::inline abi_0_1::detail {

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

}  // namespace forklift::inline abi_0_1::detail
