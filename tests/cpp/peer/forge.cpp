#include "forge.h"

#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

#include "forklift/error.h"
#include "message/codec.h"
#include "message/transport.h"
#include "message/wire.h"
#include "node/node.h"

namespace forklift::test {

namespace {

using arena::Handle;
using channel::Channel;
using channel::Position;
using channel::RecordHeader;
using message::kPortableCodec;

constexpr std::size_t kBlockBytes = 4096;

void must(const Status& status) {
  if (!status) throw std::runtime_error(std::string(status.what()));
}

// One tensor in a message with one lease on a block of kBlockBytes.
struct Parts {
  std::string bytes;
  std::uint8_t codec = kPortableCodec;
  std::size_t leases = 1;
};

void put(Channel& channel, const Parts& parts) {
  std::vector<arena::LeasePtr> leases;
  for (std::size_t i = 0; i < parts.leases; ++i) {
    Result<arena::LeasePtr> block = channel.arena().allocate(arena::Kind::kShare, kBlockBytes);
    must(block.status());
    leases.push_back(*std::move(block));
  }
  const auto bytes = std::as_bytes(std::span(parts.bytes.data(), parts.bytes.size()));
  must(channel.put({bytes, leases, parts.codec, 0}, os::Deadline::never()));
}

// The description of a good tensor: float32 (4, 8) in lease 0. Damages change one field of it.
std::string meta_with(const std::function<void(std::string&)>& damage) {
  wire::TensorMeta meta;
  meta.shape = {4, 8};
  meta.strides = {8, 1};
  std::string bytes(wire::meta_bytes(2), '\0');
  wire::encode_meta(meta, reinterpret_cast<std::byte*>(bytes.data()));
  damage(bytes);
  return bytes;
}

Parts tensor_with(const std::function<void(std::string&)>& damage) {
  const std::string meta = meta_with(damage);
  std::string bytes = "\xc7";  // ext 8: length, type
  bytes.push_back(static_cast<char>(meta.size()));
  bytes.push_back(static_cast<char>(message::kTensorExtension));
  return {.bytes = bytes.append(meta)};
}

template <class T>
std::function<void(std::string&)> write(std::size_t at, T value) {
  return [at, value](std::string& bytes) { std::memcpy(bytes.data() + at, &value, sizeof value); };
}

Parts text(std::string bytes) { return {.bytes = std::move(bytes), .leases = 0}; }

Handle& first_handle(Channel& channel) {
  node::Node& node = *node::Node::existing();
  const Position head = Position::unpack(node.channels().unchecked_row(channel.id().index).head.load());
  std::byte* record =
      node.chunks().chunk(head.chunk())->units + (head.unit() - 1) * std::size_t{channel::kUnitBytes};
  return *reinterpret_cast<Handle*>(record + sizeof(RecordHeader));
}

std::function<void(Channel&)> handle_with(const std::function<void(Handle&)>& damage) {
  return [damage](Channel& channel) {
    put(channel, tensor_with([](std::string&) {}));
    damage(first_handle(channel));
  };
}

std::function<void(Channel&)> message(Parts parts) {
  return [parts = std::move(parts)](Channel& channel) { put(channel, parts); };
}

using Forgery = std::pair<const char*, std::function<void(Channel&)>>;

const std::vector<Forgery>& all() {
  static const std::vector<Forgery> forgeries = {
      // a tensor's description
      {"index", message(tensor_with(write(0, std::uint32_t{5})))},
      {"no-lease", message(tensor_with(write(0, message::kNoLease)))},
      {"dtype-0", message(tensor_with(write(4, std::uint8_t{0})))},
      {"dtype-200", message(tensor_with(write(4, std::uint8_t{200})))},
      {"flags", message(tensor_with(write(5, std::uint8_t{0xfe})))},
      {"ndim", message(tensor_with(write(6, std::uint8_t{200})))},
      {"ndim-3", message(tensor_with(write(6, std::uint8_t{3})))},
      {"offset", message(tensor_with(write(8, std::uint64_t{kBlockBytes})))},
      {"offset-wraps", message(tensor_with(write(8, UINT64_MAX - 3)))},
      {"misaligned", message(tensor_with(write(8, std::uint64_t{1})))},
      {"length-negative", message(tensor_with(write(16, std::int64_t{-1})))},
      {"length-overflows", message(tensor_with(write(16, std::int64_t{1} << 61)))},
      {"length-beyond", message(tensor_with(write(16, std::int64_t{200})))},
      {"stride-beyond", message(tensor_with(write(32, std::int64_t{1000})))},
      {"stride-negative", message(tensor_with(write(32, std::int64_t{-8})))},
      {"description-cut", message(tensor_with([](std::string& bytes) { bytes.resize(10); }))},
      // the handle behind it
      {"handle-segment", handle_with([](Handle& handle) { handle.segment = 3; })},
      {"handle-block", handle_with([](Handle& handle) { handle.block = 0xffffffff; })},
      {"handle-other-block", handle_with([](Handle& handle) { handle.block ^= 1; })},
      {"handle-generation", handle_with([](Handle& handle) { ++handle.generation; })},
      {"handle-lease", handle_with([](Handle& handle) { handle.lease = 0xffffffff; })},
      {"handle-other-lease", handle_with([](Handle& handle) { handle.lease ^= 1; })},
      {"handle-offset", handle_with([](Handle& handle) { handle.offset += 64; })},
      {"handle-length", handle_with([](Handle& handle) { handle.length = 1ULL << 40; })},
      {"handle-zero", handle_with([](Handle& handle) { handle = Handle{}; })},
      {"handle-noise",
       handle_with([](Handle& handle) { std::memset(static_cast<void*>(&handle), 0xff, sizeof handle); })},
      // the value around it
      {"nothing", message(text(""))},
      {"cut-int", message(text("\xd3\x01"))},
      {"cut-text", message(text("\xda\xff\xffxy"))},
      {"cut-list", message(text("\xdd\xff\xff\xff\xff\x01"))},
      {"cut-map", message(text("\xdf\xff\xff\xff\xff\x01\x01"))},
      {"trailing", message(text("\x01\x02"))},
      {"not-utf8", message(text("\xa2\xc3\x28"))},
      {"never-used", message(text("\xc1"))},
      {"deep", message(text(std::string(100, '\x91') + "\x01"))},
      {"key-is-a-list", message(text("\x81\x91\x01\x02"))},
      {"unknown-extension", message(text("\xd4\x63\x01"))},
      {"codec", message({.bytes = "\x01", .codec = 77, .leases = 0})},
      {"pickle", message({.bytes = "no pickle", .codec = message::kPickleCodec, .leases = 0})},
      {"native", message({.bytes = "\xc1", .codec = message::kNativeCodec, .leases = 0})},
  };
  return forgeries;
}

}  // namespace

std::vector<std::string> forgeries() {
  std::vector<std::string> names;
  for (const Forgery& forgery : all()) names.emplace_back(forgery.first);
  return names;
}

void forge(std::string_view name, Channel& channel) {
  for (const auto& [known, make] : all()) {
    if (known == name) return make(channel);
  }
  throw std::invalid_argument(std::string("no forgery is called ").append(name));
}

}  // namespace forklift::test
