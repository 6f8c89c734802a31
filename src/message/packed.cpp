// Lists of numbers and bytes in one piece.
#include "forklift/detail/packed.h"

#include <cstring>

#include "forklift/value.h"
#include "sync/past_caches.h"

namespace forklift::inline abi_0_1 {

namespace detail {
namespace {

template <class T>
T read(const std::byte* at) noexcept {
  T number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

Value number_at(DType type, const std::byte* at) {
  switch (type) {
    case DType::kBool: return Value(*at != std::byte{0});
    case DType::kInt8: return Value(read<std::int8_t>(at));
    case DType::kInt16: return Value(read<std::int16_t>(at));
    case DType::kInt32: return Value(read<std::int32_t>(at));
    case DType::kInt64: return Value(read<std::int64_t>(at));
    case DType::kUInt8: return Value(read<std::uint8_t>(at));
    case DType::kUInt16: return Value(read<std::uint16_t>(at));
    case DType::kUInt32: return Value(read<std::uint32_t>(at));
    case DType::kUInt64: return Value(read<std::uint64_t>(at));
    case DType::kFloat32: return Value(read<float>(at));
    case DType::kFloat64: return Value(read<double>(at));
    default: return {};  // no list is packed as these
  }
}

// The first thread that asks makes it. If several ask at once, each makes one, and one of them is kept.
template <class T, class Make>
const T* made_once(std::atomic<const T*>& place, Make&& make) {
  const T* there = place.load(std::memory_order_acquire);
  if (there != nullptr) return there;
  auto mine = std::make_unique<const T>(make());
  if (place.compare_exchange_strong(there, mine.get(), std::memory_order_acq_rel)) return mine.release();
  return there;
}

}  // namespace

Packed::Packed(PackedType type, std::span<const std::byte> memory) : type_(type) {
  std::shared_ptr<std::byte[]> copy(new std::byte[memory.size()]);
  if (!memory.empty()) sync::copy_bytes(copy.get(), memory.data(), memory.size());
  memory_ = {copy.get(), memory.size()};
  owner_ = std::move(copy);
}

Packed::~Packed() {
  delete list_.load(std::memory_order_relaxed);
  delete bytes_.load(std::memory_order_relaxed);
}

Value Packed::at(std::size_t i) const {
  const std::size_t bytes = sizes_of(type_.number).item;
  const std::byte* at = memory_.data() + i * type_.item_bytes();
  if (type_.width == 0) return number_at(type_.number, at);
  Value::List item;
  item.reserve(type_.width);
  for (std::uint32_t k = 0; k < type_.width; ++k) item.push_back(number_at(type_.number, at + k * bytes));
  return item;
}

const std::vector<Value>* Packed::list() const {
  if (type_.bytes) return nullptr;
  return made_once(list_, [this] {
    Value::List list;
    list.reserve(size());
    for (std::size_t i = 0; i < size(); ++i) list.push_back(at(i));
    return list;
  });
}

const std::vector<std::byte>* Packed::bytes() const {
  if (!type_.bytes) return nullptr;
  return made_once(bytes_, [this] { return Value::Bytes(memory_.begin(), memory_.end()); });
}

}  // namespace detail

void Value::unpack() {
  const detail::Packed& items = *packed();
  if (items.type().bytes) {
    rep_ = Bytes(items.memory().begin(), items.memory().end());
  } else {
    rep_ = List(*items.list());
  }
}

}  // namespace forklift::inline abi_0_1
