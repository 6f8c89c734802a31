// Frozen containers in the native codec: as handles.
#include <cstring>

#include "bindings/core/block.h"
#include "bindings/message/codec_table.h"
#include "bindings/message/encoder.h"
#include "bindings/message/frozen.h"

namespace forklift::py {

namespace {

Encoded encode_frozen(Encoder& encoder, PyObject* object, int) {
  if (!encoder.first_time(object)) return Encoded::kUnsupported;
  const FrozenObject& frozen = *as_frozen(object);
  const LeaseRange slot{place_block(frozen.block, encoder.writer().message), frozen.offset};
  encoder.extension(Extension::kFrozen, &slot, sizeof slot);
  return Encoded::kDone;
}

PyObject* decode_frozen(std::span<const std::byte> payload, MessageReader& reader) {
  LeaseRange slot{};
  if (payload.size() != sizeof slot) return corrupt_message("a reference of another length");
  std::memcpy(&slot, payload.data(), sizeof slot);
  PyObject* block = take_block(reader, slot.lease, static_cast<std::uint8_t>(BlockMode::kFrozen));
  return block ? open_frozen(block, slot.place) : nullptr;
}

}  // namespace

void register_frozen_codec() {
  register_encoder_of_subclasses(frozen_type(), encode_frozen);
  register_decoder(Extension::kFrozen, decode_frozen);
}

}  // namespace forklift::py
