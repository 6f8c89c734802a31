#include "message/message_builder.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "message/codec.h"
#include "message/tensor_head.h"
#include "sync/past_caches.h"
#include "tensor/arena_storage.h"
#include "tensor/copy.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::message {

namespace {

// Smaller copies are not worth the flush at their end.
constexpr std::size_t kLargeCopy = std::size_t{256} << 10;

}  // namespace

Status MessageBuilder::add(const Value& value) {
  if (const auto* tensor = value.get_if<Tensor>()) return add(*tensor);
  return encode(
      value, [this](const Tensor& tensor) { return place(tensor); }, bytes_,
      [this](std::span<const std::byte> items) { return store(items); });
}

Result<std::uint32_t> MessageBuilder::store(std::span<const std::byte> bytes) {
  Result<arena::LeasePtr> block = allocate_block(*arena_, arena::Kind::kShare, bytes.size());
  if (!block) return block.status();
  copy_into_block((*block)->data(), bytes.data(), bytes.size());
  leases_.push_back(*std::move(block));
  return static_cast<std::uint32_t>(leases_.size() - 1);
}

Status MessageBuilder::add(const Tensor& tensor) {
  std::array<std::byte, kMostTensorBytes> out;
  const std::size_t at = write_tensor_head(tensor.ndim(), out.data());
  const std::size_t size = wire::meta_bytes(tensor.ndim());
  Result<std::uint32_t> lease = lease_of(tensor);
  if (!lease) return lease.status();
  if (*lease != kNoLease) [[likely]] {
    wire::encode_tensor(tensor, *lease, out.data() + at);
  } else {
    Result<wire::TensorMeta> meta = place(tensor);
    if (!meta) return meta.status();
    wire::encode_meta(*meta, out.data() + at);
  }
  bytes_.insert(bytes_.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(at + size));
  return {};
}

Result<wire::TensorMeta> MessageBuilder::place(const Tensor& tensor) {
  if (tensor.numel() == 0) {
    wire::TensorMeta meta = wire::meta_of(tensor, kNoLease);
    meta.byte_offset = 0;
    return meta;
  }
  Result<std::uint32_t> lease = lease_of(tensor);
  if (!lease) return lease.status();
  return *lease != kNoLease ? wire::meta_of(tensor, *lease) : place_copy(tensor);
}

namespace {
// Blocks of up to this many bytes travel as a whole.
constexpr std::size_t kSmallestBlock = 4096;
}  // namespace

Result<std::uint32_t> MessageBuilder::lease_of(const Tensor& tensor) {
  if (tensor.numel() == 0) return kNoLease;
  const std::shared_ptr<Storage>& storage = tensor.storage();
  if (!storage->on_device()) {
    if (Status status = tensor::settle(tensor); !status) return status;
  }
  const Result<const arena::LeasePtr*> found = tensor::sendable_lease(*storage);
  if (!found) return found.status();
  const arena::LeasePtr* const lease = *found;
  if (lease == nullptr) return kNoLease;
  if (&(*lease)->arena() != arena_) {
    const auto says = [&](const std::string& what, const char* remedy) {
      return Status(Code::kInvalid, what + " of " + (*lease)->arena().domain().described() +
                                        " cannot go into a message in " + arena_->domain().described() +
                                        remedy);
    };
    if (storage->on_device()) return says("a tensor on " + tensor.device(), "; copy it with to(\"CPU\")");
    if (detail::StorageAccess::is_bound(*storage))
      return says("shared memory that is an object (SharedArray, SharedMap, a group, ...)",
                  ": a copy would be another object. Make it there (Domain::make), or send its contents");
    return kNoLease;
  }
  if (leaves_domain_) {
    if (detail::StorageAccess::is_bound(*storage))
      return Status(Code::kInvalid,
                    "shared memory that is an object (SharedArray, SharedMap, a group, ...) cannot leave its "
                    "node: a copy would be another object. Send its contents");
    if (storage->on_device())
      return Status(Code::kUnsupported,
                    "a tensor on " + tensor.device() + " cannot leave its node: copy it with to(\"CPU\")");
    if (tensor.nbytes() < (*lease)->size() / 2 && (*lease)->size() > kSmallestBlock) return kNoLease;
  }
  // By memory, not by storage: two storages may hold leases on the same block.
  const std::uint64_t memory = (*lease)->object().pack();
  for (const auto& [placed, index] : placed_) {
    if (placed == memory) return index;
  }
  const auto index = static_cast<std::uint32_t>(leases_.size());
  Result<arena::LeasePtr> more = arena_->another(*lease);
  if (!more) return more.status();
  leases_.push_back(*std::move(more));
  placed_.emplace_back(memory, index);
  return index;
}

Result<wire::TensorMeta> MessageBuilder::place_copy(const Tensor& tensor) {
  Result<arena::LeasePtr> block = allocate_block(*arena_, copies_, tensor.nbytes());
  if (!block) return block.status();
  const Order order =
      !tensor.is_contiguous(Order::kC) && tensor.is_contiguous(Order::kF) ? Order::kF : Order::kC;
  tensor::copy_strided((*block)->data(), tensor.raw(),
                       tensor::byte_strides(tensor.strides(), tensor.item_size()), tensor.shape(),
                       tensor.item_size(), order);
  leases_.push_back(*std::move(block));
  // The copy belongs to whoever receives it, who may write.
  return wire::TensorMeta{static_cast<std::uint32_t>(leases_.size() - 1),
                          tensor.dtype(),
                          false,
                          0,
                          tensor.shape(),
                          order == Order::kF ? f_strides(tensor.shape()) : c_strides(tensor.shape())};
}

PendingCopy& MessageBuilder::note_copy(const void* data, std::size_t bytes, arena::Kind kind) {
  noted_ = true;
  PendingCopy& copy = pending_copies_.emplace_back();
  copy.data = data;
  copy.bytes = bytes;
  copy.block_bytes = bytes;
  copy.kind = kind;
  copy.lease = static_cast<std::uint32_t>(leases_.size());
  leases_.emplace_back();
  noted_bytes_ += bytes;
  return copy;
}

void MessageBuilder::note_part(std::uint32_t lease, std::size_t offset, const void* data, std::size_t bytes) {
  PendingCopy& copy = pending_copies_.emplace_back();
  copy.data = data;
  copy.bytes = bytes;
  copy.lease = lease;
  copy.offset = offset;
}

std::uint32_t MessageBuilder::note_share(arena::LeasePtr held) {
  noted_ = true;
  const auto lease = static_cast<std::uint32_t>(leases_.size());
  leases_.emplace_back();
  pending_shares_.push_back({std::move(held), lease});
  return lease;
}

void MessageBuilder::share_instead(std::uint32_t lease, arena::LeasePtr held) {
  leases_[lease].reset();
  pending_shares_.push_back({std::move(held), lease});
}

// A block of another domain: the whole of it is copied, so that what lies in it has its places in the copy, too.
Status MessageBuilder::copy_instead(arena::Arena& arena, const PendingShare& share) {
  if (share.held->object().kind != arena::ObjectKind::kBlock)
    return {Code::kInvalid, "memory of a device or a segment of " + share.held->arena().domain().described() +
                                " cannot go into a message in " + arena.domain().described() +
                                ": copy it first"};
  Result<arena::LeasePtr> block = allocate_block(arena, arena::Kind::kShare, share.held->size());
  if (!block) return block.status();
  leases_[share.lease] = *std::move(block);
  PendingCopy& copy = pending_copies_.emplace_back();
  copy.data = share.held->data();
  copy.bytes = copy.block_bytes = share.held->size();
  copy.kind = arena::Kind::kShare;
  copy.lease = share.lease;
  return {};
}

Status MessageBuilder::allocate(arena::Arena& arena) {
  // Shares first: the lease of a copy that became a share must not be allocated again.
  for (const PendingShare& share : pending_shares_) {
    if (leases_[share.lease]) continue;
    if (&share.held->arena() != &arena) [[unlikely]] {
      if (Status status = copy_instead(arena, share); !status) return status;
      continue;
    }
    Result<arena::LeasePtr> another = arena.another(share.held);
    if (!another) return another.status();
    shared_bytes_ += share.held->size();
    leases_[share.lease] = *std::move(another);
  }
  for (const PendingCopy& copy : pending_copies_) {
    if (leases_[copy.lease]) continue;
    Result<arena::LeasePtr> block = allocate_block(arena, copy.kind, copy.block_bytes);
    if (!block) return block.status();
    leases_[copy.lease] = *std::move(block);
  }
  return {};
}

void MessageBuilder::copy() {
  std::size_t all = 0;
  for (const PendingCopy& copy : pending_copies_) all += copy.done ? 0 : copy.bytes;
  const std::size_t past_caches = all >= sync::past_caches_from() ? kLargeCopy : SIZE_MAX;
  if (pending_copies_.empty()) return;
  trace::Tracer& tracer = leases_[pending_copies_.front().lease]->arena().domain().tracer();
  const std::int64_t traced = tracer.begin(trace::Category::kMemory);
  for (PendingCopy& copy : pending_copies_) {
    if (copy.done) continue;
    std::byte* const out = leases_[copy.lease]->data() + copy.offset;
    if (copy.shape.empty() && copy.bytes >= past_caches) {
      sync::copy_past_caches(out, copy.data, copy.bytes);
    } else if (copy.shape.empty()) {
      copy_into_block(out, copy.data, copy.bytes);
    } else {
      tensor::copy_strided(out, copy.data, copy.strides, copy.shape, copy.item_size, Order::kC);
    }
    copy.done = true;
    copied_bytes_ += copy.bytes;
  }
  tracer.span(trace::EventKind::kCopy, traced, static_cast<std::uint64_t>(trace::CopyWay::kIntoArena), all);
}

void MessageBuilder::mark_copied(std::uint32_t lease) noexcept {
  for (PendingCopy& copy : pending_copies_) {
    if (copy.lease != lease || copy.done) continue;
    copy.done = true;
    copied_bytes_ += copy.bytes;
  }
}

std::uint64_t MessageBuilder::block_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const arena::LeasePtr& lease : leases_) bytes += lease ? std::max<std::uint64_t>(lease->size(), 1) : 1;
  for (const PendingCopy& copy : pending_copies_) bytes += leases_[copy.lease] ? 0 : copy.block_bytes;
  for (const PendingShare& share : pending_shares_) bytes += leases_[share.lease] ? 0 : share.held->size();
  return bytes;
}

bool MessageBuilder::holds_leases() const noexcept {
  return !pending_shares_.empty() ||
         std::any_of(leases_.begin(), leases_.end(), [](const auto& lease) { return lease != nullptr; });
}

void MessageBuilder::clear_noted() noexcept {
  pending_copies_.clear();
  pending_shares_.clear();
  noted_bytes_ = 0;
  copied_bytes_ = 0;
  shared_bytes_ = 0;
  noted_ = false;
}

}  // namespace forklift::inline abi_0_1::message
