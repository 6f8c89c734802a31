// forklift._core: the extension module. Each concept has a file of its own, and this one registers them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/collective/collective.h"
#include "bindings/core/block.h"
#include "bindings/core/domain.h"
#include "bindings/core/event_log.h"
#include "bindings/core/segment.h"
#include "bindings/endpoints/pipe.h"
#include "bindings/endpoints/queue.h"
#include "bindings/endpoints/topic.h"
#include "bindings/guard/guard.h"
#include "bindings/inspect/inspect.h"
#include "bindings/locks/lock.h"
#include "bindings/message/foreign.h"
#include "bindings/message/frozen.h"
#include "bindings/message/native.h"
#include "bindings/message/pickling.h"
#include "bindings/message/reducer_table.h"
#include "bindings/ops/ops.h"
#include "bindings/ops/runtime.h"
#include "bindings/pool/pool.h"
#include "bindings/process/group.h"
#include "bindings/process/labels.h"
#include "bindings/process/lifeline.h"
#include "bindings/process/naming.h"
#include "bindings/process/program.h"
#include "bindings/tensor/tensor.h"
#include "bindings/torch/module.h"

namespace {

// Makes an object equal to the function that nanobind registers with atexit for its leak checker, so that
// atexit.unregister() finds that function. The leak checker is off here.
PyObject* is_nanobinds(PyObject*, PyObject* other, int operation) {
  bool same = false;
  if (operation == Py_EQ && PyFunction_Check(other)) {
    const nanobind::handle code = PyFunction_GetCode(other);
    same = nanobind::cast<std::string>(code.attr("co_filename")) == "<internal>" &&
           nanobind::cast<std::string>(code.attr("co_name")) == "cleanup";
  }
  return PyBool_FromLong(same ? 1 : 0);
}

// Unregisters nanobind's atexit function: each forked child would free it, and copy twenty pages for that.
void forget_cleanup() {
  PyType_Slot slots[] = {{Py_tp_richcompare, reinterpret_cast<void*>(is_nanobinds)}, {0, nullptr}};
  PyType_Spec spec{"forklift._core._Cleanup", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
  const nanobind::object type = nanobind::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nanobind::python_error();
  nanobind::module_::import_("atexit").attr("unregister")(type());
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of Forklift. Private: use the forklift package.";
  m.attr("__version__") = FORKLIFT_VERSION;
  // A program may keep a pool, whose objects nanobind would report as leaked, until the interpreter ends.
  nanobind::set_leak_warnings(false);
  forget_cleanup();
  if (forklift::py::add_block_type(m.ptr()) != 0 || forklift::py::add_pickling_types(m.ptr()) != 0 ||
      forklift::py::add_reducer_table(m.ptr()) != 0 || forklift::py::add_queue_types(m.ptr()) != 0 ||
      forklift::py::add_frozen_type(m.ptr()) != 0 || forklift::py::add_pipe_type(m.ptr()) != 0 ||
      forklift::py::add_lock_types(m.ptr()) != 0 || forklift::py::add_topic_types(m.ptr()) != 0) {
    throw nanobind::python_error();
  }
  forklift::py::add_native_codec();
  forklift::py::bind_domain(m);
  forklift::py::bind_event_log(m);
  forklift::py::bind_segments(m);
  forklift::py::bind_inspection(m);
  forklift::py::bind_survey(m);
  forklift::py::bind_recorder(m);
  forklift::py::bind_recording(m);
  forklift::py::bind_guard(m);
  forklift::py::bind_program(m);
  forklift::py::bind_labels(m);
  forklift::py::bind_naming(m);
  forklift::py::bind_lifeline(m);
  forklift::py::bind_process_group(m);
  nanobind::class_<forklift::py::TensorBox> tensor = forklift::py::bind_tensor(m);
  forklift::py::bind_device_event(m);
  forklift::py::bind_operators(tensor);
  forklift::py::bind_array_methods(tensor);
  forklift::py::bind_ops(m);
  forklift::py::bind_runtime(m);
  forklift::py::bind_foreign(m);
  forklift::py::bind_waits(m);
  forklift::py::bind_torch(m);
  forklift::py::bind_pool(m);
  forklift::py::bind_collectives(m);
}
