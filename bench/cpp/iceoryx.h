// iceoryx as a peer (Debian: iceoryx, libiceoryx-posh-dev): shared memory behind a daemon, RouDi.
//
//   IceoryxQueue queue(64, 256);            // before the fork: starts RouDi, once
//   queue.send(bytes);                      // in a worker: loan, copy in, publish
//   queue.receive(into);                    // in another: take, copy out, release
//   queue.leave();                          // before a worker ends
//
// One producer and one consumer; a full queue blocks the producer. The daemon runs from the first queue to
// the end of this process, as a child of this process with a configuration of its own, and removes at its end
// what it made in /dev/shm. Throws MissingPeer if it cannot be started (another RouDi is running).
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace bench {

class IceoryxQueue {
 public:
  enum class Wait {
    kPolls,
    kSleeps
  };
  IceoryxQueue(std::size_t bytes, std::size_t depth, Wait wait = Wait::kPolls);
  IceoryxQueue(const IceoryxQueue&) = delete;
  IceoryxQueue& operator=(const IceoryxQueue&) = delete;
  ~IceoryxQueue();

  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> into);
  // A chunk of the queue's size is passed on, and neither end touches its contents.
  void send_handle();
  void receive_handle();
  void leave();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bench
