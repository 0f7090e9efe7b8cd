"""Strides of memory accesses along a variable, and the cost of computing an expression again."""

from __future__ import annotations

from tvm import sym, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import nodes
from tvm_nnef.tvm_support.compat import PrimExpression


def slope(index: PrimExpression, var: tirx.Var) -> int | None:
    """The growth of an index with a variable; None if it varies or is dynamic."""
    equation = sym.detect_linear_equation(index, [var])
    if not len(equation) or not isinstance(equation[0], tirx.IntImm):
        return None
    return int(equation[0].value)


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
