#include "bindings/core/segment.h"

#include <nanobind/stl/string.h>

#include <string>

#include "bindings/core/block.h"
#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "node/node.h"
#include "segment/files.h"
#include "shm_manager/registration.h"

namespace forklift::py {

namespace nb = nanobind;

namespace {

template <class Value>
Value& value_of(Result<Value>& result) {
  if (result) return *result;
  raise(result.status());
  throw nb::python_error();
}

// The lease of a Block over a named segment; nullptr if it lies in the arena.
const arena::LeasePtr* segment_lease(const nb::object& block) {
  if (!is_block(block.ptr())) throw nb::type_error("a Block is wanted");
  const arena::LeasePtr& lease = block_lease(block.ptr());
  if (!lease || lease->object().kind != arena::ObjectKind::kSegment) return nullptr;
  return &lease;
}

const arena::LeasePtr& need_segment(const nb::object& block) {
  if (const arena::LeasePtr* lease = segment_lease(block)) return *lease;
  throw nb::value_error("this memory has no name");
}

segment::Segments& segments() {
  GilRelease released;
  Result<node::Node*> node = node::Node::current();
  released.acquire();
  return value_of(node)->segments();
}

nb::object over(arena::LeasePtr lease) {
  const std::size_t length = lease->size();
  nb::object block = nb::steal(make_block(std::move(lease), 0, length, true, BlockMode::kShared));
  if (!block.is_valid()) throw nb::python_error();
  return block;
}

nb::object create(std::uint64_t bytes, std::uint64_t head) {
  segment::Segments& table = segments();
  GilRelease released;
  Result<arena::LeasePtr> lease = table.create(bytes, head);
  released.acquire();
  return over(value_of(lease));
}

nb::object find(const std::string& name, std::uint64_t bytes) {
  segment::Segments& table = segments();
  GilRelease released;
  Result<arena::LeasePtr> lease = table.find(name, bytes);
  released.acquire();
  return over(value_of(lease));
}

// A segment of a domain that this process is no member of.
struct Foreign {
  shm_manager::Registered segment;
};

int foreign_getbuffer(PyObject* self, Py_buffer* view, int flags) {
  const Foreign& foreign = *nb::inst_ptr<Foreign>(nb::handle(self));
  return PyBuffer_FillInfo(view, self, foreign.segment.data(),
                           static_cast<Py_ssize_t>(foreign.segment.size()), 0, flags);
}

Foreign open_registered(const std::string& name, std::uint64_t bytes, std::uint64_t head) {
  GilRelease released;
  Result<shm_manager::Registered> segment = shm_manager::open_registered(name, bytes, head);
  released.acquire();
  return Foreign{std::move(value_of(segment))};
}

nb::object name_of(const nb::object& block) {
  const arena::LeasePtr* lease = segment_lease(block);
  return lease ? nb::cast(segments().name_of(**lease)) : nb::none();
}

void hand_over(const nb::object& block) {
  const arena::LeasePtr lease = need_segment(block);
  segment::Segments& table = segments();
  GilRelease released;
  const Status status = table.hand_over(*lease);
  released.acquire();
  if (status) return;
  raise(status);
  throw nb::python_error();
}

// (token, segments, bytes, in use, removed, problem) for each domain that has files.
nb::list sweep(bool look_only) {
  GilRelease released;
  const Result<std::string> folder = segment::default_folder();
  Result<std::vector<segment::Found>> found =
      folder ? segment::sweep(*folder, look_only) : Result<std::vector<segment::Found>>(folder.status());
  released.acquire();
  nb::list all;
  for (const segment::Found& one : value_of(found)) {
    char token[17];
    std::snprintf(token, sizeof token, "%016llx", static_cast<unsigned long long>(one.token));
    all.append(nb::make_tuple(token, one.segments, one.bytes, one.in_use, one.removed, one.problem));
  }
  return all;
}

}  // namespace

void bind_segments(nb::module_& module) {
  nb::module_ m = module.def_submodule("_segments", "Shared memory in files with names.");
  m.def("create", create, nb::arg("nbytes"), nb::arg("head") = 0,
        "Makes a segment of zeros, after `head` bytes of its file. A Block of mode shared.");
  m.def("find", find, nb::arg("name"), nb::arg("nbytes"), "A segment of this tree by its name. A Block.");
  m.def("name", name_of, nb::arg("block"), "The name for shm_open(3); None for memory of the arena.");
  m.def(
      "head", [](const nb::object& block) { return segments().head_of(*need_segment(block)); },
      nb::arg("block"), "How many bytes its file has before the memory.");
  m.def("hand_over", hand_over, nb::arg("block"),
        "Declares that the name leaves the tree. The manager keeps the segment for a moment after its last "
        "user's "
        "end.");
  m.def(
      "socket", [] { return segments().socket(); },
      "The manager's socket, which torch's _new_shared_filename_cpu takes as its first argument.");
  m.def("folder", [] { return segments().folder(); }, "Where the files are.");
  m.def(
      "stats", [] { return nb::make_tuple(segments().live(), segments().bytes()); },
      "(segments, bytes) of this tree.");
  m.def("sweep", sweep, nb::arg("look_only") = false,
        "Removes the files of trees of which no process lives. (token, segments, bytes, in_use, removed, "
        "problem) for each tree.");
  static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(foreign_getbuffer)}, {0, nullptr}};
  nb::class_<Foreign>(m, "Foreign", nb::type_slots(slots),
                      "A segment of another tree. Has the buffer protocol.")
      .def_prop_ro(
          "kept", [](const Foreign& foreign) { return foreign.segment.is_kept(); },
          "Whether a manager keeps the name for this process.");
  m.def("open_foreign", open_registered, nb::arg("name"), nb::arg("nbytes"), nb::arg("head") = 0,
        "Opens a segment of another tree, and registers with its manager.");
}

}  // namespace forklift::py
