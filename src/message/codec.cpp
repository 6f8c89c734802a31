#include "message/codec.h"

#ifndef MSGPACK_NO_BOOST
#define MSGPACK_NO_BOOST
#endif
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <msgpack.hpp>
#include <string>
#include <utility>

namespace forklift::inline abi_0_1::message {
namespace {

// Well-formed UTF-8 as Unicode's table 3-7 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text) noexcept {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = at + text.size();
  while (at != end) {
    while (end - at >= 8) {  // most text is ASCII
      std::uint64_t word = 0;
      std::memcpy(&word, at, 8);
      if ((word & 0x8080808080808080u) != 0) break;
      at += 8;
    }
    if (at == end) break;
    const unsigned char lead = *at++;
    if (lead < 0x80) continue;
    if (lead < 0xc2 || lead > 0xf4) return false;
    const int more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (end - at < more) return false;
    const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (at[0] < low || at[0] > high) return false;
    for (int i = 1; i < more; ++i) {
      if ((at[i] & 0xc0) != 0x80) return false;
    }
    at += more;
  }
  return true;
}

struct Sink {
  std::vector<std::byte>& bytes;
  void write(const char* data, std::size_t size) {
    const auto* first = reinterpret_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + size);
  }
};

// What stands before packed items.
struct PackedHead {
  std::uint8_t bytes;
  std::uint8_t dtype;
  std::uint16_t zero;
  std::uint32_t width;
  std::uint32_t index;
  std::uint32_t also_zero;
};
static_assert(sizeof(PackedHead) == 16);
constexpr std::uint32_t kItemsFollow = 0xfffffffeU;

class Encoder {
 public:
  Encoder(const Place& place, const Store& store, std::vector<std::byte>& out)
      : place_(place), store_(store), sink_{out}, packer_(sink_) {}

  Status value(const Value& value, std::size_t depth) {
    if (const detail::Packed* items = value.packed()) return packed(items->type(), items->memory());
    switch (value.kind()) {
      case Value::Kind::kNull: packer_.pack_nil(); return {};
      case Value::Kind::kBool: *value.get_if<bool>() ? packer_.pack_true() : packer_.pack_false(); return {};
      case Value::Kind::kInt: packer_.pack_int64(*value.get_if<std::int64_t>()); return {};
      case Value::Kind::kUInt: packer_.pack_uint64(*value.get_if<std::uint64_t>()); return {};
      case Value::Kind::kDouble: real(*value.get_if<double>()); return {};
      case Value::Kind::kString: return string(*value.get_if<std::string>());
      case Value::Kind::kBytes: return bytes(*value.get_if<Value::Bytes>());
      case Value::Kind::kTensor: return tensor(*value.get_if<Tensor>());
      case Value::Kind::kList:
      case Value::Kind::kMap: break;
    }
    if (depth == kMaxValueDepth) {
      return {Code::kInvalid, "a value nested more than " + std::to_string(kMaxValueDepth) + " deep"};
    }
    if (Status status = check_length(value.size()); !status.ok()) return status;
    const auto count = static_cast<std::uint32_t>(value.size());
    return value.kind() == Value::Kind::kList ? list(*value.get_if<Value::List>(), count, depth + 1)
                                              : map(*value.get_if<Value::Map>(), count, depth + 1);
  }

 private:
  static Status check_length(std::size_t length) {
    if (length <= UINT32_MAX) return {};
    return {Code::kInvalid,
            "a length of " + std::to_string(length) + " in a value, at most 2^32 - 1 can be sent"};
  }

  // By hand: msgpack's packer turns a double with an integral value into an integer, and -0.0 into 0.
  void real(double number) {
    const std::uint64_t bits = __builtin_bswap64(std::bit_cast<std::uint64_t>(number));
    sink_.bytes.push_back(std::byte{0xcb});
    sink_.write(reinterpret_cast<const char*>(&bits), sizeof bits);
  }

  Status string(const std::string& text) {
    if (Status status = check_length(text.size()); !status.ok()) return status;
    if (!is_utf8(text)) return {Code::kInvalid, "a string that is not UTF-8: send bytes instead"};
    packer_.pack_str(static_cast<std::uint32_t>(text.size()));
    sink_.write(text.data(), text.size());
    return {};
  }

  void append(std::span<const std::byte> bytes) {
    sink_.bytes.insert(sink_.bytes.end(), bytes.begin(), bytes.end());
  }

  Status packed(const detail::PackedType& type, std::span<const std::byte> items) {
    const bool apart = store_ && items.size() > kPackedInline;
    if (type.bytes && !apart) return bytes(items);
    PackedHead head{type.bytes, static_cast<std::uint8_t>(type.number), 0, type.width, kItemsFollow, 0};
    if (!apart) {
      if (Status status = check_length(items.size() + sizeof head); !status.ok()) return status;
      packer_.pack_ext(sizeof head + items.size(), kPackedExtension);
      append(std::as_bytes(std::span(&head, 1)));
      append(items);
      return {};
    }
    const Result<std::uint32_t> lease = store_(items);
    if (!lease) return lease.status();
    head.index = *lease;
    const std::uint64_t size = items.size();
    packer_.pack_ext(sizeof head + sizeof size, kPackedExtension);
    append(std::as_bytes(std::span(&head, 1)));
    append(std::as_bytes(std::span(&size, 1)));
    return {};
  }

  Status bytes(std::span<const std::byte> bytes) {
    if (store_ && bytes.size() > kPackedInline) return packed({}, bytes);
    if (Status status = check_length(bytes.size()); !status.ok()) return status;
    packer_.pack_bin(static_cast<std::uint32_t>(bytes.size()));
    append(bytes);
    return {};
  }

  Status tensor(const Tensor& tensor) {
    Result<wire::TensorMeta> meta = place_(tensor);
    if (!meta) return meta.status();
    std::array<std::byte, wire::kMaxMetaBytes> payload;
    const std::size_t size = wire::meta_bytes(meta->shape.size());
    wire::encode_meta(*meta, payload.data());
    packer_.pack_ext(size, kTensorExtension);
    sink_.bytes.insert(sink_.bytes.end(), payload.begin(),
                       payload.begin() + static_cast<std::ptrdiff_t>(size));
    return {};
  }

  Status list(const Value::List& list, std::uint32_t count, std::size_t depth) {
    packer_.pack_array(count);
    for (const Value& element : list) {
      if (Status status = value(element, depth); !status.ok()) return status;
    }
    return {};
  }

  Status map(const Value::Map& map, std::uint32_t count, std::size_t depth) {
    packer_.pack_map(count);
    for (const auto& [key, item] : map) {
      if (!key.is_scalar()) {
        return {Code::kInvalid, "a " + std::string(kind_name(key.kind())) + " as a key of a map"};
      }
      if (Status status = value(key, depth); !status.ok()) return status;
      if (Status status = value(item, depth); !status.ok()) return status;
    }
    return {};
  }

  const Place& place_;
  const Store& store_;
  Sink sink_;
  msgpack::packer<Sink> packer_;
};

Status corrupt(std::string_view what) { return {Code::kCorrupt, "received value: " + std::string(what)}; }

// Builds the Value while the bytes are parsed. A callback that answers false ends the parse; `failure` says
// why.
class Decoder : public msgpack::null_visitor {
 public:
  Decoder(std::size_t total, const Fetch& fetch, const Memory& memory)
      : total_(total), fetch_(fetch), memory_(memory) {}

  Status failure;
  Value root;

  bool visit_nil() { return add(Value()); }
  bool visit_boolean(bool flag) { return add(Value(flag)); }
  bool visit_positive_integer(std::uint64_t number) { return add(Value(number)); }
  bool visit_negative_integer(std::int64_t number) { return add(Value(number)); }
  bool visit_float32(float number) { return add(Value(number)); }
  bool visit_float64(double number) { return add(Value(number)); }
  bool visit_str(const char* data, std::uint32_t size) {
    const std::string_view text(data, size);
    return is_utf8(text) ? add(Value(text)) : fail("a string that is not UTF-8");
  }
  bool visit_bin(const char* data, std::uint32_t size) {
    const auto* first = reinterpret_cast<const std::byte*>(data);
    return add(Value(Value::Bytes(first, first + size)));
  }
  // `size` counts the type's byte, which comes first.
  bool visit_ext(const char* data, std::uint32_t size) {
    if (size < 1) return fail("an extension without a type");
    const auto payload = std::as_bytes(std::span(data + 1, static_cast<std::size_t>(size) - 1));
    if (static_cast<std::int8_t>(data[0]) == kPackedExtension) return packed(payload);
    if (static_cast<std::int8_t>(data[0]) != kTensorExtension) return fail("an unknown extension type");
    Result<wire::TensorMeta> meta = wire::decode_meta(payload);
    if (!meta) return fail(meta.status());
    Result<Tensor> tensor = fetch_(*meta);
    if (!tensor) return fail(tensor.status());
    return add(Value(*std::move(tensor)));
  }

  bool start_array(std::uint32_t count) { return open(false, count, count); }
  bool start_map(std::uint32_t count) { return open(true, count, std::uint64_t{count} * 2); }
  bool end_array() {
    Value list(std::move(frames_.back().list));
    frames_.pop_back();
    return add(std::move(list));
  }
  bool end_map() {
    Value map(std::move(frames_.back().map));
    frames_.pop_back();
    return add(std::move(map));
  }

 private:
  struct Frame {
    bool is_map = false;
    bool has_key = false;
    Value key;
    Value::List list;
    Value::Map map;
  };

  bool fail(Status status) {
    failure = std::move(status);
    return false;
  }
  bool fail(std::string_view what) { return fail(corrupt(what)); }

  bool packed(std::span<const std::byte> payload) {
    PackedHead head;
    if (payload.size() < sizeof head) return fail("packed items without a head");
    std::memcpy(&head, payload.data(), sizeof head);
    payload = payload.subspan(sizeof head);
    const auto dtype = static_cast<DType>(head.dtype);
    const bool numbers = head.dtype >= kFirstDType && head.dtype <= kLastDType && dtype != DType::kFloat16 &&
                         dtype != DType::kBFloat16 && dtype != DType::kComplex64 &&
                         dtype != DType::kComplex128;
    const bool known = numbers && head.bytes <= 1 && head.zero == 0 && head.also_zero == 0 &&
                       head.width <= 0xffff &&
                       (head.bytes == 0 || (dtype == DType::kUInt8 && head.width == 0));
    if (!known) return fail("packed items of an unknown kind");
    const detail::PackedType type{dtype, head.bytes != 0, head.width};
    if (head.index == kItemsFollow) {
      if (payload.size() % type.item_bytes() != 0) return fail("packed items cut short");
      return add(Value(std::make_shared<const detail::Packed>(type, payload)));
    }
    std::uint64_t size = 0;
    if (payload.size() != sizeof size) return fail("packed items with a wrong head");
    std::memcpy(&size, payload.data(), sizeof size);
    if (!memory_) return fail("packed items in a lease where there are none");
    Result<std::shared_ptr<Storage>> storage = memory_(head.index);
    if (!storage) return fail(storage.status());
    if (size > (*storage)->bytes() || size % type.item_bytes() != 0)
      return fail("packed items beyond their lease");
    const std::span<const std::byte> memory((*storage)->data(), size);
    return add(Value(std::make_shared<const detail::Packed>(type, memory, *std::move(storage))));
  }

  bool expects_key() const { return !frames_.empty() && frames_.back().is_map && !frames_.back().has_key; }

  bool open(bool is_map, std::uint32_t count, std::uint64_t least_bytes) {
    if (frames_.size() == kMaxValueDepth) return fail("nested too deep");
    if (least_bytes > total_) return fail("a length that exceeds the message");
    if (expects_key()) return fail("a list or map as a key");
    frames_.emplace_back();
    Frame& frame = frames_.back();
    frame.is_map = is_map;
    // The bytes of the items have not been seen yet, and a damaged message may nest many long lists, so
    // little is reserved.
    const std::size_t reserve = std::min<std::size_t>(count, 64);
    is_map ? frame.map.reserve(reserve) : frame.list.reserve(reserve);
    return true;
  }

  bool add(Value value) {
    if (frames_.empty()) {
      root = std::move(value);
      return true;
    }
    Frame& frame = frames_.back();
    if (!frame.is_map) {
      frame.list.push_back(std::move(value));
    } else if (!frame.has_key) {
      if (!value.is_scalar()) return fail("a tensor as a key");
      frame.key = std::move(value);
      frame.has_key = true;
    } else {
      frame.map.emplace_back(std::move(frame.key), std::move(value));
      frame.has_key = false;
    }
    return true;
  }

  std::size_t total_;
  const Fetch& fetch_;
  const Memory& memory_;
  std::vector<Frame> frames_;
};

}  // namespace

Status encode(const Value& value, const Place& place, std::vector<std::byte>& out, const Store& store) {
  const std::size_t before = out.size();
  Status status = Encoder(place, store, out).value(value, 0);
  if (!status.ok()) out.resize(before);
  return status;
}

Result<Encoded> encode(const Value& value) {
  Encoded encoded;
  const Place place = [&](const Tensor& tensor) -> Result<wire::TensorMeta> {
    encoded.tensors.push_back(tensor);
    return wire::meta_of(tensor, static_cast<std::uint32_t>(encoded.tensors.size() - 1));
  };
  if (Status status = encode(value, place, encoded.bytes); !status.ok()) return status;
  return encoded;
}

Result<Value> decode_private(std::span<const std::byte> bytes, const Fetch& fetch, const Memory& memory) {
  Decoder decoder(bytes.size(), fetch, memory);
  std::size_t offset = 0;
  const bool parsed =
      msgpack::parse(reinterpret_cast<const char*>(bytes.data()), bytes.size(), offset, decoder);
  if (!decoder.failure.ok()) return decoder.failure;
  if (!parsed) return corrupt("cut short or not MessagePack at byte " + std::to_string(offset));
  if (offset != bytes.size()) return corrupt(std::to_string(bytes.size() - offset) + " bytes too many");
  return std::move(decoder.root);
}

Result<Value> decode(std::span<const std::byte> bytes, const Fetch& fetch, const Memory& memory) {
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  return decode_private(copy, fetch, memory);
}

Result<Value> decode(std::span<const std::byte> bytes, std::span<const std::shared_ptr<Storage>> storages) {
  return decode(bytes, [&](const wire::TensorMeta& meta) -> Result<Tensor> {
    if (meta.index >= storages.size()) {
      return corrupt("tensor in lease " + std::to_string(meta.index) + " of " +
                     std::to_string(storages.size()));
    }
    return wire::tensor_over(meta, storages[meta.index]);
  });
}

}  // namespace forklift::inline abi_0_1::message
