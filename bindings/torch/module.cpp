#include "bindings/torch/module.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <vector>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/core/stats.h"
#include "bindings/message/pickling.h"
#include "bindings/torch/codec.h"
#include "bindings/torch/library.h"
#include "bindings/torch/memory.h"
#include "node/node.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

using torch::layout;
using torch::StorageView;

using StorageFacts = std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::uint64_t>>;
using TensorFacts =
    std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::uintptr_t, std::uint64_t, bool>>;

std::vector<torch::KnownStorage> known(const StorageFacts& facts) {
  std::vector<torch::KnownStorage> out;
  for (const auto& [address, data, bytes] : facts) out.push_back({address, data, bytes});
  return out;
}

[[noreturn]] void fail(const Status& status) {
  raise(status);
  throw nb::python_error();
}

nb::object owned(PyObject* object) {
  if (!object) throw nb::python_error();
  return nb::steal(object);
}

void* pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

arena::LeasePtr new_block(std::size_t bytes) {
  Result<arena::LeasePtr> lease = [&]() -> Result<arena::LeasePtr> {
    const GilRelease released;
    const Result<node::Node*> node = node::Node::current();
    if (!node) return node.status();
    return (*node)->arena().allocate(arena::Kind::kShare, bytes);
  }();
  if (!lease) fail(lease.status());
  return *std::move(lease);
}

// A copy of the storage's memory in the arena.
arena::LeasePtr copy_of(const void* data, std::size_t bytes) {
  arena::LeasePtr lease = new_block(bytes);
  {
    const GilRelease released;
    std::memcpy(lease->data(), data, bytes);
  }
  count_block_bytes(bytes);
  return lease;
}

bool learn(const StorageFacts& storages, const StorageFacts& foreign, const TensorFacts& tensors,
           const std::vector<std::uint64_t>& plain_keys) {
  std::vector<torch::KnownTensor> facts;
  for (const auto& [object, address, storage, keys, grad] : tensors) {
    facts.push_back({object, address, storage, keys, grad});
  }
  if (layout.learn_storages(known(storages), known(foreign)) && layout.learn_tensors(facts, plain_keys)) {
    return true;
  }
  layout.forget();
  return false;
}

std::span<const std::byte> bytes_of(const nb::bytes& payload) {
  return {reinterpret_cast<const std::byte*>(payload.c_str()), payload.size()};
}

// Enters a tensor into the message that is being pickled. None: torch's own reductions are to send it.
nb::object place_tensor(nb::handle tensor) {
  MessageWriter* writer = current_message();
  const torch::Library* library = torch::Library::loaded();
  if (!writer || !library || !library->is_tensor(tensor.ptr())) return nb::none();
  std::vector<std::byte> out;
  switch (torch::place_tensor(tensor.ptr(), *writer, out)) {
    case Encoded::kDone: return nb::bytes(out.data(), out.size());
    case Encoded::kUnsupported: return nb::none();
    case Encoded::kFailed: break;
  }
  throw nb::python_error();
}

nb::object place_storage(nb::handle owner, std::uintptr_t impl, std::uintptr_t data, std::size_t bytes) {
  MessageWriter* writer = current_message();
  auto* memory = static_cast<std::byte*>(pointer(data));
  if (!writer || bytes == 0) return nb::none();
  if (!layout.known() && !torch::find_held(pointer(impl), memory)) return nb::none();
  std::vector<std::byte> out;
  torch::place_storage(owner.ptr(), pointer(impl), memory, bytes, *writer, out);
  return nb::bytes(out.data(), out.size());
}

MessageReader& reader() {
  MessageReader* now = current_reader();
  if (!now) throw nb::type_error("a tensor's handle means nothing outside of its message");
  return *now;
}

// What is known of the installed torch.
void bind_library(nb::module_& module) {
  module.def(
      "install",
      [](nb::handle tensor, nb::handle parameter, nb::handle from_dlpack, nb::handle exchange,
         nb::handle modes, nb::handle rebuild, nb::handle registered) {
        if (!torch::Library::install(tensor.ptr(), parameter.ptr(), from_dlpack.ptr(), exchange.ptr(),
                                     modes.ptr(), rebuild.ptr(), registered.ptr())) {
          throw nb::python_error();
        }
      },
      nb::arg("tensor"), nb::arg("parameter"), nb::arg("from_dlpack"), nb::arg("exchange").none(),
      nb::arg("modes"), nb::arg("rebuild"), nb::arg("registered"));
  module.def("meet", [] { torch::Library::meet(); });
  module.def("learn", learn);
  module.def("forget", [] { layout.forget(); });
  module.def("known", [] { return layout.known(); });
}

// Storages and memory.
void bind_storages(nb::module_& module) {
  module.def("held", [](std::uintptr_t impl, std::uintptr_t data) {
    return torch::find_held(pointer(impl), static_cast<std::byte*>(pointer(data))) != nullptr;
  });
  module.def("private", [](std::uintptr_t impl) { return StorageView(pointer(impl)).is_private(); });
  // Moves a storage that the caller keeps alive into the arena. False if another thread has moved it
  // meanwhile.
  module.def("move", [](std::uintptr_t impl) {
    const StorageView storage(pointer(impl));
    if (!layout.known() || torch::find_held(storage.impl(), storage.data())) return false;
    std::byte* const data = storage.data();
    const std::uint64_t bytes = storage.bytes();
    arena::LeasePtr lease = copy_of(data, bytes);
    if (storage.data() != data || storage.bytes() != bytes || torch::find_held(storage.impl(), data)) {
      return false;
    }
    torch::adopt(storage, std::move(lease));
    return true;
  });
  // A tensor of bytes over a copy of the memory, in the arena.
  module.def("copy", [](std::uintptr_t data, std::size_t bytes) {
    const auto length = static_cast<std::int64_t>(bytes);
    const std::int64_t one = 1;
    return owned(torch::tensor_over(copy_of(pointer(data), bytes), torch::kBytes, 1, &length, &one));
  });
  // The same over new memory.
  module.def("empty", [](std::size_t bytes) {
    const auto length = static_cast<std::int64_t>(bytes);
    const std::int64_t one = 1;
    return owned(torch::tensor_over(new_block(bytes), torch::kBytes, 1, &length, &one));
  });
}

// Handles for processes that are not reached through a queue.
void bind_handles(nb::module_& module) {
  // Memory for a process that is not reached through a queue of ours: the handle, of which it makes storage.
  module.def(
      "offer", [](std::uintptr_t impl, std::uintptr_t data, std::uint32_t slot, std::uint32_t generation) {
        const torch::Held* held = torch::find_held(pointer(impl), static_cast<std::byte*>(pointer(data)));
        if (!held) throw nb::value_error("not a storage in Forklift's memory");
        const arena::LeasePtr lease = held->lease;
        const Result<arena::Handle> handle = [&] {
          const GilRelease released;
          return lease->arena().offer(lease, {slot, generation});
        }();
        if (!handle) fail(handle.status());
        return nb::bytes(&*handle, sizeof(arena::Handle));
      });
  module.def("claim", [](const nb::bytes& bytes, std::uint64_t size) {
    arena::Handle handle;
    if (bytes.size() != sizeof handle) throw nb::value_error("not a handle");
    std::memcpy(&handle, bytes.c_str(), sizeof handle);
    Result<arena::LeasePtr> lease = [&]() -> Result<arena::LeasePtr> {
      const GilRelease released;
      const Result<node::Node*> node = node::Node::current();
      if (!node) return node.status();
      return (*node)->arena().claim(handle);
    }();
    if (!lease) fail(lease.status());
    if (size > (*lease)->size()) throw nb::value_error("the storage is larger than its memory");
    const auto length = static_cast<std::int64_t>(size);
    const std::int64_t one = 1;
    return owned(torch::tensor_over(*std::move(lease), torch::kBytes, 1, &length, &one));
  });
  // This process's slot, for offers. None: it is in no domain yet.
  module.def("slot", []() -> nb::object {
    node::Node* node = node::Node::existing();
    if (!node || !node->domain().attached()) return nb::none();
    const domain::SlotRef self = node->domain().self();
    return nb::make_tuple(node->domain().control_file().inode(), self.index, self.generation);
  });
}

// What the reductions of forklift.adapters.torch call.
void bind_messages(nb::module_& module) {
  module.def("place_tensor", place_tensor);
  module.def("place_storage", place_storage);
  module.def("take_tensor",
             [](const nb::bytes& payload) { return owned(torch::take_tensor(bytes_of(payload), reader())); });
  module.def("take_storage", [](const nb::bytes& payload) {
    return owned(torch::take_storage(bytes_of(payload), reader()));
  });
}

}  // namespace

void bind_torch(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("_torch", "The mechanics of forklift.adapters.torch.");
  bind_library(module);
  bind_storages(module);
  bind_handles(module);
  bind_messages(module);
  torch::register_torch_decoder();
}

}  // namespace forklift::py
