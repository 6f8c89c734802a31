// What the parts of a recording are called: `train`, `waits for a message in queue "frames"`, `puts into queue 3`.
//
// Thread safety: any.
#pragma once

#include <string>
#include <string_view>

#include "inspect/timeline.h"

namespace forklift::inline abi_0_1::inspect {

// The text, with what is no UTF-8 replaced by U+FFFD: names come from programs, and files want UTF-8.
std::string utf8(std::string_view text);

// Of a queue, a topic or a pool's channel of tasks, of a lock: as recorded, or by its number.
std::string queue_name(const Recording& recording, std::uint32_t row);
std::string topic_name(const Recording& recording, std::uint32_t row);
std::string lock_name(const Recording& recording, std::uint32_t index);

std::string slice_name(const Recording& recording, const Slice& slice);
// Slices with the same number in slice_name_key() and of the same kind have the same name.
std::uint64_t slice_name_key(const Slice& slice) noexcept;
const char* kind_name(SliceKind kind) noexcept;

// Why a wait is waited; all empty where that was not recorded.
const RecordedPlace& place_of(const Recording& recording, const Slice& wait);

// "loader", "loader, thread 12".
std::string thread_name(const Timeline& timeline, const ThreadTimeline& thread);

}  // namespace forklift::inline abi_0_1::inspect
