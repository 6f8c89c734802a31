// forklift._core: what Python sees of libforklift. One file a concept; this one only puts them together.
#include <nanobind/nanobind.h>

#include "block.h"
#include "board.h"
#include "domain.h"
#include "foreign.h"
#include "frozen.h"
#include "lifeline.h"
#include "lock.h"
#include "meeting.h"
#include "pickling.h"
#include "pipe.h"
#include "pool.h"
#include "program.h"
#include "queue.h"
#include "tensor.h"
#include "torch_module.h"

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of Forklift. Private: use the forklift package.";
  m.attr("__version__") = FORKLIFT_VERSION;
  // A program may leave a pool alone until the interpreter ends.
  nanobind::set_leak_warnings(false);
  if (forklift::py::add_block_type(m.ptr()) != 0 || forklift::py::add_pickling_types(m.ptr()) != 0 ||
      forklift::py::add_queue_types(m.ptr()) != 0 || forklift::py::add_frozen_type(m.ptr()) != 0 ||
      forklift::py::add_pipe_type(m.ptr()) != 0 || forklift::py::add_lock_types(m.ptr()) != 0 ||
      forklift::py::add_board_types(m.ptr()) != 0) {
    throw nanobind::python_error();
  }
  forklift::py::bind_domain(m);
  forklift::py::bind_program(m);
  forklift::py::bind_meeting(m);
  forklift::py::bind_lifeline(m);
  forklift::py::bind_tensor(m);
  forklift::py::bind_foreign(m);
  forklift::py::bind_waits(m);
  forklift::py::bind_torch(m);
  forklift::py::bind_pool(m);
}
