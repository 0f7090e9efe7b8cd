"""Elementwise stages as the Relax operators that they equal.

Input: a stage, and the Relax values of the buffers that it reads. Output: an expression of Relax
operators, so that constants fold and factors move into weights; None for anything but arithmetic
and functions of real numbers at equal or broadcast indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax, tirx

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import loads
from tvm_nnef.schedules.analysis.kernel import Stage
from tvm_nnef.schedules.analysis.reducers import MAX, MIN, Reducer, read_max_min
from tvm_nnef.schedules.graph.rewriting import Operands
from tvm_nnef.schedules.graph.windows import positions
from tvm_nnef.tvm_support.compat import (
    BUFFER_LOAD,
    CALL,
    RelaxExpression,
    constant_array,
    dtype_of,
    shape_and_dtype,
)

_BINARY: Mapping[Any, Callable[..., Any]] = {
    tirx.Add: relax.op.add,
    tirx.Sub: relax.op.subtract,
    tirx.Mul: relax.op.multiply,
    tirx.Div: relax.op.divide,
}

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "fabs": relax.op.abs,
    "pow": relax.op.power,
    **{
        name: getattr(relax.op, name)
        for name in (
            "sqrt", "rsqrt", "exp", "log", "erf", "sigmoid", "floor", "ceil", "sin", "cos", "tan",
            "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
        )
    },
}  # fmt: skip

_MAX_MIN: Mapping[Reducer, Callable[..., Any]] = {MAX: relax.op.maximum, MIN: relax.op.minimum}


def is_elementwise(stage: Stage) -> bool:
    """Whether :func:`as_operators` may know the stage."""
    real = stage.dtype.startswith("float") and not stage.reduced and bool(loads(stage.value))
    return real and _is_known(stage.value, stage)


def as_operators(
    operands: Operands, stage: Stage, values: Mapping[Any, RelaxExpression]
) -> RelaxExpression | None:
    """The stage as operators on the values of its buffers; None if it is something else."""
    read = [values[load.source] for load in loads(stage.value)]
    if not is_elementwise(stage) or not all(map(_is_safe, read)):
        return None

    def made(value: Any) -> RelaxExpression:
        if isinstance(value, BUFFER_LOAD):
            return _aligned(operands, value, stage, values[value.source])
        if isinstance(value, tirx.FloatImm):
            return relax.const(float(value.value), stage.dtype)
        known = _parts(value)
        assert known is not None
        make, parts = known
        return operands.emit(make(*map(made, parts)))

    result = made(stage.value)
    shape = shape_and_dtype(result)[0]
    extents = [axis.extent for axis in stage.axes]
    same = len(shape) == len(extents) and all(map(sizes.same, shape, extents))
    return result if same and not isinstance(stage.value, BUFFER_LOAD) else None


def _parts(value: Any) -> tuple[Callable[..., Any], Sequence[Any]] | None:
    """The operator that an expression applies, and its operands; None for an unknown one."""
    if isinstance(value, CALL):
        make = _FUNCTIONS.get(str(getattr(value.op, "name", "")).removeprefix("tirx."))
        return None if make is None else (make, value.args)
    chosen = read_max_min(value)
    if chosen is not None:
        return _MAX_MIN[chosen[0]], chosen[1:]
    binary = _BINARY.get(type(value))
    return None if binary is None else (binary, (value.a, value.b))


def _is_known(value: Any, stage: Stage) -> bool:
    if isinstance(value, BUFFER_LOAD):
        return str(value.source.dtype) == stage.dtype and _axes(value, stage) is not None
    known = _parts(value)
    if known is None or dtype_of(value) != stage.dtype:
        return False
    make, parts = known
    limits = make in _MAX_MIN.values()
    numbers = [float(part.value) for part in parts if isinstance(part, tirx.FloatImm)]
    if not all(map(math.isfinite if limits else _is_ordinary, numbers)):
        return False
    rest = [part for part in parts if not isinstance(part, tirx.FloatImm)]
    return all(_is_known(part, stage) for part in rest)


def _is_safe(value: RelaxExpression) -> bool:
    """Whether a value may become a literal in a kernel, as constants without dimensions do."""
    array = constant_array(value)
    return array is None or array.size != 1 or _is_ordinary(float(array.item()))


def _is_ordinary(number: float) -> bool:
    """Whether TVM simplifies with a number as IEEE 754 says: not with 0, infinities and NaN."""
    return number != 0 and math.isfinite(number)


def _axes(load: Any, stage: Stage) -> list[int] | None:
    """The axes that a load has as indices, all along its dimensions; None for another load."""
    found = positions(load, stage)
    if found is None:
        return None
    pairs = zip(found, map(sizes.extent, load.source.shape), strict=True)
    whole = all(n is None or sizes.same(extent, stage.axes[n].extent) for n, extent in pairs)
    return [n for n in found if n is not None] if whole else None


def _aligned(
    operands: Operands, load: Any, stage: Stage, value: RelaxExpression
) -> RelaxExpression:
    """The operand of a load in a shape that broadcasts as the load does."""
    axes = _axes(load, stage)
    assert axes is not None
    wanted = [a.extent if n in axes else 1 for n, a in enumerate(stage.axes)] if axes else []
    shape = shape_and_dtype(value)[0]
    if len(shape) == len(wanted) and all(map(sizes.same, shape, wanted)):
        return value
    return operands.emit(relax.op.reshape(value, tuple(wanted)))
