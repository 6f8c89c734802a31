// Packed: a list of numbers, or bytes, that a Value holds in one piece; included by value.h.
//
//   Value scores = std::vector<float>(1000000);     // 4 MB and no million Values
//   auto back = scores.as<std::vector<float>>();    // one copy
//   scores.get_if<Value::List>();                   // a list like any other: made when it is asked for
//
// What can be packed are the numbers of dtype.h, enums, durations and time points (their numbers), and
// std::complex and std::array of numbers, whose items are lists of `width` numbers.
//
// Thread safety: const, but for the list or bytes made on demand: any number of threads may ask. Process
// safety: private, though the numbers may lie in memory that a message brought, which nobody writes.
// Invariant: the bytes are a whole number of items; `owner` (null: whoever lent the memory) keeps them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "forklift/dtype.h"

namespace forklift::inline abi_0_1 {

class Value;
template <class T>
struct ValueTraits;

namespace detail {

// Marks what is known here by what it can do: traits of the program's own come first (sendable.h).
struct KnownHere {};

// What the items are. Not numbers: bytes of something else.
struct PackedType {
  DType number = DType::kUInt8;
  bool bytes = true;
  std::uint32_t width = 0;  // of items that are lists themselves; 0: single numbers

  std::size_t item_bytes() const noexcept {
    return bytes ? 1 : std::size_t{sizes_of(number).item} * (width == 0 ? 1 : width);
  }
  bool operator==(const PackedType&) const noexcept = default;
};

class Packed {
 public:
  Packed(PackedType type, std::span<const std::byte> memory, std::shared_ptr<const void> owner) noexcept
      : type_(type), memory_(memory), owner_(std::move(owner)) {}
  // A copy of its own.
  Packed(PackedType type, std::span<const std::byte> memory);
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  ~Packed();

  const PackedType& type() const noexcept { return type_; }
  std::span<const std::byte> memory() const noexcept { return memory_; }
  std::size_t size() const noexcept { return memory_.size() / type_.item_bytes(); }
  // Precondition: numbers, and i < size().
  Value at(std::size_t i) const;

  // As the Value's kind has them: of numbers, of bytes.
  const std::vector<Value>* list() const;
  const std::vector<std::byte>* bytes() const;

 private:
  PackedType type_;
  std::span<const std::byte> memory_;
  std::shared_ptr<const void> owner_;
  mutable std::atomic<const std::vector<Value>*> list_{nullptr};
  mutable std::atomic<const std::vector<std::byte>*> bytes_{nullptr};
};

// --- which types are packed, and as what

template <class T>
concept DurationLike = requires(const T& time) {
  typename T::period;
  { time.count() } -> std::same_as<typename T::rep>;
  T(typename T::rep{});
};
template <class T>
concept TimePointLike = requires(const T& time) {
  typename T::clock;
  requires DurationLike<typename T::duration>;
  { time.time_since_epoch() } -> std::same_as<typename T::duration>;
  T(typename T::duration{});
};

template <class T>
concept TravelsAsNumber = (std::is_enum_v<T> || DurationLike<T> || TimePointLike<T>) &&
                          std::is_base_of_v<KnownHere, ValueTraits<T>>;

template <class T>
struct NumberOf {};
template <class T>
  requires(std::integral<T> && sizeof(T) <= 8)
struct NumberOf<T> {
  static constexpr int kLog2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  static constexpr auto kFirst = std::is_signed_v<T> ? DType::kInt8 : DType::kUInt8;
  static constexpr DType kDType = static_cast<DType>(static_cast<int>(kFirst) + kLog2);
};
template <>
struct NumberOf<bool> {
  static constexpr DType kDType = DType::kBool;
};
template <>
struct NumberOf<float> {
  static constexpr DType kDType = DType::kFloat32;
};
template <>
struct NumberOf<double> {
  static constexpr DType kDType = DType::kFloat64;
};
// No numbers, though integral: text.
template <>
struct NumberOf<wchar_t> {};
template <>
struct NumberOf<char8_t> {};
template <>
struct NumberOf<char16_t> {};
template <>
struct NumberOf<char32_t> {};

template <class T>
struct NumberBehind {
  using type = T;
};
template <class T>
  requires(std::is_enum_v<T> && TravelsAsNumber<T>)
struct NumberBehind<T> {
  using type = std::underlying_type_t<T>;
};
template <class T>
  requires(DurationLike<T> && TravelsAsNumber<T>)
struct NumberBehind<T> {
  using type = typename T::rep;
};
template <class T>
  requires(TimePointLike<T> && TravelsAsNumber<T>)
struct NumberBehind<T> {
  using type = typename T::duration::rep;
};

template <class T>
concept PackedNumber = requires {
  NumberOf<typename NumberBehind<T>::type>::kDType;
  requires sizeof(T) == sizeof(typename NumberBehind<T>::type);
  requires std::is_trivially_copyable_v<T>;
};

template <class T>
struct PackedItem {};
template <PackedNumber T>
struct PackedItem<T> {
  using Number = T;
  static constexpr std::uint32_t kWidth = 0;
};
template <PackedNumber T, std::size_t N>
  requires(N > 0 && N <= 0xffff)
struct PackedItem<std::array<T, N>> {
  using Number = T;
  static constexpr auto kWidth = static_cast<std::uint32_t>(N);
};
template <std::floating_point T>
  requires PackedNumber<T>
struct PackedItem<std::complex<T>> {
  using Number = T;
  static constexpr std::uint32_t kWidth = 2;
};

// A vector of these is packed.
template <class T>
concept Packs = requires { PackedItem<T>::kWidth; };
template <Packs T>
inline constexpr PackedType kPackedType{
    NumberOf<typename NumberBehind<typename PackedItem<T>::Number>::type>::kDType, false,
    PackedItem<T>::kWidth};
// Any byte is one of these, so that what another process sent can be copied as it is. Not so a bool.
template <class T>
concept CopiesPacked = Packs<T> && !std::same_as<typename PackedItem<T>::Number, bool>;

}  // namespace detail
}  // namespace forklift::inline abi_0_1
