// The native codec (channel codec 3): Python's plain values and NumPy arrays without pickle.
//
// MessagePack, with the extension types of Extension, each with a 32-bit length.
//
// What it takes: exact None, bool, int (64 bits), float, str, bytes, ndarray of builtin numbers, Tensor,
// torch's CPU tensors, frozen containers; exact tuple, list and dict of these, kMaxDepth deep and of
// kMaxNodes at most; nothing that could tell identity twice. Whatever else goes to pickle, as a whole, so
// that identity within a message is kept.
#pragma once

#include <Python.h>

#include "bindings/message/reader.h"
#include "bindings/message/writer.h"

namespace forklift::py {

inline constexpr std::uint32_t kInline = 0xfffffffeU;
// Larger arrays travel in a block of their own.
inline constexpr std::size_t kInlineArrayBytes = 7 * 1024;
inline constexpr std::size_t kSmallArrayBytes = 4 * 1024;
inline constexpr std::size_t kInlineBytesBytes = 32 * 1024;

// The extension types, for both directions.
enum class Extension : std::uint8_t {
  kTensor = 1,  // forklift.Tensor: wire.h, its index naming a lease of the message; as in portable values
  kTuple = 2,   // the MessagePack array of its items
  kArray = 3,   // NumPy array: wire.h; the elements follow if its index is kInline, else they are in a lease
  kBytes = 4,   // bytes in a lease: {u32 index, u64 length}
  kText = 5,    // str in a lease, UTF-8: as kBytes
  kSharedArray = 6,  // NumPy array over shared or frozen memory: {u8 BlockMode}, then wire.h
  kFrozen = 7,       // frozen container: {u32 index, u64 offset of its slot} (message/frozen.h)
  kTorchTensor = 8,  // torch's CPU tensor: torch/codec.h
};

enum class Encoded : std::uint8_t {
  kDone,
  kUnsupported,  // not for this codec; the writer is empty
  kFailed        // an exception is set
};

// Behind what the writer's bytes hold already.
Encoded encode_native(PyObject* object, MessageWriter& writer);

// New reference, or nullptr with an exception set.
PyObject* decode_native(MessageReader& reader);

}  // namespace forklift::py
