// An allocator for single objects that come and go with every message: a thread keeps the memory of the last
// ones.
//
//   auto lease = std::allocate_shared<Made>(ThreadCache<Made>());
//
// Memory is kept by the thread that frees it, until that thread ends. Under the address sanitizer nothing is
// kept, so that it sees uses after the end.
//
// Thread safety: as std::allocator.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

namespace forklift::inline abi_0_1::arena {

template <class T>
class ThreadCache {
 public:
  using value_type = T;
  ThreadCache() noexcept = default;
  template <class Other>
  ThreadCache(const ThreadCache<Other>&) noexcept {}

  T* allocate(std::size_t count) {
    Cached& kept = kept_;
    if (count == 1 && kept.count != 0) [[likely]]
      return kept.objects[--kept.count];
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    Cached& kept = kept_;
    if (count == 1 && (kept.count < kept.most || begin(kept))) [[likely]] {
      kept.objects[kept.count++] = memory;
    } else {
      std::allocator<T>().deallocate(memory, count);
    }
  }
  bool operator==(const ThreadCache&) const noexcept = default;

 private:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t kMost = 0;
#else
  static constexpr std::size_t kMost = 32;
#endif
  // Has no destructor: of a variable of a thread that has one, each use asks whether it was constructed, which takes two
  // calls in a shared library. Another variable gives the objects back when the thread ends.
  struct Cached {
    std::array<T*, kMost + 1> objects{};
    std::size_t count = 0;
    std::size_t most = 0;  // until the first object, and once the thread ends: then objects go straight back
    bool begun = false;
  };
  struct AtEnd {
    ~AtEnd() {
      Cached& kept = kept_;
      kept.most = 0;
      while (kept.count != 0) std::allocator<T>().deallocate(kept.objects[--kept.count], 1);
    }
  };
  // False: nothing more is kept.
  [[gnu::noinline]] static bool begin(Cached& kept) noexcept {
    if (kept.begun || kMost == 0) return false;
    static thread_local const AtEnd at_end{};
    kept.begun = true;
    kept.most = kMost;
    return true;
  }
  static inline constinit thread_local Cached kept_{};
};

}  // namespace forklift::inline abi_0_1::arena
