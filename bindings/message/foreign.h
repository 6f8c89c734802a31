// What a received object is turned into for `get(as_=..., copy=...)`: arrays of frameworks that the core does not know,
// views in place of large bytes; and the views that the Python side (forklift/adapters) makes its conversions of.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

namespace forklift::py {

// How a receiver wants objects. It is opened before a message is taken, so that no message is lost where the framework is
// not installed. All functions need the interpreter lock.
class Delivery {
 public:
  Delivery() = default;
  ~Delivery() { Py_XDECREF(convert_); }
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // `framework`: its name; with nullptr and None objects stay as they are. False with ValueError or
  // ImportError set.
  bool open(PyObject* framework);
  // The argument `copy` (nullptr: it was not given): whether large bytes are lent (MessageReader). False with an
  // exception set.
  bool parse_copy(PyObject* copy);
  bool lends() const noexcept { return lends_; }
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
  bool lends_ = false;
};

// The arguments of a method (METH_FASTCALL | METH_KEYWORDS) that takes only the keyword as_, and `copy` where there is a
// place for it. False with TypeError set.
bool only_as(const char* method, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
             PyObject*& as, PyObject** copy = nullptr);

void bind_foreign(nanobind::module_& module);

}  // namespace forklift::py
