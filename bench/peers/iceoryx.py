"""iceoryx2 by its Python module: publish and subscribe, polling, which is its fastest way to wait.

An int travels as eight bytes, not pickled. An array is copied into a loaned sample and read where it lies.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from peers.exchange import End, Link

BUFFER = 1024  # samples that a subscriber has room for


class IceoryxEnd(End):
    def __init__(self, prefix: str, root: str, side: int, nbytes: int) -> None:
        import iceoryx2

        iceoryx2.set_log_level(iceoryx2.LogLevel.Fatal)
        self._module = iceoryx2
        config = iceoryx2.config.default()
        config.global_cfg.prefix = iceoryx2.FileName.new(prefix)
        config.global_cfg.root_path = iceoryx2.Path.new(root)
        self._node = iceoryx2.NodeBuilder.new().config(config).create(iceoryx2.ServiceType.Ipc)
        names = ["there", "back"]
        ints = [self._service(each, ctypes.c_int64, BUFFER) for each in names]
        self._services = ints  # a service ends with its last owner
        self._out = self._publisher(ints[side]).create()
        self._in = ints[1 - side].subscriber_builder().create()
        self._nbytes = nbytes
        if nbytes:
            arrays = self._service("array", iceoryx2.Slice[ctypes.c_uint8], 1)
            self._services.append(arrays)
            if side == 0:
                self._arrays = self._publisher(arrays).initial_max_slice_len(nbytes).create()
            else:
                self._arrays = arrays.subscriber_builder().create()

    def _service(self, name: str, kind: Any, buffer: int) -> Any:
        builder = self._node.service_builder(self._module.ServiceName.new(name)).publish_subscribe(kind)
        builder = builder.enable_safe_overflow(False).subscriber_max_buffer_size(buffer)
        builder = builder.history_size(0).max_publishers(1).max_subscribers(1)
        return builder.open_or_create()

    def _publisher(self, service: Any) -> Any:
        strategy = self._module.BackpressureStrategy.RetryUntilDelivered
        return service.publisher_builder().backpressure_strategy(strategy)

    def put(self, item: int) -> None:
        self._out.send_copy(ctypes.c_int64(item))

    def get(self) -> int:
        sample = None
        receive = self._in.receive
        while sample is None:
            sample = receive()
        item: int = sample.payload().contents.value
        sample.delete()
        return item

    def put_array(self, array: Any) -> None:
        import numpy as np

        sample = self._arrays.loan_slice_uninit(self._nbytes)
        np.frombuffer(sample.payload().as_memory_view(), np.float32)[:] = array
        sample.assume_init().send()

    def read_array(self) -> float:
        import numpy as np

        sample = None
        while sample is None:
            sample = self._arrays.receive()
        total = float(np.frombuffer(sample.payload().as_memory_view(), np.float32).sum())
        sample.delete()
        return total


class Iceoryx(Link):
    """Each side makes its own node: nothing of it goes through a fork.

    iceoryx2 keeps files for the machine's next node. A folder and names of its own let `close` remove them.
    """

    count = 0

    def __init__(self, nbytes: int) -> None:
        Iceoryx.count += 1
        self._prefix = f"forklift-bench-{os.getpid()}-{Iceoryx.count}_"
        self._root = tempfile.mkdtemp(prefix=self._prefix)
        self._nbytes = nbytes

    def end(self, side: int) -> End:
        return IceoryxEnd(self._prefix, self._root, side, self._nbytes)

    def close(self) -> None:
        for left in Path("/dev/shm").glob(f"{self._prefix}*"):
            left.unlink(missing_ok=True)
        shutil.rmtree(self._root, ignore_errors=True)
