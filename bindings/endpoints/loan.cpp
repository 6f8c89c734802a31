#include "bindings/endpoints/loan.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "bindings/core/block.h"
#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/endpoints/queue_object.h"
#include "bindings/message/native.h"
#include "bindings/message/numpy.h"
#include "bindings/message/transfer.h"
#include "message/transport.h"
#include "message/wire.h"
#include "tensor/extent.h"

namespace forklift::py {

namespace {

struct LoanObject {
  PyObject ob_base;
  PyObject* queue;
  PyObject* shape;    // as given; null once entered
  PyObject* dtype;    // may be null
  PyObject* block;    // put's arguments; may be null
  PyObject* timeout;  //
  PyObject* array;    // while the with block runs
  PyObject* inner;    // null for an array without elements, which needs no block
  std::uint8_t code;  // its dtype
};

PyTypeObject* loan_type = nullptr;

LoanObject* as_loan(PyObject* self) noexcept { return reinterpret_cast<LoanObject*>(self); }

void loan_dealloc(PyObject* self) {
  LoanObject* loan = as_loan(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject* held[] = {loan->queue,   loan->shape, loan->dtype, loan->block,
                      loan->timeout, loan->array, loan->inner};
  type->tp_free(self);
  Py_DECREF(type);
  for (PyObject* object : held) Py_XDECREF(object);
}

ArrayHead& head(PyObject* array) noexcept { return *reinterpret_cast<ArrayHead*>(array); }

// An int or a sequence of ints. False with an exception set.
bool parse_shape(PyObject* given, Dims& shape) {
  const auto add = [&](PyObject* item) {
    const Py_ssize_t length = PyNumber_AsSsize_t(item, PyExc_OverflowError);
    if (length == -1 && PyErr_Occurred()) return false;
    shape.push_back(length);
    return true;
  };
  shape = Dims(0, 0);
  if (PyIndex_Check(given)) return add(given);
  PyObject* items = PySequence_Fast(given, "loan() takes a shape: an integer or a sequence of integers");
  if (!items) return false;
  bool done = true;
  for (Py_ssize_t i = 0; done && i < PySequence_Fast_GET_SIZE(items); ++i) {
    done = add(PySequence_Fast_GET_ITEM(items, i));
  }
  Py_DECREF(items);
  return done;
}

// The number of a dtype, or of what numpy.dtype() makes one of; 0 with an exception set.
std::uint8_t parse_dtype(const NumPy& numpy, PyObject* given) {
  PyObject* make = import_attribute("numpy", "empty");
  PyObject* probe = make ? PyObject_CallFunction(make, "iO", 0, given ? given : Py_None) : nullptr;
  Py_XDECREF(make);
  if (!probe) return 0;
  const std::uint8_t code = numpy.dtype_code(head_of(probe));
  Py_DECREF(probe);
  if (code == 0) {
    PyErr_Format(PyExc_TypeError, "a loan's dtype is bool, an integer, a float or complex, not %R", given);
  }
  return code;
}

// Makes an array over our memory read-only and empty; one without dimensions keeps one element, of no
// meaning. Precondition: the array does not own its memory, since it would free the address that it has now.
struct Emptied {
  char* data;
  int flags;
  Dims shape;
};
Emptied empty_array(PyObject* array) {
  alignas(16) static char nowhere[16];
  ArrayHead& its = head(array);
  const auto ndim = static_cast<std::size_t>(its.ndim);
  Emptied was{its.data, its.flags, Dims(DimSpan(reinterpret_cast<const std::int64_t*>(its.shape), ndim))};
  its.data = nowhere;
  its.flags &= ~kArrayWritable;
  std::fill_n(its.shape, ndim, Py_ssize_t{0});
  return was;
}
void restore_array(PyObject* array, const Emptied& was) {
  ArrayHead& its = head(array);
  its.data = was.data;
  its.flags = was.flags;
  std::copy(was.shape.begin(), was.shape.end(), its.shape);
}

// Before 3.13 a function's frame keeps the dictionary that f_locals has returned, and so everything in it.
void forget_locals(PyObject* frame, PyObject* locals) {
  PyCodeObject* code = PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(frame));
  const bool told = (code->co_flags & CO_OPTIMIZED) != 0 && PyDict_CheckExact(locals);
  Py_DECREF(code);
  if (told && Py_REFCNT(locals) == 2) PyDict_Clear(locals);  // the frame's and ours
}

Py_ssize_t names_in(PyObject* locals, PyObject* array) {
  Py_ssize_t names = 0;
  if (PyDict_CheckExact(locals)) {
    PyObject* value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(locals, &at, nullptr, &value)) names += value == array ? 1 : 0;
    return names;
  }
  PyObject* values = PyMapping_Values(locals);
  for (Py_ssize_t i = 0; values && i < PyList_GET_SIZE(values); ++i) {
    names += PyList_GET_ITEM(values, i) == array ? 1 : 0;
  }
  Py_XDECREF(values);
  return names;
}

// How many local or global names mean `array` in the innermost frame that has any.
Py_ssize_t names_of(PyObject* array) {
  static PyObject* const f_locals = PyUnicode_InternFromString("f_locals");
  static PyObject* const f_back = PyUnicode_InternFromString("f_back");
  PyObject* frame = Py_XNewRef(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  Py_ssize_t names = 0;
  for (int depth = 0; depth < 16 && frame && frame != Py_None; ++depth) {
    PyObject* locals = PyObject_GetAttr(frame, f_locals);
    if (locals) {
      names = names_in(locals, array);
      forget_locals(frame, locals);
      Py_DECREF(locals);
    }
    if (names != 0) break;
    PyObject* outer = PyObject_GetAttr(frame, f_back);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  PyErr_Clear();
  return names;
}

// Whether only the loan and names of the program refer to the memory.
bool nobody_looks(const LoanObject& loan) {
  const Py_ssize_t holders = Py_REFCNT(loan.array);  // counted first: f_locals of a frame adds references
  PyObject* block = head(loan.inner).base;
  const arena::LeasePtr& lease = block_lease(block);
  if (Py_REFCNT(loan.inner) != 2 || Py_REFCNT(block) != 1 || block_is_exported(block)) return false;
  if (!lease || !lease->held() || lease->arena().holders(*lease) != 1) return false;
  return holders == 1 || holders == 1 + names_of(loan.array);
}

PyObject* raise_unsent(PyObject* queue, const Status& status) {
  if (status.code() == Code::kPeerDied && !as_queue(queue)->closed) {
    errno = EPIPE;
    return PyErr_SetFromErrno(PyExc_OSError);
  }
  return raise_failure(status, "Full");
}

// The description of an array whose elements lie in the message's first lease (Extension::kArray).
std::size_t describe(const LoanObject& loan, std::array<std::byte, wire::kMaxMetaBytes + 6>& out) {
  const ArrayHead& its = head(loan.array);
  wire::TensorMeta meta;
  meta.dtype = static_cast<DType>(loan.code);
  meta.shape =
      Dims(DimSpan(reinterpret_cast<const std::int64_t*>(its.shape), static_cast<std::size_t>(its.ndim)));
  meta.strides = c_strides(meta.shape);
  const std::size_t size = wire::meta_bytes(meta.shape.size());
  const std::uint32_t length = __builtin_bswap32(static_cast<std::uint32_t>(size));
  out[0] = std::byte{0xc9};
  std::memcpy(&out[1], &length, sizeof length);
  out[5] = static_cast<std::byte>(Extension::kArray);
  wire::encode_meta(meta, &out[6]);
  return size + 6;
}

// Sends the memory itself. The array is emptied first, so that nobody here sees the memory while it is on its
// way, and gets it back if the message is not sent.
PyObject* send_as_it_lies(LoanObject& loan, const channel::ChannelPtr& channel, const Waiting& waiting) {
  std::array<std::byte, wire::kMaxMetaBytes + 6> bytes;
  const std::size_t count = describe(loan, bytes);
  PyObject* block = head(loan.inner).base;
  const Emptied array = empty_array(loan.array);
  const Emptied inner = empty_array(loan.inner);
  const arena::LeasePtr lease = empty_block(block);
  const Status status = send_made(*channel, {{bytes.data(), count}, {&lease, 1}, message::kNativeCodec, 0},
                                  waiting.deadline, as_queue(loan.queue)->orphan_fd);
  if (status) {
    counters.shared_bytes.fetch_add(lease->size(), std::memory_order_relaxed);
    Py_RETURN_NONE;
  }
  refill_block(block, lease);
  restore_array(loan.inner, inner);
  restore_array(loan.array, array);
  return raise_unsent(loan.queue, status);
}

PyObject* send_copy(LoanObject& loan, const channel::ChannelPtr& channel, const Waiting& waiting) {
  const SendResult result = send_object(*channel, loan.array, Format::kPython, waiting.deadline,
                                        waiting.block, as_queue(loan.queue)->orphan_fd);
  if (result.sent == Sent::kUnpicklable) return nullptr;
  if (result.sent == Sent::kFailed) return raise_unsent(loan.queue, result.status);
  if (loan.inner) (void)empty_array(loan.array);  // one without elements owns its memory
  Py_RETURN_NONE;
}

PyObject* loan_enter(PyObject* self, PyObject*) {
  LoanObject& loan = *as_loan(self);
  if (!loan.shape) {
    PyErr_SetString(PyExc_RuntimeError, "a loan can be entered once");
    return nullptr;
  }
  const NumPy* numpy = NumPy::require();
  if (!numpy) return nullptr;
  Dims shape;
  loan.code = parse_dtype(*numpy, loan.dtype);
  if (loan.code == 0 || !parse_shape(loan.shape, shape)) return nullptr;
  const auto dtype = static_cast<DType>(loan.code);
  const Result<std::int64_t> bytes = tensor::byte_count(shape, item_size(dtype));
  if (!bytes) return raise(bytes.status());
  if (*bytes == 0) {
    loan.array = numpy->empty(dtype, shape, Order::kC);
  } else {
    Waiting waiting;
    if (!waiting.parse(loan.block, loan.timeout)) return nullptr;
    const channel::ChannelPtr channel = as_queue(loan.queue)->channel;
    Result<arena::LeasePtr> lease = allocate_patiently(
        *channel, arena::Kind::kPrivate, static_cast<std::size_t>(*bytes), waiting.deadline, waiting.block);
    if (!lease) return raise(lease.status());
    std::byte* data = (*lease)->data();
    PyObject* block = make_block(*std::move(lease), 0, static_cast<std::size_t>(*bytes), true);
    if (!block) return nullptr;
    loan.inner = numpy->over(data, dtype, shape, Order::kC, true, block);
    if (!loan.inner) return nullptr;
    loan.array = numpy->over(data, dtype, shape, Order::kC, true, Py_NewRef(loan.inner));
  }
  if (!loan.array) return nullptr;
  Py_CLEAR(loan.shape);
  return Py_NewRef(loan.array);
}

PyObject* loan_exit(PyObject* self, PyObject* arguments) {
  PyObject* raised = nullptr;
  PyObject* ignored[2] = {};
  if (!PyArg_ParseTuple(arguments, "OOO:__exit__", &raised, &ignored[0], &ignored[1])) return nullptr;
  // Taken out of the object: signal handlers and other threads may run while this waits.
  LoanObject loan = *as_loan(self);
  as_loan(self)->array = nullptr;
  as_loan(self)->inner = nullptr;
  if (!loan.array) {
    PyErr_SetString(PyExc_RuntimeError, "a loan that was not entered, or was left already");
    return nullptr;
  }
  PyObject* done = nullptr;
  const bool sole = loan.inner && nobody_looks(loan);
  if (raised != Py_None) {
    if (sole) {
      arena::LeasePtr lease = empty_block(head(loan.inner).base);
      (void)empty_array(loan.array);
      (void)empty_array(loan.inner);
      const GilRelease released;
      lease.reset();
    }
    done = Py_NewRef(Py_None);
  } else {
    Waiting waiting;
    const QueueObject& queue = *as_queue(loan.queue);
    const channel::ChannelPtr channel = queue.channel;
    if (queue.closed || queue.writer_closed) {
      raise_closed(loan.queue);
    } else if (waiting.parse(loan.block, loan.timeout)) {
      done = sole ? send_as_it_lies(loan, channel, waiting) : send_copy(loan, channel, waiting);
    }
  }
  const KeepError keep;
  Py_DECREF(loan.array);
  Py_XDECREF(loan.inner);
  return done;
}

}  // namespace

PyObject* new_loan(PyObject* queue, PyObject* shape, PyObject* dtype, PyObject* block, PyObject* timeout) {
  if (as_queue(queue)->format != Format::kPython) {
    PyErr_SetString(PyExc_TypeError,
                    "this queue's receivers share its tensors: put a forklift.empty(shape, dtype) instead");
    return nullptr;
  }
  PyObject* self = loan_type->tp_alloc(loan_type, 0);
  if (!self) return nullptr;
  LoanObject& loan = *as_loan(self);
  loan.queue = Py_NewRef(queue);
  loan.shape = Py_NewRef(shape);
  loan.dtype = Py_XNewRef(dtype);
  loan.block = Py_XNewRef(block);
  loan.timeout = Py_XNewRef(timeout);
  return self;
}

int add_loan_type(PyObject* module) {
  static PyMethodDef methods[] = {
      {"__enter__", loan_enter, METH_NOARGS, nullptr},
      {"__exit__", loan_exit, METH_VARARGS, nullptr},
      {nullptr, nullptr, 0, nullptr},
  };
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(loan_dealloc)},
      {Py_tp_methods, methods},
      {0, nullptr},
  };
  static PyType_Spec spec = {"forklift._core.Loan", sizeof(LoanObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) return -1;
  loan_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, "Loan", type);
}

}  // namespace forklift::py
