#include "cpp/zeromq.h"

#if FORKLIFT_BENCH_ZEROMQ

#include <unistd.h>
#include <zmq.h>

#include <algorithm>

#include "cpp/workers.h"

namespace bench {
namespace {

// One context per process, made after the fork, since it has threads.
void* context() {
  static void* const made = zmq_ctx_new();
  return made;
}

std::string fresh_address() {
  static int number = 0;
  return "ipc://@forklift-bench-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
}

}  // namespace

ZeroQueue::ZeroQueue(std::size_t depth)
    : half_depth_(std::max(1, static_cast<int>(depth / 2))), address_(fresh_address()) {}

void* ZeroQueue::open(int type) {
  if (socket_ == nullptr) {
    socket_ = zmq_socket(context(), type);
    if (socket_ == nullptr) fail("zmq_socket");
    zmq_setsockopt(socket_, ZMQ_SNDHWM, &half_depth_, sizeof half_depth_);
    zmq_setsockopt(socket_, ZMQ_RCVHWM, &half_depth_, sizeof half_depth_);
    const int rc =
        type == ZMQ_PULL ? zmq_bind(socket_, address_.c_str()) : zmq_connect(socket_, address_.c_str());
    if (rc != 0) fail("zeromq: bind or connect");
  }
  return socket_;
}

void ZeroQueue::send(std::span<const std::byte> bytes) {
  if (zmq_send(open(ZMQ_PUSH), bytes.data(), bytes.size(), 0) < 0) fail("zmq_send");
}

void ZeroQueue::receive(std::span<std::byte> into) {
  const int n = zmq_recv(open(ZMQ_PULL), into.data(), into.size(), 0);
  if (n != static_cast<int>(into.size())) fail("zmq_recv");
}

void ZeroQueue::leave() {
  if (socket_ != nullptr) zmq_close(socket_);
  socket_ = nullptr;
}

}  // namespace bench

#endif
