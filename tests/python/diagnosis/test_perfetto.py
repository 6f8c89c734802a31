"""Traces for Perfetto, read with its own code: the generated messages, and the trace processor.

FORKLIFT_TRACE_PROCESSOR names a trace_processor_shell (https://perfetto.dev/docs/analysis/trace-processor).
"""

import collections
import csv
import io
import os
import struct
import subprocess

import pytest
import recordings as made
from recordings import event, message, moment

trace_pb2 = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not here"
)
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Decoded:
    """The events of a trace, with their names and tracks."""

    def __init__(self, path):
        self.trace = trace_pb2.Trace()
        self.trace.ParseFromString(path.read_bytes())
        self.tracks, self.events, state = {}, [], {}
        for packet in self.trace.packet:
            of = packet.trusted_packet_sequence_id
            if packet.sequence_flags & trace_pb2.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
                assert packet.first_packet_on_sequence
                assert packet.trace_packet_defaults.timestamp_clock_id == trace_pb2.BUILTIN_CLOCK_MONOTONIC
                track = packet.trace_packet_defaults.track_event_defaults.track_uuid
                state[of] = {"track": track, "names": {}, "notes": {}, "categories": {}}
            assert of in state
            data = packet.interned_data
            state[of]["names"].update((each.iid, each.name) for each in data.event_names)
            state[of]["notes"].update((each.iid, each.name) for each in data.debug_annotation_names)
            state[of]["categories"].update((each.iid, each.name) for each in data.event_categories)
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.HasField("track_event"):
                self.add(packet, state[of])

    def add(self, packet, state):
        found = packet.track_event
        self.events.append(
            {
                "time": packet.timestamp,
                "type": found.type,
                "track": found.track_uuid or state["track"],
                "name": found.name or state["names"].get(found.name_iid, ""),
                "categories": [state["categories"][each] for each in found.category_iids],
                "notes": {
                    state["notes"][each.name_iid]: getattr(each, each.WhichOneof("value"))
                    for each in found.debug_annotations
                },
                "flows": list(found.flow_ids),
                "ended": list(found.terminating_flow_ids),
                "value": found.double_counter_value or found.counter_value,
            }
        )

    def slices(self):
        """(name, begin in us, duration in us, the beginning's event) of each slice, by its track."""
        found, begun = collections.defaultdict(list), collections.defaultdict(list)
        for each in self.events:
            if each["type"] == BEGIN:
                begun[each["track"]].append(each)
            elif each["type"] == END:
                first = begun[each["track"]].pop()
                begin = (first["time"] - made.BEGAN) // 1000
                duration = (each["time"] - first["time"]) // 1000
                found[each["track"]].append((first["name"], begin, duration, first))
        assert not any(begun.values())
        return found

    def of_thread(self, tid):
        (uuid,) = [each.uuid for each in self.tracks.values() if each.thread.tid == tid]
        return [each[:3] for each in sorted(self.slices()[uuid], key=lambda each: each[1])]

    def named(self, name):
        return [each for each in self.events if each["name"] == name]


@pytest.fixture
def written(tmp_path):
    def write(content):
        path = tmp_path / "program.pftrace"
        made.recording(content).write_perfetto(str(path))
        return path

    return write


def test_each_slice_is_there_with_its_name_and_time(written):
    trace = Decoded(written(made.pipeline(2)))
    frames = 'queue "frames"'
    assert trace.of_thread(10) == [
        ("read", 0, 900),
        (f"puts into {frames}", 900, 10),
        ("copies into the arena", 901, 7),
        ("read", 1000, 900),
        (f"puts into {frames}", 1900, 10),
        ("copies into the arena", 1901, 7),
    ]
    assert trace.of_thread(20) == [
        (f"waits for a message in {frames}", 0, 910),
        (f"gets from {frames}", 910, 5),
        ("train", 916, 394),
    ]
    names = {each.process.process_name for each in trace.tracks.values()}
    assert {"loader", "worker 1", "worker 2"} <= names
    (put, _) = trace.named(f"puts into {frames}")
    assert put["notes"] == {"bytes": 1 << 20, "sequence": 0}
    assert put["categories"] == ["put"]
    assert trace.named("train")[0]["notes"] == {"sequence": 0, "pool": "tasks of pool of process 10"}


def test_flows_are_complete(written):
    trace = Decoded(written(made.pipeline(50)))
    begun = [flow for each in trace.events for flow in each["flows"]]
    ended = [flow for each in trace.events for flow in each["ended"]]
    assert len(begun) == 50 == len(set(begun))
    assert sorted(begun) == sorted(ended)


def test_a_published_message_has_a_flow_to_each_reader(written):
    publish = made.thread(10, [event(made.PUBLISH, 0, 10, message(2, 1), 8)])
    readers = [made.thread(20 + i, [event(made.READ, 20 + i, 30 + i, message(2, 1), 8)]) for i in range(3)]
    trace = Decoded(written({"threads": [publish, *readers], "topics": {2: 'topic "news"'}}))
    (sent,) = trace.named('publishes to topic "news"')
    reads = trace.named('reads from topic "news"')
    assert sorted(sent["flows"]) == sorted(flow for each in reads for flow in each["ended"])
    assert len(set(sent["flows"])) == 3


def test_counters_and_moments(written):
    half = struct.unpack("<Q", struct.pack("<d", 0.5))[0]
    content = made.pipeline(3)
    content["threads"][0]["events"] += [
        moment(made.COUNTER, 100, 3, half),
        moment(made.GONE, 200, 33, 0),
        moment(made.OVER_BUDGET, 300, 4096, 1024),
    ]
    trace = Decoded(written(content))
    values = collections.defaultdict(list)
    for each in trace.events:
        if each["type"] == COUNTER:
            values[trace.tracks[each["track"]].name].append(each["value"])
    assert values == {
        "loss": [0.5],
        'length of queue "frames"': [0, 1, 0, 1, 0, 1, 0],
        "bytes of blocks in use": [0, 1 << 20, 2 << 20, 3 << 20],
    }
    assert trace.named("process 33 is gone")[0]["notes"] == {"in order": False}
    assert trace.named("memory is over the budget")[0]["notes"] == {"bytes": 4096, "allowed": 1024}
    (clock,) = [each.clock_snapshot for each in trace.trace.packet if each.HasField("clock_snapshot")]
    assert clock.primary_trace_clock == trace_pb2.BUILTIN_CLOCK_MONOTONIC
    times = {each.clock_id: each.timestamp for each in clock.clocks}
    assert times[trace_pb2.BUILTIN_CLOCK_REALTIME] == content["wall_ns"]
    assert times[trace_pb2.BUILTIN_CLOCK_MONOTONIC] == made.BEGAN


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        made.recording(made.pipeline()).write_perfetto(str(tmp_path / "nowhere" / "x"))


def untidy():
    """What a recording should not be, and is after a crash: out of order, overlapping, incomplete."""
    content = made.pipeline(30)
    content["names"][1] = b'na"me\n\xff'.decode("latin-1") + "</script>"
    worker = content["threads"][1]
    worker["lost"] = 1000
    worker["events"] += [
        event(made.RANGE, 100, 5500, 0, 1),  # overlaps tasks
        event(made.GET, 20_090, 20_130, message(3, 500), 1),  # begins before its put
        event(made.GET, 20_140, 20_150, message(3, 777), 1),  # without a put
        event(250, 1, 2, 3, 4),
        event(made.COPY, 29_000, 10**9, 0, 1),
        event(made.WAIT, 30_000, 31_000, 300, 1 | 2 << 8),
        moment(made.TASK_BEGAN, 30_500, message(9, 99), 1),
        moment(made.LOCKED, 30_600, 4, 1),
    ]
    content["threads"][0]["events"].append(event(made.PUT, 20_100, 20_120, message(3, 500), 1))
    content["threads"].append(made.thread(20, [event(made.RANGE, 0, 5, 0, 2)]))
    content["threads"].append(made.thread(99, [event(made.RANGE, 0, 5, 0, 2)], thread=98, name="x"))
    return content


@pytest.fixture
def query():
    program = os.environ.get("FORKLIFT_TRACE_PROCESSOR")
    if not program:
        pytest.skip("FORKLIFT_TRACE_PROCESSOR names no trace_processor_shell")

    def ask(path, sql):
        answer = subprocess.run(
            [program, "-Q", sql, str(path)], capture_output=True, text=True, check=True, timeout=60
        )
        rows = list(csv.DictReader(io.StringIO(answer.stdout)))
        return rows

    return ask


@pytest.mark.parametrize("content", [made.pipeline(), untidy(), {}], ids=["pipeline", "untidy", "empty"])
def test_the_trace_processor_has_no_complaints(written, query, content):
    path = written(content)
    complaints = query(
        path, "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    )
    assert complaints == []


def test_the_trace_processor_counts_as_we_do(written, query):
    path = written(made.pipeline(40))
    (row,) = query(path, "select count(*) as n, sum(dur) as ns from slice where name = 'train'")
    assert row == {"n": "40", "ns": str(40 * 394_000)}
    (row,) = query(path, "select count(*) as n from flow")
    assert row == {"n": "40"}
    rows = query(
        path,
        "select p.name as process, count(*) as n from slice s join thread_track t on s.track_id = t.id "
        "join thread using (utid) join process p using (upid) where s.name glob 'gets*' group by 1 "
        "order by 1",
    )
    assert rows == [{"process": "worker 1", "n": "20"}, {"process": "worker 2", "n": "20"}]
    (row,) = query(
        path,
        "select min(value) as least, max(value) as most from counter c join counter_track t "
        "on c.track_id = t.id where t.name glob 'length*'",
    )
    assert [float(each) for each in row.values()] == [0, 1]
    (row,) = query(path, "select count(*) as n, sum(dur) as ns from slice where name glob 'holds*'")
    assert row == {"n": "40", "ns": str(40 * 200_000)}
    # The depth of a copy in a put.
    rows = query(path, "select distinct depth from slice where name glob 'copies*'")
    assert rows == [{"depth": "1"}]
