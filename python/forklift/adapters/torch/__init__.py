"""torch's CPU tensors as shared memory: `tensors` sends and receives them, `sharing` extends torch.

The core calls ``install`` when it first meets torch. Importing this package does not import torch.
"""

from __future__ import annotations

__all__ = ["install"]


def install() -> None:
    """Make Forklift's picklers and torch's own sharing functions know Forklift's memory. Done once."""
    from forklift.adapters.torch import tensors

    tensors.install()
