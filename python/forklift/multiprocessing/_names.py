"""The functions of ``torch.multiprocessing`` itself, without torch: sharing strategies, names of threads.

There is one strategy in a process, torch's. Until the program imports torch it is kept here, and is set in
torch when torch is imported. As in torch, forked children inherit it, and fresh interpreters do not.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
else:
    Any = object

__all__ = [
    "_get_thread_name",
    "_prctl_pr_set_pdeathsig",
    "_set_thread_name",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
]

_TORCHS = "torch.multiprocessing"
_all = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"
_is_watching = False


def _torchs() -> Any:
    """torch.multiprocessing, if it has been imported so far that it has a strategy."""
    module = sys.modules.get(_TORCHS)
    return module if hasattr(module, "_sharing_strategy") else None


def set_sharing_strategy(new_strategy: str) -> None:
    """Set the strategy for sharing CPU tensors: one of get_all_sharing_strategies()."""
    global _strategy
    torchs = _torchs()
    if torchs is not None:
        torchs.set_sharing_strategy(new_strategy)
        return
    if new_strategy not in _all:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {_all}")
    _strategy = new_strategy
    _hand_over_later()


def get_sharing_strategy() -> str:
    """The strategy for sharing CPU tensors."""
    torchs = _torchs()
    return _strategy if torchs is None else str(torchs._sharing_strategy)


def get_all_sharing_strategies() -> set[str]:
    """The strategies that there are."""
    torchs = _torchs()
    return _all if torchs is None else torchs._all_sharing_strategies


def _hand_over_later() -> None:
    global _is_watching
    if not _is_watching:
        _is_watching = True
        sys.meta_path.insert(0, _Watcher())


class _Watcher:
    """A finder that delegates to the others, and sets torch's strategy once torch has been imported."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _TORCHS:
            return None
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            global _is_watching
            del loader.exec_module
            execute(module)
            module.set_sharing_strategy(_strategy)
            _is_watching = False
            if self in sys.meta_path:
                sys.meta_path.remove(self)

        loader.exec_module = exec_module


def _set_thread_name(name: str) -> None:
    """Set the calling thread's name, of which the kernel keeps 15 bytes."""
    from forklift import _core

    _core.set_thread_name(name)


def _get_thread_name() -> str:
    """The calling thread's name."""
    from forklift import _core

    return _core.thread_name()


def _prctl_pr_set_pdeathsig(signal: int) -> None:
    """Have the kernel send this signal to the process when the thread that started it has ended."""
    from forklift import _core

    _core.set_parent_death_signal(signal)
