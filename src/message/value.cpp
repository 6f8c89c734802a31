#include "forklift/value.h"

#include <cmath>
#include <cstring>

namespace forklift::inline abi_0_1 {

std::string_view kind_name(Value::Kind kind) noexcept {
  switch (kind) {
    case Value::Kind::kNull: return "null";
    case Value::Kind::kBool: return "bool";
    case Value::Kind::kInt: return "integer";
    case Value::Kind::kUInt: return "integer above 2^63";
    case Value::Kind::kDouble: return "double";
    case Value::Kind::kString: return "string";
    case Value::Kind::kBytes: return "bytes";
    case Value::Kind::kList: return "list";
    case Value::Kind::kMap: return "map";
    case Value::Kind::kTensor: return "tensor";
  }
  return "unknown";
}

const Value* Value::find(const Value& key) const noexcept {
  const Map* map = get_if<Map>();
  if (map == nullptr) return nullptr;
  for (const auto& [name, value] : *map) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::size_t Value::size() const noexcept {
  if (packed() != nullptr) return packed()->size();
  switch (kind()) {
    case Kind::kString: return get_if<std::string>()->size();
    case Kind::kBytes: return get_if<Bytes>()->size();
    case Kind::kList: return get_if<List>()->size();
    case Kind::kMap: return get_if<Map>()->size();
    default: return 0;
  }
}

namespace {

// Either may be packed, or both.
bool same_bytes(const Value& one, const Value& other) noexcept {
  std::size_t size = 0;
  std::size_t other_size = 0;
  const std::byte* bytes = detail::bytes_in(one, size);
  const std::byte* others = detail::bytes_in(other, other_size);
  return bytes != nullptr && others != nullptr && size == other_size &&
         (size == 0 || std::memcmp(bytes, others, size) == 0);
}

bool same_items(const detail::Packed& packed, const Value& other) {
  if (other.kind() != Value::Kind::kList || other.size() != packed.size()) return false;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const detail::Packed* others = other.packed();
    if (!(packed.at(i) == (others != nullptr ? others->at(i) : (*other.get_if<Value::List>())[i])))
      return false;
  }
  return true;
}

}  // namespace

bool Value::operator==(const Value& other) const noexcept {
  if (kind() == Kind::kTensor && other.kind() == Kind::kTensor) {
    return get_if<Tensor>()->same_view(*other.get_if<Tensor>());
  }
  for (const auto& [one, two] : {std::pair(this, &other), std::pair(&other, this)}) {
    if (const detail::Packed* items = one->packed())
      return items->type().bytes ? same_bytes(*one, *two) : same_items(*items, *two);
  }
  return rep_ == other.rep_;
}

namespace detail {

Status wrong_kind(const Value& value, std::string_view wanted) {
  std::string what = "a value of kind ";
  what += kind_name(value.kind());
  const Value::Kind kind = value.kind();
  if (kind == Value::Kind::kList || kind == Value::Kind::kMap)
    what += " (" + std::to_string(value.size()) + ")";
  what += " where ";
  what += wanted;
  what += " was wanted";
  return {Code::kInvalid, std::move(what)};
}

Status out_of_range(const Value& value, std::string_view wanted) {
  std::string number;
  if (const auto* i = value.get_if<std::int64_t>()) {
    number = std::to_string(*i);
  } else if (const auto* u = value.get_if<std::uint64_t>()) {
    number = std::to_string(*u);
  } else if (const auto* d = value.get_if<double>()) {
    number = std::to_string(*d);
  }
  return {Code::kInvalid, number + " is out of range for " + std::string(wanted)};
}

Status whole_number(const Value& value, std::string_view wanted, Whole& number) {
  if (const auto* i = value.get_if<std::int64_t>()) {
    number = {*i < 0, static_cast<std::uint64_t>(*i)};
  } else if (const auto* u = value.get_if<std::uint64_t>()) {
    number = {false, *u};
  } else {
    return wrong_kind(value, wanted);
  }
  return {};
}

Status real_number(const Value& value, std::string_view wanted, double& number) {
  if (const auto* d = value.get_if<double>()) {
    number = *d;
    return {};
  }
  Whole whole{};
  if (Status status = whole_number(value, wanted, whole); !status.ok()) return status;
  number = whole.negative ? static_cast<double>(static_cast<std::int64_t>(whole.bits))
                          : static_cast<double>(whole.bits);
  // Converts back, to see whether digits were lost. 2^64 itself would not fit.
  const bool exact = whole.negative
                         ? static_cast<std::int64_t>(number) == static_cast<std::int64_t>(whole.bits)
                         : number < 0x1p64 && static_cast<std::uint64_t>(number) == whole.bits;
  return exact ? Status() : out_of_range(value, wanted);
}

}  // namespace detail
}  // namespace forklift::inline abi_0_1
