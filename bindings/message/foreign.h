// Arrays of frameworks that the core does not know: what a received object is turned into for `get(as_=...)`,
// and the views that the Python side (forklift/adapters) makes its conversions of.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

namespace forklift::py {

// Converts received objects. It is opened before a message is taken, so that no message is lost where the
// framework is not installed. All functions need the interpreter lock.
class Delivery {
 public:
  Delivery() = default;
  ~Delivery() { Py_XDECREF(convert_); }
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // `framework`: its name; with nullptr and None objects stay as they are. False with ValueError or
  // ImportError set.
  bool open(PyObject* framework);
  // The object in the wanted framework's arrays. Steals `object` (nullptr is handed on). nullptr with
  // ConversionError set, which carries the object.
  PyObject* finish(PyObject* object) const;

  // While one lives, decoding leaves arrays in the form in which they travelled: this process may lack their
  // own framework, and they are converted anyway.
  class Scope {
   public:
    explicit Scope(const Delivery* delivery) noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    bool before_;
  };

 private:
  PyObject* convert_ = nullptr;
};

// The arguments of a method (METH_FASTCALL | METH_KEYWORDS) whose only one is the keyword as_. False with
// TypeError set.
bool only_as(const char* method, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
             PyObject*& as);

void bind_foreign(nanobind::module_& module);

}  // namespace forklift::py
