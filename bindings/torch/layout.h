// The offsets of the fields of torch's storages and tensors. They are found in examples whose values are
// known, so nothing of torch is compiled in or linked, and one build serves every version.
//
//   layout.learn_storages(owned, foreign)          // true: the words of a DataPtr are where they must be
//   StorageView storage(address);                  // of a c10::StorageImpl: UntypedStorage._cdata
//   if (storage.deleter() == ours) ...
//
// The search cannot crash: the kernel copies the words (process_vm_readv) and refuses memory that is not
// mapped. Where a field is not found, or the search is ambiguous, the layout stays unknown: the adapter then
// moves no storage in place and sends through torch's own functions.
//
// All functions need the interpreter lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace forklift::py::torch {

using Deleter = void (*)(void*);

// The known values of an example.
struct KnownStorage {
  std::uintptr_t address;
  std::uintptr_t data;
  std::uint64_t bytes;
};
struct KnownTensor {
  std::uintptr_t object;  // of the Python object
  std::uintptr_t address;
  std::uintptr_t storage;
  std::uint64_t keys;  // dispatch key set
  bool grad;           // requires it
};

class Layout {
 public:
  // Storages of torch's own allocator, of different sizes; and storages over somebody else's memory, which
  // cannot be resized. False: not as any torch known so far has it.
  bool learn_storages(const std::vector<KnownStorage>& owned, const std::vector<KnownStorage>& foreign);
  bool learn_tensors(const std::vector<KnownTensor>& tensors, const std::vector<std::uint64_t>& plain_keys);
  void forget() noexcept { *this = Layout(); }

  bool known() const noexcept { return storages_ && tensors_; }
  bool is_plain(std::uint64_t keys) const noexcept { return keys == plain_[0] || keys == plain_[1]; }

 private:
  friend class StorageView;
  friend class TensorView;
  bool storages_ = false;
  bool tensors_ = false;
  // In a StorageImpl.
  std::size_t data_ = 0;
  std::size_t context_ = 0;
  std::size_t deleter_ = 0;
  std::size_t bytes_ = 0;
  std::size_t resizable_ = 0;
  Deleter plain_deleter_ = nullptr;
  // In a tensor's Python object, and in a TensorImpl.
  std::size_t impl_ = 0;
  std::size_t storage_ = 0;
  std::size_t autograd_ = 0;
  std::size_t keys_ = 0;
  std::uint64_t plain_[2] = {};
};

extern Layout layout;

template <class T>
T peek(const void* object, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(object) + offset, sizeof value);
  return value;
}
template <class T>
void poke(void* object, std::size_t offset, T value) noexcept {
  std::memcpy(static_cast<std::byte*>(object) + offset, &value, sizeof value);
}

// A c10::StorageImpl that somebody keeps alive. Only when the layout is known.
class StorageView {
 public:
  explicit StorageView(void* impl) noexcept : impl_(impl) {}
  void* impl() const noexcept { return impl_; }
  std::byte* data() const noexcept { return peek<std::byte*>(impl_, layout.data_); }
  std::uint64_t bytes() const noexcept { return peek<std::uint64_t>(impl_, layout.bytes_); }
  void* context() const noexcept { return peek<void*>(impl_, layout.context_); }
  Deleter deleter() const noexcept { return peek<Deleter>(impl_, layout.deleter_); }
  // Memory of torch's own allocator, which nobody else can know.
  bool is_private() const noexcept { return deleter() == layout.plain_deleter_; }
  // The caller has taken over context and deleter.
  void set(std::byte* data, void* context, Deleter deleter) const noexcept {
    poke(impl_, layout.deleter_, deleter);
    poke(impl_, layout.context_, context);
    poke(impl_, layout.data_, data);
  }
  // As torch does with shared memory, since resizing would replace the memory.
  void forbid_resizing() const noexcept {
    if (layout.resizable_ != 0) poke(impl_, layout.resizable_, std::uint8_t{0});
  }

 private:
  void* impl_;
};

// A tensor's Python object. Only when the layout is known.
class TensorView {
 public:
  explicit TensorView(const void* object) noexcept : impl_(peek<void*>(object, layout.impl_)) {}
  void* storage() const noexcept { return peek<void*>(impl_, layout.storage_); }
  // False: neither a gradient nor a history, hook or view that autograd knows of.
  bool has_autograd() const noexcept { return peek<void*>(impl_, layout.autograd_) != nullptr; }
  std::uint64_t keys() const noexcept { return peek<std::uint64_t>(impl_, layout.keys_); }

 private:
  void* impl_;
};

}  // namespace forklift::py::torch
