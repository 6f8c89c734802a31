#include "bindings/message/foreign.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/tensor/numpy.h"
#include "bindings/tensor/tensor.h"
#include "tensor/operations.h"
#include "tensor/storage.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

thread_local bool delivering = false;

// The same memory as elements of another type of the same size, and not read-only.
nb::object view_as(const TensorBox& self, const std::string& dtype) {
  const Tensor& tensor = self.tensor;
  const std::optional<DType> wanted = dtype_from_name(dtype);
  if (!wanted || item_size(*wanted) != tensor.item_size()) {
    throw nb::type_error((tensor.to_string() + " cannot be looked at as " + dtype).c_str());
  }
  std::shared_ptr<Storage> storage = tensor.storage();
  if (!storage) storage = *tensor::heap_storage(0);
  Result<Tensor> view = tensor::wrap_strided(std::move(storage), *wanted, tensor.shape(), tensor.strides(),
                                             tensor.byte_offset());
  if (!view) {
    raise(view.status());
    throw nb::python_error();
  }
  return nb::steal(wrap_tensor(*std::move(view)));
}

}  // namespace

Delivery::Scope::Scope(const Delivery* delivery) noexcept
    : before_(std::exchange(delivering, delivery != nullptr && delivery->convert_ != nullptr)) {}
Delivery::Scope::~Scope() { delivering = before_; }

bool Delivery::open(PyObject* framework) {
  if (!framework || framework == Py_None) return true;
  PyObject* deliver = import_attribute("forklift.adapters", "deliver");
  convert_ = deliver ? PyObject_CallOneArg(deliver, framework) : nullptr;
  Py_XDECREF(deliver);
  return convert_ != nullptr;
}

bool Delivery::parse_copy(PyObject* copy) {
  const int truth = copy != nullptr ? PyObject_IsTrue(copy) : 1;
  lends_ = truth == 0;
  return truth >= 0;
}

PyObject* Delivery::finish(PyObject* object) const {
  if (!object || !convert_) return object;
  PyObject* converted = PyObject_CallOneArg(convert_, object);
  const KeepError keep;
  Py_DECREF(object);
  return converted;
}

bool only_as(const char* method, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
             PyObject*& as, PyObject** copy) {
  if (count != 0) {
    PyErr_Format(PyExc_TypeError, "%s() takes no positional arguments (%zd given)", method, count);
    return false;
  }
  const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
    if (PyUnicode_CompareWithASCIIString(keyword, "as_") == 0) {
      as = arguments[count + i];
    } else if (copy != nullptr && PyUnicode_CompareWithASCIIString(keyword, "copy") == 0) {
      *copy = arguments[count + i];
    } else {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", method, keyword);
      return false;
    }
  }
  return true;
}

void bind_foreign(nb::module_& module) {
  module.def("_delivering", [] { return delivering; });
  module.def("_view", view_as);
  // A tensor over an object's memory, and the name of its element type: where that is none of ours the tensor
  // is one of unsigned integers of the same size.
  module.def("_import_any", [](nb::handle object) {
    Tensor tensor;
    std::string unknown;
    if (!tensor_from_dlpack(object.ptr(), tensor, &unknown)) throw nb::python_error();
    if (unknown.empty()) unknown = name(tensor.dtype());
    return std::pair(nb::steal(wrap_tensor(std::move(tensor))), unknown);
  });
}

}  // namespace forklift::py
