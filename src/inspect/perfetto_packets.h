// Packets of Perfetto's format on their way to a descriptor. A part of the writer of traces.
//
// Thread safety: as structs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "forklift/status.h"

namespace forklift::inline abi_0_1::inspect::perfetto {

using protozero::pbf_writer;

// Numbers of fields, as in Perfetto's protos/perfetto/trace: packed into the name of the message that has them.
namespace field {
enum Trace {
  kPacket = 1
};
enum TracePacket {
  kClockSnapshot = 6,
  kTimestamp = 8,
  kSequenceId = 10,
  kTrackEvent = 11,
  kInternedData = 12,
  kSequenceFlags = 13,
  kTimestampClockId = 58,
  kDefaults = 59,
  kTrackDescriptor = 60,
  kFirstOnSequence = 87
};
enum TracePacketDefaults {
  kDefaultTrackEvent = 11,
  kDefaultClockId = 58
};
enum ClockSnapshot {
  kClocks = 1,
  kPrimaryClock = 2
};
enum Clock {
  kClockId = 1,
  kClockTime = 2
};
enum TrackEvent {
  kCategoryIids = 3,
  kDebugAnnotations = 4,
  kType = 9,
  kNameIid = 10,
  kTrackUuid = 11,
  kName = 23,
  kCounterValue = 30,
  kDoubleCounterValue = 44,
  kFlowIds = 47,
  kTerminatingFlowIds = 48
};
enum TrackDescriptor {
  kUuid = 1,
  kTrackName = 2,
  kProcess = 3,
  kThread = 4,
  kParentUuid = 5,
  kCounter = 8
};
enum ProcessDescriptor {
  kPid = 1,
  kProcessName = 6
};
enum ThreadDescriptor {
  kThreadPid = 1,
  kTid = 2,
  kThreadName = 5
};
enum CounterDescriptor {
  kUnit = 3
};
enum InternedData {
  kCategories = 1,
  kEventNames = 2,
  kAnnotationNames = 3
};
enum Interned {
  kIid = 1,
  kText = 2
};
enum DebugAnnotation {
  kAnnotationNameIid = 1,
  kBool = 2,
  kUint = 3,
  kString = 6
};
}  // namespace field

enum EventType : std::int32_t {
  kSliceBegin = 1,
  kSliceEnd = 2,
  kInstant = 3,
  kCounterSample = 4
};
enum SequenceFlags : std::uint32_t {
  kStateCleared = 1,
  kNeedsState = 2
};
enum BuiltinClock : std::uint32_t {
  kRealtime = 1,
  kMonotonic = 3,
  kBoottime = 6
};
enum Unit : std::int32_t {
  kNoUnit = 0,
  kCount = 2,
  kBytes = 3
};

// Numbers of the categories that are no SliceKind; that of a SliceKind is one more than its own.
constexpr std::uint64_t kMomentCategory = 9;
constexpr std::uint64_t kLockCategory = 10;
enum AnnotationName : std::uint64_t {
  kByteCount = 1,
  kSequence,
  kPool,
  kUnfinished,
  kAllowed,
  kInOrder
};

// Packets on their way to a descriptor.
class Output {
 public:
  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

  explicit Output(int fd) : fd_(fd) { buffer_.reserve(2 * kBufferBytes); }
  std::string& buffer() noexcept { return buffer_; }
  void flush_if_full() {
    if (buffer_.size() >= kBufferBytes) (void)flush();
  }
  // What is left. Once writing failed, all that follows is dropped.
  Status flush();

 private:
  int fd_;
  std::string buffer_;
  Status status_;
};

// The packets of one writer, as Perfetto calls it: they share a default track and interned names.
class Sequence {
 public:
  Sequence(Output& output, std::uint32_t id, std::uint64_t default_track)
      : output_(output), id_(id), default_track_(default_track) {}

  template <class Fill>
  void packet(Fill fill) {
    {
      pbf_writer trace(output_.buffer());
      pbf_writer packet(trace, field::kPacket);
      packet.add_uint32(field::kSequenceId, id_);
      packet.add_uint32(field::kSequenceFlags, began_ ? kNeedsState : kStateCleared);
      if (!began_ || !pending_.empty()) write_state(packet);
      fill(packet);
    }
    output_.flush_if_full();
  }
  // A packet with an event of a track; 0: the default one.
  template <class Fill>
  void event(std::int64_t time, EventType type, std::uint64_t track, Fill fill) {
    packet([&](pbf_writer& packet) {
      packet.add_uint64(field::kTimestamp, static_cast<std::uint64_t>(std::max<std::int64_t>(time, 0)));
      pbf_writer event(packet, field::kTrackEvent);
      event.add_enum(field::kType, type);
      if (track != 0) event.add_uint64(field::kTrackUuid, track);
      fill(event);
    });
  }
  void end(std::int64_t time, std::uint64_t track) {
    event(time, kSliceEnd, track, [](pbf_writer&) {});
  }
  // The number of a name. The next packet brings the name if it is new.
  template <class Text>
  std::uint64_t intern(std::uint64_t group, std::uint64_t key, Text text) {
    const auto [entry, is_new] = names_.try_emplace({group, key}, names_.size() + 1);
    if (is_new) pending_.emplace_back(entry->second, text());
    return entry->second;
  }

 private:
  void write_state(pbf_writer& packet);

  Output& output_;
  std::uint32_t id_;
  std::uint64_t default_track_;
  bool began_ = false;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> names_;
  std::vector<std::pair<std::uint64_t, std::string>> pending_;
};

void annotate(pbf_writer& event, AnnotationName name, std::uint64_t value);
void annotate(pbf_writer& event, AnnotationName name, bool value);
void annotate(pbf_writer& event, AnnotationName name, const std::string& value);

}  // namespace forklift::inline abi_0_1::inspect::perfetto
