// What makes a queue selectable: a descriptor that is readable while the queue has something to get, or once
// something was taken that made room.
//
// It is made only when a program asks for fileno(). A helper thread waits on the channel and rings. The
// process that takes the last message, or finds no room, arms the bell again. The thread touches nothing of
// Python and ends by itself within a slice of a wait.
#pragma once

#include <sys/types.h>

#include <memory>

#include "channel/channel.h"

namespace forklift::py {

class Doorbell {
 public:
  enum class Rings : std::uint8_t {
    kForMessages,
    kForRoom  // unarmed at first
  };
  static Result<std::unique_ptr<Doorbell>> make(channel::ChannelPtr channel,
                                                Rings rings = Rings::kForMessages);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  int fd() const noexcept;
  // A forked child has the object, but not the thread.
  bool usable() const noexcept;
  // Call when the channel was seen empty; or when there was no room after `taken` messages had been taken.
  void rearm(std::uint32_t taken = 0);

 private:
  struct State;
  explicit Doorbell(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace forklift::py
