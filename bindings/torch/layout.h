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

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace forklift::py::torch {

using Deleter = void (*)(void*);

// DLPack's word for an element type.
struct Element {
  std::uint8_t code;
  std::uint8_t bits;
  std::size_t size() const noexcept { return bits / 8U; }
  bool operator==(const Element&) const = default;
};
inline constexpr Element kBytes{1, 8};

// The known values of an example.
struct KnownStorage {
  std::uintptr_t address;
  std::uintptr_t data;
  std::uint64_t bytes;
  std::uint32_t references;
};
struct KnownTensor {
  std::uintptr_t object;  // of the Python object
  std::uintptr_t address;
  std::uintptr_t storage;
  std::uint64_t keys;  // dispatch key set
  bool grad;           // requires it
  std::uint64_t offset;
  std::int64_t version;  // -1: it has none
  std::uint32_t references;
};
// Tensors of every dtype that DLPack can describe, alike in everything else, two of each.
struct KnownType {
  std::uintptr_t address;
  Element element;
};

class Layout {
 public:
  // Storages of torch's own allocator, of different sizes; and storages over somebody else's memory, which
  // cannot be resized. False: not as any torch known so far has it.
  bool learn_storages(const std::vector<KnownStorage>& owned, const std::vector<KnownStorage>& foreign);
  bool learn_tensors(const std::vector<KnownTensor>& tensors, const std::vector<std::uint64_t>& plain_keys);
  bool learn_types(const std::vector<KnownType>& types);
  void forget() noexcept { *this = Layout(); }

  bool known() const noexcept { return storages_ && tensors_ && types_known_; }
  bool is_plain(std::uint64_t keys) const noexcept { return keys == plain_[0] || keys == plain_[1]; }
  // The same of tensors on a GPU of NVIDIA's. None, as long as nobody has said which keys these have.
  bool is_plain_cuda(std::uint64_t keys) const noexcept {
    return keys != 0 && (keys == plain_cuda_[0] || keys == plain_cuda_[1]);
  }
  void set_plain_cuda(std::uint64_t outside, std::uint64_t inside_of_inference) noexcept {
    plain_cuda_[0] = outside;
    plain_cuda_[1] = inside_of_inference;
  }
  // An element of no bits for types that were not among the examples.
  Element element_of(std::uint16_t type) const noexcept {
    return type < elements_.size() ? elements_[type] : Element{};
  }

 private:
  friend class StorageView;
  friend class TensorView;
  void learn_versions(const std::vector<KnownTensor>& tensors);

  bool storages_ = false;
  bool tensors_ = false;
  bool types_known_ = false;
  // In a StorageImpl.
  std::size_t data_ = 0;
  std::size_t context_ = 0;
  std::size_t deleter_ = 0;
  std::size_t bytes_ = 0;
  std::size_t resizable_ = 0;           // 0: not found
  std::size_t storage_references_ = 0;  // 0: not found
  Deleter plain_deleter_ = nullptr;
  // In a tensor's Python object, and in a TensorImpl.
  std::size_t impl_ = 0;
  std::size_t storage_ = 0;
  std::size_t autograd_ = 0;
  std::size_t keys_ = 0;
  std::size_t offset_ = 0;
  std::size_t type_ = 0;
  std::size_t tensor_references_ = 0;  // 0: not found
  std::size_t counter_ = 0;            // a pointer to the version counter; 0: not found
  std::size_t version_ = 0;            // in the version counter
  std::uint64_t plain_[2] = {};
  std::uint64_t plain_cuda_[2] = {};
  std::array<Element, 64> elements_{};  // by torch's number of the type
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
  // torch takes the right to resize from a storage whose memory NumPy has seen.
  bool is_resizable() const noexcept {
    return layout.resizable_ != 0 && peek<std::uint8_t>(impl_, layout.resizable_) != 0;
  }
  // Are there so many references, and no more? No, where the layout does not tell.
  bool has_references(std::uint32_t count) const noexcept {
    return layout.storage_references_ != 0 && peek<std::uint32_t>(impl_, layout.storage_references_) == count;
  }
  // The caller has taken over context and deleter.
  void set(std::byte* data, void* context, Deleter deleter) const noexcept {
    poke(impl_, layout.deleter_, deleter);
    poke(impl_, layout.context_, context);
    poke(impl_, layout.data_, data);
  }
  // Resizing replaces the memory, so what is shared may not be resized.
  void set_resizable(bool resizable) const noexcept {
    if (layout.resizable_ != 0) poke(impl_, layout.resizable_, static_cast<std::uint8_t>(resizable));
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
  // Of the first element in the storage, in elements; also where there are no elements.
  std::uint64_t offset() const noexcept { return peek<std::uint64_t>(impl_, layout.offset_); }
  Element element() const noexcept { return layout.element_of(peek<std::uint16_t>(impl_, layout.type_)); }
  bool has_one_reference() const noexcept {
    return layout.tensor_references_ != 0 && peek<std::uint32_t>(impl_, layout.tensor_references_) == 1;
  }
  // How often the tensor was written to, as autograd counts. Tensors of inference mode have no counter.
  void set_version(std::uint32_t version) const noexcept {
    void* const counter = layout.counter_ != 0 ? peek<void*>(impl_, layout.counter_) : nullptr;
    if (counter) poke(counter, layout.version_, version);
  }

 private:
  void* impl_;
};

}  // namespace forklift::py::torch
