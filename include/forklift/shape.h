// Shapes and strides: how the elements of a tensor lie in memory.
//
//   Dims shape{480, 640, 3};
//   Dims strides = c_strides(shape);                   // {1920, 3, 1}: counted in elements, as DLPack does
//   is_c_contiguous(shape, strides);                   // true
//   std::cout << shape;                                // (480, 640, 3)
//
// Thread and process safety: values and pure functions. Dims is an ordinary container: distinct objects may
// be used from distinct threads. The pointers inside a Dims mean nothing to another process.
//
// Invariants: a tensor with a zero in its shape has no elements,
// touches no memory and counts as contiguous; an empty shape is one element (a scalar).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

namespace forklift::inline abi_0_1 {

// NumPy 2 allows 64 dimensions, PyTorch 64.
inline constexpr std::size_t kMaxDims = 64;

// A short list of lengths or strides. Up to kInline of them lie inside the object; more (rare) on the heap.
class Dims {
 public:
  // How many lie inside the object.
  static constexpr std::size_t kInline = 8;

  Dims() noexcept = default;
  // These lengths.
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) : size_(values.size()) {
    if (size_ > kInline) [[unlikely]] {
      reserve_discarding(size_);
      for (std::size_t i = 0; i < size_; ++i) heap_[i] = values[i];
    } else {
      copy_inline(values.data());
    }
  }
  // `count` times the same.
  Dims(std::size_t count, std::int64_t value);
  Dims(const Dims& other) : Dims(std::span(other.data(), other.size())) {}
  Dims(Dims&& other) noexcept { take(other); }
  Dims& operator=(const Dims& other);
  Dims& operator=(Dims&& other) noexcept {
    if (this != &other) {
      delete[] heap_;
      take(other);
    }
    return *this;
  }
  ~Dims() { delete[] heap_; }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::int64_t* data() noexcept { return heap_ != nullptr ? heap_ : inline_; }
  const std::int64_t* data() const noexcept { return heap_ != nullptr ? heap_ : inline_; }
  // Precondition: i < size().
  std::int64_t& operator[](std::size_t i) noexcept { return data()[i]; }
  std::int64_t operator[](std::size_t i) const noexcept { return data()[i]; }
  std::int64_t* begin() noexcept { return data(); }
  std::int64_t* end() noexcept { return data() + size_; }
  const std::int64_t* begin() const noexcept { return data(); }
  const std::int64_t* end() const noexcept { return data() + size_; }

  // One more at the end.
  void push_back(std::int64_t value) {
    if (size_ == capacity_) [[unlikely]]
      grow();
    data()[size_++] = value;
  }
  // Precondition: i < size().
  void erase(std::size_t i) noexcept;
  // Of this one alone. Without an allocation, whatever it held.
  void be_one(std::int64_t value) noexcept {
    size_ = 1;
    *data() = value;
  }

  bool operator==(const Dims& other) const noexcept {
    if (size_ != other.size_) return false;
    for (std::size_t i = 0; i < size_; ++i) {
      if (data()[i] != other.data()[i]) return false;
    }
    return true;
  }
  std::string to_string() const;  // "(480, 640, 3)"
  friend std::ostream& operator<<(std::ostream& out, const Dims& dims);

 private:
  void take(Dims& other) noexcept {
    size_ = other.size_;
    capacity_ = other.capacity_;
    heap_ = other.heap_;
    if (heap_ == nullptr) [[likely]] {
      copy_inline(other.inline_);
    } else {
      other.capacity_ = kInline;
      other.heap_ = nullptr;
    }
    other.size_ = 0;
  }
  // The first size_ numbers. Every way of a tensor moves two Dims, mostly short: number by number, since a copy of wider
  // pieces waits for the single numbers that were stored last (store forwarding). Of a plain loop compilers make such a
  // copy, or a call of memmove(); they know nothing of an index that an assembler's statement may have changed.
  void copy_inline(const std::int64_t* from) noexcept {
    for (std::size_t i = 0; i < size_; ++i) {
      inline_[i] = from[i];
      asm("" : "+r"(i));
    }
  }
  void reserve_discarding(std::size_t count);
  void grow();

  std::size_t size_ = 0;
  std::size_t capacity_ = kInline;
  std::int64_t* heap_ = nullptr;
  std::int64_t inline_[kInline];  // the first size_ of them, where there is no heap_
};

// Lengths or strides of whoever has them.
using DimSpan = std::span<const std::int64_t>;

// Row-major as in C, column-major as in Fortran.
enum class Order : std::uint8_t {
  kC,
  kF
};

// Strides in elements of an array without gaps. Precondition: their number fits into 63 bits. A zero counts as a one.
Dims c_strides(DimSpan shape);
Dims f_strides(DimSpan shape);

// Dimensions of length one may have any stride. Precondition: shape.size() == strides.size().
bool is_c_contiguous(DimSpan shape, DimSpan strides) noexcept;
bool is_f_contiguous(DimSpan shape, DimSpan strides) noexcept;

}  // namespace forklift::inline abi_0_1
