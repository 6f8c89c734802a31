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
#include "bindings/torch/old_memory_worker.h"
#include "device/cuda/gpu.h"
#include "device/cuda/pinned_leases.h"
#include "node/node.h"
#include "sync/past_caches.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

using torch::layout;
using torch::StorageView;

// As forklift.adapters.torch's probe lists them: in the order of the structures' fields.
using StorageFacts = std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::uint64_t, std::uint32_t>>;
using TensorFacts = std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::uintptr_t, std::uint64_t,
                                           bool, std::uint64_t, std::int64_t, std::uint32_t>>;
using TypeFacts = std::vector<std::tuple<std::uintptr_t, std::uint8_t, std::uint8_t>>;

template <class Known, class Facts>
std::vector<Known> known(const Facts& facts) {
  std::vector<Known> out;
  for (const auto& fact : facts) {
    out.push_back(std::apply([](auto... values) { return Known{values...}; }, fact));
  }
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

arena::LeasePtr new_block(std::size_t bytes, bool named) {
  Result<arena::LeasePtr> lease = [&]() -> Result<arena::LeasePtr> {
    const GilRelease released;
    if (named) return torch::make_named(bytes);
    const Result<node::Node*> node = node::Node::current();
    if (!node) return node.status();
    return (*node)->arena().allocate(arena::Kind::kShare, bytes);
  }();
  if (!lease) fail(lease.status());
  return *std::move(lease);
}

// A copy of memory in the arena.
arena::LeasePtr copy_of(const void* data, std::size_t bytes, const torch::Placement& placement) {
  arena::LeasePtr lease;
  if (placement.named) {
    const auto copied = [&]() -> Status {
      const GilRelease released;
      Result<segment::Segments::Hollow> made = torch::make_hollow(bytes);
      if (!made) return made.status();
      lease = std::move(made->lease);
      return torch::write_named(*lease, made->file, {static_cast<const std::byte*>(data), bytes});
    }();
    if (!copied) fail(copied);
  } else {
    lease = new_block(placement.begin + bytes, false);
    const GilRelease released;
    std::memcpy(lease->data() + placement.begin, data, bytes);
  }
  count_block_bytes(bytes);
  return lease;
}

bool learn(const StorageFacts& storages, const StorageFacts& foreign, const TensorFacts& tensors,
           const std::vector<std::uint64_t>& plain_keys, const TypeFacts& types) {
  std::vector<torch::KnownType> elements;
  for (const auto& [address, code, bits] : types) elements.push_back({address, {code, bits}});
  if (layout.learn_storages(known<torch::KnownStorage>(storages), known<torch::KnownStorage>(foreign)) &&
      layout.learn_tensors(known<torch::KnownTensor>(tensors), plain_keys) && layout.learn_types(elements)) {
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
         nb::handle modes, nb::handle rebuild, nb::handle registered, nb::handle from_weak,
         nb::handle strategies) {
        if (!torch::Library::install(tensor.ptr(), parameter.ptr(), from_dlpack.ptr(), exchange.ptr(),
                                     modes.ptr(), rebuild.ptr(), registered.ptr(), from_weak.ptr(),
                                     strategies.ptr())) {
          throw nb::python_error();
        }
      },
      nb::arg("tensor"), nb::arg("parameter"), nb::arg("from_dlpack"), nb::arg("exchange").none(),
      nb::arg("modes"), nb::arg("rebuild"), nb::arg("registered"), nb::arg("from_weak"),
      nb::arg("strategies"));
  module.def("meet", [] { torch::Library::meet(); });
  module.def("learn", learn);
  module.def("forget", [] { layout.forget(); });
  // The dispatch keys of plain tensors on a GPU of NVIDIA's, outside and inside of inference mode.
  module.def("learn_cuda_keys",
             [](std::uint64_t outside, std::uint64_t inside) { layout.set_plain_cuda(outside, inside); });
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
    const torch::Placement placement = torch::placement_of(storage);
    arena::LeasePtr lease = copy_of(data, bytes, placement);
    if (storage.data() != data || storage.bytes() != bytes || torch::find_held(storage.impl(), data)) {
      return false;
    }
    const std::byte* const moved_to = lease->data() + placement.begin;
    torch::adopt(storage, std::move(lease), placement.begin);
    torch::give_back_old(storage.impl(), moved_to, nullptr);
    return true;
  });
  // After a tensor's storage has moved, whose object of Python's the caller has.
  module.def("give_back_old", [](nb::handle tensor, nb::handle) {
    const torch::Library* library = torch::Library::loaded();
    if (!layout.known() || !library || !library->is_tensor(tensor.ptr())) return;
    void* const impl = torch::TensorView(tensor.ptr()).storage();
    if (impl) torch::give_back_old(impl, StorageView(impl).data(), tensor.ptr(), 2);
  });
  // Waits until the memory of all moved storages is given back.
  module.def("finish_giving_back", [] {
    const GilRelease released;
    torch::OldMemoryWorker::get().finish();
  });
  // Lets torch resize a storage in our memory, which replaces the memory. Returns whether it may also grow from
  // then on.
  module.def("allow_resizing", [](std::uintptr_t impl) {
    const StorageView storage(pointer(impl));
    const torch::Held* held = torch::find_held(storage.impl(), storage.data());
    if (!layout.known() || !held) return true;
    storage.set_resizable(true);
    return held->has_allocator;
  });
  module.def("forbid_resizing", [](std::uintptr_t impl) {
    if (layout.known()) StorageView(pointer(impl)).set_resizable(false);
  });
  // A tensor of bytes over a copy of the memory, in the arena. `keep` lives as long as its storage.
  module.def(
      "copy",
      [](std::uintptr_t data, std::size_t bytes, nb::handle keep) {
        return owned(torch::bytes_over(copy_of(pointer(data), bytes, {torch::Library::wants_names(), 0}), 0,
                                       bytes, keep.ptr()));
      },
      nb::arg("data"), nb::arg("bytes"), nb::arg("keep").none());
  // The same over new memory.
  module.def("empty", [](std::size_t bytes) {
    return owned(torch::bytes_over(new_block(bytes, torch::Library::wants_names()), 0, bytes));
  });
  // Copies pieces of equal size one behind the other, past the caches. The caller keeps all of them alive.
  module.def("gather", [](std::uintptr_t out, const std::vector<std::uintptr_t>& pieces, std::size_t bytes) {
    const GilRelease released;
    auto* at = static_cast<std::byte*>(pointer(out));
    for (const std::uintptr_t piece : pieces) {
      sync::copy_past_caches(at, pointer(piece), bytes);
      at += bytes;
    }
  });
}

// A storage's memory for a process that is not reached through a queue of ours.
struct Offer {
  arena::Handle handle;
  std::uint64_t begin;  // of the storage in the block
};

nb::bytes offer(std::uintptr_t impl, std::uintptr_t data, std::uint32_t slot, std::uint32_t generation) {
  const torch::Held* held = torch::find_held(pointer(impl), static_cast<std::byte*>(pointer(data)));
  if (!held) throw nb::value_error("not a storage in Forklift's memory");
  const arena::LeasePtr lease = held->lease;
  const std::uint64_t begin = held->begin();
  const Result<arena::Handle> handle = [&] {
    const GilRelease released;
    return lease->arena().offer(lease, {slot, generation});
  }();
  if (!handle) fail(handle.status());
  const Offer made{*handle, begin};
  return nb::bytes(&made, sizeof made);
}

// The storage of an offer.
nb::object claim(const nb::bytes& bytes, std::uint64_t size) {
  Offer offered;
  if (bytes.size() != sizeof offered) throw nb::value_error("not an offer");
  std::memcpy(&offered, bytes.c_str(), sizeof offered);
  Result<arena::LeasePtr> lease = [&]() -> Result<arena::LeasePtr> {
    const GilRelease released;
    const Result<node::Node*> node = node::Node::current();
    if (!node) return node.status();
    Result<arena::LeasePtr> claimed = (*node)->arena().claim(offered.handle);
    if (!claimed) return claimed;
    if (Status opened = (*node)->arena().open_memory(**claimed); !opened) return opened;
    return claimed;
  }();
  if (!lease) fail(lease.status());
  if (offered.begin > (*lease)->size() || size > (*lease)->size() - offered.begin) {
    throw nb::value_error("the storage is larger than its memory");
  }
  return owned(torch::storage_over(*std::move(lease), offered.begin, size));
}

// (the manager's socket, the name) of a storage in a named segment, for torch's own functions in processes that
// are not of this tree; the manager keeps the name for a moment after this process's end. None: it has none.
nb::object share_name(std::uintptr_t impl, std::uintptr_t data) {
  const torch::Held* held = torch::find_held(pointer(impl), static_cast<std::byte*>(pointer(data)));
  node::Node* node = node::Node::existing();
  if (!held || !node || held->lease->object().kind != arena::ObjectKind::kSegment) return nb::none();
  const arena::LeasePtr lease = held->lease;
  const Status handed = [&] {
    const GilRelease released;
    return node->segments().hand_over(*lease);
  }();
  if (!handed) fail(handed);
  const std::string socket = node->segments().socket();
  const std::string name = node->segments().name_of(*lease);
  return nb::make_tuple(nb::bytes(socket.data(), socket.size()), nb::bytes(name.data(), name.size()));
}

void bind_handles(nb::module_& module) {
  module.def("share_name", share_name);
  module.def("offer", offer);
  module.def("claim", claim);
  // This process's slot, for offers. None: it is in no domain yet.
  module.def("slot", []() -> nb::object {
    node::Node* node = node::Node::existing();
    if (!node || !node->domain().attached()) return nb::none();
    const domain::SlotRef self = node->domain().self();
    return nb::make_tuple(node->domain().control_file().inode(), self.index, self.generation);
  });
}

// Memory that torch copies to and from GPUs by itself.
void bind_pinning(nb::module_& module) {
  // Has a storage's memory registered with the driver of the GPU of that number, in place. False: it is not, since it
  // does not lie in the arena, or the driver refuses.
  module.def("pin", [](std::uintptr_t impl, std::uintptr_t data, int ordinal) {
    const torch::Held* held = torch::find_held(pointer(impl), static_cast<std::byte*>(pointer(data)));
    if (!held) return false;
    const arena::LeasePtr lease = held->lease;
    const GilRelease released;
    const Result<std::shared_ptr<device::Device>> device = device::open_gpu(ordinal);
    return device.ok() && device::cuda::PinnedLeases::of_process().pin((*device)->gpu()->place(), lease);
  });
  // Gives back the blocks whose tensors are gone, once the GPUs are done. How many.
  module.def("collect_pinned", [](bool all) {
    const GilRelease released;
    return device::cuda::PinnedLeases::of_process().collect(all);
  });
  // (how many blocks are kept for torch, how many ranges and bytes are registered, how many registrations failed)
  module.def("pinned", [] {
    const auto now = device::cuda::PinnedArena::of_process().stats();
    return nb::make_tuple(device::cuda::PinnedLeases::of_process().count(), now.ranges, now.bytes,
                          now.failed);
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
  bind_pinning(module);
  torch::register_torch_decoder();
}

}  // namespace forklift::py
