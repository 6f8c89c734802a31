"""The standard library's classes that ``forklift.install()`` replaced, under their own names.

The replaced classes pickle as names of this module. These names work in every child, patched or not.
"""

from __future__ import annotations

import importlib

from forklift import patch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MODULES = {
    name: "multiprocessing." + module for module, (_, names) in patch._REPLACED.items() for name in names
} | {"ProcessPoolExecutor": "concurrent.futures.process"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(_MODULES[name])
    return patch.replaced_classes.get(name) or getattr(module, name)
