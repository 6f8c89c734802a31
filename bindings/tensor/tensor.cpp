#include "bindings/tensor/tensor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/message/codec_table.h"
#include "bindings/message/encoder.h"
#include "bindings/message/pickling.h"
#include "bindings/ops/operand.h"
#include "bindings/tensor/create.h"
#include "bindings/tensor/items.h"
#include "bindings/tensor/numpy.h"
#include "device/cuda/gpu.h"
#include "message/codec.h"
#include "message/transport.h"
#include "node/node.h"
#include "ops/elementwise.h"
#include "ops/placement.h"
#include "ops/promotion.h"
#include "tensor/arena_storage.h"
#include "tensor/copy.h"
#include "tensor/device_storage.h"
#include "tensor/operations.h"
#include "tensor/pending.h"
#include "tensor/storage.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

PyTypeObject* tensor_type = nullptr;

nb::tuple as_tuple(const Dims& dims) {
  nb::list items;
  for (const std::int64_t item : dims) items.append(item);
  return nb::tuple(items);
}

bool is_shared(const Tensor& tensor) {
  return tensor.storage() && tensor::share_lease(*tensor.storage()) != nullptr;
}

Tensor on_device(const Tensor& tensor, const std::string& device) {
  GilRelease released;
  Result<Tensor> moved = ops::move_to(tensor, device);
  released.acquire();
  return require(std::move(moved));
}

nb::object make(Tensor tensor) { return owned(wrap_tensor(std::move(tensor))); }

// As DLPack numbers devices.
std::pair<int, int> dlpack_device(const Tensor& tensor) {
  const std::shared_ptr<device::Device>* const device = tensor::device_of(tensor);
  if (device == nullptr || (*device)->gpu() == nullptr) return {dlpack_cpu, 0};
  return {dlpack_cuda, (*device)->gpu()->ordinal()};
}

nb::object to_dlpack(const TensorBox& self, std::optional<std::intptr_t> stream,
                     std::optional<std::pair<int, int>> max_version,
                     std::optional<std::pair<int, int>> device, std::optional<bool> copy) {
  const bool versioned = max_version && max_version->first >= 1;
  const std::pair<int, int> here = dlpack_device(self.tensor);
  const std::pair<int, int> cpu(dlpack_cpu, 0);
  if (device && *device != here) {
    if (*device != cpu || !copy.value_or(true)) {
      PyErr_SetString(PyExc_BufferError, ("this forklift.Tensor lies on " + self.tensor.device() +
                                          ", and is handed out there, or as a copy for the CPU")
                                             .c_str());
      throw nb::python_error();
    }
    return owned(dlpack_capsule(on_device(self.tensor, std::string(device::kCpu)), versioned, true));
  }
  if (copy.value_or(false) && here == cpu)
    return owned(dlpack_capsule(copy_to_arena(self.tensor), versioned, true));
  if (copy.value_or(false)) {
    PyErr_SetString(PyExc_BufferError, "a copy of a tensor on a GPU is made by the library that wants it");
    throw nb::python_error();
  }
  return owned(dlpack_capsule(self.tensor, versioned, false, stream));
}

nb::object as_array(nb::handle self, nb::handle dtype, nb::handle copy) {
  nb::object array = owned(array_over_tensor(self.ptr()));
  const nb::object numpy = nb::module_::import_("numpy");
  if (!dtype.is_none() && !array.attr("dtype").equal(numpy.attr("dtype")(dtype))) {
    if (copy.ptr() == Py_False) throw nb::value_error("another dtype needs a copy");
    return array.attr("astype")(dtype);
  }
  return copy.ptr() == Py_True ? array.attr("copy")() : array;
}

void bind_views(nb::class_<TensorBox>& type) {
  type.def(
          "__getitem__",
          [](const TensorBox& self, nb::handle key) {
            const ops::Selection chosen = index_tensor(self.tensor, key);
            if (chosen.is_view()) return make(chosen.view);
            return compute(true, [&] { return value_or_throw(ops::gather(self.tensor, chosen)); });
          },
          nb::arg("key").none())
      .def(
          "__setitem__",
          [](const TensorBox& self, nb::handle key, nb::handle value) { set_items(self.tensor, key, value); },
          nb::arg("key").none(), nb::arg("value"))
      .def("reshape",
           [](const TensorBox& self, const std::vector<std::int64_t>& shape) {
             return make(require(tensor::reshape(self.tensor, Dims((DimSpan(shape))))));
           })
      .def("transpose", [](const TensorBox& self, std::int64_t a,
                           std::int64_t b) { return make(require(tensor::transpose(self.tensor, a, b))); })
      .def("permute",
           [](const TensorBox& self, const std::vector<std::int64_t>& order) {
             return make(require(tensor::permute(self.tensor, DimSpan(order))));
           })
      .def("as_readonly", [](const TensorBox& self) { return make(self.tensor.as_readonly()); })
      .def("to",
           [](nb::handle self, const std::string& device) {
             const Tensor& tensor = tensor_of(self.ptr());
             if (tensor.device() == device) return nb::borrow(self);
             return make(on_device(tensor, device));
           })
      .def("clone", [](const TensorBox& self) { return make(copy_to_arena(self.tensor)); })
      .def("fill",
           [](const TensorBox& self, nb::handle value) {
             Tensor target = self.tensor;
             fill_with(target, value);
           })
      .def("item", [](const TensorBox& self) { return only_item(self.tensor); })
      .def("tolist", [](const TensorBox& self) { return nested_list(self.tensor, 0, 0); });
}

}  // namespace

TensorBox::~TensorBox() {
  const std::shared_ptr<Storage>& storage = tensor.storage();
  if (!storage || storage.use_count() > 1) return;
  // A block of the arena goes to this process's magazine, which takes less time than the interpreter lock.
  if (storage->bytes() <= kQuickBytes && storage->arena_lease() != nullptr) return;
  const GilRelease released;
  tensor = Tensor();
}

bool is_tensor(PyObject* object) noexcept { return Py_TYPE(object) == tensor_type; }
const Tensor& tensor_of(PyObject* object) { return nb::inst_ptr<TensorBox>(object)->tensor; }

PyObject* wrap_tensor(Tensor&& tensor) {
  const nb::handle type(reinterpret_cast<PyObject*>(tensor_type));
  nb::object object = nb::inst_alloc(type);
  new (nb::inst_ptr<TensorBox>(object)) TensorBox(std::move(tensor));
  nb::inst_mark_ready(object);
  return object.release().ptr();
}

bool is_computed(const Tensor& tensor) noexcept {
  return tensor.storage() && detail::StorageAccess::is_busy(*tensor.storage());
}

Status settled(const Tensor& tensor, bool open) {
  if (!tensor.storage() || tensor.storage()->is_open()) return {};
  if (!is_computed(tensor)) return detail::StorageAccess::settle(*tensor.storage(), open);
  GilRelease released;
  Status status = detail::StorageAccess::settle(*tensor.storage(), open);
  released.acquire();
  return status;
}

Status prepare_to_send(const Tensor& tensor) {
  if (!tensor.storage() || !tensor.storage()->on_device()) return settled(tensor);
  if (tensor.numel() == 0) return {};
  GilRelease released;
  Result<const arena::LeasePtr*> lease = tensor::sendable_lease(*tensor.storage());
  released.acquire();
  return lease.status();
}

Result<std::shared_ptr<Storage>> storage_of(arena::LeasePtr lease) {
  if (lease->object().kind != arena::ObjectKind::kPiece) return tensor::received_storage(std::move(lease));
  GilRelease released;  // a driver and a broker are asked
  Result<std::shared_ptr<Storage>> storage = tensor::received_storage(std::move(lease));
  released.acquire();
  return storage;
}

void place_tensor(PyObject* object, MessageWriter& writer, wire::TensorMeta& meta) {
  const Tensor& tensor = tensor_of(object);
  if (tensor.numel() == 0) {
    meta = {message::kNoLease, tensor.dtype(),           tensor.readonly(), 0,
            tensor.shape(),    c_strides(tensor.shape())};
    return;
  }
  if (is_shared(tensor)) {
    meta = wire::meta_of(tensor, writer.message.note_share(*tensor::share_lease(*tensor.storage())));
    return;
  }
  message::PendingCopy& copy = writer.note_copy(object, tensor.raw(), tensor.nbytes(), arena::Kind::kShare);
  meta = {copy.lease, tensor.dtype(), tensor.readonly(), 0, tensor.shape(), c_strides(tensor.shape())};
  copy.item_size = tensor.item_size();
  copy.shape = tensor.shape();
  copy.strides = tensor::byte_strides(tensor.strides(), tensor.item_size());
}

PyObject* take_tensor(std::span<const std::byte> payload, MessageReader& reader) {
  const Result<wire::TensorMeta> meta = wire::decode_meta(payload);
  if (!meta) return raise(meta.status());
  Result<std::shared_ptr<Storage>> storage = Status(Code::kCorrupt, "a tensor without its memory");
  if (meta->index == message::kNoLease) {
    storage = tensor::heap_storage(0);
  } else if (auto& leases = reader.message.leases(); meta->index < leases.size() && leases[meta->index]) {
    storage = storage_of(std::move(leases[meta->index]));
  }
  if (!storage) return raise(storage.status());
  Result<Tensor> tensor = wire::tensor_over(*meta, *std::move(storage));
  if (!tensor) return raise(tensor.status());
  return wrap_tensor(*std::move(tensor));
}

namespace {

Encoded encode_tensor(Encoder& encoder, PyObject* object, int) {
  if (!encoder.first_time(object)) return Encoded::kUnsupported;
  if (Status status = prepare_to_send(tensor_of(object)); !status) {
    raise(status);
    return Encoded::kFailed;
  }
  wire::TensorMeta meta;
  place_tensor(object, encoder.writer(), meta);
  encoder.extension(Extension::kTensor, meta);
  return Encoded::kDone;
}

void bind_properties(nb::class_<TensorBox>& type) {
  type.def_prop_ro("dtype", [](const TensorBox& self) { return std::string(name(self.tensor.dtype())); })
      .def_prop_ro("shape", [](const TensorBox& self) { return as_tuple(self.tensor.shape()); })
      .def_prop_ro("strides", [](const TensorBox& self) { return as_tuple(self.tensor.strides()); })
      .def_prop_ro("ndim", [](const TensorBox& self) { return self.tensor.ndim(); })
      .def_prop_ro("size", [](const TensorBox& self) { return self.tensor.numel(); })
      .def_prop_ro("itemsize", [](const TensorBox& self) { return self.tensor.item_size(); })
      .def_prop_ro("nbytes", [](const TensorBox& self) { return self.tensor.nbytes(); })
      .def_prop_ro("readonly", [](const TensorBox& self) { return self.tensor.readonly(); })
      .def_prop_ro("device", [](const TensorBox& self) { return self.tensor.device(); })
      .def_prop_ro("is_shared", [](const TensorBox& self) { return is_shared(self.tensor); })
      .def("is_contiguous", [](const TensorBox& self) { return self.tensor.is_contiguous(); })
      .def("same_view",
           [](const TensorBox& self, const TensorBox& other) { return self.tensor.same_view(other.tensor); });
}

void bind_conversions(nb::class_<TensorBox>& type) {
  type.def_static("from_numpy",
                  [](nb::handle array) {
                    Tensor tensor;
                    if (tensor_from_array(array.ptr(), tensor)) return make(std::move(tensor));
                    if (PyErr_Occurred()) throw nb::python_error();
                    throw nb::type_error("from_numpy() takes a NumPy array");
                  })
      .def_static("from_dlpack",
                  [](nb::handle object) {
                    Tensor tensor;
                    if (!tensor_from_dlpack(object.ptr(), tensor)) throw nb::python_error();
                    return make(std::move(tensor));
                  })
      .def("numpy", [](nb::handle self) { return owned(array_over_tensor(self.ptr())); })
      .def("__array__", as_array, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__array_ufunc__",
           [](nb::handle, nb::handle ufunc, nb::handle method, nb::args inputs, nb::kwargs options) {
             return nb::module_::import_("forklift.adapters.ufuncs")
                 .attr("array_ufunc")(ufunc, method, inputs, options);
           })
      .def("__dlpack__", to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const TensorBox& self) { return dlpack_device(self.tensor); })
      .def("__len__",
           [](const TensorBox& self) {
             if (self.tensor.ndim() == 0) throw nb::type_error("a tensor without dimensions has no length");
             return self.tensor.shape()[0];
           })
      .def("__float__", [](const TensorBox& self) { return nb::float_(only_item(self.tensor)); })
      .def("__int__", [](const TensorBox& self) { return nb::int_(only_item(self.tensor)); })
      .def("__bool__",
           [](const TensorBox& self) { return nb::cast<bool>(nb::bool_(only_item(self.tensor))); })
      .def("asnumpy", [](nb::handle self) { return owned(array_over_tensor(self.ptr())); })
      .def("__str__",
           [](nb::handle self) { return nb::module_::import_("forklift.adapters.text").attr("text")(self); })
      .def("__repr__", [](nb::handle self) {
        return nb::module_::import_("forklift.adapters.text").attr("description")(self);
      });
}

}  // namespace

nb::class_<TensorBox> bind_tensor(nb::module_& module) {
  nb::class_<TensorBox> type(module, "Tensor", "A typed, strided view of memory that processes can share.");
  tensor_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  type.attr("__module__") = "forklift";
  register_encoder(tensor_type, encode_tensor);
  register_decoder(Extension::kTensor, take_tensor);
  bind_properties(type);
  bind_conversions(type);
  bind_views(type);
  bind_tensor_pickling(module, type);
  bind_factories(module);
  type.def(
      "__init__",
      [](TensorBox* self, nb::handle data, nb::handle dtype) { new (self) TensorBox(new_from(data, dtype)); },
      nb::arg("data"), nb::arg("dtype") = nb::none());
  return type;
}

}  // namespace forklift::py
