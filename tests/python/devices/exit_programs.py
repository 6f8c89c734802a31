"""Programs that end while another process holds memory of their library's: `python exit_programs.py NAME`."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import forklift.multiprocessing as mp
from forklift import Tensor

Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Plain(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("plain", Plain), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Library:
    """A library with memory of the driver's own, whose DLPack deleter runs Python code."""

    def __init__(self, values: list[float]) -> None:
        self.cuda = ctypes.CDLL(os.environ.get("FORKLIFT_LIBCUDA", "libcuda.so.1"))
        Tensor([1.0]).to("GPU")  # the driver is initialised
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.memory = ctypes.c_ulonglong()
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(1 << 20))
        host = (ctypes.c_float * len(values))(*values)
        self.call("cuMemcpyHtoDAsync_v2", self.memory, host, ctypes.c_size_t(4 * len(values)), None)
        self.call("cuCtxSynchronize")
        self.shape = (ctypes.c_int64 * 1)(len(values))
        self.deleter = Deleter(lambda _: print("given back", flush=True))
        plain = Plain(self.memory.value, 2, 0, 1, 2, 32, 1, self.shape, None, 0)
        self.managed = Managed(plain, None, self.deleter)

    def call(self, name: str, *arguments: Any) -> None:
        error = getattr(self.cuda, name)(*arguments)
        assert error == 0, f"{name}: {error}"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


def send(queue: Any) -> None:
    library = Library([3.0, 4.0])
    queue.put(Tensor.from_dlpack(library))
    globals()["kept"] = library  # as a library's memory is: until the process is gone


def child(method: str) -> None:
    """The producer ends with its tensor in flight: it is copied, and the producer ends in good order."""
    ctx = mp.get_context(method)
    queue = ctx.Queue()
    process = ctx.Process(target=send, args=(queue,))
    process.start()
    process.join()
    print(process.exitcode, queue.get(timeout=30).tolist())


def main_program() -> None:
    send(mp.get_context("spawn").Queue())
    print("the end", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
