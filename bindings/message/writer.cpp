#include "bindings/message/writer.h"

#include <algorithm>
#include <new>

#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/torch/memory.h"
#include "tensor/arena_storage.h"
#include "tensor/copy.h"

namespace forklift::py {

void Bytes::grow(std::size_t needed) {
  const std::size_t capacity = std::max({needed, capacity_ * 2, std::size_t{1024}});
  std::unique_ptr<std::byte[]> larger(new std::byte[capacity]);
  if (size_ != 0) std::memcpy(larger.get(), data_.get(), size_);
  data_ = std::move(larger);
  capacity_ = capacity;
}

void MessageWriter::clear() {
  bytes.shrink();
  keep.shrink();
  codec = 0;
  block_bytes = 0;
  storages.clear();
  if (!leases.empty() || !shares.empty() || !moves.empty()) {
    const bool any =
        std::any_of(leases.begin(), leases.end(), [](const auto& lease) { return lease != nullptr; });
    if (any || !shares.empty() || !moves.empty()) {
      // Not sent, or the last reference to a tensor: giving rights back takes the arena's lock.
      const GilRelease released;
      for (arena::LeasePtr& lease : leases) lease.reset();
      shares.clear();
      for (PendingMove& move : moves) move.block.reset();
    }
    leases.clear();
  }
  // Dropping a reference may run a program's code, which may put.
  std::vector<PendingCopy> done = std::move(copies);
  copies.clear();
  std::vector<PendingMove> moved = std::move(moves);
  moves.clear();
  for (const PendingMove& move : moved) Py_DECREF(move.owner);
  for (PendingCopy& copy : done) {
    if (copy.view.obj) PyBuffer_Release(&copy.view);
    Py_XDECREF(copy.owner);
  }
}

PendingCopy& MessageWriter::add_copy(std::size_t count, arena::Kind kind) {
  PendingCopy& copy = copies.emplace_back();
  copy.bytes = count;
  copy.kind = kind;
  copy.block_bytes = count;
  copy.lease = static_cast<std::uint32_t>(leases.size());
  leases.emplace_back();
  block_bytes += count;
  return copy;
}

Status MessageWriter::allocate(arena::Arena& arena) {
  for (const PendingCopy& copy : copies) {
    if (leases[copy.lease]) continue;
    Result<arena::LeasePtr> block = arena.allocate(copy.kind, copy.block_bytes);
    if (!block) return block.status();
    leases[copy.lease] = *std::move(block);
  }
  for (PendingMove& move : moves) {
    if (move.block || move.settled) continue;
    Result<arena::LeasePtr> block = arena.allocate(arena::Kind::kShare, move.bytes);
    if (!block) return block.status();
    Result<arena::LeasePtr> another = arena.another(*block);
    if (!another) return another.status();
    move.block = *std::move(block);
    leases[move.lease] = *std::move(another);
  }
  for (const PendingShare& share : shares) {
    if (leases[share.lease]) continue;
    const arena::LeasePtr& held = share.storage ? *tensor::share_lease(*share.storage) : share.block;
    Result<arena::LeasePtr> another = arena.another(held);
    if (!another) return another.status();
    counters.shared_bytes.fetch_add(held->size(), std::memory_order_relaxed);
    leases[share.lease] = *std::move(another);
  }
  return {};
}

void MessageWriter::copy() {
  for (PendingCopy& copy : copies) {
    if (copy.done) continue;
    std::byte* out = leases[copy.lease]->data() + copy.offset;
    if (copy.shape.empty()) {
      std::memcpy(out, copy.data, copy.bytes);
    } else {
      tensor::copy_strided(out, copy.data, copy.strides, copy.shape, copy.item_size, Order::kC);
    }
    copy.done = true;
    count_block_bytes(copy.bytes);
  }
  for (PendingMove& move : moves) {
    if (move.copied) continue;
    std::memcpy(move.block->data(), move.data, move.bytes);
    move.copied = true;
    count_block_bytes(move.bytes);
  }
}

void MessageWriter::settle() {
  for (PendingMove& move : moves) {
    if (move.settled) continue;
    move.settled = true;
    const torch::StorageView storage(move.impl);
    if (const torch::Held* held = torch::find_held(move.impl, storage.data())) {
      // Another thread was faster: the receiver gets what the tensor lies in now.
      shares.push_back({nullptr, held->lease, move.lease});
      leases[move.lease].reset();
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
