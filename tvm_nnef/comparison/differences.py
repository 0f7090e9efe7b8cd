"""Differences of two arrays that should be equal, up to rounding.

Input: NumPy arrays of two routes. Output: a :class:`Difference`. Executes no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tvm_nnef.arrays.few_bits import FORMATS

Array: TypeAlias = "np.ndarray[Any, Any]"
Number: TypeAlias = "bool | int | float"

TOLERANCES: Mapping[str, float] = {
    "float64": 1e-10,
    "float32": 1e-4,
    "float16": 1e-2,
    "bfloat16": 6e-2,
    **{name: 2.0**-each.mantissa for name, each in FORMATS.items() if each.type == "real"},
}
"""The relative tolerance of a dtype; a missing dtype has to be equal.

One operation rounds each of its steps by half a unit in the last place (6e-8 for float32), and two
routes that are both right add in another order and approximate transcendental functions with other
polynomials. For sums of thousands of terms that amounts to some hundred units, which the tolerances
of float32 and float64 allow. Float16 and bfloat16 are computed in float32 and round when they are
stored: they have some ten units. A wrong operator is nearly always wrong in its first digits. Reals
of few bits have one unit: a value near the middle between two codes may become either.
"""

OF_RANGE = 0.1
"""The tolerance of a bounded function, in units of ``rtol`` times the width of its range.

Near its bounds a sigmoid is 1 - e or e: an approximation is exact to some units in the last
position of the range, and not of e.
"""

_SENTINEL = 1e18
"""Elements from this magnitude on, if others are smaller, mean infinity (a mask) and set no
scale.
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two arrays; ``first`` and ``second`` are the routes, in this order.

    ``rtol`` and ``atol`` are the tolerances in use: elements agree if they differ by at most ``atol
    + rtol * |first|``, if both are NaN, or if both are the same infinity. ``largest`` is the
    largest absolute difference, ``relative`` the largest one divided by the larger of the two
    magnitudes, infinite if only one of two elements is finite. ``share`` is the largest ratio of a
    difference to the tolerance at its position, ``position`` that position (None if all elements
    are equal), and ``values`` the two elements there. ``beyond`` counts the elements that do not
    agree, ``nans`` those that are NaN in either array.

    If shapes or dtypes are not the same, no element is compared, and nothing agrees.
    """

    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    dtypes: tuple[str, str]
    rtol: float
    atol: float
    largest: float = 0.0
    relative: float = 0.0
    share: float = 0.0
    position: tuple[int, ...] | None = None
    values: tuple[Number, Number] | None = None
    beyond: int = 0
    nans: tuple[int, int] = (0, 0)

    @property
    def agrees(self) -> bool:
        """Whether both arrays are the same up to the tolerances."""
        return self.is_alike and self.beyond == 0

    @property
    def is_alike(self) -> bool:
        """Whether shapes and dtypes are the same."""
        return self.shapes[0] == self.shapes[1] and self.dtypes[0] == self.dtypes[1]

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shapes[0]))


def difference(
    first: Array,
    second: Array,
    rtol: float | None = None,
    atol: float | None = None,
    depth: float = 1.0,
    width: float = 0.0,
) -> Difference:
    """Return the difference of two arrays.

    If None, ``rtol`` is that of the dtype (:data:`TOLERANCES`) times ``depth``, and ``atol`` is
    ``rtol`` times the root mean square of the finite elements of ``first``: if large terms cancel,
    their rounding errors are small against the other elements, but not against the result. If None,
    both are 0 for int and bool. ``width`` is that of the range of the function that computed
    ``first``, if it is bounded: ``atol`` is not below :data:`OF_RANGE` of it.
    """
    single = TOLERANCES.get(str(first.dtype), 0.0) if rtol is None else rtol
    relative = single if rtol is not None or str(first.dtype) in FORMATS else single * depth
    absolute = atol
    if absolute is None:
        absolute = max(_typical(first) * relative, OF_RANGE * single * width)
    shapes, dtypes = (first.shape, second.shape), (str(first.dtype), str(second.dtype))
    result = Difference(shapes, dtypes, relative, absolute)
    if not result.is_alike or not first.size:
        return result
    with np.errstate(all="ignore"):
        return _measured(first, second, result)


def _measured(first: Array, second: Array, found: Difference) -> Difference:
    distance = _distance(first, second)
    magnitude = np.abs(first.astype(np.float64))
    other = np.abs(second.astype(np.float64))
    allowed = np.where(np.isfinite(magnitude), found.atol + found.rtol * magnitude, 0.0)
    shares = np.where(distance == 0, 0.0, distance / allowed)
    larger = np.fmax(magnitude, other)
    relative = np.where(np.isinf(distance), np.inf, distance / larger)
    worst = _worst(shares, distance)
    position = tuple(map(int, np.unravel_index(worst, first.shape)))
    differs = bool(distance[position] != 0)
    return Difference(
        found.shapes,
        found.dtypes,
        found.rtol,
        found.atol,
        largest=float(distance.max()),
        relative=float(np.where(distance == 0, 0.0, relative).max()),
        share=float(shares[position]),
        position=position if differs else None,
        values=(first[position].item(), second[position].item()) if differs else None,
        beyond=int(np.count_nonzero(distance > allowed)),
        nans=(_nans(first), _nans(second)),
    )


def _distance(first: Array, second: Array) -> Array:
    """Return the absolute differences: exact for integers, infinite if only one is finite or
    NaN.
    """
    match first.dtype.kind:
        case "b":
            return np.logical_xor(first, second).astype(np.float64)
        case "i" | "u":
            # Both wrap around alike, so the difference is right where the operands are not.
            larger, smaller = np.maximum(first, second), np.minimum(first, second)
            return (larger.astype(np.uint64) - smaller.astype(np.uint64)).astype(np.float64)
    left, right = first.astype(np.float64), second.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    distance = np.abs(left - right)
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def _worst(shares: Array, distance: Array) -> int:
    """Return the position with the largest share; of infinite ones, that of the largest
    distance.
    """
    if np.isinf(shares.max()):
        return int(np.argmax(np.where(np.isinf(shares), distance, -1.0)))
    return int(np.argmax(shares))


def _nans(array: Array) -> int:
    return int(np.count_nonzero(array != array))


def _typical(array: Array) -> float:
    """Return the root mean square of the finite elements, without those that mean infinity."""
    if not array.size:
        return 0.0
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    ordinary = finite[np.abs(finite) < _SENTINEL]
    finite = ordinary if np.any(ordinary) else finite
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    if largest == 0.0:
        return 0.0
    # Divided first, so that no square overflows.
    return largest * float(np.sqrt(np.mean(np.square(finite / largest))))
