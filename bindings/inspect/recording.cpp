#include "inspect/recording.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/inspect/inspect.h"
#include "inspect/perfetto.h"

namespace nb = nanobind;

namespace forklift::py {

namespace {

using inspect::RecordedProcess;
using inspect::RecordedThread;
using inspect::Recording;

// Reads a dictionary with the names of a struct's members; what is not there stays as it is.
class Members {
 public:
  explicit Members(nb::handle from) : from_(nb::cast<nb::dict>(from)) {}
  template <class T>
  Members& operator()(const char* name, T& member) {
    if (from_.contains(name)) member = nb::cast<T>(from_[name]);
    return *this;
  }
  // A number from a mapping to names.
  Members& operator()(const char* name, std::map<std::uint32_t, std::string>& names) {
    for (const auto [row, text] : part<nb::dict>(name))
      names[nb::cast<std::uint32_t>(row)] = nb::cast<std::string>(text);
    return *this;
  }
  template <class T>
  T part(const char* name) const {
    return from_.contains(name) ? nb::cast<T>(from_[name]) : T();
  }

 private:
  nb::dict from_;
};

// A str, or bytes, since names that programs give are not always text.
std::string text_of(nb::handle text) {
  if (nb::isinstance<nb::bytes>(text)) {
    const auto bytes = nb::cast<nb::bytes>(text);
    return {bytes.c_str(), bytes.size()};
  }
  return nb::cast<std::string>(text);
}

trace::Event event_of(nb::handle from) {
  const auto [time, duration, kind, object, value] =
      nb::cast<std::tuple<std::int64_t, std::int64_t, std::uint8_t, std::uint64_t, std::uint64_t>>(from);
  return {time, duration, static_cast<trace::EventKind>(kind), object, value};
}

RecordedProcess process_of(nb::handle from) {
  RecordedProcess process;
  Members members(from);
  members("pid", process.pid)("parent", process.parent)("name", process.name)("service", process.service)(
      "began_ns", process.began_ns)("ended_ns", process.ended_ns)("left_in_order", process.left_in_order);
  return process;
}

RecordedThread thread_of(nb::handle from) {
  RecordedThread thread;
  Members members(from);
  members("pid", thread.pid)("thread", thread.thread)("name", thread.name)("lost", thread.lost);
  for (const nb::handle event : members.part<nb::list>("events")) thread.events.push_back(event_of(event));
  return thread;
}

// A recording of what a dictionary says, with the names of the structs of inspect/recording.h: for tests of what is made of
// recordings. Events are tuples; the keys of `places` are pairs, and its values, too.
Recording recording_of(const nb::dict& from) {
  Recording recording;
  Members members(from);
  members("domain", recording.domain)("began_ns", recording.began_ns)("ended_ns", recording.ended_ns)(
      "wall_ns", recording.wall_ns)("queues", recording.queues)("topics", recording.topics)(
      "pools", recording.pools)("locks", recording.locks);
  for (const nb::handle each : members.part<nb::list>("processes"))
    recording.processes.push_back(process_of(each));
  for (const nb::handle each : members.part<nb::list>("threads"))
    recording.threads.push_back(thread_of(each));
  for (const nb::handle each : members.part<nb::list>("names")) recording.names.push_back(text_of(each));
  for (const auto [key, place] : members.part<nb::dict>("places")) {
    const auto object_and_kind = nb::cast<std::pair<std::uint64_t, std::uint64_t>>(key);
    const auto [noun, text] = nb::cast<std::pair<std::string, std::string>>(place);
    recording.places[object_and_kind] = {noun, text};
  }
  return recording;
}

std::uint64_t events_in(const Recording& recording, bool lost) {
  std::uint64_t sum = 0;
  for (const RecordedThread& thread : recording.threads) sum += lost ? thread.lost : thread.events.size();
  return sum;
}

void write_perfetto(const Recording& recording, const std::string& path) {
  const Status written = [&] {
    const GilRelease released;
    return inspect::write_perfetto(recording, path);
  }();
  require(written);
}

}  // namespace

void bind_recording(nb::module_& module) {
  nb::class_<Recording>(module, "Recording")
      .def_static("of", &recording_of, nb::arg("content"))
      .def("write_perfetto", &write_perfetto, nb::arg("path"))
      .def_prop_ro("events", [](const Recording& self) { return events_in(self, false); })
      .def_prop_ro("lost", [](const Recording& self) { return events_in(self, true); });
}

}  // namespace forklift::py
