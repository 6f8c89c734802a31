// torch, found at run time: what the codec needs of it. The package is built and works without torch, and
// never imports it before the program does or a message needs it.
//
// All functions need the interpreter lock.
#pragma once

#include <Python.h>

#include "forklift/dlpack.h"

namespace forklift::py::torch {

class Library {
 public:
  // nullptr without an exception as long as meet() or require() has not found torch.
  static const Library* loaded() noexcept { return instance_.tensor_type_ ? &instance_ : nullptr; }
  // If the program has imported torch by now, probes it and replaces its reductions. Runs Python code; cheap
  // when there is nothing to do. It does not fail: an error becomes a warning, once, and torch keeps its own
  // reductions.
  static void meet();
  // Imports torch if need be. nullptr with an exception set if that fails.
  static const Library* require();
  // By forklift.adapters.torch, which looks up what this needs.
  static bool install(PyObject* tensor_type, PyObject* parameter_type, PyObject* from_dlpack,
                      PyObject* exchange, PyObject* modes, PyObject* rebuild, PyObject* registered,
                      PyObject* from_weak, PyObject* strategies);

  // Exactly torch.Tensor or torch.nn.Parameter.
  bool is_tensor(PyObject* object) const noexcept {
    return Py_TYPE(object) == tensor_type_ || Py_TYPE(object) == parameter_type_;
  }
  bool is_parameter(PyObject* object) const noexcept { return Py_TYPE(object) == parameter_type_; }
  // Has the program registered a reducer of its own for tensors?
  bool has_reducer() const noexcept;
  // Is the sharing strategy file_system? No, before torch is known.
  static bool wants_names() noexcept;
  // Would reading an attribute of a tensor run Python code? False with an exception set on failure.
  bool modes_are_active() const;

  // Fills in data, type, shape and strides without running Python code; false, without an exception, where
  // DLPack cannot say it or torch is too old for it.
  bool describe(PyObject* tensor, dlpack::PlainTensor& out) const;
  bool describes() const noexcept { return exchange_ && exchange_->describe; }
  // The stream of torch's on which this thread works on the GPU with that number. False, without an exception, where torch
  // does not tell. Initialises CUDA in torch; call prepare_gpu() first.
  bool current_stream(int ordinal, std::uintptr_t& out) const;
  // Has torch initialise CUDA, if it has not yet. False with an exception set if that fails.
  bool prepare_gpu() const;
  // Both take the managed tensor over. New reference, or nullptr with an exception set.
  bool imports_versioned() const noexcept { return exchange_ && exchange_->import_tensor; }
  PyObject* import_versioned(dlpack::ManagedTensorVersioned* managed) const;
  PyObject* import_plain(dlpack::ManagedTensor* managed) const;

  // The storage (torch.UntypedStorage) at an address that cannot be freed meanwhile. nullptr without an
  // exception when nobody owns it any more. Runs no Python code.
  PyObject* storage_at(void* impl) const;
  // The address of a tensor's storage; nullptr, without an exception, on failure.
  void* storage_of(PyObject* tensor) const;

  PyObject* parameter_type() const noexcept { return reinterpret_cast<PyObject*>(parameter_type_); }
  PyObject* rebuild() const noexcept { return rebuild_; }

 private:
  // DLPackExchangeAPI of DLPack 1.3, torch >= 2.10.
  struct Exchange {
    dlpack::Version version;
    void* previous;
    void* allocate;
    int (*export_tensor)(void* object, dlpack::ManagedTensorVersioned** out);
    int (*import_tensor)(dlpack::ManagedTensorVersioned* managed, void** out);
    int (*describe)(void* object, dlpack::PlainTensor* out);
    int (*stream)(std::int32_t device_type, std::int32_t device, void** out);
  };
  static Library instance_;
  PyTypeObject* tensor_type_ = nullptr;
  PyTypeObject* parameter_type_ = nullptr;
  PyObject* from_dlpack_ = nullptr;
  const Exchange* exchange_ = nullptr;
  PyObject* modes_ = nullptr;
  PyObject* rebuild_ = nullptr;
  PyObject* from_weak_ = nullptr;
  PyObject* strategies_ = nullptr;  // the names of torch.multiprocessing
  PyObject* registered_ = nullptr;  // tuple of (table, torch's own reducer or None)
};

}  // namespace forklift::py::torch
