"""What a program does over time: ranges and counters of its own, and recordings.

    from forklift import trace

    with trace.range("step"):              # on the track of this thread, in whoever records
        trace.counter("loss", loss)

    with trace.recording() as recorded:    # of this program, from inside
        train()
    recorded.write("out.pftrace")          # for https://ui.perfetto.dev

From a shell, of a program that need not be changed::

    python -m forklift trace -o out.pftrace train.py --epochs 3
    python -m forklift trace --attach 4711 --seconds 10 --html report.html

Each thread of each process writes into a ring in shared memory: put and get of messages, waits, locks,
blocks, copies, tasks of pools, processes that begin and end, ranges. While nobody records, an event costs two
loads and a branch; otherwise some 60 ns. A ring keeps its thread's last 32,768 events, so that nothing is
lost while somebody collects (every 20 ms), and what is lost is counted.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from forklift import _core

__all__ = ["CATEGORIES", "Recorded", "counter", "is_on", "range", "record", "recording"]

# trace::Category (src/trace/event.h); the first, processes and forks, is always on.
CATEGORIES = {
    "messages": 1 << 1,
    "waits": 1 << 2,
    "locks": 1 << 3,
    "memory": 1 << 4,
    "tasks": 1 << 5,
    "ranges": 1 << 6,
}
_SECONDS = 0.02
_MOST = 50_000_000


def range(name: str) -> _core.TraceRange:
    """A range of the program's time, for a ``with`` statement. Nothing happens while nobody records.

    At most 4,095 different names are kept for a program, 56 bytes of each: name kinds of work.
    """
    return _core.TraceRange(name)


def counter(name: str, value: float) -> None:
    """Say that something has this value from now on: a curve over time."""
    _core.trace_counter(name, value)


def is_on() -> bool:
    """Whether somebody records this program now."""
    return _core.trace_is_on()


class Recorded:
    """What was recorded: one recording for each domain of the program, most often one."""

    def __init__(self) -> None:
        self.recordings: list[_core.Recording] = []

    def write(self, path: str | os.PathLike[str]) -> list[str]:
        """Write a trace for Perfetto (``ui.perfetto.dev``, ``trace_processor``). The files that were written:

        of a program with several domains one for each, ``out.pftrace``, ``out-2.pftrace``. OSError.
        """
        return self._each(path, lambda recording, name: recording.write_perfetto(name))

    def report(self, path: str | os.PathLike[str], title: str = "") -> list[str]:
        """Write pages of HTML that need nothing else: where the time went, a timeline. The files."""
        from forklift.trace.page import page_of

        def write(recording: _core.Recording, name: str) -> None:
            with open(name, "w", encoding="utf-8") as file:
                file.write(page_of(recording.report_json(), title or os.path.basename(name)))

        return self._each(path, write)

    def _each(self, path: str | os.PathLike[str], write: Any) -> list[str]:
        stem, suffix = os.path.splitext(os.fspath(path))
        names = [
            f"{stem}{suffix if at == 0 else f'-{at + 1}{suffix}'}"
            for at in builtins.range(len(self.recordings))
        ]
        for recording, name in zip(self.recordings, names, strict=True):
            write(recording, name)
        return names


def mask_of(categories: str | None) -> int:
    """The bits of "messages,waits", or of everything. ValueError: there is no such category."""
    if not categories:
        return sum(CATEGORIES.values())
    names = [each.strip() for each in categories.split(",")]
    unknown = [each for each in names if each not in CATEGORIES]
    if unknown:
        raise ValueError(f"no category {', '.join(unknown)}; there are {', '.join(CATEGORIES)}")
    return sum(CATEGORIES[each] for each in set(names))


class Collector:
    """Collects from a recorder in a thread of its own until stop()."""

    def __init__(self, recorder: _core.Recorder) -> None:
        self._recorder = recorder
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._collect, name="forklift-trace", daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        while not self._stopping.wait(_SECONDS):
            self._recorder.collect()

    @property
    def events(self) -> int:
        """How many there are so far."""
        return self._recorder.events

    def stop(self) -> Recorded:
        """Switch tracing off, and say what was recorded."""
        self._stopping.set()
        self._thread.join()
        recorded = Recorded()
        recorded.recordings = self._recorder.stop()
        return recorded


def recorder_of(descriptor: int, categories: str | None, most: int) -> _core.Recorder:
    """A recorder of the domain whose control segment this is."""
    return _core.Recorder.of_descriptor(descriptor, mask_of(categories), most)


def record(pid: int | None = None, *, categories: str | None = None, most: int = _MOST) -> Collector:
    """Begin to record a running program, by any process of it; None: this one. ``stop()`` ends it.

    ``categories``: names of CATEGORIES, with commas between; None: all. ``most``: so many events are kept, of
    40 bytes each. ValueError: there is no such process, it shares nothing by Forklift, or no such category.
    RefusedError: another user's, or somebody records it already. VersionError: another Forklift's.
    """
    if pid is None:
        _core.ensure_domain()
    return Collector(_core.Recorder.of_process(pid, mask_of(categories), most))


@contextlib.contextmanager
def recording(*, categories: str | None = None, most: int = _MOST) -> Iterator[Recorded]:
    """Record this program during a ``with`` statement; what it gives is filled at its end."""
    recorded = Recorded()
    collector = record(categories=categories, most=most)
    try:
        yield recorded
    finally:
        recorded.recordings = collector.stop().recordings
