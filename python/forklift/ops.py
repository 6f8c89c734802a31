"""Operations on tensors: elementwise arithmetic, functions, comparisons, reductions, linear algebra.

    from forklift import Tensor, ops

    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    y = ops.log(x + 1) * 2                # returns at once: large values are computed by Forklift's threads
    print(y)                              # waits
    ops.add(x, y, out=x)                  # into x, which other processes may see

Names and dtypes are those of the Python array API standard (data-apis.org/array-api), and NumPy's where
the standard leaves them open. Operands are Tensors, arrays of NumPy or of anything with DLPack, and
numbers, which take the dtype of the tensor beside them. Results lie in shared memory.

Errors: ValueError for shapes that do not broadcast, dtypes without the operation, a read-only ``out``;
what shows only during the computation is raised by whatever looks at the result.
"""

from __future__ import annotations

import sys

from forklift import _core

_operations = _core._ops()
__all__ = [name for name in dir(_operations) if not name.startswith("_")]
globals().update({name: getattr(_operations, name) for name in __all__})
sys.modules[__name__ + ".random"] = _operations.random
