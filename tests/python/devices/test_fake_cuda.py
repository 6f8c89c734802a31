"""The fake CUDA driver as Python programs use it: by its path, its environment, and ctypes."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap

import fake_cuda

# What the programs below share: the driver, initialised, with a current context, and virtual memory.
BEGIN = textwrap.dedent(
    """
    import array, ctypes, os, socket, sys
    from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

    cuda = ctypes.CDLL(os.environ.get("FORKLIFT_LIBCUDA", "libcuda.so.1"))
    GRANULE = 2 << 20

    class Location(ctypes.Structure):
        _fields_ = [("type", c_int), ("id", c_int)]

    class Properties(ctypes.Structure):
        _fields_ = [
            ("type", c_int),
            ("handle_types", c_int),
            ("location", Location),
            ("meta", c_void_p),
            ("flags", c_ulonglong),
        ]

    class Access(ctypes.Structure):
        _fields_ = [("location", Location), ("flags", c_int)]

    def call(name, *arguments):
        error = getattr(cuda, name)(*arguments)
        assert error == 0, f"{name}: {error}"

    def begin():
        context = c_void_p()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", byref(context), 0)
        call("cuCtxSetCurrent", context)

    def mapped(handle):
        address = c_ulonglong()
        size = c_size_t(GRANULE)
        access = Access(Location(1, 0), 3)
        call("cuMemAddressReserve", byref(address), size, c_size_t(0), c_ulonglong(0), c_ulonglong(0))
        call("cuMemMap", address, size, c_size_t(0), handle, c_ulonglong(0))
        call("cuMemSetAccess", address, size, byref(access), c_size_t(1))
        return address
    """
)

# Makes memory, fills it, sends its descriptor through the socket that is its first argument, and ends.
MAKER = """
begin()
handle = c_ulonglong()
properties = Properties(1, 1, Location(1, 0), None, 0)
call("cuMemCreate", byref(handle), c_size_t(GRANULE), byref(properties), c_ulonglong(0))
address = mapped(handle)
call("cuMemsetD8Async", address, ctypes.c_ubyte(77), c_size_t(GRANULE), None)
call("cuCtxSynchronize")
fd = c_int()
call("cuMemExportToShareableHandle", byref(fd), handle, 1, c_ulonglong(0))
socket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b"memory"], [fd.value])
"""

# Takes a descriptor from the socket that is its first argument, and prints what the memory behind it has.
TAKER = """
_, [fd], _, _ = socket.recv_fds(socket.socket(fileno=int(sys.argv[1])), 6, 1)
begin()
handle = c_ulonglong()
call("cuMemImportFromShareableHandle", byref(handle), c_void_p(fd), 1)
os.close(fd)
address = mapped(handle)
read = (ctypes.c_ubyte * 3)()
call("cuMemcpyDtoHAsync_v2", read, c_ulonglong(address.value + GRANULE - 3), c_size_t(3), None)
print(list(read))
"""

# Prints what two allocations answer.
ALLOCATE = """
begin()
memory = c_ulonglong()
print([cuda.cuMemAlloc_v2(byref(memory), c_size_t(64)) for _ in range(2)])
"""


def start(
    source: str, *arguments: str, pass_fds: tuple[int, ...] = (), **settings: object
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + source, *arguments],
        env=fake_cuda.environment(**settings),
        pass_fds=pass_fds,
        stdout=subprocess.PIPE,
        text=True,
    )


def output(program: subprocess.Popen[str]) -> str:
    with program:
        said, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    return said.strip()


def test_memory_outlives_the_program_that_made_it() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        assert not output(start(MAKER, str(there.fileno()), pass_fds=(there.fileno(),)))
        assert output(start(TAKER, str(here.fileno()), pass_fds=(here.fileno(),))) == "[77, 77, 77]"


def test_the_environment_makes_calls_fail() -> None:
    assert output(start(ALLOCATE)) == "[0, 0]"
    assert output(start(ALLOCATE, fail="cuMemAlloc:2:2")) == "[0, 2]"


def test_the_device_is_as_large_as_the_environment_says() -> None:
    assert output(start(ALLOCATE, bytes=4096)) == "[0, 2]"
