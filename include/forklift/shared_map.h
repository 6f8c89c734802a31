// SharedMap<K, V>: a hash map in shared memory, of a fixed capacity, that survives the death of any process.
//
//   forklift::SharedMap<std::uint64_t, Price> prices(100'000);      // room for as many; empty
//   auto feed = forklift::Process::fork([=]() mutable {
//     prices.insert_or_assign(17, {.bid = 99.5});
//   }).start();
//   feed.join();
//   if (std::optional<Price> price = prices.find(17)) use(*price);  // a copy, never half written
//   prices.update(17, [](Price& price) { price.bid += 1; });        // with no other writer in between
//   for (const auto& [symbol, price] : prices.snapshot()) ...       // all of it at one moment
//
// One thread of one process writes at a time; any number read, without a lock: a reader that a writer came in
// between begins again. Each change happens or does not, whichever process is killed and whenever.
//
// A SharedMap is a handle, as a SharedVector (shared_vector.h), and travels like one.
//
// K: a trivially copyable type in which equal values have equal bytes: integers, enumerations, std::array<char, 16>,
// structs of these without padding; not floating-point numbers. V: as a SharedVector's T.
//
// Thread and process safety, forks: as SharedVector.
//
// Errors: Error with kNoSpace from an insertion when it is full; the others as of SharedVector. at() throws
// std::out_of_range. clear() erases one by one: a process that is killed in it leaves some.
//
// Cost: a read of one of 100,000 elements of 32 bytes takes 50 to 80 ns, beside a writer 110 (bench rows map-read,
// map-read-write).
#pragma once

#include <stdexcept>
#include <utility>

#include "forklift/detail/caught.h"
#include "forklift/detail/container.h"

namespace forklift::inline abi_0_1 {

template <class K, class V>
class SharedMap : public detail::ContainerBase {
  static_assert(
      detail::ContainerItem<K> && detail::ContainerItem<V>,
      "forklift: a SharedMap holds trivially copyable types without pointers or references, up to 1 MiB");
  static_assert(std::has_unique_object_representations_v<K>,
                "forklift: a SharedMap compares its keys as bytes: no padding, no floating-point numbers");
  static constexpr detail::ContainerKind kKind{true, detail::type_hash<K>() * 31 + detail::type_hash<V>(),
                                               sizeof(K), sizeof(V)};

 public:
  // As the standard library's maps call them.
  using key_type = K;
  using mapped_type = V;

  // An empty one, with room for as many elements.
  explicit SharedMap(std::size_t capacity) : ContainerBase(kKind, capacity) {}

  // True: it was inserted. insert() leaves what is there; insert_or_assign() replaces it.
  bool insert(const K& key, const V& value) {
    const detail::ContainerWriter writer(block());
    return !detail::map_put(*writer, &key, &value, detail::MapPut::kInsert);
  }
  bool insert_or_assign(const K& key, const V& value) {
    const detail::ContainerWriter writer(block());
    return !detail::map_put(*writer, &key, &value, detail::MapPut::kAssign);
  }
  // False: there was no such key.
  bool erase(const K& key) {
    const detail::ContainerWriter writer(block());
    return detail::map_erase(*writer, &key);
  }
  // Calls change(V&) on a copy and writes that back. False: there is no such key. Keep it short: other writers wait
  // meanwhile.
  template <class Change>
  bool update(const K& key, Change&& change) {
    const detail::ContainerWriter writer(block());
    detail::Uninitialised<V> value;
    if (!detail::map_item(*writer, &key, value.memory())) return false;
    std::forward<Change>(change)(value.value());
    return detail::map_put(*writer, &key, value.memory(), detail::MapPut::kUpdate);
  }
  // The same, beginning with `initial` where there is no such key. What is there now.
  template <class Change>
  V upsert(const K& key, const V& initial, Change&& change) {
    const detail::ContainerWriter writer(block());
    detail::Uninitialised<V> value;
    if (!detail::map_item(*writer, &key, value.memory())) new (value.memory()) V(initial);
    std::forward<Change>(change)(value.value());
    (void)detail::map_put(*writer, &key, value.memory(), detail::MapPut::kAssign);
    return value.value();
  }
  void clear() {
    const detail::ContainerWriter writer(block());
    detail::map_clear(*writer);
  }

  // A copy of the key's value. Nothing, an exception, another value, false: there is no such key.
  std::optional<V> find(const K& key) const {
    detail::Uninitialised<V> value;
    if (!detail::map_find(block(), &key, value.memory())) return std::nullopt;
    return value.value();
  }
  V at(const K& key) const {
    if (std::optional<V> value = find(key)) return *value;
    detail::throw_out_of_range("a SharedMap without that key");
  }
  V value_or(const K& key, const V& otherwise) const {
    const std::optional<V> value = find(key);
    return value ? *value : otherwise;
  }
  bool contains(const K& key) const { return detail::map_find(block(), &key, nullptr); }

  // In no order.
  std::vector<std::pair<K, V>> snapshot() const {
    constexpr std::size_t kElement = sizeof(K) + sizeof(V);
    std::vector<std::byte> bytes;
    detail::map_copy(
        block(),
        [](void* into, std::uint64_t size) -> void* {
          auto& all = *static_cast<std::vector<std::byte>*>(into);
          all.resize(size * kElement);
          return all.data();
        },
        &bytes);
    std::vector<std::pair<K, V>> elements;
    elements.reserve(bytes.size() / kElement);
    for (std::size_t at = 0; at < bytes.size(); at += kElement) {
      detail::Uninitialised<K> key;
      detail::Uninitialised<V> value;
      std::memcpy(key.memory(), bytes.data() + at, sizeof(K));
      std::memcpy(value.memory(), bytes.data() + at + sizeof(K), sizeof(V));
      elements.emplace_back(key.value(), value.value());
    }
    return elements;
  }

 private:
  friend struct ValueTraits<SharedMap<K, V>>;
  explicit SharedMap(Tensor memory) : ContainerBase(kKind, std::move(memory)) {}
};

template <class K, class V>
struct ValueTraits<SharedMap<K, V>> {
  static Value to(const SharedMap<K, V>& map) { return Value(detail::bound_to_its_domain(map.memory())); }
  static SharedMap<K, V> from(const Value& value) {
    const Tensor* memory = value.get_if<Tensor>();
    if (memory == nullptr) detail::mismatch(value, "a SharedMap");
    return SharedMap<K, V>(*memory);
  }
};

}  // namespace forklift::inline abi_0_1
