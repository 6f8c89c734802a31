// The native codec (channel codec 3): Python's plain values and NumPy arrays without pickle.
//
// MessagePack, with the extension types of Extension, each with a 32-bit length.
//
// It takes exact None, bool, int (64 bits), float, str, bytes, ndarray of builtin numbers, Tensor, torch's
// CPU tensors and frozen containers, and exact tuple, list and dict of these, within limits of depth and
// number (encode.cpp). A message in which a mutable or large object occurs twice goes to pickle as a whole,
// as does one with an object of any other type: pickle keeps the identity of objects within a message.
#pragma once

#include <Python.h>

#include "bindings/message/reader.h"
#include "bindings/message/writer.h"

namespace forklift::py {

// In place of a lease's index: the elements follow in the message.
inline constexpr std::uint32_t kInline = 0xfffffffeU;
// An array's elements lie in the message if the message stays within kInlineArrayBytes, or if they are no
// more than kSmallArrayBytes. Other arrays travel in a block of their own.
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

// The payload of extensions that lie in a lease: which one, and a length or an offset in its memory.
struct [[gnu::packed]] LeaseRange {
  std::uint32_t lease;
  std::uint64_t place;
};
static_assert(sizeof(LeaseRange) == 12);

enum class Encoded : std::uint8_t {
  kDone,
  kUnsupported,  // the object is left to pickle; the writer is empty
  kFailed        // an exception is set
};

// Appends the object to the writer's bytes.
Encoded encode_native(PyObject* object, MessageWriter& writer);

// Appends a received array that nothing but the caller's one reference refers to, with its memory (object.h). False: it
// is nothing of the kind, and the writer is as it was.
bool encode_given_array(PyObject* object, MessageWriter& writer);

// New reference, or nullptr with an exception set.
PyObject* decode_native(MessageReader& reader);

// Enters the functions for Python's own types, NumPy's arrays and frozen containers (codec_table.h). Once,
// when this module is imported.
void add_native_codec();

}  // namespace forklift::py
