"""``torch.multiprocessing.reductions``, under this package's name.

Importing this module does not import torch; the first use of one of its names does.
"""

import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    def __getattr__(name: str) -> Any: ...
else:
    Any = object


def _theirs() -> Any:
    from torch.multiprocessing import reductions

    return reductions


class _Forwarding(types.ModuleType):
    """This module's class: reading, setting and deleting a name is done in torch's module."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # for `from ... import *`
            return [each for each in vars(_theirs()) if not each.startswith("_")]
        if name.startswith("__"):
            # The import system and inspectors ask for these of every module.
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(_theirs(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value) if name.startswith("__") else setattr(_theirs(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_theirs(), name)

    def __dir__(self) -> "Iterable[str]":
        return dir(_theirs())


if not TYPE_CHECKING:
    sys.modules[__name__].__class__ = _Forwarding
