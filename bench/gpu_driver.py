"""The few calls of CUDA's driver that the benchmarks make beside Forklift: floors, and the device's memory.

    cuda = Cuda()                          # the primary context of device 0, current in this thread
    free, total = cuda.memory()
    there = cuda.allocate(1 << 20)

The library is the one that Forklift loads: ``libcuda.so.1``, or what FORKLIFT_LIBCUDA names. A failure is a
RuntimeError with the function and CUDA's number. What was allocated goes with the process.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any


class Cuda:
    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ.get("FORKLIFT_LIBCUDA") or "libcuda.so.1")
        context = c_void_p()
        self._call("cuInit", c_uint(0))
        self._call("cuDevicePrimaryCtxRetain", byref(context), c_int(0))
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: Any) -> None:
        error = getattr(self._library, name)(*arguments)
        if error != 0:
            raise RuntimeError(f"{name}: CUDA error {error}")

    def name(self) -> str:
        """The device's name, and the version of CUDA that its driver has."""
        text = ctypes.create_string_buffer(256)
        version = c_int()
        self._call("cuDeviceGetName", text, c_int(256), c_int(0))
        self._call("cuDriverGetVersion", byref(version))
        return f"{text.value.decode()}, driver of CUDA {version.value // 1000}.{version.value % 1000 // 10}"

    def memory(self) -> tuple[int, int]:
        """Free and all bytes of the device, of whatever process."""
        free, total = c_size_t(), c_size_t()
        self._call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, nbytes: int) -> int:
        address = c_ulonglong()
        self._call("cuMemAlloc_v2", byref(address), c_size_t(nbytes))
        return address.value

    def pinned(self, nbytes: int) -> int:
        """Memory of the host as cudaMallocHost gives it, each page touched."""
        address = c_void_p()
        self._call("cuMemHostAlloc", byref(address), c_size_t(nbytes), c_uint(0))
        assert address.value is not None
        ctypes.memset(address.value, 1, nbytes)
        return address.value

    def synchronize(self) -> None:
        self._call("cuCtxSynchronize")

    def copy_to_device(self, to: int, host: int, nbytes: int) -> None:
        self._call("cuMemcpyHtoDAsync_v2", c_ulonglong(to), c_void_p(host), c_size_t(nbytes), c_void_p())

    def copy_within(self, to: int, source: int, nbytes: int) -> None:
        self._call("cuMemcpyDtoDAsync_v2", c_ulonglong(to), c_ulonglong(source), c_size_t(nbytes), c_void_p())

    def gigabytes_per_second(self, copy: Callable[[], None], nbytes: int, count: int) -> float:
        """Of `count` copies in a row, after one that warms up."""
        copy()
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            copy()
        self.synchronize()
        return nbytes * count / (time.perf_counter() - begin) / 1e9


def address_of(tensor: Any) -> int:
    """Where a tensor on a GPU lies, as DLPack says it. Valid as long as the tensor."""
    capsule = tensor.__dlpack__(stream=1)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = pointer(capsule, b"dltensor")
    address = c_void_p.from_address(managed).value  # the first word of DLTensor
    assert address is not None
    return address
