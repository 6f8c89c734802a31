// A message on its way in: taken from the channel without the interpreter lock, turned into objects with it.
#pragma once

#include <Python.h>

#include <memory>
#include <span>
#include <vector>

#include "bindings/message/numpy.h"
#include "channel/channel.h"
#include "forklift/dtype.h"
#include "forklift/shape.h"

namespace forklift::py {

// With copy=False, bytes of more than this are lent.
inline constexpr std::size_t kLentBytes = std::size_t{1} << 20;

struct MessageReader {
  channel::Incoming message;
  // Where the encoded value begins in the message. The code that takes the message reads what lies before it,
  // such as the head of a pool's task.
  std::size_t begin = 0;
  // Why a named segment of the message could not be opened, if so: the message cannot be decoded.
  Status unopened;
  // For each lease, whether its memory becomes an object without a copy. Small payloads are copied, and so
  // are those for which the private range has no room.
  std::vector<bool> keep;
  // Large bytes become read-only views over their blocks, which hold the leases, and not objects of their own.
  bool lend = false;
  // For each lease that became a storage of torch's, a tensor over it: a reference of ours, or null.
  std::vector<PyObject*> bases;

  std::span<const std::byte> body() const noexcept { return message.bytes().subspan(begin); }
  // Moves large private payloads to this process's view of the private range, and opens named segments.
  // `copied`: other processes receive the same message, so the payloads are copied instead, when they become
  // objects. Without the interpreter lock.
  void isolate(bool copied = false);
  // Gives up the leases that did not become objects. With the interpreter lock, which is released meanwhile.
  void clear();

  // Memory of a lease as a writable (or read-only) object that supports the buffer protocol: a Block, or a
  // copy. Each lease can be taken once. New reference, or nullptr with an exception set.
  PyObject* buffer(std::size_t lease, std::size_t length, bool writable);
  // A lease's memory as bytes: a memoryview where they are lent, else a copy.
  PyObject* bytes(std::size_t lease, std::size_t length);
  // An array over the lease, where `keep` says so, or a copy of it.
  PyObject* array(const NumPy& numpy, std::size_t lease, std::size_t length, DType dtype, DimSpan shape,
                  Order order, bool writable);
  // Bytes [0, length) of lease; nullptr with CorruptError set where that is outside.
  const std::byte* data(std::size_t lease, std::size_t length);

 private:
  PyObject* array_over(const NumPy& numpy, std::size_t lease, std::size_t length, DType dtype, DimSpan shape,
                       Order order, bool writable);
};

// A new array with these elements. New reference, or nullptr with an exception set.
PyObject* copy_array(const NumPy& numpy, const std::byte* from, std::size_t length, DType dtype,
                     DimSpan shape, Order order, bool writable);

// Lends a reader that nobody uses, so that its memory is reused. Unpickling may run a program's code, which
// may get from a queue and needs a reader of its own.
class ReaderLoan {
 public:
  ReaderLoan();
  ~ReaderLoan();
  ReaderLoan(const ReaderLoan&) = delete;
  ReaderLoan& operator=(const ReaderLoan&) = delete;
  MessageReader& operator*() const noexcept { return *reader_; }
  MessageReader* operator->() const noexcept { return reader_.get(); }

 private:
  std::unique_ptr<MessageReader> reader_;
};

// Sets CorruptError, for a message that no sender of ours can have written. Returns nullptr.
PyObject* corrupt_message(const char* what);

}  // namespace forklift::py
