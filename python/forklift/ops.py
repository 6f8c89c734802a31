"""Operations on tensors: elementwise arithmetic, functions, comparisons, reductions, linear algebra.

    from forklift import Tensor, ops

    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    y = ops.log(x + 1) * 2                # returns at once: large values are computed by Forklift's threads
    print(y)                              # waits
    ops.add(x, y, out=x)                  # into x, which other processes may see

Names and dtypes are those of the Python array API standard (data-apis.org/array-api), and NumPy's where
the standard leaves them open. This module is the namespace that ``Tensor.__array_namespace__()`` returns, so
code written for the standard runs on tensors. Its dtypes are equal to their names, which
are what ``Tensor.dtype`` has: ``ops.float32 == "float32"``.

Operands are Tensors, arrays of NumPy or of anything with DLPack, and numbers, which take the dtype of the
tensor beside them. Results lie in shared memory.

Errors: ValueError for shapes that do not broadcast, dtypes without the operation, a read-only ``out``;
what shows only during the computation is raised by whatever looks at the result.
"""

from __future__ import annotations

import math
import sys

from forklift import _core
from forklift.adapters.array_namespace import DTYPES, Inspection
from forklift.adapters.array_namespace import finfo as finfo
from forklift.adapters.array_namespace import iinfo as iinfo

_operations = _core._ops()
globals().update({name: getattr(_operations, name) for name in dir(_operations) if not name.startswith("_")})
globals().update(DTYPES)

e, pi, inf, nan = math.e, math.pi, math.inf, math.nan
newaxis = None

# The version of the array API standard that this namespace is written for.
__array_api_version__ = "2024.12"


def __array_namespace_info__() -> Inspection:
    """What this namespace can do, in the words of the array API standard."""
    return Inspection()


sys.modules[__name__ + ".random"] = _operations.random

__all__ = sorted(
    {name for name in dir(_operations) if not name.startswith("_")}
    | {*DTYPES, "e", "pi", "inf", "nan", "newaxis", "finfo", "iinfo"}
    | {"__array_api_version__", "__array_namespace_info__"}
)
