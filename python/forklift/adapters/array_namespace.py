"""What the array API standard asks of a namespace besides functions: dtypes' limits, an inspection.

``forklift.ops`` is the namespace and exports these names. ``Tensor.dtype`` is a name, a string; the
namespace's dtypes are objects that are equal to it: ``ops.float32 == "float32"``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from forklift import _core

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DTYPES", "DType", "FInfo", "IInfo", "Inspection", "finfo", "iinfo"]

_NAMES = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
# The standard has no dtypes of 16-bit floats, and an inspection names only what the standard has.
_BEYOND_THE_STANDARD = ("float16", "bfloat16")

# IEEE 754-2019, table 3.5, and bfloat16: bits of the significand after the point, the largest exponent.
_FLOATS = {"float16": (10, 15), "bfloat16": (7, 127), "float32": (23, 127), "float64": (52, 1023)}
_COMPONENTS = {"complex64": "float32", "complex128": "float64"}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class DType:
    """A dtype of the namespace: equal to its name and to NumPy's dtype, which take its place everywhere."""

    name: str

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.name == other.name
        return self.name == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"forklift.ops.{self.name}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's: ``numpy.dtype(x)`` looks here. TypeError for bfloat16, which NumPy does not have."""
        import numpy

        return numpy.dtype(self.name)


DTYPES = {name: DType(name) for name in _NAMES}


class FInfo(NamedTuple):
    """The limits of a floating-point dtype; of a complex one those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FInfo:
    """The limits of a floating-point dtype, or of an array's. TypeError for other dtypes."""
    name = _core._ops()._dtype_name(type)
    real = _COMPONENTS.get(name, name)
    if real not in _FLOATS:
        raise TypeError(f"finfo() is of floating-point dtypes, not of {name}; iinfo() is of integers")
    fraction, exponent = _FLOATS[real]
    largest = math.ldexp(2.0 - math.ldexp(1.0, -fraction), exponent)
    return FInfo(
        bits=16 if real in _BEYOND_THE_STANDARD else int(real[-2:]),
        eps=math.ldexp(1.0, -fraction),
        max=largest,
        min=-largest,
        smallest_normal=math.ldexp(1.0, 1 - exponent),
        dtype=DTYPES[real],
    )


def iinfo(type: Any, /) -> IInfo:
    """The limits of an integer dtype, or of an array's. TypeError for other dtypes."""
    name = _core._ops()._dtype_name(type)
    if not _core._ops().isdtype(name, "integral"):
        raise TypeError(f"iinfo() is of integer dtypes, not of {name}; finfo() is of floating-point ones")
    bits = int(name.lstrip("uint"))
    if name.startswith("u"):
        return IInfo(bits, 2**bits - 1, 0, DTYPES[name])
    return IInfo(bits, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), DTYPES[name])


class Inspection:
    """What the namespace can do, in the words of the standard; ``ops.__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard are there, and how many dimensions a tensor may have."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": _core._ops()._max_dims,
        }

    def default_device(self) -> str:
        """Where new tensors are made: ``device_target`` of ``forklift.context``."""
        return _core._runtime.device_target()

    def devices(self) -> list[str]:
        """The names of devices that new tensors can be made on."""
        return _core._runtime.devices()

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of tensors that are made of Python's numbers, and of indices."""
        self._check(device)
        return {
            "real floating": DTYPES["float32"],
            "complex floating": DTYPES["complex64"],
            "integral": DTYPES["int64"],
            "indexing": DTYPES["int64"],
        }

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's dtypes of these kinds (``isdtype`` has their names), or all of them."""
        self._check(device)
        isdtype = _core._ops().isdtype
        return {
            name: dtype
            for name, dtype in DTYPES.items()
            if name not in _BEYOND_THE_STANDARD and (kind is None or isdtype(name, kind))
        }

    def _check(self, device: str | None) -> None:
        if device is not None and device not in self.devices():
            raise ValueError(f"no device {device!r} here; there are: {', '.join(self.devices())}")
