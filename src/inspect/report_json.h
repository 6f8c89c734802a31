// A recording as JSON for a page that shows it: its breakdown, and its timeline reduced to what a screen can show.
//
//   std::string json = report_json(recording);
//
// Small slices that lie beside each other are put together until a thread has at most some thousands. The sums of what was put
// together stay exact: each part says how many slices it is and how long they took.
//
// The text may stand in a page of HTML as it is: it has no "<". Times are nanoseconds from the recording's beginning. The page
// that reads it is python/forklift/trace/report.html.
//
// Thread safety: any.
#pragma once

#include <string>

#include "inspect/breakdown.h"

namespace forklift::inline abi_0_1::inspect {

inline constexpr std::size_t kMostSlicesOfThread = 4000;
inline constexpr std::size_t kMostSlices = 400'000;  // of all threads; but at least 200 of each
inline constexpr std::size_t kMostLinks = 20'000;
inline constexpr std::size_t kMostSamples = 2000;
inline constexpr std::size_t kMostSegments = 4000;

std::string report_json(const Timeline& timeline, const Breakdown& breakdown);
std::string report_json(const Recording& recording);

}  // namespace forklift::inline abi_0_1::inspect
