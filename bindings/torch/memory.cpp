#include "bindings/torch/memory.h"

#include <pthread.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "bindings/core/gil.h"
#include "bindings/torch/library.h"

namespace forklift::py::torch {

namespace {

// Which storages lie at an address, possibly several. Used only where the layout is unknown. Storages die in
// any thread, even while another one forks.
class Registry {
 public:
  static Registry& get() {
    static auto* const registry = new Registry;
    return *registry;
  }
  void add(Held* held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_.emplace(held->data, held);
  }
  void remove(Held* held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto [at, end] = held_.equal_range(held->data);
    while (at != end && at->second != held) ++at;
    if (at != end) held_.erase(at);
  }
  Held* find(const std::byte* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = held_.find(data);
    return at == held_.end() ? nullptr : at->second;
  }

 private:
  Registry() {
    ::pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                     [] { get().mutex_.unlock(); });
  }
  std::mutex mutex_;
  std::unordered_multimap<const std::byte*, Held*> held_;
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
    if (!self->held) return;
    Registry::get().remove(self->held);
    release(self->held);
  }
};

// Giving a lease back may wait for the arena's lock, so other Python threads run meanwhile.
void give_back(arena::LeasePtr lease) {
  if (lease.use_count() == 1 && Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const GilRelease released;
    lease.reset();
  }
}

}  // namespace

void release(void* context) {
  const std::unique_ptr<Held> held(static_cast<Held*>(context));
  if (held->old_deleter) held->old_deleter(held->old_context);
  give_back(std::move(held->lease));
}

Held* find_held(void* impl, const std::byte* data) {
  if (!layout.known()) return Registry::get().find(data);
  const StorageView storage(impl);
  return storage.deleter() == &release ? static_cast<Held*>(storage.context()) : nullptr;
}

void adopt(StorageView storage, arena::LeasePtr lease) {
  auto held = std::make_unique<Held>();
  held->data = lease->data();
  held->lease = std::move(lease);
  held->old_deleter = storage.deleter();
  held->old_context = storage.context();
  std::byte* data = held->data;
  storage.set(data, held.release(), &release);
  storage.forbid_resizing();
}

PyObject* tensor_over(arena::LeasePtr lease, Element element, std::int32_t ndim, const std::int64_t* shape,
                      const std::int64_t* strides) {
  const Library* library = Library::require();
  if (!library) return nullptr;
  auto made = std::make_unique<Export>();
  // torch copies shape and strides.
  made->fill({lease->data(),
              {dlpack::kCpu, 0},
              ndim,
              {element.code, element.bits, 1},
              const_cast<std::int64_t*>(shape),
              const_cast<std::int64_t*>(strides),
              0});
  const bool known = layout.known();
  std::unique_ptr<Held> held;
  if (!known) {
    held = std::make_unique<Held>();
    held->data = lease->data();
    held->lease = lease;
  }
  PyObject* tensor = library->imports_versioned() ? library->import_versioned(&made->versioned)
                                                  : library->import_plain(&made->plain);
  // torch may own the structure even if it failed. It is leaked then, since freeing it twice would be worse.
  Export* owned = made.release();
  if (!tensor) return nullptr;
  if (known) {
    adopt(StorageView(TensorView(tensor).storage()), std::move(lease));
  } else {
    owned->held = held.release();
    Registry::get().add(owned->held);
  }
  return tensor;
}

}  // namespace forklift::py::torch
