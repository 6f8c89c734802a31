// The objects that a message has so far, of those for which it matters whether they are one or two.
//
//   seen.begin();                                   // a new message
//   if (!seen.add(list)) return Encoded::kUnsupported;
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace forklift::py {

// Emptied by begin(), which costs nothing: the entries of earlier messages have another stamp.
class Seen {
 public:
  void begin() noexcept {
    ++stamp_;
    count_ = 0;
  }
  // False: it was there already.
  bool add(const void* object) noexcept {
    if (count_ < kFew) {
      for (std::size_t i = 0; i < count_; ++i) {
        if (few_[i] == object) return false;
      }
      few_[count_++] = object;
      if (count_ == kFew) {
        for (const void* earlier : few_) (void)insert(earlier);
      }
      return true;
    }
    return insert(object);
  }

 private:
  static constexpr std::size_t kFew = 8;
  static constexpr std::size_t kPlaces = 4096;  // more than twice what a message may have
  bool insert(const void* object) noexcept {
    std::size_t at = (reinterpret_cast<std::uintptr_t>(object) >> 4) * 0x9e3779b97f4a7c15ULL >> 52;
    for (;; at = (at + 1) % kPlaces) {
      Place& place = places_[at];
      if (place.stamp != stamp_) {
        place = {object, stamp_};
        return true;
      }
      if (place.object == object) return false;
    }
  }
  struct Place {
    const void* object;
    std::uint64_t stamp;
  };
  std::uint64_t stamp_ = 0;
  std::size_t count_ = 0;
  std::array<const void*, kFew> few_{};
  std::array<Place, kPlaces> places_{};
};

}  // namespace forklift::py
