"""Pipes: the standard library's behaviour, from a reader that looks before it sleeps."""

from __future__ import annotations

import multiprocessing as std
from typing import Any

import forklift.multiprocessing as mp
import pytest


def _answer(end: Any) -> None:
    while True:
        try:
            end.send(end.recv() * 2)
        except EOFError:
            return


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_both_ways_and_the_end(method: str) -> None:
    ctx = mp.get_context(method)
    ours, theirs = ctx.Pipe()
    process = ctx.Process(target=_answer, args=(theirs,))
    process.start()
    theirs.close()
    for value in (1, "ab", b"x" * 100_000, [1.5]):
        ours.send(value)
        assert ours.recv() == value * 2
    ours.close()
    if method == "fork":
        # As with the standard library's: a forked child has inherited our end too, and never sees it closed.
        process.terminate()
    process.join()
    assert process.exitcode == (-15 if method == "fork" else 0)


@pytest.mark.parametrize("library", [std, mp])
def test_one_way_errors_and_closing(library: Any) -> None:
    receiver, sender = library.Pipe(duplex=False)
    assert (receiver.readable, receiver.writable) == (True, False)
    assert (sender.readable, sender.writable) == (False, True)
    with pytest.raises(OSError, match="write-only"):
        sender.recv()
    assert not receiver.poll()
    sender.send_bytes(b"data")
    assert receiver.poll(1)
    assert receiver.recv_bytes() == b"data"
    sender.close()
    with pytest.raises(EOFError):
        receiver.recv()
    receiver.close()
    with pytest.raises(OSError, match="closed"):
        receiver.recv()
