// The bytes of a frozen structure: numbers, text, arrays, lists and maps in one block of shared memory, to be
// read in place by any number of processes. docs/layout.md describes them in prose; C++ programs read them
// with forklift/frozen.h.
//
//   frozen::Builder builder;
//   const std::uint64_t items = builder.slots(2);
//   builder.set(items, builder.text(Tag::kString, bytes));
//   builder.set(items + 16, frozen::integer(7));
//   builder.finish(frozen::list(Tag::kList, 2, items));    // then builder.image() and builder.total()
//
//   frozen::Image image{lease.data(), lease.size()};
//   frozen::Slot root; image.load(image.root(), root);      // every access is checked
//
// An image is written once, before anybody else sees it, and never changed. A reader may nevertheless be
// handed anything by a peer that is broken, so each access copies a slot, checks it against the image's size
// and only then follows it: reading a wrong image ends in an error or in wrong values, never outside of it.
//
// Thread and process safety: a Builder is one thread's; an Image is a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "message/wire.h"

namespace forklift::inline abi_0_1::frozen {

// Numbers that travel: never changed, only added to.
enum class Tag : std::uint8_t {
  kNull = 1,
  kBool = 2,    // body: 0 or 1
  kInt = 3,     // body: two's complement
  kReal = 4,    // body: the double's bits
  kString = 5,  // length bytes of UTF-8 (lone surrogates as three bytes); up to 8 of them are the body itself
  kBytes = 6,   // likewise
  kList = 7,    // body: offset of `length` slots
  kTuple = 8,   // likewise
  kMap = 9,     // body: offset of `length` pairs of slots, then of the index (see below)
  // body: offset of a tensor description (wire.h) of `length` dimensions; its offset is the image's
  kArray = 10,
  kScalar = 11,   // as kArray, of no dimensions: a NumPy scalar
  kForeign = 12,  // body: offset of {offset, bytes, length of descr, shape[length]}, then descr: other dtypes
  kBigInt = 13,   // length characters: hexadecimal, with 0x and perhaps a minus; as kString
  kComplex = 14,  // body: offset of two doubles
};

// 16 bytes, aligned to 8.
struct Slot {
  std::uint64_t head = 0;  // tag in the low byte, length above
  std::uint64_t body = 0;

  Tag tag() const noexcept { return static_cast<Tag>(head & 0xff); }
  std::uint64_t length() const noexcept { return head >> 8; }
};
static_assert(sizeof(Slot) == 16);

constexpr Slot make_slot(Tag tag, std::uint64_t length, std::uint64_t body) noexcept {
  return {static_cast<std::uint64_t>(tag) | (length << 8), body};
}
constexpr Slot null() noexcept { return make_slot(Tag::kNull, 0, 0); }
constexpr Slot boolean(bool value) noexcept { return make_slot(Tag::kBool, 0, value ? 1 : 0); }
constexpr Slot integer(std::int64_t value) noexcept {
  return make_slot(Tag::kInt, 0, static_cast<std::uint64_t>(value));
}
Slot real(double value) noexcept;

inline constexpr std::uint64_t kMagic = 0x315a46544c465246;  // "FRFLTFZ1"
// Header: magic, the image's bytes, the root's slot.
inline constexpr std::uint64_t kRootOffset = 16;
inline constexpr std::uint64_t kHeaderBytes = 32;
inline constexpr std::uint64_t kInlineText = 8;
// Maps above this have an index: places (a power of two, at least twice the entries) of 32 bits, 0 or the
// entry's number + 1; an entry's first place is its key's hash modulo their number.
inline constexpr std::uint64_t kUnindexed = 8;
inline constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 30;

// Equal keys have equal hashes, across integers and reals as in Python.
std::uint64_t hash_null() noexcept;
std::uint64_t hash_integer(std::int64_t value) noexcept;  // booleans, too
std::uint64_t hash_real(double value) noexcept;  // and integers beyond 64 bits, as the nearest double
std::uint64_t hash_text(Tag tag, std::span<const std::byte> bytes) noexcept;
std::uint64_t hash_tuple(std::span<const std::uint64_t> items) noexcept;

constexpr std::uint64_t index_places(std::uint64_t entries) noexcept {
  std::uint64_t places = 16;
  while (places < 2 * entries) places *= 2;
  return places;
}

class Builder {
 public:
  Builder() : image_(kHeaderBytes) {}

  // Each of these appends a part, and returns its slot or its offset for the part that refers to it.
  Slot text(Tag tag, std::span<const std::byte> bytes);
  // Room for `bytes` of text. The caller writes it before the next part is appended.
  std::byte* text_room(Tag tag, std::uint64_t bytes, Slot& slot);
  std::uint64_t slots(std::uint64_t count);
  // Room for a map's pairs and index.
  std::uint64_t pairs(std::uint64_t entries);
  void set(std::uint64_t offset, Slot slot) noexcept { std::memcpy(&image_[offset], &slot, sizeof slot); }
  // Writes the index of a map. `hashes`: those of the keys, in the order of the entries.
  void index(std::uint64_t pairs, std::span<const std::uint64_t> hashes);
  // An array whose elements the caller copies later, to array_offset(number) of the finished image.
  Slot array(const wire::TensorMeta& meta, bool scalar, std::size_t& number);
  Slot foreign(std::span<const std::int64_t> shape, std::uint64_t bytes, std::span<const std::byte> descr,
               std::size_t& number);
  Slot complex(double re, double im);

  // Places the arrays behind everything else and writes the header.
  void finish(Slot root);
  std::span<const std::byte> image() const noexcept { return image_; }  // all but the arrays
  std::uint64_t total() const noexcept { return total_; }               // with the arrays
  std::uint64_t array_offset(std::size_t number) const noexcept { return arrays_[number].at; }

 private:
  struct Array {
    std::uint64_t patch;  // where its offset is to be written
    std::uint64_t bytes;
    std::uint64_t at;
  };
  std::uint64_t room(std::uint64_t bytes, std::uint64_t align);
  void write(std::uint64_t offset, std::uint64_t word) noexcept { std::memcpy(&image_[offset], &word, 8); }

  std::vector<std::byte> image_;
  std::vector<Array> arrays_;
  std::uint64_t total_ = 0;
};

// An array of a dtype that only NumPy has.
struct Foreign {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Dims shape;
  std::span<const std::byte> descr;
};

class Image {
 public:
  Image(const std::byte* data, std::uint64_t bytes) noexcept : data_(data), bytes_(bytes) {}

  // Whether the memory begins with an image's header.
  bool valid() const noexcept;
  bool load(std::uint64_t offset, Slot& slot) const noexcept;
  // The text of a string, bytes or big integer whose slot lies at `offset`. False: the image is wrong, as in
  // the following functions.
  bool text(std::uint64_t offset, const Slot& slot, std::span<const std::byte>& bytes) const noexcept;
  // Where the slot of an item of a list or tuple lies, or that of a key (part 0) or value (part 1) of a map.
  bool item(const Slot& slot, std::uint64_t i, std::uint64_t& offset) const noexcept;
  bool entry(const Slot& slot, std::uint64_t i, unsigned part, std::uint64_t& offset) const noexcept;
  // Looks a key up in a map: calls `equal(entry)` for the entries that may have it until one is true. Returns
  // that entry, or nothing.
  template <class Equal>
  std::optional<std::uint64_t> find(const Slot& map, std::uint64_t hash, Equal&& equal) const {
    const std::uint64_t entries = map.length();
    std::uint64_t unused = 0;
    if (entries == 0 || entries > kMostEntries || !entry(map, entries - 1, 1, unused)) return std::nullopt;
    if (entries <= kUnindexed) {
      for (std::uint64_t i = 0; i < entries; ++i) {
        if (equal(i)) return i;
      }
      return std::nullopt;
    }
    const std::uint64_t places = index_places(entries);
    const std::uint64_t begin = map.body + entries * 2 * sizeof(Slot);
    if (!inside(begin, places * 4)) return std::nullopt;
    for (std::uint64_t step = 0; step < places; ++step) {
      std::uint32_t place = 0;
      std::memcpy(&place, data_ + begin + ((hash + step) & (places - 1)) * 4, 4);
      if (place == 0) return std::nullopt;
      if (place <= entries && equal(std::uint64_t{place} - 1)) return std::uint64_t{place} - 1;
    }
    return std::nullopt;
  }
  // An array's description, checked against the image; byte_offset counts from the image's begin.
  Result<wire::TensorMeta> array(const Slot& slot) const;
  Result<Foreign> foreign(const Slot& slot) const;
  bool complex(const Slot& slot, double& re, double& im) const noexcept;

  const std::byte* data() const noexcept { return data_; }

 private:
  bool inside(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }
  std::uint64_t word(std::uint64_t offset) const noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, data_ + offset, 8);
    return value;
  }

  const std::byte* data_;
  std::uint64_t bytes_;
};

}  // namespace forklift::inline abi_0_1::frozen
