"""Frameworks' arrays in queues: how they are sent, and as whose arrays they are received.

    queue.get(as_="torch")                    # every array in the object is a torch.Tensor
    queue = ctx.Queue(framework="jax")        # the same for every get

`producers` sends arrays that the core does not know (any object with ``__dlpack__``, JAX's arrays, NumPy
arrays of ml_dtypes). `frameworks` converts received arrays to those of another framework. `carried` is an
array whose element type only its framework knows. `torch` puts torch's CPU tensors into shared memory. None
of these imports a framework that the program has not imported itself, except the one that ``as_=`` or
``framework=`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forklift.adapters.carried import Carried

__all__ = ["Carried", "deliver"]


def deliver(name: str) -> Callable[[Any], Any]:
    """The function that converts all arrays in a received object to arrays of this framework.

    ImportError if the framework is not installed, ValueError if Forklift does not know it.
    """
    from forklift.adapters import frameworks

    return frameworks.deliver(name)
