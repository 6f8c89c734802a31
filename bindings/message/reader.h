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

struct MessageReader {
  channel::Incoming message;
  // Where in the message the encoded value begins: what lies before is the taker's.
  std::size_t begin = 0;
  // For each lease: may its memory become an object as it is? Small ones are copied, and so are those for
  // which no address space of their own could be had.
  std::vector<bool> keep;
  // For leases that became storages of torch's: a tensor over each, a reference of ours, or null.
  std::vector<PyObject*> bases;

  std::span<const std::byte> body() const noexcept { return message.bytes().subspan(begin); }
  // Makes large private payloads this process's own; where others have them too (`copied`), by copying when
  // they become objects. Without the interpreter lock.
  void isolate(bool copied = false);
  // Gives up what was not turned into objects. With the interpreter lock; releases it where that waits.
  void clear();

  // Memory of a lease as a writable (or read-only) object that supports the buffer protocol: a Block, or a
  // copy. Every lease can be had once. New reference, or nullptr with an exception set.
  PyObject* buffer(std::size_t lease, std::size_t length, bool writable);
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

// A reader that is not in use: unpickling may run a program's code, which may get.
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

// Sets CorruptError: a message of ours that says what no sender of ours writes. Returns nullptr.
PyObject* corrupt_message(const char* what);

}  // namespace forklift::py
