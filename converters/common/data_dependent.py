"""Data-dependent dimensions: their creation from a tensor of integers, and results that have them.

Only an operator with a data-dependent number of results, ``layout.nonzero``, creates a dimension
from data. So an integer becomes the number of indices below it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, decided_by_data, largest
from tvm_nnef.converters.common.tensors import Tensor


def decided(
    result: Tensor, before: Sequence[Size], axis: int, bound: Size, builder: Builder
) -> Tensor:
    """Return a result with a data-dependent dimension after some static ones."""
    result.shape = (*before, decided_by_data(result, axis, bound, next(builder.numbers)))
    return result


_LARGER = (
    "convert the model again with a larger bound of this result: 'bounds' in Python, "
    "'--bound' on the command line"
)
_NO_LARGER = "the shape of the input allows no more"


def sizes_of(
    vector: Tensor, bounds: Sequence[Size], builder: Builder, most: Sequence[Size] | None = None
) -> tuple[Size, ...]:
    """Return the elements of a vector known only at run time as dimensions, each up to its bound.

    ``most`` are the largest that can be valid, if they are known.
    """
    return tuple(
        size_of(
            builder.squeeze(builder.slice(vector, 0, position, position + 1), [0]), bound, builder,
            None if most is None else most[position],
        )
        for position, bound in enumerate(bounds)
    )  # fmt: skip


def size_of(scalar: Tensor, bound: Size, builder: Builder, most: Size | None = None) -> Size:
    """Return a tensor of one integer (or a whole real) as a dimension up to a bound.

    ``most`` is the largest that can be valid, if it is known.
    """
    is_larger = most is None or (isinstance(bound, int) and bound < largest(most))
    advice = _LARGER if is_larger else _NO_LARGER
    scalar = builder.cast(builder.reshape(scalar, ()), "int64")
    # One position more than the bound, so that what lies beyond is found out.
    below = builder.call(
        "extra.positions_below", scalar, as_type="bool", as_shape=(bound + 1,), count=bound + 1
    )
    positions = decided(
        builder.call("layout.nonzero", below, as_type="int32"), (1,), 1, bound, builder
    )
    checked = builder.call("extra.within_bound", positions, bound=bound, advice=advice)
    return decided(checked, (1,), 1, bound, builder).shape[1]
