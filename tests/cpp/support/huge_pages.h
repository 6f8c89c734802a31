// Whether the kernel gives transparent huge pages of shared memory to who asks: found by bare calls, so that a test of what
// makes them is skipped for the machine's sake, and never for its own failure.
//
//   if (!test::huge_pages_can_be_had()) GTEST_SKIP() << test::kNoHugePages;
#pragma once

namespace forklift::test {

inline constexpr const char* kNoHugePages =
    "the kernel gives no huge pages of 2 MiB: denied, no MADV_COLLAPSE, or fragmented memory";

bool huge_pages_can_be_had();

}  // namespace forklift::test
