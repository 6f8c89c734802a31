"""The standard library's ``multiprocessing.spawn``, and the function ``torch.multiprocessing.spawn``.

    import forklift.multiprocessing as mp

    mp.spawn(train, args=(model,), nprocs=4)             # the function of torch's package
    mp.spawn.get_preparation_data("child")               # the module of the standard library's
    from forklift.multiprocessing.spawn import ProcessContext, start_processes

The two packages use one name for a function and for a module, so this module can be called. Names that it
does not have itself are the standard library's, also when they are set.
"""

import multiprocessing.spawn as _std
import sys
import types

from forklift.multiprocessing._ranks.failures import (
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
)
from forklift.multiprocessing._ranks.group import (
    ENV_VAR_PARALLEL_START,
    ProcessContext,
    SpawnContext,
    log,
    spawn,
    start_processes,
    start_ranks,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.spawn import (
        WINEXE,
        WINSERVICE,
        _main,
        freeze_support,
        get_command_line,
        get_executable,
        get_preparation_data,
        import_main_path,
        is_forking,
        prepare,
        set_executable,
        spawn_main,
    )
    from typing import Any
else:
    Any = object

__all__ = [
    "ENV_VAR_PARALLEL_START",
    "WINEXE",
    "WINSERVICE",
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "_main",
    "freeze_support",
    "get_command_line",
    "get_executable",
    "get_preparation_data",
    "import_main_path",
    "is_forking",
    "log",
    "prepare",
    "set_executable",
    "spawn",
    "spawn_main",
    "start_processes",
    "start_ranks",
]


# By these the module is pickled as any function is: as forklift.multiprocessing.spawn.
__module__ = __name__.rpartition(".")[0]
__qualname__ = "spawn"


class _CallableModule(types.ModuleType):
    """This module's class."""

    __call__ = staticmethod(spawn)

    @property
    def __signature__(self) -> Any:
        import inspect

        return inspect.signature(spawn)

    def __reduce__(self) -> str:
        return "spawn"

    def __getattr__(self, name: str) -> Any:
        return getattr(_std, name)

    def __setattr__(self, name: str, value: Any) -> None:
        theirs = name not in vars(self) and name in vars(_std)
        setattr(_std, name, value) if theirs else super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name) if name in vars(self) else delattr(_std, name)

    def __dir__(self) -> "Iterable[str]":
        return sorted({*vars(self), *vars(_std)})


if not TYPE_CHECKING:
    sys.modules[__name__].__class__ = _CallableModule
