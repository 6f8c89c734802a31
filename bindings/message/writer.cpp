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
  // Dropping a reference may run the program's code, which may put: with another writer.
  for (const PendingMove& move : moves) Py_DECREF(move.owner);
  moves.clear();
  for (Py_buffer& view : views) PyBuffer_Release(&view);
  views.clear();
  for (PyObject* owner : owners) Py_DECREF(owner);
  owners.clear();
}

std::uint32_t MessageWriter::note_move(PyObject* owner, void* impl, const std::byte* data,
                                       std::size_t bytes) {
  const std::uint32_t lease = message.note_copy(data, bytes, arena::Kind::kShare).lease;
  moves.push_back({Py_NewRef(owner), impl, data, bytes, lease, nullptr});
  return lease;
}

Status MessageWriter::allocate(arena::Arena& arena) {
  if (Status allocated = message.allocate(arena); !allocated) return allocated;
  for (PendingMove& move : moves) {
    if (move.block || move.settled) continue;
    Result<arena::LeasePtr> another = arena.another(message.leases()[move.lease]);
    if (!another) return another.status();
    move.block = *std::move(another);
  }
  return {};
}

void MessageWriter::settle() {
  for (PendingMove& move : moves) {
    if (move.settled) continue;
    move.settled = true;
    const torch::StorageView storage(move.impl);
    if (const torch::Held* held = torch::find_held(move.impl, storage.data())) {
      // Another thread has moved it meanwhile: the receiver gets the memory that the tensor has now.
      message.share_instead(move.lease, held->lease);
    } else if (storage.data() == move.data && storage.bytes() == move.bytes) {
      torch::adopt(storage, std::move(move.block));
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
