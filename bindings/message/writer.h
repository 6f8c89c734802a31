// A message on its way out: what was encoded, and the copies that are still to be made.
//
// Encoding happens under the interpreter lock and only notes which memory has to go into blocks; the copying,
// like everything that waits, happens later without the lock, while the writer keeps the sources alive.
//
// A writer is used by one thread at a time. Its destructor and clear() need the interpreter lock.
#pragma once

#include <Python.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "arena/arena.h"
#include "channel/channel.h"
#include "forklift/shape.h"
#include "forklift/tensor.h"

namespace forklift::py {

// Bytes that grow. Unlike a vector it does not clear what it reserves.
class Bytes {
 public:
  std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }
  void clear() noexcept { size_ = 0; }
  // Returns where to write `count` bytes.
  std::byte* extend(std::size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    std::byte* out = data_.get() + size_;
    size_ += count;
    return out;
  }
  void append(const void* from, std::size_t count) {
    std::byte* out = extend(count);
    if (count != 0) std::memcpy(out, from, count);
  }
  void put(std::uint8_t byte) { *extend(1) = static_cast<std::byte>(byte); }
  template <class T>
  void append_value(T value) {
    append(&value, sizeof value);
  }
  // Gives memory back that one large message needed.
  void shrink() {
    if (capacity_ > 256 * 1024) {
      data_.reset();
      capacity_ = 0;
    }
    size_ = 0;
  }

 private:
  void grow(std::size_t needed);
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// Memory of a Python object that is to be copied into a block.
struct PendingCopy {
  PyObject* owner = nullptr;  // a reference of ours
  Py_buffer view{};           // or a buffer of ours, where view.obj is set
  const void* data = nullptr;
  std::size_t bytes = 0;
  // Strided sources only; both empty otherwise.
  Dims shape;
  Dims strides;  // in bytes
  std::size_t item_size = 1;
  std::uint32_t lease = 0;  // its place in MessageWriter::leases
  arena::Kind kind = arena::Kind::kPrivate;
  std::size_t offset = 0;  // in the block; several copies may share one
  std::size_t block_bytes = 0;
  bool done = false;
};

// Shared memory, of a tensor or a block: the message gets a lease of its own.
struct PendingShare {
  std::shared_ptr<Storage> storage;
  arena::LeasePtr block;  // where storage is null
  std::uint32_t lease = 0;
};

// A storage of torch's that moves into the arena: copied by copy(), put over the copy by settle().
struct PendingMove {
  PyObject* owner;  // a reference of ours, keeps it alive
  void* impl;
  const std::byte* data;
  std::size_t bytes;
  std::uint32_t lease;
  arena::LeasePtr block;
  bool copied = false;
  bool settled = false;
};

// Which lease a storage of torch's got: views of one storage arrive as such.
struct PlacedStorage {
  void* impl;
  std::uint32_t lease;
};

class MessageWriter {
 public:
  MessageWriter() = default;
  ~MessageWriter() { clear(); }
  MessageWriter(const MessageWriter&) = delete;
  MessageWriter& operator=(const MessageWriter&) = delete;

  void clear();
  // Enters a copy with a block of its own; its index among the message's leases.
  PendingCopy& add_copy(std::size_t bytes, arena::Kind kind);
  // Makes the leases that are still null. May be called again after a failure.
  Status allocate(arena::Arena& arena);
  // Copies into the blocks what is not there yet. allocate() and copy() run without the interpreter lock.
  void copy();
  // Puts the storages that were copied over their copies. With the interpreter lock.
  void settle();

  Bytes bytes;
  Bytes keep;  // what pending copies refer to, besides objects
  std::vector<PendingCopy> copies;
  std::vector<PendingShare> shares;
  std::vector<PendingMove> moves;
  std::vector<PlacedStorage> storages;
  std::vector<arena::LeasePtr> leases;  // null: to be made by allocate()
  std::uint8_t codec = 0;
  std::size_t block_bytes = 0;  // asked for by copies
};

// A writer that is not in use, so that its memory is reused: a put may run inside another one's pickling.
class WriterLoan {
 public:
  WriterLoan();
  ~WriterLoan();
  WriterLoan(const WriterLoan&) = delete;
  WriterLoan& operator=(const WriterLoan&) = delete;
  MessageWriter& operator*() const noexcept { return *writer_; }
  MessageWriter* operator->() const noexcept { return writer_.get(); }

 private:
  std::unique_ptr<MessageWriter> writer_;
};

}  // namespace forklift::py
