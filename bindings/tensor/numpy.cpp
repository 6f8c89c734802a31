#include "bindings/tensor/numpy.h"

#include <nanobind/stl/pair.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/core/block.h"
#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/message/numpy.h"
#include "bindings/tensor/tensor.h"
#include "device/cuda/gpu.h"
#include "device/device.h"
#include "forklift/dlpack.h"
#include "ops/placement.h"
#include "tensor/arena_storage.h"
#include "tensor/copy.h"
#include "tensor/dlpack.h"
#include "tensor/extent.h"
#include "tensor/operations.h"
#include "tensor/storage.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

bool array_view(PyObject* object, const ArrayHead& array, DType dtype, Tensor& tensor) {
  const auto ndim = static_cast<std::size_t>(array.ndim);
  const std::size_t item = item_size(dtype);
  Dims shape(DimSpan(reinterpret_cast<const std::int64_t*>(array.shape), ndim));
  const DimSpan bytes(reinterpret_cast<const std::int64_t*>(array.strides), ndim);
  const Result<tensor::Extent> extent = tensor::byte_extent(shape, bytes, item, 1);
  if (!extent) return raise(extent.status()) != nullptr;
  Dims strides(ndim, 0);
  for (std::size_t i = 0; i < ndim; ++i) {
    if (bytes[i] % static_cast<std::int64_t>(item) != 0) {
      PyErr_SetString(
          PyExc_TypeError,
          "the array's strides do not count whole elements (a field of a structured array?); copy it");
      return false;
    }
    strides[i] = bytes[i] / static_cast<std::int64_t>(item);
  }
  std::int64_t offset = -extent->low;
  Result<std::shared_ptr<Storage>> storage = Status();
  if (PyObject* block = block_under(object)) {  // shared or frozen: a tensor of the same block
    storage = tensor::storage_over(block_lease(block));
    offset = extent->high == 0 ? 0 : reinterpret_cast<std::byte*>(array.data) - (*storage)->data();
  } else {
    storage = tensor::borrowed_storage(
        array.data + extent->low, static_cast<std::size_t>(extent->high - extent->low), keep_object(object));
  }
  if (!storage) return raise(storage.status()) != nullptr;
  Result<Tensor> made =
      tensor::wrap_strided(*std::move(storage), dtype, std::move(shape), std::move(strides),
                           static_cast<std::size_t>(offset), (array.flags & kArrayWritable) == 0);
  if (!made) return raise(made.status()) != nullptr;
  tensor = *std::move(made);
  return true;
}

// "dltensor" capsules that nobody consumed still own their tensor.
void drop_versioned(PyObject* capsule) {
  auto* managed = static_cast<dlpack::ManagedTensorVersioned*>(
      PyCapsule_IsValid(capsule, "dltensor_versioned") ? PyCapsule_GetPointer(capsule, "dltensor_versioned")
                                                       : nullptr);
  if (managed && managed->deleter) managed->deleter(managed);
}
void drop_plain(PyObject* capsule) {
  auto* managed = static_cast<dlpack::ManagedTensor*>(
      PyCapsule_IsValid(capsule, "dltensor") ? PyCapsule_GetPointer(capsule, "dltensor") : nullptr);
  if (managed && managed->deleter) managed->deleter(managed);
}

// Of an object on a GPU, the stream on which Forklift will work with it: its producer orders its own work before. 0: the
// object is on no GPU. nullopt with an exception set.
std::optional<std::intptr_t> stream_for(nb::handle object) {
  const nb::object asked = nb::getattr(object, "__dlpack_device__", nb::none());
  if (asked.is_none()) return 0;
  const auto [type, number] = nb::cast<std::pair<int, int>>(asked());
  if (type != dlpack::kCuda) return 0;
  const Result<std::shared_ptr<device::Device>> device = device::open_gpu(number);
  if (!device) {
    raise(device.status());
    return std::nullopt;
  }
  return reinterpret_cast<std::intptr_t>((*device)->gpu()->stream());
}

PyObject* call_dlpack(PyObject* object) {
  try {
    const std::optional<std::intptr_t> stream = stream_for(object);
    if (!stream) return nullptr;
    const nb::object method = nb::borrow(object).attr("__dlpack__");
    nb::dict names;
    if (*stream != 0) names["stream"] = *stream;
    nb::dict versioned;
    versioned.update(names);
    versioned["max_version"] = nb::make_tuple(1, 0);
    PyObject* const none = PyTuple_New(0);
    if (!none) return nullptr;
    PyObject* capsule = PyObject_Call(method.ptr(), none, versioned.ptr());
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
      PyErr_Clear();  // older than DLPack 1.0
      capsule = PyObject_Call(method.ptr(), none, names.ptr());
    }
    Py_DECREF(none);
    return capsule;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const nb::cast_error&) {
    PyErr_SetString(PyExc_TypeError, "__dlpack_device__() has not returned two integers");
  }
  return nullptr;
}

// Makes elements of an unknown type unsigned integers, and says what they were.
void as_bits(dlpack::DataType& type, std::string* unknown) {
  if (!unknown || dlpack::from_dlpack(type)) return;
  const std::string_view name = dlpack::type_name(type);
  if (name.empty()) return;
  *unknown = name;
  type.code = dlpack::kUInt;
}

}  // namespace

bool tensor_from_array(PyObject* object, Tensor& tensor) {
  const NumPy* numpy = NumPy::loaded();
  if (!numpy) return false;
  const bool scalar = numpy->is_scalar(object);
  if (!scalar && !numpy->is_array_or_subclass(object)) return false;
  PyObject* array = scalar ? numpy->as_array(object) : Py_NewRef(object);
  if (!array) return false;
  const std::uint8_t code = numpy->dtype_code(head_of(array));
  bool done = false;
  if (code == 0) {
    PyErr_SetString(PyExc_TypeError,
                    "a tensor holds bool, integers, floats or complex numbers in native byte order");
  } else {
    done = array_view(array, head_of(array), static_cast<DType>(code), tensor);
  }
  Py_DECREF(array);
  return done;
}

PyObject* array_over_tensor(PyObject* object) {
  const NumPy* numpy = NumPy::require();
  if (!numpy) return nullptr;
  const Tensor& tensor = tensor_of(object);
  if (tensor.dtype() == DType::kBFloat16) {
    PyErr_SetString(
        PyExc_TypeError,
        "NumPy has no bfloat16; use torch.from_dlpack(tensor), or get(as_='numpy') with ml_dtypes");
    return nullptr;
  }
  if (tensor.numel() == 0) return numpy->empty(tensor.dtype(), tensor.shape(), Order::kC);
  if (tensor.storage()->on_device()) {  // a copy, as other libraries' asnumpy() and numpy(force=True) give
    Result<Tensor> copy = ops::move_to(tensor, device::kCpu);
    if (!copy) return raise(copy.status());
    PyObject* const boxed = wrap_tensor(*std::move(copy));
    PyObject* const array = boxed != nullptr ? array_over_tensor(boxed) : nullptr;
    Py_XDECREF(boxed);
    return array;
  }
  if (Status status = settled(tensor); !status) return raise(status);
  const Dims strides = tensor::byte_strides(tensor.strides(), tensor.item_size());
  return numpy->over_strided(tensor.raw(), tensor.dtype(), tensor.shape(), strides, !tensor.readonly(),
                             Py_NewRef(object));
}

bool tensor_from_dlpack(PyObject* object, Tensor& tensor, std::string* unknown) {
  PyObject* capsule = PyCapsule_CheckExact(object) ? Py_NewRef(object) : call_dlpack(object);
  if (!capsule) return false;
  Result<Tensor> made = Status(Code::kInvalid, "no DLPack capsule, or one that was consumed already");
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* managed =
        static_cast<dlpack::ManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (managed->version.major == dlpack::kVersion.major) as_bits(managed->tensor.dtype, unknown);
    made = tensor::import_versioned(managed);
    if (made) PyCapsule_SetName(capsule, "used_dltensor_versioned");
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    as_bits(managed->tensor.dtype, unknown);
    made = tensor::import_legacy(managed);
    if (made) PyCapsule_SetName(capsule, "used_dltensor");
  }
  Py_DECREF(capsule);
  if (!made) return raise(made.status()) != nullptr;
  tensor = *std::move(made);
  return true;
}

PyObject* dlpack_capsule(const Tensor& tensor, bool versioned, bool copied,
                         std::optional<std::intptr_t> stream) {
  if (!tensor.storage() || !tensor.storage()->on_device()) {
    if (Status status = settled(tensor); !status) return raise(status);
  }
  if (versioned) {
    const Result<dlpack::ManagedTensorVersioned*> managed = tensor::export_versioned(tensor, copied, stream);
    if (!managed) return raise(managed.status());
    PyObject* capsule = PyCapsule_New(*managed, "dltensor_versioned", drop_versioned);
    if (!capsule) (*managed)->deleter(*managed);
    return capsule;
  }
  const Result<dlpack::ManagedTensor*> managed = tensor::export_legacy(tensor, stream);
  if (!managed) {
    PyErr_SetString(PyExc_BufferError, std::string(managed.status().what()).c_str());
    return nullptr;
  }
  PyObject* capsule = PyCapsule_New(*managed, "dltensor", drop_plain);
  if (!capsule) (*managed)->deleter(*managed);
  return capsule;
}

}  // namespace forklift::py
