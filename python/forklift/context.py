"""Where tensors are computed, by how many threads, and how long a fork waits for them.

    from forklift import context

    context.set_context(device_target="CPU", num_threads=4, fork_timeout=5.0)
    context.get_context("device_target")        # "CPU"
    context.get_context()                       # all of them, as a dict

The settings are this process's own. A forked child inherits them but for the device; a spawned one begins
with the defaults.

- ``device_target``: a name of ``devices()``, where new tensors are made; at the start the CPU or what
  ``FORKLIFT_DEVICE_TARGET`` says. A device other than the CPU is opened by the first tensor there.
- ``device_handover``: ``"wait"`` (the default): sending a tensor on a GPU waits until what was queued for it
  is done; ``"event"``: it does not, and the program orders by `forklift.DeviceEvent`.
- ``num_threads``: how many threads compute, the one that waits for a result included. 0: as many as
  there are processors that this process may use (affinity and control group), or
  ``FORKLIFT_NUM_THREADS``.
- ``fork_timeout``: for how many seconds a fork waits until all operations are computed, and until calls of
  OpenBLAS in other threads have ended (60, or ``FORKLIFT_FORK_TIMEOUT``). Then it raises TimeoutError
  instead of forking.
"""

from __future__ import annotations

from forklift import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["device_memory", "devices", "get_context", "set_context", "trim_device"]

_KEYS = ("device_handover", "device_target", "fork_timeout", "num_threads")
_HANDOVERS = ("event", "wait")


def devices() -> list[str]:
    """The names that ``device_target`` may have on this machine."""
    return _core._runtime.devices()


def device_memory(device: str = "GPU") -> dict[str, int]:
    """What Forklift has of a GPU's memory in this process, in bytes.

    ``pool_bytes`` in ``pools`` pools, of which tensors of this process use ``used_bytes``, and ``away_bytes``
    belong to tensors that only other processes have.
    """
    return _core._runtime.device_memory(device)


def trim_device(device: str = "GPU") -> int:
    """Give memory of a GPU back to the driver that Forklift keeps for later; how many bytes that were."""
    return _core._runtime.trim_device(device)


def set_context(
    *,
    device_handover: str | None = None,
    device_target: str | None = None,
    num_threads: int | None = None,
    fork_timeout: float | None = None,
) -> None:
    """Change the settings that are given; the others stay. All are checked before any is changed.

    ValueError: a device that is not there (the error names those that are), a negative number.
    """
    if device_target is not None and device_target not in devices():
        raise ValueError(
            f"no device {device_target!r} here; device_target may be one of: {', '.join(devices())}"
        )
    if device_handover is not None and device_handover not in _HANDOVERS:
        raise ValueError(f"device_handover={device_handover!r}: one of {', '.join(map(repr, _HANDOVERS))}")
    if num_threads is not None and num_threads < 0:
        raise ValueError(f"num_threads={num_threads}: at least 0, which means all processors")
    if device_handover is not None:
        _core._runtime.set_device_waits(device_handover == "wait")
    if device_target is not None:
        _core._runtime.set_device_target(device_target)
    if fork_timeout is not None:
        _core._runtime.set_fork_timeout(fork_timeout)
    if num_threads is not None:
        _core._runtime.set_threads(num_threads)


def get_context(key: str | None = None) -> Any:
    """One setting by its name, or a dict of all. KeyError names those that there are."""
    if key is None:
        return {name: get_context(name) for name in _KEYS}
    if key == "device_handover":
        return "wait" if _core._runtime.device_waits() else "event"
    if key == "device_target":
        return _core._runtime.device_target()
    if key == "num_threads":
        return _core._runtime.threads()
    if key == "fork_timeout":
        return _core._runtime.fork_timeout()
    raise KeyError(f"no setting {key!r}; there are {', '.join(_KEYS)}")
