"""NumPy's functions on tensors: ``np.exp(tensor)``, ``array + tensor``.

This is NumPy's protocol ``__array_ufunc__`` (NEP 13). Where forklift.ops has the function it computes, and
the result is a Tensor. Everything else (reductions by a ufunc's methods, functions that ops does not have) is
NumPy's, on arrays over the tensors' memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forklift import _core

__all__ = ["array_ufunc"]

# Where the standard's name is not NumPy's.
_NAMES = {
    "absolute": "abs",
    "true_divide": "divide",
    "power": "pow",
    "mod": "remainder",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "conjugate": "conj",
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "arctan2": "atan2",
}


def array_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Compute `ufunc` on operands of which at least one is a Tensor; `options` as NumPy passes them."""
    out: tuple[Any, ...] = options.get("out") or ()
    own = getattr(_core._ops(), _NAMES.get(ufunc.__name__, ufunc.__name__), None)
    ours = all(isinstance(each, _core.Tensor) for each in out)
    if method == "__call__" and own is not None and ours and not options.keys() - {"out"}:
        return own(*inputs, **({"out": out[0]} if out else {}))
    arrays = [np.asarray(each) if isinstance(each, _core.Tensor) else each for each in inputs]
    if out:
        options["out"] = tuple(each.numpy() if isinstance(each, _core.Tensor) else each for each in out)
    result = getattr(ufunc, method)(*arrays, **options)
    return out[0] if len(out) == 1 else result
