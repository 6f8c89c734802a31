"""The kernel, its limits for this process, its memory, and the container around it."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from forklift.cli.doctor.finding import Finding, good, note, trouble, warning

__all__ = ["container", "kernel", "limits", "memory"]

_F_OFD_SETLK = 37
# Newer calls, and what is done without them (docs/design.md, "Platform").
_NEWER = (
    ((5, 14), "MADV_POPULATE", "fresh memory is touched page by page"),
    ((5, 16), "futex_waitv", "a wait on several objects uses one more thread"),
    ((6, 3), "MFD_NOEXEC_SEAL", "memory files are not marked as no programs"),
)


def text_of(path: str) -> str:
    """The file's text without white space around it; empty: it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def size(count: float) -> str:
    """A number of bytes in words."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def _status(name: str) -> str:
    found = re.search(rf"^{name}:\s*(.*)$", text_of("/proc/self/status"), re.MULTILINE)
    return found[1].strip() if found else ""


def kernel() -> Iterator[Finding]:
    """Is everything there that Forklift needs of Linux?"""
    release = os.uname().release
    version = tuple(int(part) for part in re.findall(r"\d+", release)[:2])
    if version < (5, 6):
        yield trouble("kernel", "version", release, "Forklift needs Linux 5.6", "run on a newer kernel")
    else:
        yield good("kernel", "version", release)
    for since, call, without in _NEWER:
        if version < since:
            yield note("kernel", call, f"since Linux {since[0]}.{since[1]}", without)
    yield from _calls()
    scope = text_of("/proc/sys/kernel/yama/ptrace_scope")
    if scope not in ("", "0"):
        yield note(
            "kernel",
            "ptrace_scope",
            scope,
            "debuggers and py-spy cannot look at running processes; Forklift does not need it",
            "for a while: sysctl kernel.yama.ptrace_scope=0",
        )
    if _status("Seccomp") == "2":
        yield note("kernel", "seccomp", "a filter", "calls that it refuses are missing; see above and below")


def _calls() -> Iterator[Finding]:
    def memory_file() -> None:
        os.close(os.memfd_create("forklift-doctor"))

    def pidfd() -> None:
        os.close(os.pidfd_open(os.getpid()))

    def description_lock() -> None:
        file = os.memfd_create("forklift-doctor")
        try:
            fcntl.fcntl(file, _F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        finally:
            os.close(file)

    calls: tuple[tuple[str, Callable[[], None], str], ...] = (
        ("memfd_create", memory_file, "there is no memory to share"),
        ("pidfd_open", pidfd, "the end of a process is not noticed"),
        ("locks of descriptions", description_lock, "whether a process lives cannot be told"),
    )
    for name, call, consequence in calls:
        try:
            call()
        except OSError as error:
            remedy = "allow it in the seccomp profile of the container"
            yield trouble("kernel", name, os.strerror(error.errno or 0), consequence, remedy)
        else:
            yield good("kernel", name, "there")


def limits() -> Iterator[Finding]:
    """The limits of this process that Forklift meets."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < 256:
        yield warning(
            "limits",
            "open files",
            str(files),
            "a process has a descriptor for each child and a few for each pipe",
            "ulimit -n 1024",
        )
    else:
        yield good("limits", "open files", _limit(files))
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if space != resource.RLIM_INFINITY:
        yield warning(
            "limits",
            "address space",
            size(space),
            f"at most {size(space / 4)} of it can be shared",
            "ulimit -v unlimited",
        )
    else:
        yield good("limits", "address space", "unlimited")
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if processes != resource.RLIM_INFINITY and processes < 512:
        yield warning(
            "limits", "processes", str(processes), "starting workers and threads may fail", "ulimit -u 4096"
        )
    else:
        yield good("limits", "processes", _limit(processes))
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if locked != resource.RLIM_INFINITY:
        yield note(
            "limits",
            "locked memory",
            size(locked),
            "memory that a GPU reads from directly counts here, and programs that call mlockall()",
        )
    cpus = len(os.sched_getaffinity(0))
    if cpus == 1:
        yield note(
            "limits",
            "processors",
            "1",
            "processes take turns, and waits sleep at once",
        )
    else:
        yield good("limits", "processors", str(cpus), cpus)


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _group_limit() -> tuple[str, int] | None:
    """The lowest memory limit of this process's control groups (version 2), with its folder."""
    found: tuple[str, int] | None = None
    for line in text_of("/proc/self/cgroup").splitlines():
        if not line.startswith("0::"):
            continue
        folder = Path("/sys/fs/cgroup") / line[3:].lstrip("/")
        while folder.is_relative_to("/sys/fs/cgroup"):
            text = text_of(str(folder / "memory.max"))
            if text.isdigit() and (found is None or int(text) < found[1]):
                found = (str(folder), int(text))
            folder = folder.parent
    return found


def memory() -> Iterator[Finding]:
    """How much may be shared, and what decides that."""
    fields = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text_of("/proc/meminfo"), re.MULTILINE))
    available = int(fields.get("MemAvailable", 0)) * 1024
    group = _group_limit()
    if group is not None:
        yield note(
            "memory",
            "control group",
            f"{size(group[1])} in {group[0]}",
            "shared memory counts for the process that touches it first; the budget follows this limit",
        )
    low = available < 512 << 20
    if low:
        yield warning(
            "memory",
            "available",
            size(available),
            "messages that do not fit wait, and then fail with MemoryError",
            "end what takes memory, or forklift.set_budget()",
        )
    else:
        yield good("memory", "available", size(available), available)
    if text_of("/proc/sys/vm/overcommit_memory") == "2":
        yield warning(
            "memory",
            "overcommit",
            "strict (2)",
            "reserving address space may fail although memory is free",
            "sysctl vm.overcommit_memory=0, or forklift.configure(reservation=...)",
        )
    yield from _shm()
    yield from _huge_pages()


def _huge_pages() -> Iterator[Finding]:
    found = re.search(r"\[(\w+)\]", text_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled"))
    if found is None or found[1] not in ("never", "deny"):
        return
    remedy = "as root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"
    if found[1] == "never":
        remedy = f"FORKLIFT_HUGE_PAGES=1, or forklift.configure(huge_pages=True), or {remedy}"
    yield note(
        "memory",
        "huge pages",
        f"shmem_enabled is {found[1]}",
        "large fresh messages take several times as long as they could",
        remedy,
    )


def _shm() -> Iterator[Finding]:
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        yield note("memory", "/dev/shm", "is not there", "named segments cannot be made; all else works")
        return
    free = room.f_bavail * room.f_frsize
    if free < 64 << 20:
        yield note(
            "memory",
            "/dev/shm",
            f"{size(free)} free",
            "named segments have to fit in there; the arena and messages do not lie there",
            "docker run --shm-size=1g",
        )
    else:
        yield good("memory", "/dev/shm", f"{size(free)} free", free)


def container() -> Iterator[Finding]:
    """Is this a container, and what does that mean?"""
    levels = len(_status("NSpid").split())
    inside = os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv") or levels > 1
    if inside:
        yield note(
            "container",
            "container",
            "this process is in one",
            "processes in other PID namespaces cannot share a domain with it",
            "run both in one container, or with --pid=container:NAME",
        )
    else:
        yield good("container", "container", "none was noticed")
