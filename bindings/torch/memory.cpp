#include "bindings/torch/memory.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "bindings/core/gil.h"
#include "bindings/torch/library.h"
#include "bindings/torch/old_memory_worker.h"
#include "node/node.h"

namespace forklift::py::torch {

namespace {

// The live storages by their addresses. Storages die in any thread, even while another one forks, and leave
// the table before their memory is given up: as long as the lock is held, an entry's storage is not freed.
class LiveStorages {
 public:
  static LiveStorages& get() {
    static auto* const table = new LiveStorages;
    return *table;
  }
  void add(Held* held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_.insert_or_assign(held->data, held);
  }
  void remove(const Held* held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = held_.find(held->data);
    // A dying storage's place may have been taken already.
    if (at != held_.end() && at->second == held) held_.erase(at);
  }
  Held* find(const std::byte* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return find_locked(data);
  }
  // What `use(held)` answers, while the storage cannot be freed; a null for an address without one. `use` runs
  // no Python code and does not wait.
  template <class Use>
  auto with(const std::byte* data, Use&& use) -> decltype(use(*find(data))) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Held* const held = find_locked(data);
    return held ? use(*held) : decltype(use(*held)){};
  }

 private:
  LiveStorages() {
    ::pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                     [] { get().mutex_.unlock(); });
  }
  Held* find_locked(const std::byte* data) const {
    const auto at = held_.find(data);
    return at == held_.end() ? nullptr : at->second;
  }
  std::mutex mutex_;
  std::unordered_map<const std::byte*, Held*> held_;
};

// A DLPack structure that torch owns; `held` only where the layout is unknown.
struct Export {
  dlpack::ManagedTensorVersioned versioned{};
  dlpack::ManagedTensor plain{};
  Held* held = nullptr;

  void fill(dlpack::PlainTensor tensor) {
    versioned = {
        {1, 0}, this, [](dlpack::ManagedTensorVersioned* self) { drop(self->manager_context); }, 0, tensor};
    plain = {tensor, this, [](dlpack::ManagedTensor* self) { drop(self->manager_context); }};
  }
  static void drop(void* context) {
    const std::unique_ptr<Export> self(static_cast<Export*>(context));
    if (self->held) release(self->held);
  }
};

// Giving a lease back may wait for the arena's lock, so other Python threads run meanwhile.
void give_back(arena::LeasePtr lease) {
  if (lease.use_count() == 1 && Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const GilRelease released;
    lease.reset();
  }
}

void drop_reference(PyObject* object) {
  if (!object || interpreter_ends()) return;
  const WithGil locked;
  Py_DECREF(object);
}

// Where the collector cannot run, no finalizer can, and so nobody else gets the interpreter lock.
class CollectorPause {
 public:
  CollectorPause() noexcept : was_enabled_(PyGC_Disable() != 0) {}
  ~CollectorPause() {
    if (was_enabled_) PyGC_Enable();
  }
  CollectorPause(const CollectorPause&) = delete;
  CollectorPause& operator=(const CollectorPause&) = delete;

 private:
  bool was_enabled_;
};

}  // namespace

void release(void* context) {
  const std::unique_ptr<Held> held(static_cast<Held*>(context));
  LiveStorages::get().remove(held.get());
  held->old = OldMemory();
  drop_reference(held->keep);
  give_back(std::move(held->lease));
}

Held* find_held(void* impl, const std::byte* data) {
  if (!layout.known()) return LiveStorages::get().find(data);
  const StorageView storage(impl);
  return storage.deleter() == &release ? static_cast<Held*>(storage.context()) : nullptr;
}

// torch's receivers give back a reference that torch's senders take, and Forklift's do not.
constexpr std::int32_t kForkliftsReferences = 1 << 30;

namespace {
std::uint32_t own_pid() noexcept { return static_cast<std::uint32_t>(::getpid()); }
}  // namespace

Result<arena::LeasePtr> make_named(std::size_t bytes) {
  const Result<node::Node*> node = node::Node::current();
  if (!node) return node.status();
  Result<arena::LeasePtr> lease = (*node)->segments().create(bytes, kNamedHead, own_pid());
  if (!lease) return lease;
  auto* const references = reinterpret_cast<std::int32_t*>((*lease)->data() - kNamedHead);
  std::atomic_ref<std::int32_t>(*references).store(kForkliftsReferences);
  return lease;
}

Result<segment::Segments::Hollow> make_hollow(std::size_t bytes) {
  const Result<node::Node*> node = node::Node::current();
  if (!node) return node.status();
  return (*node)->segments().create_hollow(bytes, kNamedHead, own_pid());
}

Status write_named(const arena::Lease& lease, const os::Fd& file, std::span<const std::byte> data) {
  const Result<node::Node*> node = node::Node::current();
  if (!node) return node.status();
  std::array<std::byte, kNamedHead> head{};
  std::memcpy(head.data(), &kForkliftsReferences, sizeof kForkliftsReferences);
  return (*node)->segments().write(lease, file, head, data);
}

Placement placement_of(StorageView storage) noexcept {
  const bool named = Library::wants_names();
  return {named, layout.known() && !named ? displacement_of(storage) : 0};
}

void adopt(StorageView storage, arena::LeasePtr lease, std::size_t begin) {
  auto held = std::make_unique<Held>();
  held->data = lease->data() + begin;
  held->impl = storage.impl();
  held->has_allocator = storage.is_private();
  held->lease = std::move(lease);
  held->old = OldMemory(storage);
  LiveStorages::get().add(held.get());
  std::byte* const data = held->data;
  storage.set(data, held.release(), &release);
  storage.set_resizable(false);
}

void give_back_old(void* impl, const std::byte* data, PyObject* owner, std::uint32_t references) {
  const Library* library = Library::loaded();
  const PyObject* tensor = owner && library && library->is_tensor(owner) ? owner : nullptr;
  bool sole = false;
  const bool later = LiveStorages::get().with(data, [&](Held& held) {
    if (held.impl != impl) return false;
    sole = tensor && TensorView(tensor).storage() == impl && TensorView(tensor).has_one_reference() &&
           StorageView(impl).has_references(references);
    return held.old.give_back(sole);
  });
  if (!later) return;
  const auto step = [=] {
    OldMemory freed;  // outside of the table's lock
    return LiveStorages::get().with(data, [&](Held& held) {
      return held.impl == impl && held.old.give_back_more(*held.lease, held.begin(), sole, freed);
    });
  };
  if (sole) {
    OldMemoryWorker::get().add(step);
    return;
  }
  // Somebody who reads at the old addresses shall see what is written from now on.
  const GilRelease released;
  while (step()) continue;
}

PyObject* tensor_over(arena::LeasePtr lease, std::size_t begin, Element element, std::int32_t ndim,
                      const std::int64_t* shape, const std::int64_t* strides, PyObject* keep) {
  const Library* library = Library::require();
  if (!library) return nullptr;
  auto made = std::make_unique<Export>();
  // torch copies shape and strides.
  made->fill({lease->data() + begin,
              {dlpack::kCpu, 0},
              ndim,
              {element.code, element.bits, 1},
              const_cast<std::int64_t*>(shape),
              const_cast<std::int64_t*>(strides),
              0});
  PyObject* tensor = library->imports_versioned() ? library->import_versioned(&made->versioned)
                                                  : library->import_plain(&made->plain);
  // torch may own the structure even if it failed. It is leaked then, since freeing it twice would be worse.
  Export* owned = made.release();
  if (!tensor) return nullptr;
  if (layout.known()) {
    adopt(StorageView(TensorView(tensor).storage()), std::move(lease), begin);
    return tensor;
  }
  auto held = std::make_unique<Held>();
  held->data = lease->data() + begin;
  held->impl = library->storage_of(tensor);
  held->lease = std::move(lease);
  held->keep = Py_XNewRef(keep);
  LiveStorages::get().add(held.get());
  owned->held = held.release();
  return tensor;
}

PyObject* bytes_over(arena::LeasePtr lease, std::size_t begin, std::uint64_t bytes, PyObject* keep) {
  const auto length = static_cast<std::int64_t>(bytes);
  const std::int64_t one = 1;
  return tensor_over(std::move(lease), begin, kBytes, 1, &length, &one, keep);
}

PyObject* living_storage(const arena::Lease& lease, std::size_t begin, std::uint64_t bytes) {
  const Library* library = Library::require();
  if (!library) {
    PyErr_Clear();
    return nullptr;
  }
  const std::byte* const data = lease.data() + begin;
  const CollectorPause paused;
  return LiveStorages::get().with(data, [&](const Held& held) -> PyObject* {
    if (!held.impl) return nullptr;
    if (layout.known()) {
      const StorageView storage(held.impl);
      if (storage.context() != &held || storage.bytes() != bytes) return nullptr;
    }
    return library->storage_at(held.impl);
  });
}

PyObject* storage_over(arena::LeasePtr lease, std::size_t begin, std::uint64_t bytes) {
  if (PyObject* living = living_storage(*lease, begin, bytes)) return living;
  PyObject* tensor = bytes_over(std::move(lease), begin, bytes);
  PyObject* storage = tensor ? PyObject_CallMethod(tensor, "untyped_storage", nullptr) : nullptr;
  Py_XDECREF(tensor);
  return storage;
}

}  // namespace forklift::py::torch
