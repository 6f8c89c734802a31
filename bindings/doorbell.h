// What makes a queue selectable: a descriptor that is readable while the queue has something to get.
//
// Made only for those who ask for fileno(). A helper thread waits on the channel and rings; whoever took the
// last message re-arms it. The thread knows no Python and ends by itself within a slice of a wait.
#pragma once

#include <sys/types.h>

#include <memory>

#include "channel/channel.h"

namespace forklift::py {

class Doorbell {
 public:
  static Result<std::unique_ptr<Doorbell>> make(channel::ChannelPtr channel);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  int fd() const noexcept;
  // A forked child has the object, but not the thread.
  bool usable() const noexcept;
  // Call when the channel was seen empty.
  void rearm();

 private:
  struct State;
  explicit Doorbell(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace forklift::py
