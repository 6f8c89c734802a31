"""``forklift trace``: in a trace is what a program of known amounts did; from a shell, and from within."""

import collections
import contextlib
import os
import signal
import subprocess
import sys

import forklift.multiprocessing as mp
import pytest
from diagnosis_programs import FOLDER, running
from forklift import trace

trace_pb2 = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not here"
)
TRACE = [sys.executable, "-m", "forklift", "trace"]


class Content:
    """Of a trace: how often each name begins or happens, and the messages' ways."""

    def __init__(self, path):
        decoded = trace_pb2.Trace()
        decoded.ParseFromString(path.read_bytes())
        self.names, self.processes, self.counters = collections.Counter(), set(), collections.Counter()
        self.put, self.got, interned, tracks = [], [], {}, {}
        for packet in decoded.packet:
            of = packet.trusted_packet_sequence_id
            for each in packet.interned_data.event_names:
                interned[of, each.iid] = each.name
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                tracks[track.uuid] = track.name
                if track.HasField("process"):
                    self.processes.add(track.process.process_name)
            if not packet.HasField("track_event"):
                continue
            found = packet.track_event
            if found.type in (found.TYPE_SLICE_BEGIN, found.TYPE_INSTANT):
                self.names[found.name or interned[of, found.name_iid]] += 1
            if found.type == found.TYPE_COUNTER:
                self.counters[tracks[found.track_uuid]] += 1
            self.put += found.flow_ids
            self.got += found.terminating_flow_ids


def run(arguments, **more):
    return subprocess.run(
        [*TRACE, *map(str, arguments)], capture_output=True, text=True, timeout=100, check=False, **more
    )


def test_everything_that_a_program_did_is_there_once(tmp_path):
    count = 5000
    said = run(["-o", tmp_path / "out.pftrace", FOLDER / "programs/traced.py", count])
    assert said.stdout == "ended 0 True\n", said.stderr
    assert "lost" not in said.stderr
    assert said.returncode == 0
    content = Content(tmp_path / "out.pftrace")
    names = content.names
    assert names['puts into queue "numbers"'] == count + 1
    assert names['gets from queue "numbers"'] == count + 1
    assert names["triple"] == 30
    assert names["feeding"] == 1
    assert names['publishes to topic "news"'] == names['reads from topic "news"'] == 20
    assert names['holds Lock "door"'] == count, names
    assert content.counters["progress"] == 20
    assert "reader" in content.processes
    # Every message that was put has arrived: the numbers, the tasks, the answers, the news.
    assert sorted(content.put) == sorted(content.got)
    assert len(set(content.put)) == len(content.put)
    assert len(content.put) >= count + 1 + 20 + 30 + 30


@contextlib.contextmanager
def attached(program, *arguments):
    """The command, which records the program already. It is interrupted at the end."""
    command = [*TRACE, "--attach", str(program.pid), "--seconds", "60", *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as recorder:
        try:
            first = recorder.stderr.readline()
            assert first.startswith(f"forklift trace: recording process {program.pid} "), first
            yield recorder
            recorder.send_signal(signal.SIGINT)
            recorder.said = recorder.communicate(timeout=60)[1]
        finally:
            recorder.kill()


def put(program, count):
    program.stdin.write(f"{count}\n")
    program.stdin.flush()
    assert program.stdout.readline() == "done\n"


def test_a_running_program_is_recorded_for_a_while(tmp_path):
    with running("programs/counted.py") as program:
        program.stdout.readline()
        put(program, 11)
        with attached(program, "-o", tmp_path / "out.pftrace") as recorder:
            put(program, 100)
        put(program, 12)
        assert recorder.returncode == 0, recorder.said
        content = Content(tmp_path / "out.pftrace")
        assert content.names['puts into queue "numbers"'] == 100
        assert content.names['gets from queue "numbers"'] == 0


def test_categories_are_chosen(tmp_path):
    path = tmp_path / "out.pftrace"
    said = run(["--only", "locks,ranges", "-o", path, FOLDER / "programs/traced.py", 50])
    assert said.returncode == 0, said.stderr
    names = Content(path).names
    assert names['holds Lock "door"'] == 50
    assert names["feeding"] == 1
    assert not [each for each in names if each.startswith(("puts", "gets", "waits", "copies"))]


def test_the_page_is_complete_in_itself(tmp_path):
    said = run(["--html", tmp_path / "report.html", FOLDER / "programs/traced.py", 100])
    assert said.returncode == 0, said.stderr
    page = (tmp_path / "report.html").read_text()
    assert "<script" in page
    assert "triple" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "src=" not in page
    assert not (tmp_path / "trace.pftrace").exists()


@pytest.mark.parametrize("code", [0, 3])
def test_the_programs_exit_code_is_the_commands(tmp_path, code):
    said = run(["-o", tmp_path / "out.pftrace", "-c", f"raise SystemExit({code})"])
    assert said.returncode == code, said.stderr


def test_a_program_that_is_killed_leaves_its_trace(tmp_path):
    text = """
import multiprocessing as mp, os
queue = mp.Queue()
for i in range(100): queue.put(i)
os.kill(os.getpid(), 9)
"""
    said = run(["-o", tmp_path / "out.pftrace", "-c", text])
    assert said.returncode == 128 + 9, said.stderr
    assert Content(tmp_path / "out.pftrace").names["puts into queue 0"] == 100


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--unknown", "x.py"],
        ["--only", "messages,everything", "x.py"],
        ["--seconds", "0", "--attach", "1"],
        ["--attach", "1", "x.py"],
        ["--most", "-1", "x.py"],
    ],
)
def test_wrong_commands(arguments):
    said = run(arguments)
    assert said.returncode == 2
    assert "usage:" in said.stderr


def test_processes_that_cannot_be_recorded(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True) as plain:
        said = run(["--attach", plain.pid, "-o", tmp_path / "out.pftrace"])
        assert said.returncode == 1
        assert "is in no Forklift domain" in said.stderr
        plain.communicate("\n")
    said = run(["--attach", plain.pid])
    assert said.returncode == 1
    assert "there is no process" in said.stderr
    assert not (tmp_path / "out.pftrace").exists()


def test_only_one_records_at_a_time(tmp_path):
    with running("programs/counted.py") as program:
        program.stdout.readline()
        with attached(program, "-o", tmp_path / "out.pftrace"):
            said = run(["--attach", program.pid])
            assert said.returncode == 1
            assert "somebody else records this program" in said.stderr


def double(value):
    with trace.range("doubling"):
        return 2 * value


def test_a_program_records_itself(tmp_path):
    with trace.recording() as recorded, mp.Pool(2) as pool:
        assert trace.is_on()
        assert pool.map(double, range(40), chunksize=1) == [2 * each for each in range(40)]
    assert not trace.is_on()
    assert recorded.recordings[0].lost == 0
    (path,) = recorded.write(tmp_path / "out.pftrace")
    content = Content(tmp_path / "out.pftrace")
    assert path == str(tmp_path / "out.pftrace")
    assert content.names["double"] == 40
    assert content.names["doubling"] == 40


def test_no_more_events_than_asked_for_are_kept():
    queue = mp.SimpleQueue()
    with trace.recording(categories="messages", most=30) as recorded:
        for _ in range(50):
            queue.put(1)
            queue.get()
    (recording,) = recorded.recordings
    assert recording.events == 30
    assert recording.lost >= 70


def test_ranges_and_counters_need_no_recorder():
    with trace.range("alone"):
        trace.counter("nobody", 1.5)
    assert not trace.is_on()


def test_a_forked_child_does_not_end_its_parents_recording():
    with trace.recording() as recorded:
        child = mp.get_context("fork").Process(target=os.getpid)
        child.start()
        child.join()
        assert trace.is_on()
    assert recorded.recordings[0].events > 0
