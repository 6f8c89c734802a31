"""Children that cannot start, peers that break the protocol: the standard library's errors, no hang."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

import forklift.multiprocessing
import pytest
import support
import targets

LIBRARIES = {"multiprocessing": multiprocessing, "forklift": forklift.multiprocessing}
METHODS = ("fork", "spawn", "forkserver")


@pytest.fixture(params=[f"{library} {method}" for library in LIBRARIES for method in METHODS])
def each(request: pytest.FixtureRequest) -> Any:
    """A context of either library."""
    library, method = request.param.split()
    return LIBRARIES[library].get_context(method)  # type: ignore[attr-defined]


@pytest.mark.parametrize("target", [lambda: None, targets.Unpicklable()])
def test_a_target_that_cannot_be_pickled(each: Any, target: Any) -> None:
    process = each.Process(target=target)
    if each.get_start_method() == "fork":  # nothing is pickled
        process.start()
        process.join(support.DEADLINE)
        assert process.exitcode is not None
        return
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        process.start()
    assert not process.is_alive() if process._popen else True
    good = each.Process(target=int)
    good.start()
    good.join(support.DEADLINE)
    assert good.exitcode == 0


NO_GUARD = """
import sys
multiprocessing = __import__(sys.argv[1], fromlist=["x"])
multiprocessing.set_start_method(sys.argv[2], force=True)
process = multiprocessing.Process(target=int)
process.start()
process.join()
print(process.exitcode)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("library", ["multiprocessing", "forklift.multiprocessing"])
def test_a_main_module_without_a_guard(library: str, method: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(NO_GUARD)
    command = [sys.executable, str(script), library, method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "An attempt has been made to start a new process before" in done.stderr


# By fork nothing is unpickled.
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("how", [targets.ExitsWhenUnpickled, targets.RaisesWhenUnpickled])
def test_a_child_that_dies_while_unpickling(how: Any, library: str, method: str, capfd: Any) -> None:
    each = LIBRARIES[library].get_context(method)  # type: ignore[attr-defined]
    queue = each.Queue()
    process = each.Process(target=targets.put_one, args=(queue, how()))
    process.start()
    process.join(support.DEADLINE)
    assert process.exitcode == (7 if how is targets.ExitsWhenUnpickled else 1)
    if method == "spawn":  # the fork server says it where it was started
        assert ("cannot be made" in capfd.readouterr().err) == (how is targets.RaisesWhenUnpickled)
    good = each.Process(target=targets.put_one, args=(queue, "goes on"))
    good.start()
    assert queue.get(timeout=support.DEADLINE) == "goes on"
    good.join(support.DEADLINE)
    queue.close()
    queue.join_thread()


def raw(address: Any) -> socket.socket:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    made = socket.socket(family)
    made.connect(address)
    return made


def served(family: str, authkey: bytes | None, talk: Callable[[socket.socket], None]) -> BaseException | None:
    """What a Listener's side meets while `talk` speaks to it."""
    met: list[BaseException | None] = []
    with Listener(family=family, authkey=authkey) as listener:

        def serve() -> None:
            try:
                with listener.accept() as connection:
                    connection.recv()
                met.append(None)
            except BaseException as error:
                met.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        with raw(listener.address) as peer:
            talk(peer)
        thread.join(support.DEADLINE)
        assert not thread.is_alive()
        if authkey is not None:  # it goes on
            thread = threading.Thread(target=lambda: Client(listener.address, authkey=authkey).close())
            thread.start()
            listener.accept().close()
            thread.join(support.DEADLINE)
    error = met[0]
    met.clear()
    return error


WRONG = {
    "nothing": b"",
    "half a length": b"\0\0",
    "truncated": struct.pack("!i", 100) + b"x" * 10,
    "negative": struct.pack("!i", -2) + b"x",
    "no pickle": struct.pack("!i", 4) + b"\xff\xff\xff\xff",
    "huge and truncated": struct.pack("!i", -1) + struct.pack("!Q", 1 << 40),
}


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("family", ["AF_UNIX", "AF_INET"])
@pytest.mark.parametrize("what", WRONG)
def test_messages_that_are_wrong(what: str, family: str, installed: bool) -> None:
    if installed:  # the Listener makes our connections, in a process of their own
        code = "import sys; sys.path[:0] = sys.argv[1:3]; import forklift; forklift.install(); "
        code += "import test_wrong_parts as t; t.test_messages_that_are_wrong(*sys.argv[3:], False)"
        folders = [str(each) for each in Path(__file__).parents[:2]]
        command = [sys.executable, "-c", code, *folders, what, family]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return
    error = served(family, None, lambda peer: peer.sendall(WRONG[what]))
    wanted: Any = pickle.UnpicklingError if what == "no pickle" else (EOFError, OSError, MemoryError)
    assert isinstance(error, wanted), error


@pytest.mark.parametrize("family", ["AF_UNIX", "AF_INET"])
def test_a_peer_that_leaves_within_the_challenge(family: str) -> None:
    error = served(family, b"key", lambda peer: None)
    assert isinstance(error, (EOFError, ConnectionResetError, BrokenPipeError))


@pytest.mark.parametrize("family", ["AF_UNIX", "AF_INET"])
def test_an_answer_that_is_too_long(family: str) -> None:
    error = served(family, b"key", lambda peer: peer.sendall(struct.pack("!i", 10_000) + b"x" * 10_000))
    assert isinstance(error, OSError)


@pytest.mark.parametrize("family", ["AF_UNIX", "AF_INET"])
def test_a_wrong_key_at_a_listener(family: str) -> None:
    with Listener(family=family, authkey=b"right") as listener:
        met: list[BaseException] = []

        def serve() -> None:
            try:
                listener.accept()
            except BaseException as error:
                met.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(multiprocessing.AuthenticationError):
            Client(listener.address, authkey=b"wrong")
        thread.join(support.DEADLINE)
        assert isinstance(met[0], multiprocessing.AuthenticationError)
        met.clear()
