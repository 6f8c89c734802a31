"""Programs that meet by name: serving, attaching, what is published, errors, and who may come and go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pytest
import support

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def runtime_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Names of a test's own, and nothing left of them."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield tmp_path / "forklift"
    left = sorted(path.name for path in (tmp_path / "forklift").glob("*"))
    assert left == []


class Program:
    """A Python program that nobody started from here as a child of the domain."""

    def __init__(self, text: str, *arguments: str) -> None:
        code = "import sys, forklift, numpy as np\n" + textwrap.dedent(text)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self.end()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        code = self._process.wait(support.DEADLINE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        return code


SERVER = """
with forklift.serve("x") as domain:
    domain.publish("numbers", forklift.PortableQueue())
    print("serving", flush=True)
    sys.stdin.readline()
"""


def test_a_client_attaches_and_both_see_the_same_memory() -> None:
    with forklift.serve("x") as domain:
        assert domain.serving
        assert domain.name == "x"
        assert repr(domain) == "<forklift.Domain 'x' serving>"
        there, back = forklift.PortableQueue(), forklift.PortableQueue()
        domain.publish("there", there)
        domain.publish("back", back)
        assert domain.published() == {"there": "queue", "back": "queue"}
        client = Program(
            """
            domain = forklift.attach("x")
            image = domain.open("there").get(timeout=20)
            image[0] = 7
            domain.open("back").put({"sum": float(image.sum()), "ones": np.ones(100_000)})
            """
        )
        image = forklift.zeros([50_000], "float64")
        image[1] = 5
        there.put(image)
        answer = back.get(timeout=support.DEADLINE)
        assert answer["sum"] == 12
        assert answer["ones"].sum() == 100_000
        assert image[0].item() == 7
        assert client.end() == 0
        assert domain.unpublish("there")
        assert domain.unpublish("back")
        assert not domain.unpublish("back")
    assert not domain.serving
    domain.close()  # again does nothing


def test_who_attached_is_a_full_member_that_may_be_killed() -> None:
    with forklift.serve("x") as domain:
        before = forklift.stats()["processes"]
        numbers = forklift.PortableQueue()
        lock = mp.Lock()
        domain.publish("numbers", numbers)
        domain.publish("lock", lock)
        client = Program(
            """
            domain = forklift.attach("x")
            numbers, lock = domain.open("numbers"), domain.open("lock")
            lock.acquire()
            kept = [forklift.zeros([100_000]) for _ in range(10)]
            numbers.put(np.arange(10_000))
            print("in", flush=True)
            sys.stdin.readline()
            """
        )
        assert client.said() == "in"
        client.kill()
        # Nobody here asks: the server's connection tells.
        support.until(lambda: forklift.stats()["processes"] == before, "the client was reaped")
        assert numbers.get(timeout=5).sum() == 49_995_000
        with pytest.warns(forklift.AbandonedLockWarning):
            assert lock.acquire(timeout=5)
        lock.release()
        for name in ("numbers", "lock"):
            domain.unpublish(name)


def test_broadcast_and_latest_between_programs() -> None:
    with forklift.serve("x") as domain:
        stream: Any = forklift.Broadcast(4, when_slow="wait")
        newest: Any = forklift.Latest()
        domain.publish("stream", stream)
        domain.publish("newest", newest)
        assert domain.published() == {"stream": "broadcast", "newest": "latest"}
        client = Program(
            """
            domain = forklift.attach("x")
            stream, newest = domain.open("stream"), domain.open("newest")
            assert type(stream) is forklift.Broadcast and type(newest) is forklift.Latest
            with stream.subscribe() as reader:
                for array in reader:
                    newest.put(float(array.sum()))
            newest.put("end")
            """
        )
        assert stream.wait_for_readers(1, support.DEADLINE)
        for i in range(20):
            stream.put(np.full(10_000, i))
        stream.finish()
        support.until(lambda: newest.peek() == "end", "the client has read everything")
        assert newest.version == 21
        assert client.end() == 0
        for name in ("stream", "newest"):
            assert domain.unpublish(name)


def test_a_killed_server_is_replaced_by_a_client() -> None:
    server = Program(SERVER)
    assert server.said() == "serving"
    client = Program(
        """
        domain = forklift.attach("x")
        domain.open("numbers").put("still there")
        print("in", flush=True)
        sys.stdin.readline()
        """
    )
    assert client.said() == "in"
    server.kill()
    another = Program(
        """
        domain = forklift.attach("x")
        print(domain.open("numbers").get(timeout=20), domain.serving, flush=True)
        """
    )
    assert another.said() == "still there False"
    assert another.end() == 0
    client.go()
    assert client.end() == 0


def test_whoever_comes_first_serves() -> None:
    text = """
    domain = forklift.meet("x")
    numbers = domain.open_or_create("numbers", lambda: forklift.PortableQueue(30))
    numbers.put(int(sys.argv[1]))
    print("in", flush=True)
    sys.stdin.readline()
    """
    programs = [Program(text, str(i)) for i in range(4)]
    for program in programs:
        assert program.said() == "in"
    reader = Program(
        """
        numbers = forklift.attach("x").open("numbers")
        print(sorted(numbers.get(timeout=5) for _ in range(4)), flush=True)
        """
    )
    assert reader.said() == "[0, 1, 2, 3]"
    for program in (reader, *programs):
        if program is not reader:
            program.go()
        assert program.end() == 0


def test_errors_that_one_can_act_on(runtime_dir: Path) -> None:
    with pytest.raises(forklift.NotFoundError, match='nobody serves "x"') as none:
        forklift.attach("x")
    assert str(runtime_dir) in str(none.value)
    assert isinstance(none.value, LookupError)
    with forklift.serve("x") as domain:
        with pytest.raises(forklift.NameTakenError, match=f"served already by process {os.getpid()}"):
            forklift.serve("x")
        with pytest.raises(forklift.NotFoundError, match='nothing is published as "frames"'):
            domain.open("frames")
        frames = forklift.PortableQueue()
        domain.publish("frames", frames)
        with pytest.raises(forklift.NameTakenError, match='"frames" is published'):
            domain.publish("frames", frames)
        domain.unpublish("frames")
    for bad in ("", "a/b", ".x", "x" * 65, "white space"):
        for call in (forklift.serve, forklift.attach, forklift.meet):
            with pytest.raises(ValueError, match="as the name of a domain"):
                call(bad)
        with pytest.raises(ValueError, match="as the name of a published object"):
            domain.open(bad)
    with pytest.raises(TypeError, match="'dict' cannot be published"):
        domain.publish("thing", {})
    runtime_dir.chmod(0o755)
    with pytest.raises(forklift.RefusedError, match="has mode 0755"):
        forklift.serve("x")
    runtime_dir.chmod(0o700)


def test_a_process_with_a_domain_of_its_own_cannot_attach() -> None:
    server = Program(SERVER)
    assert server.said() == "serving"
    with pytest.raises(ValueError, match="before the first queue, lock, tensor or child"):
        forklift.attach("x")
    server.go()
    assert server.end() == 0


def test_a_stopped_server_is_named() -> None:
    server = Program(SERVER)
    assert server.said() == "serving"
    server.signal(signal.SIGSTOP)
    begin = time.monotonic()
    client = Program(
        """
        try:
            forklift.attach("x", timeout=0.5)
        except forklift.StalledError as error:
            print(error, flush=True)
        """
    )
    said = client.said()
    assert f'process {server.pid} serves "x" and does not answer' in said
    assert time.monotonic() - begin < 15
    assert client.end() == 0
    server.signal(signal.SIGCONT)
    server.go()
    assert server.end() == 0


def test_signal_handlers_run_while_it_waits() -> None:
    server = Program(SERVER)
    assert server.said() == "serving"
    server.signal(signal.SIGSTOP)
    client = Program(
        """
        import signal
        def stop(*_args):
            raise RuntimeError("asked to stop")
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            forklift.attach("x", timeout=60)
        except RuntimeError as error:
            print(error, flush=True)
        """
    )
    assert client.said() == "asked to stop"
    assert client.end() == 0
    server.signal(signal.SIGCONT)
    server.go()
    assert server.end() == 0


def test_the_server_forks_while_others_attach() -> None:
    with forklift.serve("x") as domain:
        numbers = forklift.PortableQueue()
        domain.publish("numbers", numbers)
        clients = [Program('forklift.attach("x").open("numbers").put(1)') for _ in range(3)]
        context = mp.get_context("fork")
        for _ in range(20):
            process = context.Process(target=int)
            process.start()
            process.join()
        assert [numbers.get(timeout=support.DEADLINE) for _ in clients] == [1, 1, 1]
        for client in clients:
            assert client.end() == 0
        domain.unpublish("numbers")


def test_the_camera_and_its_viewer(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "chaos"))
    import meeting

    camera = subprocess.Popen([meeting.find_camera(), "--frames", "30", "--size", "48x64"])
    viewer = subprocess.run(
        [sys.executable, meeting.VIEWER, "--frames", "30"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert viewer.returncode == 0, viewer.stderr
    assert viewer.stdout == "30 whole pictures\n"
    assert camera.wait(support.DEADLINE) == 0


@pytest.mark.slow
def test_either_end_may_be_killed() -> None:
    program = ROOT / "tests" / "chaos" / "meeting.py"
    done = subprocess.run(
        [sys.executable, program, "--kills", "20"], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("0 things wrong")


def test_what_the_chaos_notices() -> None:
    sys.path.insert(0, str(ROOT / "tests" / "chaos"))
    import meeting

    def judge(*lines: str, viewers: int = 0) -> list[str]:
        log = meeting.Log()
        for line in lines:
            log.add(line)
        return meeting.judge(log, {"viewer": viewers, "camera": 0})

    sent = ["i 5", "+ 5 0", "= 5 0", "+ 5 1", "= 5 1"]
    assert judge(*sent, "- 9 5 0", "- 9 5 1") == []
    assert judge(*sent, "- 9 5 0") == ["1 pictures are lost, by 0 kills of viewers"]
    assert judge(*sent, "- 9 5 1") == ["1 pictures are lost, by 0 kills of viewers"]
    assert judge(*sent, "- 9 5 0", viewers=1) == []
    assert "picture 9 5 0 came twice, or too late" in judge(*sent, "- 9 5 1", "- 9 5 0")
    assert "picture 9 5 1 came twice, or too late" in judge(*sent, "- 9 5 0", "- 9 5 1", "- 9 5 1")
    unsent = judge(*sent, "- 9 5 0", "- 9 5 1", "- 9 5 2")
    assert "pictures of camera 5 came that it did not send" in unsent
    # Killed inside put: it may have arrived or not.
    assert judge(*sent, "+ 5 2", "- 9 5 0", "- 9 5 1") == []
    assert judge(*sent, "+ 5 2", "- 9 5 0", "- 9 5 1", "- 9 5 2") == []
