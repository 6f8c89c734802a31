#include "bindings/torch/library.h"

#include "bindings/core/errors.h"
#include "bindings/torch/codec.h"

namespace forklift::py::torch {

Library Library::instance_;

namespace {

bool failed = false;  // meet() has failed and does not try again

// Whether the program has imported torch. False while another thread is still importing it.
bool torch_is_there() {
  static PyObject* const name = PyUnicode_InternFromString("torch");
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = modules && name ? PyDict_GetItemWithError(modules, name) : nullptr;
  if (!module) {
    PyErr_Clear();
    return false;
  }
  PyObject* spec = PyObject_GetAttrString(module, "__spec__");
  PyObject* initializing = spec ? PyObject_GetAttrString(spec, "_initializing") : nullptr;
  const bool complete = !initializing || PyObject_IsTrue(initializing) != 1;
  Py_XDECREF(initializing);
  Py_XDECREF(spec);
  PyErr_Clear();
  return complete;
}

// forklift.adapters.torch.install(), which calls Library::install().
bool run_adapter() {
  PyObject* install = import_attribute("forklift.adapters.torch", "install");
  PyObject* done = install ? PyObject_CallNoArgs(install) : nullptr;
  Py_XDECREF(done);
  Py_XDECREF(install);
  return done != nullptr && Library::loaded() != nullptr;
}

}  // namespace

void Library::meet() {
  if (loaded() || failed || !torch_is_there()) return;
  const KeepError keep;
  if (run_adapter()) return;
  failed = true;
  PyObject* why = take_exception();
  PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                   "forklift cannot use this torch (%S): its tensors travel as torch sends them",
                   why ? why : Py_None);
  Py_XDECREF(why);
  PyErr_Clear();
}

const Library* Library::require() {
  if (loaded()) return &instance_;
  if (run_adapter()) return &instance_;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "forklift.adapters.torch did not load");
  return nullptr;
}

bool Library::install(PyObject* tensor_type, PyObject* parameter_type, PyObject* from_dlpack,
                      PyObject* exchange, PyObject* modes, PyObject* rebuild, PyObject* registered,
                      PyObject* from_weak, PyObject* strategies) {
  if (!PyType_Check(tensor_type) || !PyType_Check(parameter_type) || !PyTuple_Check(registered) ||
      !PyDict_Check(strategies)) {
    PyErr_SetString(PyExc_TypeError, "types, a tuple of tables and a dict");
    return false;
  }
  const Exchange* api = nullptr;
  if (exchange != Py_None) {
    api = static_cast<const Exchange*>(PyCapsule_GetPointer(exchange, "dlpack_exchange_api"));
    if (!api) PyErr_Clear();
    if (api && api->version.major != dlpack::kVersion.major) api = nullptr;
  }
  // These references are never given back: torch is never unloaded.
  instance_.from_dlpack_ = Py_NewRef(from_dlpack);
  instance_.exchange_ = api;
  instance_.modes_ = Py_NewRef(modes);
  instance_.rebuild_ = Py_NewRef(rebuild);
  instance_.registered_ = Py_NewRef(registered);
  instance_.from_weak_ = Py_NewRef(from_weak);
  instance_.strategies_ = Py_NewRef(strategies);
  instance_.parameter_type_ = reinterpret_cast<PyTypeObject*>(Py_NewRef(parameter_type));
  instance_.tensor_type_ = reinterpret_cast<PyTypeObject*>(Py_NewRef(tensor_type));
  register_torch_encoder(instance_.tensor_type_, instance_.parameter_type_);
  return true;
}

bool Library::has_reducer() const noexcept {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(registered_); ++i) {
    PyObject* entry = PyTuple_GET_ITEM(registered_, i);
    for (PyTypeObject* type : {tensor_type_, parameter_type_}) {
      PyObject* reducer =
          PyDict_GetItemWithError(PyTuple_GET_ITEM(entry, 0), reinterpret_cast<PyObject*>(type));
      if (reducer && reducer != PyTuple_GET_ITEM(entry, 1)) return true;
    }
  }
  return false;
}

bool Library::wants_names() noexcept {
  const Library* library = loaded();
  if (!library) return false;
  static PyObject* const name = PyUnicode_InternFromString("_sharing_strategy");
  PyObject* strategy = PyDict_GetItemWithError(library->strategies_, name);
  if (strategy && PyUnicode_Check(strategy)) {
    return PyUnicode_CompareWithASCIIString(strategy, "file_system") == 0;
  }
  PyErr_Clear();
  return false;
}

bool Library::modes_are_active() const {
  PyObject* count = PyObject_CallNoArgs(modes_);
  if (!count) {
    PyErr_Clear();
    return true;
  }
  const bool active = PyLong_AsLong(count) != 0;
  Py_DECREF(count);
  return active;
}

bool Library::describe(PyObject* tensor, dlpack::PlainTensor& out) const {
  if (exchange_->describe(tensor, &out) == 0) return true;
  PyErr_Clear();
  return false;
}

bool Library::current_stream(int ordinal, std::uintptr_t& out) const {
  void* stream = nullptr;
  if (!exchange_ || !exchange_->stream || exchange_->stream(dlpack::kCuda, ordinal, &stream) != 0) {
    PyErr_Clear();
    return false;
  }
  out = reinterpret_cast<std::uintptr_t>(stream);
  return true;
}

bool Library::prepare_gpu() const {
  static bool is_ready = false;
  if (is_ready) return true;
  PyObject* prepare = import_attribute("forklift.adapters.torch.cuda", "prepare");
  PyObject* done = prepare ? PyObject_CallNoArgs(prepare) : nullptr;
  Py_XDECREF(prepare);
  is_ready = done != nullptr;
  Py_XDECREF(done);
  return is_ready;
}

PyObject* Library::storage_at(void* impl) const {
  PyObject* address = PyLong_FromVoidPtr(impl);
  PyObject* storage = address ? PyObject_CallOneArg(from_weak_, address) : nullptr;
  Py_XDECREF(address);
  if (storage == Py_None) Py_CLEAR(storage);
  PyErr_Clear();
  return storage;
}

void* Library::storage_of(PyObject* tensor) const {
  PyObject* storage = PyObject_CallMethod(tensor, "untyped_storage", nullptr);
  PyObject* address = storage ? PyObject_GetAttrString(storage, "_cdata") : nullptr;
  void* impl = address ? PyLong_AsVoidPtr(address) : nullptr;
  Py_XDECREF(address);
  Py_XDECREF(storage);
  PyErr_Clear();
  return impl;
}

PyObject* Library::import_versioned(dlpack::ManagedTensorVersioned* managed) const {
  void* out = nullptr;
  return exchange_->import_tensor(managed, &out) == 0 ? static_cast<PyObject*>(out) : nullptr;
}

PyObject* Library::import_plain(dlpack::ManagedTensor* managed) const {
  // Renamed by torch when it has taken the memory over.
  PyObject* capsule = PyCapsule_New(managed, "dltensor", nullptr);
  PyObject* made = capsule ? PyObject_CallOneArg(from_dlpack_, capsule) : nullptr;
  Py_XDECREF(capsule);
  return made;
}

}  // namespace forklift::py::torch
