#include "message/transport.h"

#include <array>
#include <cstring>
#include <string>

#include "message/codec.h"
#include "tensor/arena_storage.h"
#include "tensor/copy.h"

namespace forklift::message {
namespace {

// MessagePack's ext 8: what a tensor description of any rank fits into only as ext 16.
constexpr std::byte kExt8{0xc7};
constexpr std::byte kExt16{0xc8};

// What stands before a tensor's description; how long that head is.
std::size_t write_head(std::size_t ndim, std::byte* out) noexcept {
  const std::size_t size = wire::meta_bytes(ndim);
  std::size_t at = 0;
  if (size <= 0xff) {
    out[at++] = kExt8;
  } else {
    out[at++] = kExt16;
    out[at++] = static_cast<std::byte>(size >> 8);
  }
  out[at++] = static_cast<std::byte>(size & 0xff);
  out[at++] = static_cast<std::byte>(kTensorExtension);
  return at;
}

}  // namespace

Status MessageBuilder::add(const Value& value) {
  if (const auto* tensor = value.get_if<Tensor>()) return add(*tensor);
  return encode(
      value, [this](const Tensor& tensor) { return place(tensor); }, bytes_,
      [this](std::span<const std::byte> items) { return store(items); });
}

Result<std::uint32_t> MessageBuilder::store(std::span<const std::byte> bytes) {
  Result<arena::LeasePtr> block = arena_->allocate(arena::Kind::kShare, bytes.size());
  if (!block) return block.status();
  std::memcpy((*block)->data(), bytes.data(), bytes.size());
  leases_.push_back(*std::move(block));
  return static_cast<std::uint32_t>(leases_.size() - 1);
}

Status MessageBuilder::add(const Tensor& tensor) {
  std::array<std::byte, kMostTensorBytes> out;
  const std::size_t at = write_head(tensor.ndim(), out.data());
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

Result<std::uint32_t> MessageBuilder::lease_of(const Tensor& tensor) {
  if (tensor.numel() == 0) return kNoLease;
  const std::shared_ptr<Storage>& storage = tensor.storage();
  const arena::LeasePtr* lease = tensor::share_lease(*storage);
  if (lease == nullptr || &(*lease)->arena() != arena_) return kNoLease;
  // By block, not by storage: two storages may hold leases on the same one.
  const std::uint64_t block = (*lease)->handle().offset;
  for (const auto& [offset, index] : placed_) {
    if (offset == block) return index;
  }
  const auto index = static_cast<std::uint32_t>(leases_.size());
  Result<arena::LeasePtr> more = arena_->another(*lease);
  if (!more) return more.status();
  leases_.push_back(*std::move(more));
  placed_.emplace_back(block, index);
  return index;
}

Result<wire::TensorMeta> MessageBuilder::place_copy(const Tensor& tensor) {
  Result<arena::LeasePtr> block = arena_->allocate(copies_, tensor.nbytes());
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

void MessageBuilder::reset(arena::Arena& arena) noexcept {
  clear();
  arena_ = &arena;
}

void MessageBuilder::clear() noexcept {
  bytes_.clear();
  leases_.clear();
  placed_.clear();
}

LastUse::LastUse(const Tensor& tensor, const arena::Arena& arena) noexcept {
  if (tensor.numel() == 0 || tensor.storage().use_count() != 1) return;
  const arena::LeasePtr* lease = tensor::share_lease(*tensor.storage());
  if (lease == nullptr || lease->use_count() != 1 || &(*lease)->arena() != &arena) return;
  const std::size_t at = write_head(tensor.ndim(), bytes_.data());
  wire::encode_tensor(tensor, 0, bytes_.data() + at);
  size_ = at + wire::meta_bytes(tensor.ndim());
  lease_ = lease;
}

Unpacker::Unpacker(channel::Incoming& message) : leases_(std::move(message.leases())) {
  message.leases().clear();
  storages_.resize(leases_.size());
}

Result<std::shared_ptr<Storage>> Unpacker::storage(std::uint32_t index) {
  if (index >= leases_.size()) {
    return {Code::kCorrupt, "received value: memory in lease " + std::to_string(index) + " of " +
                                std::to_string(leases_.size())};
  }
  std::shared_ptr<Storage>& storage = storages_[index];
  if (!storage) {
    if (!leases_[index]) return {Code::kCorrupt, "received value: memory that could not be had before"};
    Result<std::shared_ptr<Storage>> made = tensor::received_storage(std::move(leases_[index]));
    if (!made) return made.status();
    storage = *std::move(made);
  }
  return storage;
}

Result<Tensor> Unpacker::tensor(wire::TensorMeta meta) {
  if (meta.index == kNoLease) return wire::tensor_over(std::move(meta), nullptr);
  Result<std::shared_ptr<Storage>> memory = storage(meta.index);
  if (!memory) return memory.status();
  return wire::tensor_over(std::move(meta), *std::move(memory));
}

Result<Value> unpack(channel::Incoming& message) { return unpack(message, message.bytes()); }

Result<Value> unpack(channel::Incoming& message, std::span<const std::byte> bytes) {
  Unpacker unpacker(message);
  const Fetch fetch = [&](const wire::TensorMeta& meta) { return unpacker.tensor(meta); };
  const Memory memory = [&](std::uint32_t index) { return unpacker.storage(index); };
  return message.bytes_are_private() ? decode_private(bytes, fetch, memory) : decode(bytes, fetch, memory);
}

Result<Tensor> unpack_tensor(channel::Incoming& message) {
  const std::span<const std::byte> bytes = message.bytes();
  const std::size_t header = !bytes.empty() && bytes[0] == kExt16 ? 4 : 3;
  const bool is_tensor = bytes.size() > header && (bytes[0] == kExt8 || bytes[0] == kExt16) &&
                         static_cast<std::int8_t>(bytes[header - 1]) == kTensorExtension;
  if (!is_tensor) {
    Result<Value> value = unpack(message);
    if (!value) return value.status();
    const auto* tensor = value->get_if<Tensor>();
    if (tensor == nullptr) return detail::wrong_kind(*value, "tensor");
    return *tensor;
  }
  // Its own length is checked against what is left; ext's length field adds nothing to that.
  const std::span<const std::byte> description = bytes.subspan(header);
  if (message.leases().size() == 1 && wire::index_of(description) == 0U) {
    // The common message: without tables of its leases and storages.
    Result<std::shared_ptr<Storage>> memory = tensor::received_storage(std::move(message.leases().front()));
    message.leases().clear();
    if (!memory) return memory.status();
    return wire::decode_tensor(description, *std::move(memory));
  }
  Result<wire::TensorMeta> meta = wire::decode_meta(description);
  if (!meta) return meta.status();
  return Unpacker(message).tensor(*std::move(meta));
}

}  // namespace forklift::message
