// Frozen: a structure of numbers, text, arrays, lists and maps in one block of shared memory, read in place.
//
//   using forklift::Value;
//   forklift::Frozen table = forklift::Frozen::freeze(Value(Value::Map{{"name", "x"}, {"rows", rows}}));
//   forklift::Queue<forklift::Frozen> out;
//   out.put(table);                                        // a handle, whatever its size
//   ...
//   std::string_view name = *table.find("name")->string(); // points into the block
//   for (std::size_t i = 0; i < rows.size(); ++i) use(*rows.at(i).integer());
//
// Thread and process safety: nobody can change it, so any number of both read one copy without a lock. A part
// (at, key, find) is a small handle that keeps the whole block. Python's forklift.freeze() makes the same
// structures: one that is put into a PortableQueue arrives as a Tensor, of which Frozen::over() makes a
// Frozen; memory() is the way back.
//
// Errors: what the block holds was written by another process. Each access is checked against the block's
// size; what does not read is an Error (kCorrupt), an empty optional where one is returned.
//
// Invariants: string_view, span and Tensor that come from here are valid as long as some part of it lives; a
// Tensor keeps the block by itself and is read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "forklift/tensor.h"
#include "forklift/value.h"

namespace forklift::inline abi_0_1 {

class Frozen {
 public:
  // What there can be in a frozen structure.
  enum class Kind : std::uint8_t {
    kNull,
    kBool,
    kInt,
    kDouble,
    kString,
    kBytes,
    kList,  // Python's tuples, too
    kMap,
    kTensor,  // NumPy's scalars, too
    kOther,   // what only Python reads: integers beyond 64 bits, complex numbers, other dtypes
  };

  // A copy of a value in a new block of the process's arena. Throws Error: kOverBudget, kNoSpace,
  // kNotAttached; kInvalid for an integer above 2^63 - 1 or a value nested too deep.
  static Frozen freeze(const Value& value);
  // The structure that a block holds: `memory` is one dimension of uint8 in the arena. kInvalid: it is not;
  // kCorrupt: it holds something else.
  static Frozen over(const Tensor& memory);
  // The block, as a read-only tensor of bytes.
  Tensor memory() const;

  // What this part of it is.
  Kind kind() const noexcept;
  // Items of a list, entries of a map; 0 of anything else.
  std::size_t size() const noexcept;
  // The i-th item of a list, or value of a map, and the i-th key of a map. kInvalid beyond the end.
  Frozen at(std::size_t i) const;
  Frozen key(std::size_t i) const;
  // The value of a key of a map; empty if there is none.
  std::optional<Frozen> find(std::string_view key) const;
  std::optional<Frozen> find(std::int64_t key) const;

  // Empty if it is of another kind.
  std::optional<bool> boolean() const noexcept;
  std::optional<std::int64_t> integer() const noexcept;
  std::optional<double> real() const noexcept;  // of an integer, too
  std::optional<std::string_view> string() const noexcept;
  std::optional<std::span<const std::byte>> bytes() const noexcept;
  Tensor tensor() const;

  // An ordinary copy of everything but tensors, which stay where they are. kInvalid: nested too deep, or a
  // part is kOther.
  Value to_value() const;

 private:
  Frozen(std::shared_ptr<Storage> storage, std::uint64_t offset) noexcept
      : storage_(std::move(storage)), offset_(offset) {}
  template <class Equal>
  std::optional<Frozen> find_hashed(std::uint64_t hash, Equal&& equal) const;
  // Nothing: it does not read.
  std::optional<Frozen> part(std::size_t i, unsigned which) const;
  Frozen existing_part(std::size_t i, unsigned which) const;
  Value to_value(std::size_t depth) const;

  std::shared_ptr<Storage> storage_;
  std::uint64_t offset_;  // of its slot
};

template <>
struct ValueTraits<Frozen> {
  static Value to(const Frozen& frozen) { return Value(frozen.memory()); }
  static Frozen from(const Value& value) {
    const Tensor* memory = value.get_if<Tensor>();
    if (memory == nullptr) detail::mismatch(value, "a frozen structure");
    return Frozen::over(*memory);
  }
};

}  // namespace forklift::inline abi_0_1
