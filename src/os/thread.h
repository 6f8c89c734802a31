// The number by which the kernel knows this thread.
#pragma once

#include <cstdint>

namespace forklift::os {

namespace detail {
extern constinit thread_local std::uint32_t thread_id;
std::uint32_t find_thread_id() noexcept;
}  // namespace detail

// gettid(), remembered: one load. Right in a forked child, too; in a raw clone it is still the parent's.
inline std::uint32_t thread_id() noexcept {
  const std::uint32_t known = detail::thread_id;
  return known != 0 ? known : detail::find_thread_id();
}

}  // namespace forklift::os
