// Frozen, the C++ face of frozen.h.
#include <bit>
#include <string>
#include <vector>

#include "api/attached.h"
#include "forklift/error.h"
#include "forklift/frozen.h"
#include "message/frozen.h"
#include "node/node.h"
#include "sync/past_caches.h"
#include "tensor/arena_storage.h"
#include "tensor/copy.h"

namespace forklift::inline abi_0_1 {
namespace {

using frozen::Builder;
using frozen::Image;
using frozen::Slot;
using frozen::Tag;

[[noreturn]] void throw_unreadable() { throw Error({Code::kCorrupt, "a frozen structure does not read"}); }

Image image_of(const Storage& storage) noexcept { return {storage.data(), storage.bytes()}; }

// The slot at `offset`; a null one if it does not read, which is no tag.
Slot load(const Storage& storage, std::uint64_t offset) noexcept {
  Slot slot;
  return image_of(storage).load(offset, slot) ? slot : Slot{};
}

std::span<const std::byte> as_bytes(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class Writer {
 public:
  Result<Slot> write(const Value& value, std::size_t depth) {
    switch (value.kind()) {
      case Value::Kind::kNull: return frozen::null();
      case Value::Kind::kBool: return frozen::boolean(*value.get_if<bool>());
      case Value::Kind::kInt: return frozen::integer(*value.get_if<std::int64_t>());
      case Value::Kind::kUInt: return Status(Code::kInvalid, "an integer above 2^63 - 1 cannot be frozen");
      case Value::Kind::kDouble: return frozen::real(*value.get_if<double>());
      case Value::Kind::kString: return builder.text(Tag::kString, as_bytes(*value.get_if<std::string>()));
      case Value::Kind::kBytes: return builder.text(Tag::kBytes, *value.get_if<Value::Bytes>());
      case Value::Kind::kTensor: return tensor(*value.get_if<Tensor>());
      case Value::Kind::kList:
      case Value::Kind::kMap: break;
    }
    if (depth == kMaxValueDepth) {
      return Status(Code::kInvalid, "a value nested more than " + std::to_string(kMaxValueDepth) + " deep");
    }
    return value.kind() == Value::Kind::kList ? list(*value.get_if<Value::List>(), depth + 1)
                                              : map(*value.get_if<Value::Map>(), depth + 1);
  }

  Builder builder;
  std::vector<std::pair<Tensor, std::size_t>> tensors;

 private:
  Result<Slot> tensor(const Tensor& tensor) {
    wire::TensorMeta meta = wire::meta_of(tensor, 0);
    meta.strides = c_strides(meta.shape);
    meta.readonly = true;
    tensors.emplace_back(tensor, 0);
    return builder.array(meta, false, tensors.back().second);
  }

  Result<Slot> list(const Value::List& list, std::size_t depth) {
    const std::uint64_t items = builder.slots(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      Result<Slot> slot = write(list[i], depth);
      if (!slot) return slot;
      builder.set(items + i * sizeof(Slot), *slot);
    }
    return frozen::make_slot(Tag::kList, list.size(), items);
  }

  Result<Slot> map(const Value::Map& map, std::size_t depth) {
    if (map.size() > frozen::kMostEntries) return Status(Code::kInvalid, "a map of more than 2^30 entries");
    const std::uint64_t pairs = builder.pairs(map.size());
    std::vector<std::uint64_t> hashes;
    for (std::size_t i = 0; i < map.size(); ++i) {
      if (!map[i].first.is_scalar()) return Status(Code::kInvalid, "a key of a map that is no scalar");
      Result<Slot> key = write(map[i].first, depth);
      Result<Slot> value = key ? write(map[i].second, depth) : key;
      if (!value) return value;
      builder.set(pairs + 2 * i * sizeof(Slot), *key);
      builder.set(pairs + (2 * i + 1) * sizeof(Slot), *value);
      hashes.push_back(hash(map[i].first));
    }
    builder.index(pairs, hashes);
    return frozen::make_slot(Tag::kMap, map.size(), pairs);
  }

  static std::uint64_t hash(const Value& key) {
    if (const auto* number = key.get_if<std::int64_t>()) return frozen::hash_integer(*number);
    if (const auto* flag = key.get_if<bool>()) return frozen::hash_integer(*flag ? 1 : 0);
    if (const auto* real = key.get_if<double>()) return frozen::hash_real(*real);
    if (const auto* text = key.get_if<std::string>()) return frozen::hash_text(Tag::kString, as_bytes(*text));
    if (const auto* bytes = key.get_if<Value::Bytes>()) return frozen::hash_text(Tag::kBytes, *bytes);
    return frozen::hash_null();
  }
};

}  // namespace

Frozen Frozen::freeze(const Value& value) {
  Writer writer;
  writer.builder.finish(value_or_throw(writer.write(value, 0)));
  node::Node& node = detail::attached_node();
  std::shared_ptr<Storage> storage =
      value_or_throw(tensor::arena_storage(node.arena(), writer.builder.total()));
  const std::span<const std::byte> image = writer.builder.image();
  sync::copy_bytes(storage->data(), image.data(), image.size());
  for (const auto& [tensor, number] : writer.tensors) {
    if (tensor.numel() == 0) continue;
    tensor::copy_strided(storage->data() + writer.builder.array_offset(number), tensor.raw(),
                         tensor::byte_strides(tensor.strides(), tensor.item_size()), tensor.shape(),
                         tensor.item_size(), Order::kC);
  }
  return {std::move(storage), frozen::kRootOffset};
}

Frozen Frozen::over(const Tensor& memory) {
  if (memory.dtype() != DType::kUInt8 || memory.ndim() != 1 || !memory.is_contiguous() ||
      memory.byte_offset() != 0 || !memory.storage()) {
    throw Error({Code::kInvalid, "a frozen structure is a whole block of bytes, not " + memory.to_string()});
  }
  if (!image_of(*memory.storage()).valid())
    throw Error({Code::kCorrupt, "this memory holds no frozen structure"});
  return Frozen(memory.storage(), frozen::kRootOffset);
}

Tensor Frozen::memory() const {
  return Tensor::wrap(storage_, DType::kUInt8, {static_cast<std::int64_t>(storage_->bytes())}, 0, true);
}

Frozen::Kind Frozen::kind() const noexcept {
  switch (load(*storage_, offset_).tag()) {
    case Tag::kNull: return Kind::kNull;
    case Tag::kBool: return Kind::kBool;
    case Tag::kInt: return Kind::kInt;
    case Tag::kReal: return Kind::kDouble;
    case Tag::kString: return Kind::kString;
    case Tag::kBytes: return Kind::kBytes;
    case Tag::kList:
    case Tag::kTuple: return Kind::kList;
    case Tag::kMap: return Kind::kMap;
    case Tag::kArray:
    case Tag::kScalar: return Kind::kTensor;
    default: return Kind::kOther;
  }
}

std::size_t Frozen::size() const noexcept {
  const Kind its = kind();
  return its == Kind::kList || its == Kind::kMap ? load(*storage_, offset_).length() : 0;
}

std::optional<Frozen> Frozen::part(std::size_t i, unsigned which) const {
  const Slot slot = load(*storage_, offset_);
  const Image image = image_of(*storage_);
  std::uint64_t offset = 0;
  const bool found = kind() == Kind::kMap ? image.entry(slot, i, which, offset) : image.item(slot, i, offset);
  if (!found) return std::nullopt;
  return Frozen(storage_, offset);
}

Frozen Frozen::existing_part(std::size_t i, unsigned which) const {
  if (i >= size())
    throw Error({Code::kInvalid, "item " + std::to_string(i) + " of " + std::to_string(size())});
  std::optional<Frozen> found = part(i, which);
  if (!found) throw_unreadable();
  return *std::move(found);
}

Frozen Frozen::at(std::size_t i) const { return existing_part(i, 1); }

Frozen Frozen::key(std::size_t i) const {
  if (kind() != Kind::kMap) throw Error({Code::kInvalid, "a key of what is no map"});
  return existing_part(i, 0);
}

template <class Equal>
std::optional<Frozen> Frozen::find_hashed(std::uint64_t hash, Equal&& equal) const {
  if (kind() != Kind::kMap) return std::nullopt;
  const std::optional<std::uint64_t> entry =
      image_of(*storage_).find(load(*storage_, offset_), hash, [&](std::uint64_t i) {
        const std::optional<Frozen> candidate = part(i, 0);
        return candidate && equal(*candidate);
      });
  return entry ? part(*entry, 1) : std::nullopt;
}

std::optional<Frozen> Frozen::find(std::string_view key) const {
  return find_hashed(frozen::hash_text(Tag::kString, as_bytes(key)),
                     [&](const Frozen& candidate) { return candidate.string() == key; });
}

std::optional<Frozen> Frozen::find(std::int64_t key) const {
  return find_hashed(frozen::hash_integer(key),
                     [&](const Frozen& candidate) { return candidate.integer() == key; });
}

std::optional<bool> Frozen::boolean() const noexcept {
  const Slot slot = load(*storage_, offset_);
  return slot.tag() == Tag::kBool ? std::optional<bool>(slot.body != 0) : std::nullopt;
}

std::optional<std::int64_t> Frozen::integer() const noexcept {
  const Slot slot = load(*storage_, offset_);
  if (slot.tag() != Tag::kInt) return std::nullopt;
  return static_cast<std::int64_t>(slot.body);
}

std::optional<double> Frozen::real() const noexcept {
  const Slot slot = load(*storage_, offset_);
  if (slot.tag() == Tag::kInt) return static_cast<double>(static_cast<std::int64_t>(slot.body));
  return slot.tag() == Tag::kReal ? std::optional<double>(std::bit_cast<double>(slot.body)) : std::nullopt;
}

std::optional<std::string_view> Frozen::string() const noexcept {
  const Slot slot = load(*storage_, offset_);
  std::span<const std::byte> text;
  if (slot.tag() != Tag::kString || !image_of(*storage_).text(offset_, slot, text)) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

std::optional<std::span<const std::byte>> Frozen::bytes() const noexcept {
  const Slot slot = load(*storage_, offset_);
  std::span<const std::byte> found;
  if (slot.tag() != Tag::kBytes || !image_of(*storage_).text(offset_, slot, found)) return std::nullopt;
  return found;
}

Tensor Frozen::tensor() const {
  if (kind() != Kind::kTensor) throw Error({Code::kInvalid, "a tensor of what is no array of numbers"});
  const Result<wire::TensorMeta> meta = image_of(*storage_).array(load(*storage_, offset_));
  throw_if_failed(meta.status());
  return value_or_throw(wire::tensor_over(*meta, storage_));
}

Value Frozen::to_value() const { return to_value(0); }

Value Frozen::to_value(std::size_t depth) const {
  switch (kind()) {
    case Kind::kNull: return {};
    case Kind::kBool: return Value(*boolean());
    case Kind::kInt: return Value(*integer());
    case Kind::kDouble: return Value(*real());
    case Kind::kString: {
      const std::optional<std::string_view> text = string();
      if (!text) throw_unreadable();
      return Value(*text);
    }
    case Kind::kBytes: {
      const std::optional<std::span<const std::byte>> found = bytes();
      if (!found) throw_unreadable();
      return Value(Value::Bytes(found->begin(), found->end()));
    }
    case Kind::kTensor: return Value(tensor());
    case Kind::kOther: throw Error({Code::kInvalid, "a part that only Python reads"});
    case Kind::kList:
    case Kind::kMap: break;
  }
  if (depth == kMaxValueDepth) throw Error({Code::kInvalid, "a frozen structure nested too deep"});
  if (kind() == Kind::kList) {
    Value::List list;
    for (std::size_t i = 0; i < size(); ++i) list.push_back(at(i).to_value(depth + 1));
    return list;
  }
  Value::Map map;
  for (std::size_t i = 0; i < size(); ++i)
    map.emplace_back(key(i).to_value(depth + 1), at(i).to_value(depth + 1));
  return map;
}

}  // namespace forklift::inline abi_0_1
