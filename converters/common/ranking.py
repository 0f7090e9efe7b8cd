"""The first elements along a dimension in order of value, and their positions."""

from __future__ import annotations

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, maximum
from tvm_nnef.converters.common.tensors import Tensor


def first_in_order(
    x: Tensor,
    axis: int,
    count: Size,
    builder: Builder,
    *,
    largest: bool = True,
    dtype: str = "int64",
) -> tuple[Tensor, Tensor]:
    """The largest (or smallest) elements in order and their positions, which have a dtype.

    ``count`` is at most the size of the dimension; both may be 0. One known only at run time
    is taken of all elements in order.
    """
    size = x.shape[axis]
    # SkriptND asks for a positive number of elements, and takes no more than there are.
    asked = maximum(count if isinstance(count, int) else size, 1)
    taken = asked if isinstance(asked, int) and size != 0 else size
    shape = (*x.shape[:axis], taken, *x.shape[axis + 1 :])
    found = Tensor(x.dtype, shape), Tensor(dtype, shape)
    builder.add("algo.top_k", (x,), found, k=asked, axis=axis, largest=largest)
    values, positions = (builder.slice(each, axis, 0, count) for each in found)
    return values, positions
