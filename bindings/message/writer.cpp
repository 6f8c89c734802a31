#include "bindings/message/writer.h"

#include <algorithm>
#include <utility>

#include "bindings/core/gil.h"
#include "bindings/torch/memory.h"

namespace forklift::py {

void MessageWriter::clear() {
  const bool gives_up =
      message.holds_leases() ||
      std::any_of(moves.begin(), moves.end(), [](const auto& move) { return move.block != nullptr; });
  if (gives_up) {
    // Giving a lease up takes the arena's lock.
    const GilRelease released;
    for (PendingMove& move : moves) move.block.reset();
    message.clear();
  } else {
    message.clear();
  }
  empty(message.bytes());
  empty(keep);
  codec = 0;
  storages.clear();
  // The message is on its way, and nobody waits for this.
  for (const PendingMove& move : moves) {
    if (move.moved_to) torch::give_back_old(move.impl, move.moved_to, move.owner);
  }
  // Dropping a reference may run the program's code, which may put: with another writer.
  for (const PendingMove& move : moves) Py_DECREF(move.owner);
  moves.clear();
  for (Py_buffer& view : views) PyBuffer_Release(&view);
  views.clear();
  for (PyObject* owner : owners) Py_DECREF(owner);
  owners.clear();
}

std::uint32_t MessageWriter::note_move(PyObject* owner, void* impl, const std::byte* data, std::size_t bytes,
                                       std::size_t begin, bool named) {
  message::PendingCopy& copy = message.note_copy(data, bytes, arena::Kind::kShare);
  copy.offset = begin;
  copy.block_bytes += begin;
  PendingMove& move = moves.emplace_back();
  move.owner = Py_NewRef(owner);
  move.impl = impl;
  move.data = data;
  move.bytes = bytes;
  move.begin = begin;
  move.named = named;
  move.lease = copy.lease;
  return copy.lease;
}

Status MessageWriter::allocate(arena::Arena& arena) {
  for (PendingMove& move : moves) {
    if (!move.named || move.settled || message.leases()[move.lease]) continue;
    Result<segment::Segments::Hollow> made = torch::make_hollow(move.bytes);
    if (!made) return made.status();
    message.leases()[move.lease] = std::move(made->lease);
    move.file = std::move(made->file);
  }
  if (Status allocated = message.allocate(arena); !allocated) return allocated;
  for (PendingMove& move : moves) {
    if (move.block || move.settled) continue;
    Result<arena::LeasePtr> another = arena.another(message.leases()[move.lease]);
    if (!another) return another.status();
    move.block = *std::move(another);
  }
  return {};
}

Status MessageWriter::copy() {
  for (const PendingMove& move : moves) {
    if (!move.file.valid()) continue;
    const std::span<const std::byte> data(move.data, move.bytes);
    if (Status written = torch::write_named(*message.leases()[move.lease], move.file, data); !written)
      return written;
  }
  for (PendingMove& move : moves) {
    if (!move.file.valid()) continue;
    message.mark_copied(move.lease);
    move.file = os::Fd();
  }
  message.copy();
  return {};
}

void MessageWriter::settle() {
  for (PendingMove& move : moves) {
    if (move.settled) continue;
    move.settled = true;
    const torch::StorageView storage(move.impl);
    if (const torch::Held* held = torch::find_held(move.impl, storage.data())) {
      // Another thread has moved it meanwhile: the receiver gets the memory that the tensor has now. It begins
      // where this copy does, since that follows from the old address and the strategy; if the program changes the
      // strategy in between, the receiver gets the copy.
      if (held->begin() == move.begin) message.share_instead(move.lease, held->lease);
    } else if (storage.data() == move.data && storage.bytes() == move.bytes) {
      move.moved_to = move.block->data() + move.begin;
      torch::adopt(storage, std::move(move.block), move.begin);
    }
  }
}

namespace {
// Under the interpreter lock.
std::vector<std::unique_ptr<MessageWriter>>& idle_writers() {
  static auto* const idle = new std::vector<std::unique_ptr<MessageWriter>>;
  return *idle;
}
}  // namespace

WriterLoan::WriterLoan() {
  auto& idle = idle_writers();
  if (idle.empty()) {
    writer_ = std::make_unique<MessageWriter>();
  } else {
    writer_ = std::move(idle.back());
    idle.pop_back();
  }
}

WriterLoan::~WriterLoan() {
  writer_->clear();
  auto& idle = idle_writers();
  if (idle.size() < 8) idle.push_back(std::move(writer_));
}

}  // namespace forklift::py
