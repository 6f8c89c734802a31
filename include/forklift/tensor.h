// Tensor: a typed, strided view of memory that it keeps alive.
//
//   std::vector<float> pixels(480 * 640);
//   Tensor image = Tensor::wrap(Storage::borrow(pixels.data(), pixels.size() * sizeof(float)),
//                               DType::kFloat32, {480, 640});
//   Tensor crop = image.narrow(0, 100, 64).narrow(1, 200, 64);     // a view: the same memory
//   crop.fill(1.0f);
//   crop.at<float>({0, 0}) = 2.0f;                                 // pixels[100 * 640 + 200], checked
//   for (float& x : image.span<float>()) x *= 0.5f;                // contiguous tensors only
//   auto rows = image.view<float, 2>();                            // tensor_view.h: any strides
//   rows(3, 4) += rows(2, 4);
//   std::cout << crop << '\n';                                     // float32(64, 64) [[2, 1, 1, ...], ...]
//
// A Tensor is a small value, like a shared_ptr: copying one copies no element, and a const Tensor does not
// make its elements const. Memory is read-only only where readonly() says so.
//
// Errors: Error with kInvalid for a dimension, an index, a type or a shape that does not fit, with the values that
// were involved; for memory kOverBudget, kNoSpace, kNotAttached.
//
// Thread safety: distinct Tensor objects may be used from distinct threads, also when they share their
// storage; accesses to the elements are the program's to order, as with any memory. Process safety: the
// object itself lies in private memory. Its elements may lie in the arena and then be seen by other
// processes; ordering accesses is again the program's. Dropping the last reference runs the storage's
// destructor, which may call into whoever lent the memory (a DLPack deleter may take Python's GIL): never
// drop a tensor while holding an internal lock.
//
// Invariants: every element lies inside the storage; the first element is aligned for the dtype; there are at
// most kMaxDims dimensions and the number of elements and of bytes fits into 63 bits. Whatever would break
// one of them is refused where the tensor is made, so a Tensor never needs to be checked again. A moved-from and a default-made tensor is an empty float32 of shape (0,) without storage.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "forklift/dtype.h"
#include "forklift/shape.h"

namespace forklift::inline abi_0_1 {

namespace detail {
struct PendingAccess;
struct StorageAccess;
struct TensorAccess;
}  // namespace detail

// Memory with an owner. Derive from it to lend memory to tensors: the destructor gives it back.
//
// Operations (forklift/ops.h) may still be computing on memory of which nobody has asked for the address. Asking for
// it waits for them, and from then on operations on this memory are complete when they return: nobody who holds an
// address sees elements change behind his back.
class Storage {
 public:
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  virtual ~Storage();

  // Where it is, once no operation is computing on it; and how long it is. Null for memory of a device, which the CPU
  // cannot touch.
  std::byte* data() const noexcept {
    if (access_.load(std::memory_order_acquire) == kOpen) [[likely]]
      return data_;
    return open();
  }
  std::size_t bytes() const noexcept { return bytes_; }
  // Does it lie on a device, and not where the CPU can touch it?
  bool on_device() const noexcept { return access_.load(std::memory_order_relaxed) == kDevice; }
  // Whether somebody may hold the address, so that data() returns at once.
  bool is_open() const noexcept { return access_.load(std::memory_order_acquire) == kOpen; }

  // The arena's lease if this memory is a block of an arena; null otherwise. What it points to is the arena
  // layer's own; a tensor whose storage has one is sent as a handle, any other is copied into a block first.
  virtual const void* arena_lease() const noexcept { return nullptr; }

  // Private memory, aligned for every dtype and to a cache line. Not cleared.
  static std::shared_ptr<Storage> heap(std::size_t bytes);
  // Somebody else's memory; `owner` (may be null: then the caller promises it) keeps it alive.
  static std::shared_ptr<Storage> borrow(void* data, std::size_t bytes,
                                         std::shared_ptr<const void> owner = nullptr);

 protected:
  // Precondition: data is non-null unless bytes is zero, and data + bytes does not wrap.
  Storage(void* data, std::size_t bytes) noexcept : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}

 private:
  friend struct detail::StorageAccess;
  // kOpen: somebody may hold its address. kUnseen: nobody does. kBusy: nobody does, and operations were queued that
  // read or write it. kDevice: the CPU cannot touch it.
  enum Access : std::uint8_t {
    kOpen,
    kUnseen,
    kBusy,
    kDevice
  };
  std::byte* open() const noexcept;

  std::byte* data_;
  std::size_t bytes_;
  mutable std::atomic<Access> access_{kOpen};
  mutable std::atomic<bool> bound_{
      false};  // what lies here is an object of its domain, of which there are no copies
  mutable std::uint32_t forks_ = 0;                   // how many forks there had been when it was made
  mutable detail::PendingAccess* pending_ = nullptr;  // owned; under the lock of src/tensor/pending.cpp
};

template <class T, std::size_t Rank>
class TensorView;

class Tensor {
  // Only the library has one: its tensors are checked where they are made.
  struct Key {
    explicit Key() = default;
  };

 public:
  Tensor() = default;
  // For the library alone.
  template <class Shape, class Strides>
  Tensor(Key, std::shared_ptr<Storage>&& storage, std::size_t offset, std::int64_t numel, Shape&& shape,
         Strides&& strides, DType dtype, bool readonly) noexcept
      : storage_(std::move(storage)),
        offset_(offset),
        numel_(numel),
        shape_(std::forward<Shape>(shape)),
        strides_(std::forward<Strides>(strides)),
        dtype_(dtype),
        readonly_(readonly) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(const Tensor&) = default;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() = default;
  // Exchanges the two, whatever they are.
  void swap(Tensor& other) noexcept;

  // New memory in the process's own arena (made by the first call), elements in C order: it travels to other
  // processes as a handle, and they see the same elements. empty() does not clear it.
  static Tensor empty(const Dims& shape, DType dtype);
  static Tensor zeros(const Dims& shape, DType dtype);

  // A view of `storage`, its first element at `byte_offset`. Strides count elements and may be zero or
  // negative; without them the elements lie in C order without gaps.
  static Tensor wrap(std::shared_ptr<Storage> storage, DType dtype, Dims shape, std::size_t byte_offset = 0,
                     bool readonly = false);
  static Tensor wrap_strided(std::shared_ptr<Storage> storage, DType dtype, Dims shape, Dims strides,
                             std::size_t byte_offset = 0, bool readonly = false);

  // What the elements are, and how many in which order.
  DType dtype() const noexcept { return dtype_; }
  const Dims& shape() const noexcept { return shape_; }
  const Dims& strides() const noexcept { return strides_; }  // in elements
  std::size_t ndim() const noexcept { return shape_.size(); }
  std::int64_t numel() const noexcept { return numel_; }
  std::size_t item_size() const noexcept { return forklift::item_size(dtype_); }
  // Of the elements, not of the memory that they are spread over.
  std::size_t nbytes() const noexcept { return static_cast<std::size_t>(numel_) * item_size(); }
  bool readonly() const noexcept { return readonly_; }
  bool is_contiguous(Order order = Order::kC) const noexcept;
  const std::shared_ptr<Storage>& storage() const noexcept { return storage_; }
  std::size_t byte_offset() const noexcept { return offset_; }  // of the first element in the storage

  // The first element, of whatever type, once no operation is computing on it (Storage::data). Writing through it to
  // a read-only tensor is the caller's error, and so is using the elements of an operation that failed: data() throws.
  std::byte* raw() const noexcept {
    std::byte* const memory = storage_ ? storage_->data() : nullptr;
    return memory != nullptr ? memory + offset_ : nullptr;
  }

  // The first element, the others being strides() apart. data_if() is null where data() throws: if T is not the
  // dtype's type, or if the tensor is read-only and T is not const.
  template <class T>
    requires Element<std::remove_const_t<T>>
  T* data_if() const noexcept {
    if (dtype_ != dtype_of<std::remove_const_t<T>>() || (readonly_ && !std::is_const_v<T>)) return nullptr;
    return reinterpret_cast<T*>(raw());
  }
  template <class T>
    requires Element<std::remove_const_t<T>>
  T* data() const {
    require_access<T>(false);
    return reinterpret_cast<T*>(raw());
  }

  // All elements in C order. Error also if the tensor is not C-contiguous. The span does not keep the memory.
  template <class T>
    requires Element<std::remove_const_t<T>>
  std::span<T> span() const {
    require_access<T>(true);
    return std::span<T>(reinterpret_cast<T*>(raw()), static_cast<std::size_t>(numel_));
  }

  // One element. Error also if there are not as many indices as dimensions, or one is out of range. A negative index
  // counts from the end, as everywhere below.
  template <class T>
    requires Element<std::remove_const_t<T>>
  T& at(std::initializer_list<std::int64_t> index) const {
    return data<T>()[element_offset(DimSpan(index.begin(), index.size()))];
  }

  // Elements by their indices, for loops: tensor_view.h.
  template <class T, std::size_t Rank>
    requires Element<std::remove_const_t<T>>
  TensorView<T, Rank> view() const;

  // Views. All share the storage.
  Tensor select(std::int64_t dim, std::int64_t index) const;  // one dimension less
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  // Python's [start:stop:step] with its clamping; a nullopt is an omitted bound. step may be negative, not zero.
  Tensor slice(std::int64_t dim, std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
               std::int64_t step = 1) const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  Tensor permute(DimSpan order) const;
  Tensor permute(std::initializer_list<std::int64_t> order) const {
    return permute(DimSpan(order.begin(), order.size()));
  }
  // C-contiguous tensors only (copy first otherwise). One length may be -1: whatever remains.
  Tensor reshape(Dims shape) const;
  // Where its elements lie: "CPU", or the name of a device (forklift/device.h).
  std::string device() const;
  // A copy there, or the tensor itself if it is there already. Error: as set_device_target() says.
  Tensor to(const std::string& device) const;

  // The same elements, not to be written through the result.
  Tensor as_readonly() const;

  // Sets every element.
  template <Element T>
  void fill(const T& value) {
    fill_elements(dtype_of<T>(), &value);
  }
  void fill_zero();

  // Copies the elements of a tensor with the same dtype and shape; strides may differ. The two may overlap.
  void copy_from(const Tensor& source);

  // Equal dtype, shape, strides and read-only flag; nothing about the memory.
  bool same_layout(const Tensor& other) const noexcept;
  // The same elements of the same storage.
  bool same_view(const Tensor& other) const noexcept;
  // Equal dtype and shape, and elements equal bit for bit (so a NaN equals itself and 0.0 differs from -0.0).
  bool same_elements(const Tensor& other) const;

  std::string to_string() const;  // "float32(480, 640)", for messages
  // The same with the elements: "float32(2, 2) [[1, 2], [3, 4]]". Of a dimension longer than six only the first and
  // the last three; of a large tensor of more than four dimensions none.
  friend std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

 private:
  friend struct detail::TensorAccess;
  // What an empty tensor says of itself, once the storage is gone.
  void forget_layout() noexcept;
  template <class T>
  void require_access(bool contiguous) const {
    if (dtype_ == dtype_of<std::remove_const_t<T>>() && !(readonly_ && !std::is_const_v<T>) && !contiguous &&
        is_open()) [[likely]]
      return;
    check_access(dtype_of<std::remove_const_t<T>>(), !std::is_const_v<T>, contiguous);
  }
  bool is_open() const noexcept { return !storage_ || storage_->is_open(); }
  void check_access(DType wanted, bool write, bool contiguous) const;
  std::int64_t element_offset(DimSpan index) const;
  void fill_elements(DType dtype, const void* item);

  std::shared_ptr<Storage> storage_;
  std::size_t offset_ = 0;
  std::int64_t numel_ = 0;
  Dims shape_{0};
  Dims strides_{1};
  DType dtype_ = DType::kFloat32;
  bool readonly_ = false;
};

}  // namespace forklift::inline abi_0_1

#include "forklift/detail/format.h"
#include "forklift/tensor_view.h"
