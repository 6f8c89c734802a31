"""What ``why`` says of programs that are not stuck, of what it cannot look at, and with its options."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid

import forklift
import forklift.multiprocessing as mp
import pytest
from diagnosis_programs import running, until_stuck
from forklift.cli.top.sampling import Sampler

WHY = [sys.executable, "-m", "forklift", "why"]


def said(*arguments):
    return subprocess.run([*WHY, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_an_idle_server_is_not_stuck_and_is_found_by_its_name():
    name = f"idle-{uuid.uuid4().hex[:12]}"
    with running("programs/idle_server.py", name) as program:
        assert program.stdout.readline() == "ready\n"
        end = time.monotonic() + 3  # waits of less than a second do not count
        while time.monotonic() < end:
            found = forklift.why(program.pid)
            assert not found.stuck, str(found)
            time.sleep(0.2)
        assert [each.process for each in found.waits if "a message in queue" in each.what], str(found)
        by_name = said(name)
        assert by_name.returncode == 0, by_name
        assert by_name.stdout.startswith("Nothing is stuck: ")
        assert f"{program.pid} (" in by_name.stdout


def test_a_program_whose_workers_are_killed_is_not_disturbed_and_never_called_stuck():
    with running("programs/killed_pool.py", "6") as program:
        looks = 0
        sampler = None
        while program.poll() is None:
            with contextlib.suppress(ValueError):  # it shares nothing yet, or has ended
                found = forklift.why(program.pid)
                looks += 1
                assert not found.stuck, str(found)
                sampler = sampler or Sampler(program.pid)
                assert len(sampler.look()[0].pools) <= 1
        assert program.returncode == 0
        assert int(program.stdout.read()) >= 3
        assert looks >= 20
        # What is left of a domain whose processes have all ended is still there to be read.
        assert [each["state"] for each in sampler.look()[0].processes if each["state"] != "is gone"] == []


def test_of_this_process():
    lock = mp.Lock()
    with lock:
        found = forklift.why()
    assert not found.stuck
    assert os.getpid() in [each.process for each in found.processes]
    assert str(found) == found.text


def test_a_process_that_is_not_there():
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(ValueError, match=f"there is no process {child.pid}"):
        forklift.why(child.pid)
    answer = said(str(child.pid))
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("forklift why: ")
    assert answer.stderr.endswith(f"there is no process {child.pid}\n")


def test_a_zombie_and_a_process_that_shares_nothing():
    with subprocess.Popen(["sleep", "60"]) as child:
        with pytest.raises(ValueError, match=r"\(sleep\) is in no Forklift domain"):
            forklift.why(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ValueError, match="was killed by SIGKILL; its parent"):
            forklift.why(child.pid)


@pytest.mark.parametrize("arguments", [["--wacth"], ["1", "2"]])
def test_a_wrong_command(arguments):
    answer = said(*arguments)
    assert answer.returncode == 2
    assert answer.stderr.startswith("usage: forklift why")


def test_a_name_that_nobody_serves():
    answer = said("no-such-domain")
    assert answer.returncode == 1
    assert answer.stderr == "forklift why: no program serves the name 'no-such-domain'\n"


def test_watching_ends_with_what_it_saw_last():
    with running("stuck/short_barrier.py") as program:
        until_stuck(program)
        with subprocess.Popen(
            [*WHY, str(program.pid), "--watch"], stdout=subprocess.PIPE, text=True
        ) as watch:
            assert "lacks 1 of its 3 parties" in watch.stdout.readline()
            watch.send_signal(signal.SIGINT)
            assert watch.wait(60) == 3


def test_notes_say_who_could_have_ended_the_wait():
    with running("programs/explained.py", FORKLIFT_EXPLAIN="1") as program:
        empty, full, at_once = program.communicate(timeout=60)[0].splitlines()
    assert empty.startswith(
        'Empty [\'forklift: a message in queue "explained.py:16" could come from process '
    )
    assert '(Process-1), which waits for a message in queue "explained.py:15"' in empty
    assert full.startswith('Full [\'forklift: room in queue "explained.py:16", which holds 1 of 1 message ')
    assert at_once == "Empty []"


def notes_of(program):
    """The notes by what was called: (the class of the exception, them)."""
    said = {}
    for line in program.communicate(timeout=60)[0].splitlines():
        call, _, rest = line.partition(": ")
        kind, _, notes = rest.partition(" ")
        said[call] = (kind, notes)
    return said


def test_notes_of_results_barriers_and_topics():
    with running("programs/explained_waits.py", FORKLIFT_EXPLAIN="1") as program:
        said = notes_of(program)
    for call in ("get", "next", "result", "exception", "map"):
        kind, notes = said[call]
        assert kind == "TimeoutError"
        assert notes.startswith("['forklift: a result of the pool could come from process "), notes
        assert "which waits for Event " in notes
    # The other worker has no task, so nothing is to be expected of it.
    assert said["get"][1].count("could come from process") == 1
    assert said["next"][1].count("which waits for Event ") == 2
    assert said["as_completed"] == ("TimeoutError", "[]")  # it is the standard library's
    for call, there in (("barrier", "1 of 2"), ("second", "2 of 3")):
        kind, notes = said[call]
        assert kind == "BrokenBarrierError"
        assert notes.startswith("['forklift: a party of Barrier "), notes
        assert f"at which {there} parties are, could come from process" in notes
    assert "(early)" not in said["second"][1]  # it is there
    assert said["subscription"][1].startswith("['forklift: a message of topic ")
    assert said["at once"] == ("Empty", "[]")
    assert said["get_many"][1].startswith("['forklift: a message in queue ")


def test_without_being_asked_nothing_is_explained():
    with running("programs/explained.py") as program:
        said = program.communicate(timeout=60)[0].splitlines()
    assert said == ["Empty []", "Full []", "Empty []"]
    with running("programs/explained_waits.py") as program:
        assert {notes for _, notes in notes_of(program).values()} == {"[]"}
