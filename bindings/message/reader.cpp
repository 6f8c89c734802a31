#include "bindings/message/reader.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "bindings/core/block.h"
#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "tensor/arena_storage.h"

namespace forklift::py {

PyObject* corrupt_message(const char* what) {
  return raise({Code::kCorrupt, std::string("a message does not decode: ") + what});
}

void MessageReader::isolate(bool copied) {
  auto& leases = message.leases();
  keep.assign(leases.size(), true);
  for (std::size_t i = 0; i < leases.size(); ++i) {
    arena::Lease& lease = *leases[i];
    if (Status opened = lease.arena().open_memory(lease); !opened) unopened = std::move(opened);
    if (copied || lease.size() <= tensor::kHeapCopyBytes) {
      keep[i] = lease.kind() == arena::Kind::kShare;
    } else if (lease.kind() == arena::Kind::kPrivate) {
      keep[i] = lease.arena().privatise(lease).ok();
    }
  }
}

void MessageReader::clear() {
  begin = 0;
  lend = false;
  unopened = Status();
  if (!bases.empty()) {
    const std::vector<PyObject*> done = std::move(bases);
    bases.clear();
    for (PyObject* base : done) Py_XDECREF(base);
  }
  const auto& leases = message.leases();
  const bool any =
      !message.bytes_are_private() ||
      std::any_of(leases.begin(), leases.end(), [](const auto& lease) { return lease != nullptr; });
  if (any) {
    const GilRelease released;
    message.clear();
  } else {
    message.clear();
  }
}

const std::byte* MessageReader::data(std::size_t lease, std::size_t length) {
  auto& leases = message.leases();
  if (lease >= leases.size() || !leases[lease] || leases[lease]->data() == nullptr ||
      length > leases[lease]->size()) {
    corrupt_message("it refers to a block that it does not have");
    return nullptr;
  }
  return leases[lease]->data();
}

PyObject* MessageReader::buffer(std::size_t lease, std::size_t length, bool writable) {
  const std::byte* from = data(lease, length);
  if (!from) return nullptr;
  if (keep[lease]) return make_block(std::move(message.leases()[lease]), 0, length, writable);
  const auto* text = reinterpret_cast<const char*>(from);
  return writable ? PyByteArray_FromStringAndSize(text, static_cast<Py_ssize_t>(length))
                  : PyBytes_FromStringAndSize(text, static_cast<Py_ssize_t>(length));
}

PyObject* MessageReader::bytes(std::size_t lease, std::size_t length) {
  const std::byte* from = data(lease, length);
  if (!from) return nullptr;
  if (!lend || length <= kLentBytes || !keep[lease])
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(from), static_cast<Py_ssize_t>(length));
  // The sender has given its right away, and no receiver may write: nobody changes the memory while the view is there.
  PyObject* block = make_block(std::move(message.leases()[lease]), 0, length, false);
  PyObject* view = block ? PyMemoryView_FromObject(block) : nullptr;
  Py_XDECREF(block);
  return view;
}

PyObject* MessageReader::array(const NumPy& numpy, std::size_t lease, std::size_t length, DType dtype,
                               DimSpan shape, Order order, bool writable) {
  const std::byte* from = data(lease, length);
  if (!from) return nullptr;
  return keep[lease] ? array_over(numpy, lease, length, dtype, shape, order, writable)
                     : copy_array(numpy, from, length, dtype, shape, order, writable);
}

PyObject* MessageReader::array_over(const NumPy& numpy, std::size_t lease, std::size_t length, DType dtype,
                                    DimSpan shape, Order order, bool writable) {
  arena::LeasePtr& held = message.leases()[lease];
  std::byte* memory = held->data();
  PyObject* block = make_block(std::move(held), 0, length, writable);
  return block ? numpy.over(memory, dtype, shape, order, writable, block) : nullptr;
}

PyObject* copy_array(const NumPy& numpy, const std::byte* from, std::size_t length, DType dtype,
                     DimSpan shape, Order order, bool writable) {
  PyObject* array = numpy.empty(dtype, shape, order);
  if (!array) return nullptr;
  if (length != 0) std::memcpy(head_of(array).data, from, length);
  if (!writable) reinterpret_cast<ArrayHead*>(array)->flags &= ~kArrayWritable;
  return array;
}

namespace {
// Under the interpreter lock.
std::vector<std::unique_ptr<MessageReader>>& idle_readers() {
  static auto* const idle = new std::vector<std::unique_ptr<MessageReader>>;
  return *idle;
}
}  // namespace

ReaderLoan::ReaderLoan() {
  auto& idle = idle_readers();
  if (idle.empty()) {
    reader_ = std::make_unique<MessageReader>();
  } else {
    reader_ = std::move(idle.back());
    idle.pop_back();
  }
}

ReaderLoan::~ReaderLoan() {
  reader_->clear();
  auto& idle = idle_readers();
  if (idle.size() < 8) idle.push_back(std::move(reader_));
}

}  // namespace forklift::py
