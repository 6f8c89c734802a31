#include "inspect/recording.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/core/errors.h"
#include "bindings/core/gil.h"
#include "bindings/inspect/fields.h"
#include "bindings/inspect/inspect.h"
#include "inspect/perfetto.h"
#include "inspect/report_json.h"

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

// Of each pool, by the row of its channel of tasks: how long the tasks took that ended, in seconds.
nb::dict task_seconds(const Recording& recording) {
  std::map<std::uint32_t, std::vector<double>> pools;
  for (const RecordedThread& thread : recording.threads)
    for (const trace::Event& event : thread.events)
      if (event.kind == trace::EventKind::kTask)
        pools[event.row()].push_back(static_cast<double>(event.duration) / 1e9);
  nb::dict all;
  for (const auto& [row, seconds] : pools) {
    nb::list each;
    for (const double duration : seconds) each.append(duration);
    all[nb::int_(row)] = each;
  }
  return all;
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

std::string report_json(const Recording& recording) {
  const GilRelease released;
  return inspect::report_json(recording);
}

nb::dict as_dict(const inspect::ThreadTime& time) {
  nb::dict shares;
  for (std::size_t i = 0; i < inspect::kShares; ++i) {
    shares[inspect::name_of(static_cast<inspect::Share>(i))] = time.ns[i];
  }
  nb::list waits;
  for (const inspect::PlaceTime& wait : time.waits) waits.append(nb::make_tuple(wait.text, wait.ns));
  return Fields()("process", time.pid)("thread", time.tid)("name", time.name)("service", time.service)(
      "pool", time.pool)("lifetime_ns", time.lifetime_ns)("shares", shares)("waits", waits);
}
nb::dict as_dict(const inspect::TaskTimes& task) {
  return Fields()("name", task.name)("count", task.count)("unfinished", task.unfinished)(
      "total_ns", task.total_ns)("median_ns", task.median_ns)("p99_ns", task.p99_ns)("most_ns", task.most_ns);
}
nb::dict as_dict(const inspect::SlowTask& task) {
  return Fields()("name", task.name)("process", task.process)("begin_ns", task.begin)("ns", task.ns)(
      "unfinished", task.unfinished);
}
nb::dict as_dict(const inspect::QueueTimes& queue) {
  return Fields()("row", queue.row)("name", queue.name)("puts", queue.puts)("gets", queue.gets)(
      "put_bytes", queue.bytes)("most", queue.most)("mean", queue.mean)("full_ns", queue.full_ns)(
      "empty_ns", queue.empty_ns)("transit_ns", queue.transit_ns);
}
nb::dict as_dict(const inspect::LockTimes& lock) {
  return Fields()("name", lock.name)("holds", lock.holds)("held_ns", lock.held_ns)("waited_ns",
                                                                                   lock.waited_ns);
}
nb::dict as_dict(const inspect::PathShare& share) {
  return Fields()("process", share.process)("what", share.what)("ns", share.ns);
}
template <class Part>
nb::list dicts_of(const std::vector<Part>& parts) {
  nb::list all;
  for (const Part& part : parts) all.append(as_dict(part));
  return all;
}

nb::dict breakdown_of(const Recording& recording) {
  const inspect::Breakdown found = [&] {
    const GilRelease released;
    return inspect::breakdown_of(recording);
  }();
  return Fields()("duration_ns", found.duration_ns)("sentences", found.sentences)("lost", found.lost)(
      "threads", dicts_of(found.threads))("tasks", dicts_of(found.tasks))("slowest", dicts_of(found.slowest))(
      "queues", dicts_of(found.queues))("locks", dicts_of(found.locks))("critical_path",
                                                                        dicts_of(found.path_shares));
}

}  // namespace

void bind_recording(nb::module_& module) {
  nb::class_<Recording>(module, "Recording")
      .def_static("of", &recording_of, nb::arg("content"))
      .def("breakdown", &breakdown_of)
      .def("report_json", &report_json)
      .def("write_perfetto", &write_perfetto, nb::arg("path"))
      .def("task_seconds", &task_seconds)
      .def_prop_ro("events", [](const Recording& self) { return events_in(self, false); })
      .def_prop_ro("lost", [](const Recording& self) { return events_in(self, true); });
}

}  // namespace forklift::py
