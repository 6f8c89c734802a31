"""torch's CPU tensors in shared memory: `tensors` sends and receives them, `sharing` extends torch.

The core calls ``install`` when it first meets torch. Importing this package does not import torch;
``DataLoader``, torch's over Forklift's processes (`loader`), does, and so does ``use_arena``, by which torch
allocates CUDA memory from Forklift (`allocator`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forklift.adapters.torch.allocator import use_arena as use_arena
    from forklift.adapters.torch.loader import DataLoader as DataLoader

__all__ = ["DataLoader", "install", "use_arena"]

_LATER = {"DataLoader": "loader", "use_arena": "allocator"}


def install() -> None:
    """Extend Forklift's picklers and torch's own sharing functions to tensors in Forklift's memory. Once."""
    from forklift.adapters.torch import tensors

    tensors.install()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _LATER:
            import importlib

            module = importlib.import_module("forklift.adapters.torch." + _LATER[name])
            return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module 'forklift.adapters.torch' has no attribute {name!r}")
