// What the functions of the native codec write with (codec_table.h).
//
//   Encoded encode_point(Encoder& encoder, PyObject* object, int) {
//     if (!encoder.first_time(object)) return Encoded::kUnsupported;
//     encoder.extension(Extension::kPoint, &point, sizeof point);
//     return Encoded::kDone;
//   }
#pragma once

#include <Python.h>

#include <array>
#include <cstring>
#include <vector>

#include "bindings/message/native.h"
#include "message/wire.h"

namespace forklift::py {

class Encoder {
 public:
  explicit Encoder(MessageWriter& writer);
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Any object, by the function for its type.
  Encoded encode(PyObject* object, int depth);
  // The items of a list or tuple.
  Encoded encode_items(PyObject** first, Py_ssize_t count, int depth);

  MessageWriter& writer() noexcept { return writer_; }
  std::vector<std::byte>& bytes() noexcept { return out_; }

  // False: the message has this object already. The function for a mutable or large object then leaves the
  // message to pickle, which keeps identity.
  bool first_time(PyObject* object) noexcept;

  void byte(std::uint8_t value) { out_.push_back(static_cast<std::byte>(value)); }
  void append(const void* from, std::size_t count) {
    const auto* bytes = static_cast<const std::byte*>(from);
    out_.insert(out_.end(), bytes, bytes + count);
  }
  // A code of MessagePack's with its number.
  template <class T>
  void big_endian(std::uint8_t code, T value) {
    std::array<std::byte, 1 + sizeof value> out;
    out[0] = static_cast<std::byte>(code);
    store_big_endian(out.data() + 1, value);
    append(out.data(), out.size());
  }

  // An extension with its payload; the caller appends `following` bytes more.
  void extension(Extension type, const void* payload, std::size_t length, std::size_t following = 0);
  void extension(Extension type, const wire::TensorMeta& meta, std::size_t following = 0);
  // An extension whose length is known at its end only. end_extension() takes what this returns.
  std::size_t begin_extension(Extension type);
  void end_extension(std::size_t begin);

 private:
  Py_ssize_t encode_numbers(PyObject** first, Py_ssize_t count);
  template <class T>
  static void store_big_endian(std::byte* to, T value) {
    if constexpr (sizeof value == 2)
      value = static_cast<T>(__builtin_bswap16(static_cast<std::uint16_t>(value)));
    if constexpr (sizeof value == 4)
      value = static_cast<T>(__builtin_bswap32(static_cast<std::uint32_t>(value)));
    if constexpr (sizeof value == 8)
      value = static_cast<T>(__builtin_bswap64(static_cast<std::uint64_t>(value)));
    std::memcpy(to, &value, sizeof value);
  }

  MessageWriter& writer_;
  std::vector<std::byte>& out_;
  int nodes_ = 0;
};

}  // namespace forklift::py
