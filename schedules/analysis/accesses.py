"""Linear indices and comparisons: slopes, strides in memory, the bounds that tests set.

Input: expressions of axes. Output: numbers and sizes; None for other expressions. Also the cost of
computing an expression again.
"""

from __future__ import annotations

from tvm import sym, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.tir.expressions import nodes
from tvm_nnef.tvm_support.compat import PrimExpression

COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE)
"""The classes of the comparisons that order integers."""


def linear(expression: PrimExpression, *variables: tirx.Var) -> list[sizes.Extent]:
    """The slope along each variable, and the constant term; nothing if it is not linear."""
    return [*map(sizes.extent, sym.detect_linear_equation(expression, [*variables]))]


def slope(index: PrimExpression, var: tirx.Var) -> int | None:
    """The growth of an index with a variable; None if it varies or is dynamic."""
    if isinstance(index, (tirx.Var, tirx.IntImm)):
        return int(index.same_as(var))
    found, *_ = linear(index, var) or (None,)
    return found if isinstance(found, int) else None


def threshold(test: tirx.BinaryOpExpr, var: tirx.Var) -> tuple[sizes.Extent, bool] | None:
    """The value of a variable from which on a comparison is another, and what it is before."""
    found = linear(test.a - test.b, var)
    if not found or found[0] not in (1, -1):
        return None
    rising, base = found[0] == 1, found[1]
    after = (tirx.LE, tirx.GT) if rising else (tirx.LT, tirx.GE)
    before = (tirx.LT, tirx.LE) if rising else (tirx.GT, tirx.GE)
    value = (-base if rising else base) + int(isinstance(test, after))
    return sizes.simplified(value), isinstance(test, before)


def stride_of(access: TensorLoad | tirx.BufferStore, var: tirx.Var) -> int | None:
    """The elements by which an access moves if a variable grows by one; None if it varies.

    None also if a dimension after that of the variable is dynamic.
    """
    buffer = access.buffer if isinstance(access, tirx.BufferStore) else access.source
    stride, step = 0, 1
    for index, extent in zip(reversed(access.indices), reversed(buffer.shape), strict=True):
        growth = slope(index, var)
        if growth is None or (growth and not step):
            return None
        stride += growth * step
        size = sizes.extent(extent)
        step *= size if sizes.is_known(size) else 0
    return stride


def is_cheap(expression: PrimExpression | tirx.Stmt) -> bool:
    """Whether computing an expression twice costs no more than loading its value."""
    return not nodes(expression, Call, tirx.Div, tirx.FloorDiv, tirx.FloorMod, tirx.Mod)
