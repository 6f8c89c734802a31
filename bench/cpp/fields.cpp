// cpp-fields-1M: a struct of the program with a name and a vector of 2^20 floats, put and got again by one
// process. Beside it the bare vector, and the struct packed by MessagePack, through a queue of bytes.
#include <msgpack.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpp/case.h"
#include "cpp/workers.h"
#include "forklift/multiprocessing.h"

namespace bench {
namespace {

struct Frame {
  std::string name;
  std::vector<float> samples;
  MSGPACK_DEFINE(name, samples)
};

}  // namespace
}  // namespace bench

template <>
struct forklift::ValueTraits<bench::Frame> : forklift::Fields<&bench::Frame::name, &bench::Frame::samples> {};

namespace bench {
namespace {

constexpr std::size_t kSamples = std::size_t{1} << 20;

Frame frame() { return {"left", std::vector<float>(kSamples, 0.5f)}; }

// Milliseconds for one message, there and back.
template <class Pass>
double passes_ms(std::size_t count, Pass&& pass) {
  for (std::size_t i = 0; i < 3; ++i) pass();
  const std::int64_t begin = now_ns();
  for (std::size_t i = 0; i < count; ++i) pass();
  return static_cast<double>(now_ns() - begin) / static_cast<double>(count) / 1e6;
}

double pass_struct(const Run& run) {
  forklift::Queue<Frame> queue;
  const Frame sent = frame();
  return passes_ms(run.count(200), [&] {
    queue.put(sent);
    if (queue.get().samples.size() != kSamples) throw std::runtime_error("a frame came back shorter");
  });
}

double pass_vector(const Run& run) {
  forklift::Queue<std::vector<float>> queue;
  const Frame sent = frame();
  return passes_ms(run.count(200), [&] {
    queue.put(sent.samples);
    if (queue.get().size() != kSamples) throw std::runtime_error("a vector came back shorter");
  });
}

double pass_msgpack(const Run& run) {
  forklift::Queue<std::vector<char>> queue;
  const Frame sent = frame();
  return passes_ms(run.count(40), [&] {
    msgpack::sbuffer packed;
    msgpack::pack(packed, sent);
    queue.put(std::span<const char>(packed.data(), packed.size()));
    const std::vector<char> bytes = queue.get();
    const msgpack::object_handle handle = msgpack::unpack(bytes.data(), bytes.size());
    if (handle.get().as<Frame>().samples.size() != kSamples)
      throw std::runtime_error("a frame came back shorter");
  });
}

const Contender ours{"cpp-fields-1M", "forklift", Role::kOurs, "ms", pass_struct};
const Contender bare{"cpp-fields-1M", "bare vector", Role::kFloor, "ms", pass_vector};
const Contender msgpack_peer{"cpp-fields-1M", "msgpack-cxx", Role::kPeer, "ms", pass_msgpack};

}  // namespace
}  // namespace bench
