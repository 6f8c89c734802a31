// One end of a pipe: messages in a channel for each direction, and a socket that carries none of them.
//
//   Result<PipePair> pipe = make_pipe(channels, /*duplex=*/true);
//   PipeEnd left(pipe->first_fd.get(), pipe->first_in, pipe->first_out);
//   Status sent = left.send({.bytes = bytes}, Deadline::never());   // kSystem EPIPE: nobody at the other end
//   Status got = right.receive(message, Deadline::never());         // kClosed: the end
//
// The pair of sockets shows each end whether anybody holds the other one: processes inherit an end or are
// passed it, exec and SIGKILL close it, and the kernel reports the hang-up at once. It also makes an end
// selectable and passes descriptors (send_handle). The only bytes that Forklift sends through it are tokens,
// of value 0, which wake readers that sleep in poll.
//
// The protocol. K: while a message is in the channel, the reader's socket has a token.
//  - The putter, still under the tail's lock, sends one when it saw the channel empty before its message, or
//    when as many tokens were read as sent. So no token is on its way once the lock is free. A putter killed
//    between its commit and its token leaves a message that only a look at the channel shows, until the next
//    message: its put had not returned.
//  - The getter removes tokens under the head's lock: it asks the socket first how many there are and the
//    channel then how many messages, and removes the excess only, so K holds for what comes meanwhile.
//  - The one exception: no token is sent to a reader that spins and will take the message without one, unless
//    somebody asked for the end's descriptor (`selectable`). A reader that sleeps here looks at the channel
//    every slice, so a spinner that is killed delays a message to other readers by a slice at most.
//  - Foreign bytes are those of other values, such as a passed descriptor's. They stay in the socket for the
//    program. A message that is sent behind them needs a token behind them: a writer that asked for its own
//    descriptor, as it must to pass another one through it, sends a token with every message from then on.
//
// Thread and process safety: any number of threads of any number of processes at either end.
// The descriptor belongs to the caller, who keeps it open while a call is in progress.
#pragma once

#include "channel/channel.h"
#include "os/fd.h"

namespace forklift::inline abi_0_1::channel {

// What a pipe's writer may have in transit before it waits; a larger message waits for an empty pipe.
inline constexpr std::uint64_t kPipeBytes = 64 * 1024;

class PipeEnd {
 public:
  PipeEnd() = default;
  // `in`, `out`: null where this end cannot read, cannot write.
  PipeEnd(int fd, ChannelPtr in, ChannelPtr out) : fd_(fd), in_(std::move(in)), out_(std::move(out)) {}

  // kTimeout, kInterrupted, kSystem (EPIPE, EBADF), kOverBudget, ...: nothing was sent.
  Status send(const Outgoing& message, os::Deadline deadline, WaitHooks* hooks = nullptr);
  // From here on a send without a deadline, of more bytes than the standard library's pipe holds (64 KB one
  // way, twice a socket's buffer both ways), returns only when a reader has taken the message, as there.
  // Handles do not count. If that wait fails, the message stays sent, unless the failure is EPIPE.
  void meet_readers() noexcept { meets_readers_ = true; }
  // kClosed: the channel is empty and nobody can write into it any more. Else as Channel::get.
  Status receive(Incoming& into, os::Deadline deadline, WaitHooks* hooks = nullptr);
  // Ok: receive would not wait: there is a message, the end, or foreign bytes.
  Status wait_readable(os::Deadline deadline, WaitHooks* hooks = nullptr);
  // Before the descriptor is used for itself: from here on every readable state shows in poll(2) on it, in
  // every process.
  Status make_selectable();
  // Call when the descriptor was closed: wakes putters at the other end that wait for room, so that they
  // notice.
  void let_go() noexcept;

  int fd() const noexcept { return fd_; }
  const ChannelPtr& in() const noexcept { return in_; }
  const ChannelPtr& out() const noexcept { return out_; }

 private:
  enum class Left : std::uint8_t {
    kNothing,  // no byte is left to be read
    kTokens,   // those of messages that are there
    kForeign,  // foreign bytes come first
    kEnd
  };
  Status reader_is_there() const;
  bool must_meet(const Outgoing& message) const noexcept;
  // Removes tokens beyond those that K asks for.
  Status settle(Left* left);
  Status sleep(os::Deadline deadline, WaitHooks* hooks, bool foreign_is_readable);
  // The same, and the place's policy learns how long it took.
  Status sleep_and_note(const domain::WaitPoint& at, os::Deadline deadline, WaitHooks* hooks,
                        bool foreign_is_readable);
  Status sleep_beside_foreign(os::Deadline deadline, WaitHooks* hooks);

  int fd_ = -1;
  ChannelPtr in_;
  ChannelPtr out_;
  bool meets_readers_ = false;
};

// The parts of a pipe. One way: the first end reads, the second writes.
struct PipePair {
  os::Fd first_fd;
  os::Fd second_fd;
  ChannelPtr first_to_second;  // null one way
  ChannelPtr second_to_first;
};
Result<PipePair> make_pipe(Channels& channels, bool duplex);

}  // namespace forklift::inline abi_0_1::channel
