#include "inspect/slice_text.h"

namespace forklift::inline abi_0_1::inspect {

namespace {

// The length of the well-formed character at the beginning of `text`, 0 if there is none. Unicode's table 3-7: no overlong
// forms, no surrogates, nothing above U+10FFFF.
std::size_t character_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t at = 2; at < length; ++at)
    if ((byte(at) & 0xc0u) != 0x80) return 0;
  return length;
}

std::string named(const std::map<std::uint32_t, std::string>& names, std::uint32_t number, const char* noun) {
  const auto found = names.find(number);
  if (found != names.end() && !found->second.empty()) return utf8(found->second);
  return std::string(noun) + ' ' + std::to_string(number);
}

std::string copy_name(std::uint64_t way) {
  switch (static_cast<trace::CopyWay>(way)) {
    case trace::CopyWay::kIntoArena: return "copies into the arena";
    case trace::CopyWay::kOutOfArena: return "copies out of the arena";
    case trace::CopyWay::kWithinArena: return "copies within the arena";
  }
  return "copies";
}

std::string program_name(const Recording& recording, std::uint64_t number) {
  const std::string& name = recording.name(number);
  return name.empty() ? "?" : utf8(name);
}

}  // namespace

std::string utf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) {
      clean += "\xef\xbf\xbd";
    } else {
      clean += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

std::string queue_name(const Recording& recording, std::uint32_t row) {
  if (recording.queues.count(row) == 0 && recording.pools.count(row) != 0)
    return "tasks of " + named(recording.pools, row, "pool");
  return named(recording.queues, row, "queue");
}

std::string topic_name(const Recording& recording, std::uint32_t row) {
  return named(recording.topics, row, "topic");
}

std::string lock_name(const Recording& recording, std::uint32_t index) {
  return named(recording.locks, index, "Lock");
}

const RecordedPlace& place_of(const Recording& recording, const Slice& wait) {
  static const RecordedPlace unknown;
  const auto found = recording.places.find({wait.object, wait.value});
  return found != recording.places.end() ? found->second : unknown;
}

std::string slice_name(const Recording& recording, const Slice& slice) {
  switch (slice.kind) {
    case SliceKind::kTask:
    case SliceKind::kRange: return program_name(recording, slice.value);
    case SliceKind::kPut: return "puts into " + queue_name(recording, slice.row());
    case SliceKind::kGet: return "gets from " + queue_name(recording, slice.row());
    case SliceKind::kPublish: return "publishes to " + topic_name(recording, slice.row());
    case SliceKind::kRead: return "reads from " + topic_name(recording, slice.row());
    case SliceKind::kCopy: return copy_name(slice.object);
    case SliceKind::kWait: break;
  }
  const RecordedPlace& place = place_of(recording, slice);
  return place.text.empty() ? "waits" : "waits for " + utf8(place.text);
}

std::uint64_t slice_name_key(const Slice& slice) noexcept {
  switch (slice.kind) {
    case SliceKind::kTask:
    case SliceKind::kRange: return slice.value;
    case SliceKind::kCopy: return slice.object;
    // An offset in the control segment has far less than 56 bits.
    case SliceKind::kWait: return slice.object << 8 | slice.value;
    default: return slice.row();
  }
}

const char* kind_name(SliceKind kind) noexcept {
  switch (kind) {
    case SliceKind::kTask: return "task";
    case SliceKind::kRange: return "range";
    case SliceKind::kPut: return "put";
    case SliceKind::kGet: return "get";
    case SliceKind::kPublish: return "publish";
    case SliceKind::kRead: return "read";
    case SliceKind::kCopy: return "copy";
    case SliceKind::kWait: return "wait";
  }
  return "?";
}

std::string thread_name(const Timeline& timeline, const ThreadTimeline& thread) {
  const ProcessTimeline& process = timeline.process_of(thread);
  if (thread.thread == process.pid) return utf8(process.name);
  const std::string name = thread.name.empty() ? "thread " + std::to_string(thread.thread) : thread.name;
  return utf8(process.name + ", " + name);
}

}  // namespace forklift::inline abi_0_1::inspect
