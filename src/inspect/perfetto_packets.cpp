#include "inspect/perfetto_packets.h"

#include <unistd.h>

#include <cerrno>

namespace forklift::inline abi_0_1::inspect::perfetto {

namespace {

// What each thread interns in its first packet; the numbers are one more than the places.
constexpr const char* kCategoryNames[] = {"task", "range", "put",  "get",    "publish",
                                          "read", "copy",  "wait", "moment", "lock"};
constexpr const char* kAnnotationTexts[] = {"bytes", "sequence", "pool", "unfinished", "allowed", "in order"};

void add_interned(pbf_writer& data, field::InternedData what, std::uint64_t iid, const std::string& text) {
  pbf_writer entry(data, what);
  entry.add_uint64(field::kIid, iid);
  entry.add_string(field::kText, text);
}

pbf_writer annotation(pbf_writer& event, AnnotationName name) {
  pbf_writer entry(event, field::kDebugAnnotations);
  entry.add_uint64(field::kAnnotationNameIid, name);
  return entry;
}

}  // namespace

Status Output::flush() {
  const char* at = buffer_.data();
  std::size_t left = status_.ok() ? buffer_.size() : 0;
  while (left > 0) {
    const ssize_t written = ::write(fd_, at, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status_ = Status::system("write", errno, "a trace");
      break;
    }
    at += written;
    left -= static_cast<std::size_t>(written);
  }
  buffer_.clear();
  return status_;
}

// A packet has one message of interned names: readers take the last one.
void Sequence::write_state(pbf_writer& packet) {
  const bool first = !std::exchange(began_, true);
  if (first) {
    packet.add_bool(field::kFirstOnSequence, true);
    pbf_writer defaults(packet, field::kDefaults);
    defaults.add_uint32(field::kDefaultClockId, kMonotonic);
    pbf_writer event(defaults, field::kDefaultTrackEvent);
    event.add_uint64(field::kTrackUuid, default_track_);
  }
  pbf_writer data(packet, field::kInternedData);
  if (first) {
    std::uint64_t iid = 0;
    for (const char* text : kCategoryNames) add_interned(data, field::kCategories, ++iid, text);
    iid = 0;
    for (const char* text : kAnnotationTexts) add_interned(data, field::kAnnotationNames, ++iid, text);
  }
  for (const auto& [iid, text] : pending_) add_interned(data, field::kEventNames, iid, text);
  pending_.clear();
}

void annotate(pbf_writer& event, AnnotationName name, std::uint64_t value) {
  annotation(event, name).add_uint64(field::kUint, value);
}
void annotate(pbf_writer& event, AnnotationName name, bool value) {
  annotation(event, name).add_bool(field::kBool, value);
}
void annotate(pbf_writer& event, AnnotationName name, const std::string& value) {
  annotation(event, name).add_string(field::kString, value);
}

}  // namespace forklift::inline abi_0_1::inspect::perfetto
