#include "message/transport.h"

#include <string>

#include "message/codec.h"
#include "tensor/arena_storage.h"
#include "tensor/pending.h"

namespace forklift::inline abi_0_1::message {

LastUse::LastUse(const Tensor& tensor, const arena::Arena& arena) noexcept {
  if (tensor.numel() == 0 || tensor.storage().use_count() != 1) return;
  if (!tensor::settle(tensor)) return;  // a message of the ordinary kind says why
  const arena::LeasePtr* lease = tensor::share_lease(*tensor.storage());
  if (lease == nullptr || lease->use_count() != 1 || &(*lease)->arena() != &arena) return;
  const std::size_t at = write_tensor_head(tensor.ndim(), bytes_.data());
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

}  // namespace forklift::inline abi_0_1::message
