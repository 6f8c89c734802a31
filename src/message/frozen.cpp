#include "message/frozen.h"

#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "tensor/extent.h"

namespace forklift::inline abi_0_1::frozen {
namespace {

constexpr std::uint64_t kMostDescr = 1 << 20;

// The finaliser of MurmurHash3: each bit of the input changes half of the output's.
constexpr std::uint64_t mix(std::uint64_t word) noexcept {
  word ^= word >> 33;
  word *= 0xff51afd7ed558ccdULL;
  word ^= word >> 33;
  word *= 0xc4ceb9fe1a85ec53ULL;
  return word ^ (word >> 33);
}

Status corrupt(const char* what) {
  return {Code::kCorrupt, std::string("a frozen structure does not read: ").append(what)};
}

}  // namespace

Slot real(double value) noexcept { return make_slot(Tag::kReal, 0, std::bit_cast<std::uint64_t>(value)); }

std::uint64_t hash_null() noexcept { return mix(0x6e756c6c); }
std::uint64_t hash_integer(std::int64_t value) noexcept { return mix(static_cast<std::uint64_t>(value)); }

std::uint64_t hash_real(double value) noexcept {
  if (value >= -0x1p63 && value < 0x1p63 && std::trunc(value) == value) {
    return hash_integer(static_cast<std::int64_t>(value));
  }
  return mix(std::bit_cast<std::uint64_t>(value) ^ 0x7265616c);
}

// FNV-1a over words, then mixed.
std::uint64_t hash_text(Tag tag, std::span<const std::byte> bytes) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ static_cast<std::uint64_t>(tag);
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = std::rotl(hash ^ word, 23) * 0x100000001b3ULL;
  }
  for (; left > 0; ++at, --left) hash = (hash ^ std::to_integer<std::uint64_t>(*at)) * 0x100000001b3ULL;
  return mix(hash ^ bytes.size());
}

std::uint64_t hash_tuple(std::span<const std::uint64_t> items) noexcept {
  std::uint64_t hash = 0x7475706c65 + items.size();
  for (const std::uint64_t item : items) hash = mix(std::rotl(hash, 17) ^ item);
  return hash;
}

std::uint64_t Builder::room(std::uint64_t bytes, std::uint64_t align) {
  const std::uint64_t at = (image_.size() + align - 1) & ~(align - 1);
  image_.resize(at + bytes);
  return at;
}

std::byte* Builder::text_room(Tag tag, std::uint64_t bytes, Slot& slot) {
  const std::uint64_t at = room(bytes, 1);
  slot = make_slot(tag, bytes, at);
  return &image_[at];
}

Slot Builder::text(Tag tag, std::span<const std::byte> bytes) {
  Slot slot = make_slot(tag, bytes.size(), 0);
  if (bytes.size() <= kInlineText) {
    if (!bytes.empty()) std::memcpy(&slot.body, bytes.data(), bytes.size());
  } else {
    std::memcpy(text_room(tag, bytes.size(), slot), bytes.data(), bytes.size());
  }
  return slot;
}

std::uint64_t Builder::slots(std::uint64_t count) { return room(count * sizeof(Slot), 8); }

std::uint64_t Builder::pairs(std::uint64_t entries) {
  return room(entries * 2 * sizeof(Slot) + (entries > kUnindexed ? index_places(entries) * 4 : 0), 8);
}

void Builder::index(std::uint64_t pairs, std::span<const std::uint64_t> hashes) {
  if (hashes.size() <= kUnindexed) return;
  const std::uint64_t places = index_places(hashes.size());
  const std::uint64_t begin = pairs + hashes.size() * 2 * sizeof(Slot);
  std::uint32_t number = 0;
  for (const std::uint64_t hash : hashes) {
    ++number;
    for (std::uint64_t at = hash & (places - 1);; at = (at + 1) & (places - 1)) {
      std::uint32_t taken = 0;
      std::memcpy(&taken, &image_[begin + at * 4], 4);
      if (taken != 0) continue;
      std::memcpy(&image_[begin + at * 4], &number, 4);
      break;
    }
  }
}

Slot Builder::array(const wire::TensorMeta& meta, bool scalar, std::size_t& number) {
  const std::uint64_t at = room(wire::meta_bytes(meta.shape.size()), 8);
  wire::encode_meta(meta, &image_[at]);
  number = arrays_.size();
  std::uint64_t bytes = item_size(meta.dtype);
  for (const std::int64_t length : meta.shape) bytes *= static_cast<std::uint64_t>(length);
  arrays_.push_back({at + 8, bytes, 0});
  return make_slot(scalar ? Tag::kScalar : Tag::kArray, meta.shape.size(), at);
}

Slot Builder::foreign(std::span<const std::int64_t> shape, std::uint64_t bytes,
                      std::span<const std::byte> descr, std::size_t& number) {
  const std::uint64_t at = room(24 + shape.size() * 8 + descr.size(), 8);
  write(at + 8, bytes);
  write(at + 16, descr.size());
  std::byte* rest = image_.data() + at + 24;
  if (!shape.empty()) std::memcpy(rest, shape.data(), shape.size() * 8);
  if (!descr.empty()) std::memcpy(rest + shape.size() * 8, descr.data(), descr.size());
  number = arrays_.size();
  arrays_.push_back({at, bytes, 0});
  return make_slot(Tag::kForeign, shape.size(), at);
}

Slot Builder::complex(double re, double im) {
  const std::uint64_t at = room(16, 8);
  write(at, std::bit_cast<std::uint64_t>(re));
  write(at + 8, std::bit_cast<std::uint64_t>(im));
  return make_slot(Tag::kComplex, 0, at);
}

void Builder::finish(Slot root) {
  total_ = image_.size();
  for (Array& array : arrays_) {
    array.at = (total_ + 63) & ~std::uint64_t{63};
    total_ = array.at + array.bytes;
    write(array.patch, array.at);
  }
  write(0, kMagic);
  write(8, total_);
  set(kRootOffset, root);
}

bool Image::valid() const noexcept {
  return bytes_ >= kHeaderBytes && word(0) == kMagic && word(8) <= bytes_;
}

bool Image::load(std::uint64_t offset, Slot& slot) const noexcept {
  if ((offset & 7) != 0 || !inside(offset, sizeof slot)) return false;
  std::memcpy(&slot, data_ + offset, sizeof slot);
  return true;
}

bool Image::text(std::uint64_t offset, const Slot& slot, std::span<const std::byte>& bytes) const noexcept {
  const std::uint64_t begin = slot.length() <= kInlineText ? offset + 8 : slot.body;
  if (!inside(begin, slot.length())) return false;
  bytes = {data_ + begin, slot.length()};
  return true;
}

bool Image::item(const Slot& slot, std::uint64_t i, std::uint64_t& offset) const noexcept {
  if (i >= slot.length() || slot.length() > bytes_ / sizeof(Slot)) return false;
  if ((slot.body & 7) != 0 || !inside(slot.body, slot.length() * sizeof(Slot))) return false;
  offset = slot.body + i * sizeof(Slot);
  return true;
}

bool Image::entry(const Slot& slot, std::uint64_t i, unsigned part, std::uint64_t& offset) const noexcept {
  if (i >= slot.length() || slot.length() > bytes_ / (2 * sizeof(Slot))) return false;
  if ((slot.body & 7) != 0 || !inside(slot.body, slot.length() * 2 * sizeof(Slot))) return false;
  offset = slot.body + (2 * i + part) * sizeof(Slot);
  return true;
}

Result<wire::TensorMeta> Image::array(const Slot& slot) const {
  if (slot.length() > kMaxDims) return corrupt("an array's dimensions");
  const std::size_t size = wire::meta_bytes(slot.length());
  if (!inside(slot.body, size)) return corrupt("an array's description");
  Result<wire::TensorMeta> meta = wire::decode_meta({data_ + slot.body, size});
  if (!meta) return meta.status();
  if (Status status =
          tensor::check_within(meta->shape, meta->strides, item_size(meta->dtype), meta->byte_offset, bytes_);
      !status.ok() || meta->byte_offset % alignment(meta->dtype) != 0) {
    return corrupt("an array outside of it");
  }
  meta->readonly = true;
  return meta;
}

Result<Foreign> Image::foreign(const Slot& slot) const {
  const std::uint64_t ndim = slot.length();
  if (ndim > kMaxDims || (slot.body & 7) != 0 || !inside(slot.body, 24 + ndim * 8)) {
    return corrupt("an array's description");
  }
  Foreign found;
  found.offset = word(slot.body);
  found.bytes = word(slot.body + 8);
  const std::uint64_t descr = word(slot.body + 16);
  const std::uint64_t at = slot.body + 24 + ndim * 8;
  if (descr > kMostDescr || !inside(at, descr) || !inside(found.offset, found.bytes)) {
    return corrupt("an array outside of it");
  }
  found.shape = Dims(ndim, 0);
  if (ndim != 0) std::memcpy(found.shape.data(), data_ + slot.body + 24, ndim * 8);
  if (Result<std::int64_t> count = tensor::numel(found.shape); !count) return corrupt("an array's shape");
  found.descr = {data_ + at, descr};
  return found;
}

bool Image::complex(const Slot& slot, double& re, double& im) const noexcept {
  if ((slot.body & 7) != 0 || !inside(slot.body, 16)) return false;
  re = std::bit_cast<double>(word(slot.body));
  im = std::bit_cast<double>(word(slot.body + 8));
  return true;
}

}  // namespace forklift::inline abi_0_1::frozen
