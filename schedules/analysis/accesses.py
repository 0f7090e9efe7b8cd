"""Linear indices and comparisons: slopes, strides in memory, and bounds from comparisons.

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
"""The classes of comparisons by order."""


def linear(expression: PrimExpression, *variables: tirx.Var) -> list[sizes.Extent]:
    """Return the slope along each variable, and the constant term; an empty list if it is not
    linear.
    """
    return [*map(sizes.extent, sym.detect_linear_equation(expression, [*variables]))]


def slope(index: PrimExpression, var: tirx.Var) -> int | None:
    """Return the slope of an index along a variable; None if it is not constant or is dynamic."""
    if isinstance(index, (tirx.Var, tirx.IntImm)):
        return int(index.same_as(var))
    slope_found, *_ = linear(index, var) or (None,)
    return slope_found if isinstance(slope_found, int) else None


def threshold(test: tirx.BinaryOpExpr, var: tirx.Var) -> tuple[sizes.Extent, bool] | None:
    """Return the value of a variable at which a comparison changes, and its truth value before
    it.
    """
    coefficients = linear(test.a - test.b, var)
    if not coefficients or coefficients[0] not in (1, -1):
        return None
    rising, base = coefficients[0] == 1, coefficients[1]
    after = (tirx.LE, tirx.GT) if rising else (tirx.LT, tirx.GE)
    before = (tirx.LT, tirx.LE) if rising else (tirx.GT, tirx.GE)
    value = (-base if rising else base) + int(isinstance(test, after))
    return sizes.simplified(value), isinstance(test, before)


def stride_of(access: TensorLoad | tirx.BufferStore, var: tirx.Var) -> int | None:
    """Return the stride of an access along a variable; None if it is not constant.

    None also if a dimension after that of the variable is dynamic.
    """
    buffer = access.buffer if isinstance(access, tirx.BufferStore) else access.source
    stride, step = 0, 1
    for index, dimension in zip(reversed(access.indices), reversed(buffer.shape), strict=True):
        growth = slope(index, var)
        if growth is None or (growth and not step):
            return None
        stride += growth * step
        size = sizes.extent(dimension)
        step *= size if sizes.is_known(size) else 0
    return stride


def is_cheap(expression: PrimExpression | tirx.Stmt) -> bool:
    """Whether computing an expression twice costs no more than loading its value."""
    return not nodes(expression, Call, tirx.Div, tirx.FloorDiv, tirx.FloorMod, tirx.Mod)
