"""Tells whether this process has threads that a forked child would miss, and what they are."""

from __future__ import annotations

import os
import sys
import threading
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["describe", "has_cuda", "missed_by_forks", "others", "why_not_to_fork"]

_TASKS = "/proc/self/task"
_STACK = 64 << 10  # bytes of a thread's stack that are searched for return addresses
_MANY = 3
# Code of the C library and of the loader is on every thread's stack.
_COMMON = ("libc.so", "libc-2", "libpthread", "ld-linux", "ld-musl", "libstdc++", "libpython", "[vdso]")
_THREADED = (
    "libgomp",
    "libiomp",
    "libomp",
    "libopenblas",
    "libscipy_openblas",
    "libmkl",
    "libtbb",
    "libarrow",
)


def others() -> list[int]:
    """The numbers of this process's threads, without the calling one."""
    own = threading.get_native_id()
    try:
        return [task for task in map(int, os.listdir(_TASKS)) if task != own]
    except OSError:  # no /proc
        tasks = [each.native_id for each in threading.enumerate()]
        return [task for task in tasks if task is not None and task != own]


def missed_by_forks() -> list[int]:
    """The threads that live on across a fork in the parent, and so are missing in a child.

    A runtime that survives forks ends its threads before the fork, and starts others after it or when it
    needs them: OpenBLAS does (`pthread_atfork`). So a child is forked that ends at once; the threads that
    were there before and are still there are of no such runtime.
    """
    before = others()
    if not before:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from Python 3.12 on a fork beside threads is a DeprecationWarning
        pid = _fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    after = others()
    return [task for task in before if task in after]


_fork = os.fork


def why_not_to_fork() -> str | None:
    """Why a child forked now might hang: the threads it would miss, or CUDA. None: there is no reason."""
    missed = missed_by_forks()
    if missed:
        named = ", ".join(describe(task) for task in sorted(missed)[:_MANY])
        return named if len(missed) <= _MANY else f"{named} and {len(missed) - _MANY} more"
    return "CUDA is initialised" if has_cuda() else None


def has_cuda() -> bool:
    """Tells whether torch has initialised CUDA here. It imports and initialises nothing."""
    module: Any = sys.modules.get("torch.cuda")
    return module is not None and bool(getattr(module, "is_initialized", bool)())


def describe(task: int) -> str:
    """A thread in words: its name, and the function or the library that it runs."""
    for thread in threading.enumerate():
        if thread.native_id == task:
            target: Any = getattr(thread, "_target", None) or type(thread).run
            module, name = getattr(target, "__module__", "?"), getattr(target, "__qualname__", "?")
            return f"thread {thread.name!r} in {module}.{name}"
    try:
        with open(f"{_TASKS}/{task}/comm") as file:
            name = file.read().strip()
    except OSError:
        name = str(task)
    return f"thread {name!r} of {_library(task) or _suspects()}"


def _library(task: int) -> str:
    """The library whose code a sleeping thread runs: the innermost on its stack; "" for a running thread."""
    try:
        with open(f"{_TASKS}/{task}/syscall") as file:
            words = file.read().split()
        stack, instruction = int(words[-2], 16), int(words[-1], 16)
        code = _code()
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            size = min(_STACK, _end_of_mapping(stack) - stack)
            data = os.pread(memory.fileno(), size & ~7, stack)
    except (OSError, ValueError, IndexError):
        return ""  # a running thread's registers are not shown
    slots = (int.from_bytes(data[at : at + 8], sys.byteorder) for at in range(0, len(data), 8))
    for address in (instruction, *slots):
        for start, stop, name in code:
            if start <= address < stop and not name.startswith(_COMMON):
                return name
    return ""


def _suspects() -> str:
    """In words: which of the libraries that have threads are mapped."""
    try:
        found = sorted({name for _, _, name in _code() if name.startswith(_THREADED)})
    except OSError:
        found = []
    return "an unknown library" + (f" (loaded are {', '.join(found)})" if found else "")


def _maps() -> list[tuple[int, int, str, str]]:
    found = []
    with open("/proc/self/maps") as file:
        for line in file:
            span, access, _, _, _, *path = line.split(maxsplit=5)
            start, _, stop = span.partition("-")
            found.append((int(start, 16), int(stop, 16), access, path[0].strip() if path else ""))
    return found


def _code() -> list[tuple[int, int, str]]:
    """The mappings of libraries' code, each with the file's name. The interpreter itself is no library."""
    own = ("", os.path.realpath("/proc/self/exe"))
    return [
        (a, b, os.path.basename(path)) for a, b, access, path in _maps() if "x" in access and path not in own
    ]


def _end_of_mapping(address: int) -> int:
    return next((stop for start, stop, _, _ in _maps() if start <= address < stop), address)
