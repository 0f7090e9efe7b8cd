"""The geometry of sliding windows over one dimension, static or dynamic."""

from __future__ import annotations

from tvm_nnef.symbolic.dimensions import Dimension, add, mul, sub


def reach(size: int, dilation: int) -> int:
    """Return the number of elements from the first to the last one that a window reads."""
    return (size - 1) * dilation + 1


def trailing(
    inside: Dimension, out: Dimension, before: Dimension, step: int, span: int
) -> Dimension:
    """Return the padding after a dimension with which the last of ``out`` windows ends.

    It is negative if that window ends before the last element. ``span`` is the :func:`reach`.
    """
    return sub(add(mul(sub(out, 1), step), span), add(inside, before))
