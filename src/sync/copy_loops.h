// Loops that copy in place of memcpy where it is slow. past_caches.h says where that is; these do as they are told.
//
// Source and destination do not overlap. Thread safety: as memcpy.
#pragma once

#include <cstddef>

namespace forklift::inline abi_0_1::sync {

// Whole lines to aligned addresses, since stores across lines cost more than loads do (decisions/0346).
void copy_by_lines(void* dst, const void* src, std::size_t bytes) noexcept;

// The same page by page, each of which is fetched ahead (decisions/0336).
void copy_pages_ahead(void* dst, const void* src, std::size_t bytes) noexcept;

// By stores past the caches. What it wrote is ordered before all later stores.
void copy_by_streaming(void* dst, const void* src, std::size_t bytes) noexcept;

}  // namespace forklift::inline abi_0_1::sync
