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
    if (count == 1 && kept_.count != 0) [[likely]]
      return kept_.objects[--kept_.count];
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    if (count == 1 && kept_.count < kept_.most) [[likely]] {
      kept_.objects[kept_.count++] = memory;
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
  struct Cached {
    std::array<T*, kMost + 1> objects{};
    std::size_t count = 0;
    std::size_t most = kMost;
    ~Cached() {
      most = 0;  // objects of later destructors go straight back
      while (count != 0) std::allocator<T>().deallocate(objects[--count], 1);
    }
  };
  static inline thread_local Cached kept_;
};

}  // namespace forklift::inline abi_0_1::arena
