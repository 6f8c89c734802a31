"""torch's CPU tensors in shared memory: `tensors` sends and receives them, `sharing` extends torch.

The core calls ``install`` when it first meets torch. Importing this package does not import torch.
"""

from __future__ import annotations

__all__ = ["install"]


def install() -> None:
    """Extend Forklift's picklers and torch's own sharing functions to tensors in Forklift's memory. Once."""
    from forklift.adapters.torch import tensors

    tensors.install()
