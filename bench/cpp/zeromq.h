// ZeroMQ as a peer (Debian: libzmq3-dev): PUSH and PULL over ipc with an abstract socket, so nothing lies in
// the file system.
//
//   ZeroQueue queue(256);                   // before the fork
//   queue.send(bytes);                      // in a worker; waits while 256 messages are queued
//   queue.receive(into);                    // in another
//   queue.leave();                          // before a worker ends
//
// One producer and one consumer. Sockets and context are made in the worker, at their first use.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace bench {

class ZeroQueue {
 public:
  explicit ZeroQueue(std::size_t depth);
  ZeroQueue(const ZeroQueue&) = delete;
  ZeroQueue& operator=(const ZeroQueue&) = delete;
  ~ZeroQueue() = default;

  void send(std::span<const std::byte> bytes);
  void receive(std::span<std::byte> into);
  void leave();

 private:
  void* open(int type);
  int half_depth_;  // each end has a limit of its own
  std::string address_;
  void* socket_ = nullptr;
};

}  // namespace bench
