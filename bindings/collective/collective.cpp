#include "bindings/collective/collective.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/locks/object.h"
#include "bindings/ops/operand.h"
#include "bindings/ops/runtime.h"
#include "bindings/tensor/tensor.h"
#include "collective/helper.h"
#include "collective/shared_memory.h"
#include "node/node.h"
#include "tensor/arena_storage.h"
#include "tensor/operations.h"

namespace nb = nanobind;

namespace forklift::py {
namespace {

using collective::Communicator;
using collective::Helper;
using collective::Op;
using collective::Operation;
using collective::Request;
using collective::SharedMemory;
using collective::WaitLimits;

// What the program's function has raised, until the call is over.
struct Raised {
  PyObject* exception = nullptr;
  Raised() = default;
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;
  ~Raised() {
    if (exception == nullptr || interpreter_ends()) return;
    const WithGil gil;
    Py_DECREF(exception);
  }
};

// Python's function as a reduction's. It may be called, and dropped, by the group's helper thread.
class PyReduction {
 public:
  PyReduction(nb::object function, std::shared_ptr<Raised> raised)
      : function_(function.release().ptr()), raised_(std::move(raised)) {}
  PyReduction(const PyReduction&) = delete;
  PyReduction& operator=(const PyReduction&) = delete;
  ~PyReduction() {
    if (interpreter_ends()) return;
    const WithGil gil;
    Py_DECREF(function_);
  }

  Status call(const Tensor& accumulated, const Tensor& next) const {
    const WithGil gil;
    PyObject* const a = wrap_tensor(accumulated);
    PyObject* const b = a != nullptr ? wrap_tensor(next) : nullptr;
    PyObject* const answer = b != nullptr ? PyObject_CallFunctionObjArgs(function_, a, b, nullptr) : nullptr;
    Py_XDECREF(a);
    Py_XDECREF(b);
    if (answer != nullptr) {
      Py_DECREF(answer);
      return {};
    }
    raised_->exception = take_exception();
    return {Code::kInvalid, "the reduction's function has raised"};
  }

 private:
  PyObject* function_;
  std::shared_ptr<Raised> raised_;
};

// What a Python GroupRank holds. Dropping it may wait for the helper thread, which may want the interpreter lock.
struct RankBox {
  struct Core {
    explicit Core(std::unique_ptr<collective::Transport> transport)
        : communicator(std::move(transport)), helper(communicator) {}
    Communicator communicator;
    Helper helper;
  };
  std::unique_ptr<Core> core;

  explicit RankBox(std::unique_ptr<Core> made) noexcept : core(std::move(made)) {}
  RankBox(RankBox&&) noexcept = default;
  RankBox& operator=(RankBox&&) = delete;
  ~RankBox() {
    if (!core) return;
    if (interpreter_ends()) {
      (void)core.release();  // its thread may wait for an interpreter lock that nobody gives up any more
      return;
    }
    const GilRelease released;
    core.reset();
  }
};

struct PendingBox {
  collective::PendingPtr call;
  std::shared_ptr<Raised> raised;
  ~PendingBox() {
    const GilRelease released;
    call.reset();
  }
  PendingBox(collective::PendingPtr made, std::shared_ptr<Raised> thrown) noexcept
      : call(std::move(made)), raised(std::move(thrown)) {}
  PendingBox(PendingBox&&) noexcept = default;
  PendingBox& operator=(PendingBox&&) = delete;
};

// ValueError: there is no such name.
template <class Enum>
Enum named(const std::string& name, Enum last, const char* what) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  throw nb::value_error(("\"" + name + "\" is no " + what).c_str());
}

os::Deadline deadline_of(nb::handle timeout) {
  os::Deadline at = os::Deadline::never();
  if (!parse_timeout(timeout.ptr(), at)) throw nb::python_error();
  return at;
}

Result<arena::LeasePtr> lease_of(const Tensor& memory) {
  const arena::LeasePtr* lease = memory.storage() ? tensor::share_lease(*memory.storage()) : nullptr;
  if (lease == nullptr)
    return Status(Code::kInvalid, "this tensor is no group's memory: " + memory.to_string());
  return *lease;
}

nb::object create_group(int size) {
  const auto create = [&]() -> Result<Tensor> {
    const Result<node::Node*> node = node::Node::current();
    if (!node) return node.status();
    Result<arena::LeasePtr> block = SharedMemory::create((*node)->arena(), size);
    if (!block) return block.status();
    const auto bytes = static_cast<std::int64_t>((*block)->size());
    return tensor::wrap(tensor::storage_over(*std::move(block)), DType::kUInt8, {bytes});
  };
  GilRelease released;
  Result<Tensor> memory = create();
  released.acquire();
  return owned(wrap_tensor(require(std::move(memory))));
}

void expect_rank(const TensorBox& memory, int rank, std::uint32_t slot, std::uint32_t generation) {
  const Result<arena::LeasePtr> block = lease_of(memory.tensor);
  require(block ? SharedMemory::expect(*block, rank, {slot, generation}) : block.status());
}

RankBox join_group(const TensorBox& memory, int rank) {
  const auto join = [&]() -> Result<std::unique_ptr<RankBox::Core>> {
    const Result<node::Node*> node = node::Node::current();
    if (!node) return node.status();
    Result<arena::LeasePtr> block = lease_of(memory.tensor);
    if (!block) return block.status();
    Result<std::unique_ptr<SharedMemory>> transport = SharedMemory::join(*std::move(block), rank);
    if (!transport) return transport.status();
    return std::make_unique<RankBox::Core>(*std::move(transport));
  };
  GilRelease released;
  Result<std::unique_ptr<RankBox::Core>> core = join();
  released.acquire();
  return RankBox(require(std::move(core)));
}

struct PyRequest {
  Request request;
  std::shared_ptr<Raised> raised;
};

// A function is called as function(accumulated, next).
PyRequest request_of(const std::string& operation, nb::handle x, nb::handle out, int root, nb::handle op) {
  PyRequest made;
  Request& request = made.request;
  request.operation = named(operation, collective::kLastOperation, "collective");
  request.root = root;
  const auto tensor = [](nb::handle object) {
    return object.is_none() ? Tensor() : required_tensor(PyOperand::require(object.ptr()));
  };
  request.in = tensor(x);
  request.out = out.is(x) ? request.in : tensor(out);
  if (op.is_none()) return made;
  if (nb::isinstance<nb::str>(op)) {
    request.op = named(nb::cast<std::string>(op), collective::kLastOp, "reduction");
    if (request.op == Op::kFunction || request.op == Op::kNone)
      throw nb::value_error("a reduction is sum, product, min, max, mean or a function");
    return made;
  }
  if (PyCallable_Check(op.ptr()) == 0)
    throw nb::type_error("a reduction is a name or a function of two tensors");
  request.op = Op::kFunction;
  made.raised = std::make_shared<Raised>();
  auto function = std::make_shared<PyReduction>(nb::borrow(op), made.raised);
  request.function = [function](const Tensor& a, const Tensor& b) { return function->call(a, b); };
  return made;
}

// Raises what has become of a call.
void conclude(const Status& status, const std::shared_ptr<Raised>& raised) {
  if (!status.ok() && raised && raised->exception != nullptr) {
    put_exception(std::exchange(raised->exception, nullptr));
    throw nb::python_error();
  }
  require(status);
}

void run_collective(RankBox& self, const std::string& operation, nb::handle x, nb::handle out, int root,
                    nb::handle op, nb::handle timeout) {
  std::optional<PyRequest> made(request_of(operation, x, out, root, op));
  const std::shared_ptr<Raised> raised = made->raised;
  const os::Deadline deadline = deadline_of(timeout);
  GilRelease released;
  PyHooks hooks(released);
  const Status status = self.core->communicator.run(made->request, WaitLimits{deadline, &hooks});
  made.reset();  // dropping tensors may wait
  released.acquire();
  watch_forks();
  conclude(status, raised);
}

PendingBox start_collective(RankBox& self, const std::string& operation, nb::handle x, nb::handle out,
                            int root, nb::handle op) {
  PyRequest made = request_of(operation, x, out, root, op);
  GilRelease released;
  Result<collective::PendingPtr> call = self.core->helper.start(std::move(made.request));
  released.acquire();
  watch_forks();
  return PendingBox(require(std::move(call)), made.raised);
}

void wait_for_collective(const PendingBox& self, nb::handle timeout) {
  const os::Deadline deadline = deadline_of(timeout);
  GilRelease released;
  PyHooks hooks(released);
  const Status status = self.call->wait({deadline, &hooks});
  released.acquire();
  conclude(status, self.raised);
}

}  // namespace

void bind_collectives(nb::module_& module) {
  module.def("_create_group", create_group, nb::arg("size"));
  module.def("_expect_rank", expect_rank, nb::arg("memory"), nb::arg("rank"), nb::arg("slot"),
             nb::arg("generation"));
  module.def("_join_group", join_group, nb::arg("memory"), nb::arg("rank"));
  nb::class_<RankBox>(module, "GroupRank")
      .def_prop_ro("rank", [](const RankBox& self) { return self.core->communicator.transport().rank(); })
      .def_prop_ro("size", [](const RankBox& self) { return self.core->communicator.transport().size(); })
      .def("run", run_collective, nb::arg("operation"), nb::arg("x").none(), nb::arg("out").none(),
           nb::arg("root"), nb::arg("op").none(), nb::arg("timeout").none())
      .def("start", start_collective, nb::arg("operation"), nb::arg("x").none(), nb::arg("out").none(),
           nb::arg("root"), nb::arg("op").none());
  nb::class_<PendingBox>(module, "PendingCollective")
      .def("wait", wait_for_collective, nb::arg("timeout").none())
      .def("done", [](const PendingBox& self) { return self.call->done(); });
}

}  // namespace forklift::py
