"""Types and shapes of values, partly known, and SkriptND's names of dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tvm_nnef.converters.common.symbolic import Shape, Size, Symbolic, broadcast_dimension, largest
from tvm_nnef.graph.formula import ScalarType
from tvm_nnef.graph.machine_types import DEFAULTS, DTYPES

MAX_RANK = 64
"""Upper limit of the rank of a tensor; NumPy has the same limit."""

PartialSize: TypeAlias = "Size | str | None"
"""A dimension, the name of one, or None if it is unknown."""
PartialShape: TypeAlias = "tuple[PartialSize, ...] | None"
"""A shape whose dimensions may be names or unknown; None if the rank is unknown."""
Array: TypeAlias = "NDArray[np.generic]"


@dataclass(frozen=True, slots=True)
class Type:
    """The known properties of a value before it is converted; a dtype of None is unknown."""

    dtype: str | None
    shape: PartialShape

    @property
    def static(self) -> Shape | None:
        """The shape if all of it is known; else None."""
        if self.shape is None:
            return None
        known = tuple(size for size in self.shape if isinstance(size, (int, Symbolic)))
        return known if len(known) == len(self.shape) else None


def kind(dtype: str) -> ScalarType:
    """Return ``real``, ``int`` or ``bool``: the type in a model of tensors of a dtype."""
    return DTYPES[dtype]


def is_default(dtype: str) -> bool:
    """Whether a tensor has this dtype by default."""
    return dtype in DEFAULTS.values()


def broadcast(*shapes: Sequence[Size], stretched: bool = False) -> Shape:
    """Return the shape to which shapes broadcast, aligned from the right; raise ValueError if none.

    Dynamic dimensions that may be above 1 must be equal at run time, which is checked then. If
    ``stretched``, one of them may also be 1.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[Size] = []
    for column in zip(*padded, strict=True):
        sizes = [size for size in column if size != 1]
        numbers = {size for size in sizes if isinstance(size, int)}
        if len(numbers) > 1:
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        above = [size for size in sizes if largest(size) > 1] or sizes or [1]
        dynamic = broadcast_dimension(above) if stretched else above[0]
        result.append(numbers.pop() if numbers else dynamic)
    return tuple(result)
