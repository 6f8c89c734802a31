// A Python message on its way out: a message::MessageBuilder, and the Python objects that must live until
// their memory is copied.
//
// Encoding happens under the interpreter lock and only notes which memory has to go into blocks; the copying,
// like everything that waits, happens later without the lock (sending.h), while the writer keeps the objects
// alive.
//
// A writer is used by one thread at a time. Its destructor and clear() need the interpreter lock.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "message/message_builder.h"
#include "os/fd.h"

namespace forklift::py {

// A storage of torch's that moves into the arena: it is copied, and settle() puts it over its copy.
struct PendingMove {
  PyObject* owner = nullptr;  // a reference of ours, keeps it alive
  void* impl = nullptr;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t begin = 0;    // of the copy in its block
  bool named = false;       // the block is a named segment
  std::uint32_t lease = 0;  // the message's, on the copy
  arena::LeasePtr block;    // the storage's, on the same block
  bool settled = false;
  os::Fd file;                          // of a named segment that is not written yet
  const std::byte* moved_to = nullptr;  // where the storage's memory is since settle() moved it
};

// The lease of a storage of torch's. Tensors that are views of one storage use one lease, and arrive as views
// of one storage.
struct PlacedStorage {
  void* impl;
  std::uint32_t lease;
  std::uint32_t begin;  // of the storage in the lease's memory
};

class MessageWriter {
 public:
  MessageWriter() { message.bytes().reserve(1024); }
  // Where the message has a storage of torch's already; null: nowhere.
  const PlacedStorage* find_storage(const void* impl) const noexcept {
    for (const PlacedStorage& placed : storages)
      if (placed.impl == impl) return &placed;
    return nullptr;
  }
  ~MessageWriter() { clear(); }
  MessageWriter(const MessageWriter&) = delete;
  MessageWriter& operator=(const MessageWriter&) = delete;

  // Empties it. Releases the interpreter lock where leases are given up.
  void clear();

  // Notes a copy of memory that the object keeps alive.
  message::PendingCopy& note_copy(PyObject* owner, const void* data, std::size_t bytes, arena::Kind kind) {
    owners.push_back(Py_NewRef(owner));
    return message.note_copy(data, bytes, kind);
  }
  // Notes a move; the copy is to begin at `begin` in its block, or is to have a name. Returns the place of the
  // lease among the message's.
  std::uint32_t note_move(PyObject* owner, void* impl, const std::byte* data, std::size_t bytes,
                          std::size_t begin, bool named);

  // Makes the leases, those of moved storages included. May be called again after a failure. Without the
  // interpreter lock.
  Status allocate(arena::Arena& arena);
  // Copies. May be called again after a failure, and then copies everything again. Without the interpreter lock.
  Status copy();
  // Puts the storages that were copied over their copies. With the interpreter lock.
  void settle();

  message::MessageBuilder message;
  std::uint8_t codec = 0;         // of the bytes: message::Codec
  std::vector<PyObject*> owners;  // references of ours
  std::vector<Py_buffer> views;   // buffers of ours
  std::vector<std::byte> keep;    // memory that pending copies read, besides
  std::vector<PendingMove> moves;
  std::vector<PlacedStorage> storages;
};

// Empties a buffer, and gives it back if one large message has made it larger than others need.
inline void empty(std::vector<std::byte>& bytes) noexcept {
  bytes.clear();
  if (bytes.capacity() > 256 * 1024) bytes = {};
}

// Lends a writer that nobody uses, so that its memory is reused. Pickling may run a program's code, which may
// put and needs a writer of its own.
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
