"""Managers: over pipes in shared memory where both are of one domain, over sockets otherwise."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing
import pytest
import support
import targets
from forklift.multiprocessing import managers
from forklift.multiprocessing.connection import Connection

DEAD = (EOFError, BrokenPipeError, ConnectionResetError, ConnectionRefusedError, FileNotFoundError)


def channel(proxy: Any) -> Any:
    """The connection of this thread."""
    return proxy._tls.connection


def is_pipe(proxy: Any) -> bool:
    return getattr(channel(proxy), "_native", False)


def test_proxies_use_pipes(ctx: Any) -> None:
    with ctx.Manager() as manager:
        table = manager.dict()
        table["a"] = [1]
        assert table["a"] == [1]
        assert type(channel(table)) is Connection
        assert is_pipe(table)
        before = forklift.stats()["messages_put"]
        for i in range(10):
            table[i] = i
        assert forklift.stats()["messages_put"] - before == 10
        with pytest.raises(KeyError):
            table["missing"]


def test_children_use_their_own(ctx: Any) -> None:
    with ctx.Manager() as manager:
        table = manager.dict()
        table["here"] = os.getpid()
        child = ctx.Process(target=targets.use_table, args=(table,))
        child.start()
        child.join(support.DEADLINE)
        assert child.exitcode == 0
        assert table["native"] is True
        assert table["there"] == child.pid


def test_threads_have_their_own(ctx: Any) -> None:
    with ctx.Manager() as manager:
        numbers = manager.list()

        def add(start: int) -> None:
            for i in range(50):
                numbers.append(start + i)

        threads = [threading.Thread(target=add, args=(100 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers) == [100 * n + i for n in range(4) for i in range(50)]


def test_all_registered_types(ctx: Any) -> None:
    made = {
        "Queue": lambda m: m.Queue(),
        "JoinableQueue": lambda m: m.JoinableQueue(),
        "Event": lambda m: m.Event(),
        "Lock": lambda m: m.Lock(),
        "RLock": lambda m: m.RLock(),
        "Semaphore": lambda m: m.Semaphore(2),
        "BoundedSemaphore": lambda m: m.BoundedSemaphore(2),
        "Condition": lambda m: m.Condition(),
        "Barrier": lambda m: m.Barrier(1),
        "Pool": lambda m: m.Pool(1),
        "list": lambda m: m.list([1]),
        "dict": lambda m: m.dict(a=1),
        "Value": lambda m: m.Value("i", 3),
        "Array": lambda m: m.Array("i", [1, 2]),
        "Namespace": lambda m: m.Namespace(x=1),
        "set": lambda m: m.set([1]),
    }
    with ctx.Manager() as manager:
        found = {name: make(manager) for name, make in made.items() if name in manager._registry}
        assert set(manager._registry) - set(found) <= {"Iterator", "AsyncResult"}
        found["Queue"].put(1)
        assert found["Queue"].get() == 1
        found["JoinableQueue"].put(1)
        found["JoinableQueue"].get()
        found["JoinableQueue"].task_done()
        found["JoinableQueue"].join()
        found["Event"].set()
        assert found["Event"].wait(1)
        for name in ("Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition"):
            with found[name]:
                pass
        assert found["Barrier"].wait() == 0
        assert found["Pool"].apply_async(abs, (-2,)).get() == 2  # AsyncResult
        assert list(found["Pool"].imap(abs, [-1, -2])) == [1, 2]  # Iterator
        found["Pool"].terminate()
        assert (list(found["list"]), dict(found["dict"]), found["Value"].value) == ([1], {"a": 1}, 3)
        assert (list(found["Array"]), found["Namespace"].x) == ([1, 2], 1)


def addresses(tmp_path: Path) -> list[Any]:
    return [("127.0.0.1", 0), str(tmp_path / "socket")]


@pytest.mark.parametrize("which", [0, 1])
def test_an_address_of_the_programs_own_is_a_socket(ctx: Any, which: int, tmp_path: Path) -> None:
    manager = managers.SyncManager(addresses(tmp_path)[which], b"key", ctx=ctx)
    with manager:
        table = manager.dict(a=1)
        assert table["a"] == 1
        assert not is_pipe(table)


PLAIN_CLIENT = """
    import sys
    from multiprocessing.managers import SyncManager
    assert "forklift" not in sys.modules
    class Mine(SyncManager):
        pass
    Mine.register("shared")
    manager = Mine(sys.argv[1], b"key")
    manager.connect()
    shared = manager.shared()
    shared.append(2)
    print(list(shared._getvalue()))
"""
PLAIN_SERVER = """
    import sys
    from multiprocessing.managers import BaseManager, ListProxy
    shared = [1]
    BaseManager.register("shared", lambda: shared, ListProxy)
    server = BaseManager(sys.argv[1], b"key").get_server()
    print("ready", flush=True)
    server.serve_forever()
"""


class Server(managers.SyncManager):
    pass


_shared: list[int] = []


def shared_list() -> list[int]:
    return _shared


Server.register("shared", shared_list, managers.ListProxy)


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_client_that_knows_nothing_of_us() -> None:
    """At the address that our server chose, which says what domain it is of."""
    with Server(authkey=b"key", ctx=forklift.multiprocessing.get_context("fork")) as manager:
        mine = manager.shared()  # type: ignore[attr-defined]
        mine.append(1)
        assert is_pipe(mine)
        client = python(PLAIN_CLIENT, manager.address)
        out, err = client.communicate(timeout=60)
        assert out == "[1, 2]\n", err
        assert list(mine) == [1, 2]


def test_a_server_that_knows_nothing_of_us(tmp_path: Path) -> None:
    address = str(tmp_path / "socket")
    server = python(PLAIN_SERVER, address)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"

        class Remote(BaseManager):
            pass

        Remote.register("shared", proxytype=managers.ListProxy)
        manager = Remote(address, b"key")
        manager.connect()
        shared = manager.shared()  # type: ignore[attr-defined]
        shared.append(5)
        assert shared[1] == 5
        assert not is_pipe(shared)
        channel(shared).close()
        del shared
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("which", [None, 0, 1])
def test_a_wrong_key(which: int | None, tmp_path: Path) -> None:
    address = None if which is None else addresses(tmp_path)[which]
    context = forklift.multiprocessing.get_context("fork")
    with managers.SyncManager(address, b"right", ctx=context) as manager:
        wrong = managers.SyncManager(manager.address, b"wrong")
        with pytest.raises(multiprocessing.AuthenticationError):
            wrong.connect()
        assert manager.list([1])[0] == 1  # it goes on


@pytest.mark.parametrize("which", [None, 1])
def test_a_server_that_is_killed(ctx: Any, which: int | None, tmp_path: Path) -> None:
    address = None if which is None else addresses(tmp_path)[which]
    manager = managers.SyncManager(address, b"key", ctx=ctx)
    manager.start()
    process: Any = manager._process  # type: ignore[attr-defined]
    queue, table = manager.Queue(), manager.dict()
    table["a"] = 1
    failure: list[BaseException] = []

    def wait() -> None:
        try:
            queue.get()
        except BaseException as error:
            failure.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    support.until_asleep(waiting.native_id)
    os.kill(process.pid, signal.SIGKILL)
    begin = time.monotonic()
    waiting.join(support.DEADLINE)
    assert isinstance(failure[0], DEAD)
    for _ in range(2):
        with pytest.raises(DEAD):
            table["a"]
    with pytest.raises(DEAD):
        manager.list()
    assert time.monotonic() - begin < 2
    manager.shutdown()
    process.join(support.DEADLINE)
    assert process.exitcode == -signal.SIGKILL
    failure.clear()
