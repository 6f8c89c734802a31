// The packets of a trace, read back. tests/python/diagnosis/test_perfetto.py reads them with Perfetto's own code.
#include "inspect/perfetto.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <protozero/pbf_reader.hpp>
#include <set>

#include "os/fd.h"
#include "support/recordings.h"
#include "support/status_check.h"

namespace forklift::inspect {
namespace {

using protozero::pbf_reader;
using test::at_us;
using test::RecordingBuilder;
using trace::EventKind;

struct Track {
  std::uint64_t parent = 0;
  std::string name;  // of the process, the thread, the counter or the track itself
  std::int64_t pid = 0;
  std::int64_t tid = 0;
  bool counter = false;
};
struct Packet {
  std::int64_t time = 0;
  std::uint32_t type = 0;  // 1 begins a slice, 2 ends one, 3 an instant, 4 a counter's value
  std::uint64_t track = 0;
  std::string name;
  std::string category;
  std::vector<std::uint64_t> flows;
  std::vector<std::uint64_t> ended_flows;
  std::int64_t value = 0;
  double number = 0;
};

// What a trace says. Names are resolved, and what must hold of every trace is checked.
class Decoded {
 public:
  explicit Decoded(const Recording& recording) {
    const os::Fd file(::memfd_create("trace", MFD_CLOEXEC));
    EXPECT_OK(write_perfetto(timeline_of(recording), file.get()));
    std::string bytes(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_CUR)), '\0');
    EXPECT_EQ(::pread(file.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    pbf_reader trace(bytes);
    while (trace.next(1)) read_packet(trace.get_message());
    check();
  }

  std::map<std::uint64_t, Track> tracks;
  std::vector<Packet> events;
  std::map<std::uint64_t, std::int64_t> clocks;

  std::vector<Packet> named(const std::string& name) const {
    std::vector<Packet> found;
    for (const Packet& event : events)
      if (event.name == name) found.push_back(event);
    return found;
  }
  // "begin name", "end", "name" of an instant: of the track with this name, in the file's order.
  std::vector<std::string> story(const std::string& track) const {
    std::vector<std::string> lines;
    for (const Packet& event : events) {
      const auto found = tracks.find(event.track);
      if (found == tracks.end() || found->second.name != track) continue;
      lines.push_back(event.type == 1 ? "begin " + event.name : event.type == 2 ? "end" : event.name);
    }
    return lines;
  }
  std::vector<std::int64_t> values(const std::string& track) const {
    std::vector<std::int64_t> found;
    for (const Packet& event : events)
      if (event.type == 4 && tracks.at(event.track).name == track) found.push_back(event.value);
    return found;
  }

 private:
  struct State {
    std::uint64_t default_track = 0;
    std::uint64_t default_clock = 0;
    std::map<std::uint64_t, std::string> names, categories;
  };

  void read_packet(pbf_reader packet) {
    std::uint32_t sequence = 0, flags = 0;
    std::int64_t time = 0;
    pbf_reader event, interned, defaults, track, clock;
    while (packet.next()) {
      switch (packet.tag()) {
        case 6: clock = packet.get_message(); break;
        case 8: time = static_cast<std::int64_t>(packet.get_uint64()); break;
        case 10: sequence = packet.get_uint32(); break;
        case 11: event = packet.get_message(); break;
        case 12: interned = packet.get_message(); break;
        case 13: flags = packet.get_uint32(); break;
        case 59: defaults = packet.get_message(); break;
        case 60: track = packet.get_message(); break;
        case 87: packet.skip(); break;
        default: FAIL() << "field " << packet.tag();
      }
    }
    // The first packet of a sequence clears its state, the others need it.
    EXPECT_EQ(flags, states_.count(sequence) == 0 ? 1u : 2u);
    State& state = states_[sequence];
    if (defaults.data().size() > 0) read_defaults(defaults, state);
    if (interned.data().size() > 0) read_interned(interned, state);
    if (track.data().size() > 0) read_track(track);
    if (clock.data().size() > 0) read_clock(clock);
    EXPECT_EQ(state.default_clock, 3u);
    if (event.data().size() > 0) read_event(event, state, time);
  }
  static void read_defaults(pbf_reader defaults, State& state) {
    while (defaults.next()) {
      if (defaults.tag() == 58) {
        state.default_clock = defaults.get_uint64();
      } else {
        pbf_reader event = defaults.get_message();
        while (event.next(11)) state.default_track = event.get_uint64();
      }
    }
  }
  static void read_interned(pbf_reader data, State& state) {
    while (data.next()) {
      const auto what = data.tag();
      pbf_reader entry = data.get_message();
      std::uint64_t iid = 0;
      std::string text;
      while (entry.next()) {
        if (entry.tag() == 1) {
          iid = entry.get_uint64();
        } else {
          text = entry.get_string();
        }
      }
      if (what == 1) state.categories[iid] = text;
      if (what == 2) {
        EXPECT_TRUE(state.names.emplace(iid, text).second) << text;
      }
    }
  }
  void read_track(pbf_reader message) {
    Track track;
    std::uint64_t uuid = 0;
    while (message.next()) {
      const auto tag = message.tag();
      switch (tag) {
        case 1: uuid = message.get_uint64(); break;
        case 2: track.name = message.get_string(); break;
        case 5: track.parent = message.get_uint64(); break;
        case 8:
          track.counter = true;
          message.skip();
          break;
        default: {
          pbf_reader of = message.get_message();
          while (of.next()) {
            if (of.tag() == 1) track.pid = of.get_int32();
            if (of.tag() == 2) track.tid = of.get_int64();
            if (of.tag() == 5 || of.tag() == 6) track.name = of.get_string();
          }
        }
      }
    }
    EXPECT_TRUE(tracks.emplace(uuid, track).second) << "two tracks " << uuid;
    EXPECT_TRUE(track.parent == 0 || tracks.count(track.parent) == 1);
  }
  void read_clock(pbf_reader snapshot) {
    while (snapshot.next()) {
      if (snapshot.tag() == 2) {
        EXPECT_EQ(snapshot.get_enum(), 3);
        continue;
      }
      pbf_reader clock = snapshot.get_message();
      std::uint64_t id = 0;
      while (clock.next()) {
        if (clock.tag() == 1) {
          id = clock.get_uint32();
        } else {
          clocks[id] = static_cast<std::int64_t>(clock.get_uint64());
        }
      }
    }
  }
  void read_event(pbf_reader message, const State& state, std::int64_t time) {
    Packet event;
    event.time = time;
    event.track = state.default_track;
    while (message.next()) {
      switch (message.tag()) {
        case 3: event.category = state.categories.at(message.get_uint64()); break;
        case 9: event.type = static_cast<std::uint32_t>(message.get_enum()); break;
        case 10: event.name = state.names.at(message.get_uint64()); break;
        case 11: event.track = message.get_uint64(); break;
        case 23: event.name = message.get_string(); break;
        case 30: event.value = message.get_int64(); break;
        case 44: event.number = message.get_double(); break;
        case 47: event.flows.push_back(message.get_fixed64()); break;
        case 48: event.ended_flows.push_back(message.get_fixed64()); break;
        default: message.skip();
      }
    }
    events.push_back(event);
  }

  // Slices are balanced and times rise in each track; a flow begins once, and ends once, later.
  void check() const {
    std::map<std::uint64_t, std::int64_t> last, open;
    std::map<std::uint64_t, std::int64_t> begun;
    std::set<std::uint64_t> ended;
    for (const Packet& event : events) {
      ASSERT_EQ(tracks.count(event.track), 1u) << event.name;
      EXPECT_LE(last[event.track], event.time) << event.name;
      last[event.track] = event.time;
      EXPECT_EQ(event.type == 4, tracks.at(event.track).counter);
      if (event.type == 1) ++open[event.track];
      if (event.type == 2) {
        EXPECT_GE(--open[event.track], 0);
      }
      for (const std::uint64_t flow : event.flows) EXPECT_TRUE(begun.emplace(flow, event.time).second);
    }
    for (const auto& [track, count] : open) EXPECT_EQ(count, 0);
    for (const Packet& event : events) {
      for (const std::uint64_t flow : event.ended_flows) {
        EXPECT_TRUE(ended.insert(flow).second);
        ASSERT_EQ(begun.count(flow), 1u);
        EXPECT_LE(begun.at(flow), event.time);
      }
    }
    EXPECT_EQ(begun.size(), ended.size());
  }

  std::map<std::uint32_t, State> states_;
};

using Lines = std::vector<std::string>;

TEST(PerfettoTest, AnEmptyRecordingIsATraceWithAClock) {
  const Decoded trace{Recording{}};
  EXPECT_TRUE(trace.events.empty() && trace.tracks.empty());
  EXPECT_EQ(trace.clocks.size(), 2u);  // the time of day is not known
}

TEST(PerfettoTest, SlicesNestInTheTrackOfTheirThread) {
  RecordingBuilder built(1000);
  built.process(10, "loader");
  built.queue(3, "frames");
  built.thread(10).task(100, 500, 1, 1).put(200, 300, 3, 1).wait(210, 300, 301, 2).task(500, 500, 2, 1);
  built.thread(10, 12, "reader").span(EventKind::kRange, 0, 1000, 0, 3);
  const Decoded trace(*built);
  EXPECT_EQ(trace.story("loader"),
            (Lines{"begin train", "begin puts into queue \"frames\"",
                   "begin waits for room in queue \"frames\"", "end", "end", "end", "begin train", "end"}));
  EXPECT_EQ(trace.story("reader"), (Lines{"begin epoch", "end"}));
  EXPECT_EQ(trace.named("train")[0].time, at_us(100));
  EXPECT_EQ(trace.named("train")[0].category, "task");
  EXPECT_EQ(trace.named("train").size(), 2u);
  for (const auto& [uuid, track] : trace.tracks) {
    if (track.name == "reader") {
      EXPECT_EQ(track.pid, 10);
      EXPECT_EQ(track.tid, 12);
    }
  }
  EXPECT_EQ(trace.clocks.at(3), test::kBegan);
  EXPECT_EQ(trace.clocks.at(1), 1'700'000'000'000'000'000);
}

TEST(PerfettoTest, AFlowLeadsFromEachPutToItsGets) {
  RecordingBuilder built(1000);
  const auto message = trace::row_and_sequence(2, 5);
  built.thread(10)
      .put(0, 10, 3, 1)
      .span(EventKind::kPublish, 20, 30, message, 8)
      .put(400, 420, 3, 2)
      .put(500, 510, 3, 9);
  built.thread(11).get(40, 50, 3, 1).span(EventKind::kRead, 60, 70, message, 8).get(380, 410, 3, 2);
  built.thread(12).span(EventKind::kRead, 55, 65, message, 8);
  const Decoded trace(*built);
  const std::vector<Packet> puts = trace.named("puts into queue 3");
  ASSERT_EQ(puts.size(), 3u);
  EXPECT_EQ(puts[0].flows.size(), 1u);
  EXPECT_TRUE(puts[2].flows.empty());  // nobody took it
  EXPECT_EQ(trace.named("publishes to topic 2")[0].flows.size(), 2u);
  EXPECT_EQ(trace.named("gets from queue 3")[0].ended_flows, puts[0].flows);
  // The second get began before its put: the flow goes to its end.
  EXPECT_TRUE(trace.named("gets from queue 3")[1].ended_flows.empty());
}

TEST(PerfettoTest, MomentsAndCounters) {
  RecordingBuilder built(1000);
  built->names.push_back("loss");
  built->locks[6] = "Lock \"state\"";
  built.process(10, "main");
  built.thread(10)
      .moment(EventKind::kStarted, 0, 10, 1)
      .moment(EventKind::kForked, 10, 0, 0)
      .moment(EventKind::kLocked, 20, 6, 1)
      .moment(EventKind::kCounter, 30, 4, std::bit_cast<std::uint64_t>(0.5))
      .moment(EventKind::kCounter, 35, 4,
              std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN()))
      .moment(EventKind::kUnlocked, 40, 6, 0)
      .moment(EventKind::kGone, 50, 11, 0)
      .moment(EventKind::kOverBudget, 60, 4096, 1024)
      .moment(EventKind::kAllocated, 70, 1, 4096)
      .put(80, 90, 3, 1);
  built->threads[0].lost = 12;
  const Decoded trace(*built);
  EXPECT_EQ(trace.story("main"),
            (Lines{"12 events were lost", "process begins", "forks",
                   "takes over Lock \"state\" from a process that died", "process 11 is gone",
                   "memory is over the budget", "begin puts into queue 3", "end"}));
  EXPECT_EQ(trace.story("holds Lock \"state\""), (Lines{"begin holds Lock \"state\"", "end"}));
  EXPECT_EQ(trace.values("length of queue 3"), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(trace.values("bytes of blocks in use"), (std::vector<std::int64_t>{0, 4096}));
  int losses = 0;
  for (const Packet& event : trace.events) {
    if (event.type == 4 && trace.tracks.at(event.track).name == "loss") {
      EXPECT_EQ(event.number, 0.5);
      ++losses;
    }
  }
  EXPECT_EQ(losses, 1);
}

TEST(PerfettoTest, WhatOverlapsHasATrackOfItsOwn) {
  RecordingBuilder built(1000);
  built.process(10, "main");
  built.thread(10).span(EventKind::kRange, 0, 100, 0, 1).span(EventKind::kRange, 50, 150, 0, 2);
  const Decoded trace(*built);
  EXPECT_EQ(trace.story("main"), (Lines{"begin train", "end"}));
  EXPECT_EQ(trace.story("at the same time"), (Lines{"begin load", "end"}));
}

TEST(PerfettoTest, NamesMayBeAnything) {
  RecordingBuilder built(1000);
  built->names[1] = "a \"quoted\"\nname \xff </script>";
  built.process(10, std::string("nul\0byte", 8));
  built.thread(10).task(0, 10, 1, 1);
  const Decoded trace(*built);
  EXPECT_EQ(trace.named("a \"quoted\"\nname \xef\xbf\xbd </script>").size(), 1u);
}

// More than a buffer, and more than one sequence at a time.
TEST(PerfettoTest, AMillionEventsAreComplete) {
  RecordingBuilder built(1'000'000);
  for (pid_t pid = 10; pid < 14; ++pid) {
    built.thread(pid);
    for (int i = 0; i < 250'000; ++i) {
      if (pid % 2 == 0) {
        built.put(4 * i, 4 * i + 1, static_cast<std::uint32_t>(pid / 2), static_cast<std::uint32_t>(i));
      } else {
        built.get(4 * i + 2, 4 * i + 3, static_cast<std::uint32_t>(pid / 2), static_cast<std::uint32_t>(i));
      }
    }
  }
  const Decoded trace(*built);
  std::size_t begins = 0;
  for (const Packet& event : trace.events) begins += event.type == 1 ? 1 : 0;
  EXPECT_EQ(begins, 1'000'000u);
}

TEST(PerfettoTest, AnyEventsAreAValidTrace) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_FALSE(Decoded(test::wild_recording(seed)).events.empty());
  }
}

TEST(PerfettoTest, WritingMayFail) {
  RecordingBuilder built(1000);
  built.thread(10).task(0, 10, 1, 1);
  const Status missing = write_perfetto(*built, "/nowhere/trace");
  EXPECT_EQ(missing.errno_value(), ENOENT);
  const Status full = write_perfetto(*built, "/dev/full");
  EXPECT_EQ(full.errno_value(), ENOSPC);
  EXPECT_EQ(full.call(), "write");
}

}  // namespace
}  // namespace forklift::inspect
