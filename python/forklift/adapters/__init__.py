"""Frameworks' arrays on their way through queues: what is sent of them, and as what they are received.

    queue.get(as_="torch")                    # every array in the object is a torch.Tensor
    queue = ctx.Queue(framework="jax")        # the same for every get

`producers` is the sending side of arrays that the core does not know (any object with ``__dlpack__``, JAX's
arrays, NumPy arrays of ml_dtypes); `frameworks` turns received arrays into those of another framework;
`carried` is an array whose element type only its framework knows; `torch` makes torch's CPU tensors shared
memory. None of these imports a framework that the program has not imported itself, except the one that
``as_=`` or ``framework=`` names.
"""

from __future__ import annotations

from forklift.adapters.carried import Carried
from forklift.adapters.frameworks import FRAMEWORKS, deliver

__all__ = ["FRAMEWORKS", "Carried", "deliver"]
