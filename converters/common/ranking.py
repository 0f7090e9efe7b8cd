"""Top-k along a dimension: the first elements in order of value, and their positions."""

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
    """Return the largest (or smallest) elements in order and their positions in a given dtype.

    ``count`` is at most the size of the dimension; both may be 0. If it is known only at run time,
    all elements are ordered and cut to ``count``.
    """
    size = x.shape[axis]
    # SkriptND asks for a positive number of elements, and takes no more than there are.
    asked = maximum(count if isinstance(count, int) else size, 1)
    ordered = asked if isinstance(asked, int) and size != 0 else size
    shape = (*x.shape[:axis], ordered, *x.shape[axis + 1 :])
    ranked = Tensor(x.dtype, shape), Tensor(dtype, shape)
    builder.add("algo.top_k", (x,), ranked, k=asked, axis=axis, largest=largest)
    values, positions = (builder.slice(each, axis, 0, count) for each in ranked)
    return values, positions
