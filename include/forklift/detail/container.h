// What SharedVector and SharedMap have in common: the memory, which travels as a handle, and the core's view of it.
//
// Ownership, thread and process safety: as the containers'. All functions throw Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/shared_value.h"

namespace forklift::inline abi_0_1 {

namespace container {
class Block;
class Writer;
}  // namespace container

namespace detail {

struct ContainerKind {
  bool is_map;
  std::uint64_t type;
  std::uint32_t key_bytes;
  std::uint32_t item_bytes;
};

// An element that containers can hold.
template <class T>
concept ContainerItem = SharedItem<T> && sizeof(T) <= 1U << 20;

class ContainerBase {
 public:
  // Copied, never moved: what was moved from would be a container without memory.
  ContainerBase(const ContainerBase&) = default;
  ContainerBase& operator=(const ContainerBase&) = default;
  ~ContainerBase() = default;
  // How many elements there are, a moment's truth, and how many there can be.
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  std::size_t capacity() const;

 protected:
  ContainerBase(const ContainerKind& kind, std::size_t capacity);
  // Over memory that came from elsewhere: TypeMismatch.
  ContainerBase(const ContainerKind& kind, Tensor memory);
  container::Block& block() const noexcept { return *block_; }
  const Tensor& memory() const noexcept { return memory_; }

 private:
  Tensor memory_;
  std::shared_ptr<container::Block> block_;
};

// Holds the writers' lock for a scope. Error: kStalled, kNotAttached.
class ContainerWriter {
 public:
  explicit ContainerWriter(container::Block& block);
  ContainerWriter(const ContainerWriter&) = delete;
  ContainerWriter& operator=(const ContainerWriter&) = delete;
  ~ContainerWriter();
  container::Writer& operator*() const noexcept { return *writer_; }

 private:
  // The core's Writer, in place: a change is too short for an allocation.
  alignas(8) std::byte memory_[32];
  container::Writer* writer_;
};

// Where copied elements go.
using ContainerRoom = void* (*)(void* context, std::uint64_t size);

void vector_push_back(container::Writer& writer, const void* item);
bool vector_pop_back(container::Writer& writer, void* item);
bool vector_replace(container::Writer& writer, std::size_t index, const void* item);
bool vector_item(container::Writer& writer, std::size_t index, void* item);
void vector_clear(container::Writer& writer);
bool vector_get(container::Block& block, std::size_t index, void* item);
void vector_copy(container::Block& block, ContainerRoom room, void* context);

enum class MapPut : std::uint8_t {
  kInsert,
  kAssign,
  kUpdate
};
// Whether it was there before.
bool map_put(container::Writer& writer, const void* key, const void* value, MapPut how);
bool map_erase(container::Writer& writer, const void* key);
bool map_item(container::Writer& writer, const void* key, void* value);
void map_clear(container::Writer& writer);
bool map_find(container::Block& block, const void* key, void* value);
void map_copy(container::Block& block, ContainerRoom room, void* context);

// A T of uninitialised bytes, which a copy fills: T need not have a default constructor.
template <class T>
class Uninitialised {
 public:
  void* memory() noexcept { return bytes_; }
  const T& value() const noexcept { return *std::launder(reinterpret_cast<const T*>(bytes_)); }
  T& value() noexcept { return *std::launder(reinterpret_cast<T*>(bytes_)); }

 private:
  alignas(T) std::byte bytes_[sizeof(T)];
};

}  // namespace detail
}  // namespace forklift::inline abi_0_1
