#include "bindings/core/errors.h"

#include <nanobind/nanobind.h>

#include <string>

namespace forklift::py {

namespace {

const char* class_name(Code code) {
  switch (code) {
    case Code::kOverBudget: return "OverBudgetError";
    case Code::kStalled: return "StalledError";
    case Code::kCorrupt: return "CorruptError";
    case Code::kVersion: return "VersionError";
    case Code::kRefused: return "RefusedError";
    case Code::kNotAttached: return "NotAttachedError";
    case Code::kNoSpace: return "NoSpaceError";
    case Code::kPeerDied: return "PeerDiedError";
    case Code::kBrokenByFork: return "BrokenByForkError";
    case Code::kNotFound: return "NotFoundError";
    case Code::kExists: return "NameTakenError";
    case Code::kDevice: return "DeviceError";
    case Code::kMismatch: return "CollectiveMismatchError";
    case Code::kBroken: return "BrokenGroupError";
    default: return "ForkliftError";
  }
}

PyObject* raise_as(PyObject* type, const Status& status) {
  const std::string text(status.to_string());
  PyErr_SetString(type, text.c_str());
  return nullptr;
}

}  // namespace

#if PY_VERSION_HEX >= 0x030c0000
PyObject* take_exception() noexcept { return PyErr_GetRaisedException(); }
void put_exception(PyObject* exception) noexcept { PyErr_SetRaisedException(exception); }
#else
PyObject* take_exception() noexcept {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  if (!type) return nullptr;
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_DECREF(type);
  Py_XDECREF(trace);
  return value;
}
void put_exception(PyObject* exception) noexcept {
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception))), exception,
                PyException_GetTraceback(exception));
}
#endif

PyObject* import_attribute(const char* module, const char* name) {
  PyObject* imported = PyImport_ImportModule(module);
  if (!imported) return nullptr;
  PyObject* attribute = PyObject_GetAttrString(imported, name);
  Py_DECREF(imported);
  return attribute;
}

PyObject* raise_error(const char* name, const char* text) {
  PyObject* type = import_attribute("forklift.errors", name);
  if (type) PyErr_SetString(type, text);
  Py_XDECREF(type);
  return nullptr;
}

PyObject* raise(const Status& status) {
  switch (status.code()) {
    case Code::kOk: PyErr_SetString(PyExc_SystemError, "raise() of a success"); return nullptr;
    case Code::kInterrupted:
      if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
      return nullptr;
    case Code::kTimeout: return raise_as(PyExc_TimeoutError, status);
    case Code::kClosed:
    case Code::kInvalid: return raise_as(PyExc_ValueError, status);
    case Code::kUnsupported: return raise_as(PyExc_NotImplementedError, status);
    case Code::kSystem: {
      const std::string text(status.to_string());
      PyObject* arguments = Py_BuildValue("(is)", status.errno_value(), text.c_str());
      if (arguments) PyErr_SetObject(PyExc_OSError, arguments);
      Py_XDECREF(arguments);
      return nullptr;
    }
    default: break;
  }
  PyObject* type = import_attribute("forklift.errors", class_name(status.code()));
  if (!type) return nullptr;
  raise_as(type, status);
  Py_DECREF(type);
  return nullptr;
}

void require(const Status& status) {
  if (!status) throw_failure(status);
}

void throw_failure(const Status& status) {
  raise(status);
  throw nanobind::python_error();
}

}  // namespace forklift::py
