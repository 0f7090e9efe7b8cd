"""Elementwise stages as the Relax operators that they equal.

Input: a stage, and the Relax values of the buffers that it reads. Output: an expression of Relax
operators, so that constants fold and batch norms move into weights; None for anything but
arithmetic and functions of real numbers at equal or broadcast indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tvm import relax, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.kernel import Stage, is_plain
from tvm_nnef.schedules.analysis.reducers import MAX, MIN, Reducer, read_max_min
from tvm_nnef.schedules.relax.rewriting import Operands, reshaped
from tvm_nnef.schedules.relax.windows import positions
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    RelaxExpression,
    constant_array,
    dtype_of,
    shape_and_dtype,
)

_BINARY: Mapping[type[PrimExpression], Callable[..., RelaxExpression]] = {
    tirx.Add: relax.op.add,
    tirx.Sub: relax.op.subtract,
    tirx.Mul: relax.op.multiply,
    tirx.Div: relax.op.divide,
}

_FUNCTIONS: Mapping[str, Callable[..., RelaxExpression]] = {
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

_MAX_MIN: Mapping[Reducer, Callable[..., RelaxExpression]] = {
    MAX: relax.op.maximum,
    MIN: relax.op.minimum,
}


def as_operators(
    operands: Operands, stage: Stage, values: Mapping[Buffer, RelaxExpression]
) -> RelaxExpression | None:
    """The stage as operators on the values of its buffers; None if it is something else.

    What was made for the beginning of such a stage is dead code.
    """
    if stage.reduced or not stage.dtype.startswith("float") or is_plain(stage.value):
        return None

    def made(value: PrimExpression) -> RelaxExpression | None:
        if isinstance(value, TensorLoad):
            return _aligned(operands, value, stage, values[value.source])
        if isinstance(value, tirx.FloatImm):
            return relax.const(float(value.value), stage.dtype)
        make, parts = _operation(value)
        if make is None or dtype_of(value) != stage.dtype:
            return None
        is_safe = math.isfinite if make in _MAX_MIN.values() else _is_ordinary
        if not all(is_safe(float(p.value)) for p in parts if isinstance(p, tirx.FloatImm)):
            return None
        arguments = [made(part) for part in parts]
        known = [argument for argument in arguments if argument is not None]
        if make is relax.op.power and known and _is_large(known[-1]):
            return None  # TVM prints a warning for such an exponent, each time that it looks at it
        return operands.emit(make(*known)) if len(known) == len(arguments) else None

    result = made(stage.value)
    if result is None or constant_array(result) is not None:
        return None
    shape, extents = shape_and_dtype(result)[0], [axis.extent for axis in stage.axes]
    same = len(shape) == len(extents) and all(map(sizes.same, shape, extents))
    return result if same else None


def _operation(
    value: PrimExpression,
) -> tuple[Callable[..., RelaxExpression] | None, Sequence[PrimExpression]]:
    """The operator that an expression applies, None for an unknown one, and its operands."""
    if isinstance(value, Call):
        return _FUNCTIONS.get(str(getattr(value.op, "name", "")).removeprefix("tirx.")), value.args
    chosen = read_max_min(value)
    if chosen is not None:
        return _MAX_MIN[chosen[0]], chosen[1:]
    if isinstance(value, (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div)):
        return _BINARY[type(value)], (value.a, value.b)
    return None, ()


def _is_large(exponent: RelaxExpression) -> bool:
    """Whether an exponent is a constant with elements from 3 on."""
    array = constant_array(exponent)
    return array is not None and bool((array >= 3).any())


def _is_ordinary(number: float) -> bool:
    """Whether TVM simplifies with a number as IEEE 754 says: not with 0, infinities and NaN."""
    return number != 0 and math.isfinite(number)


def _aligned(
    operands: Operands, load: TensorLoad, stage: Stage, value: RelaxExpression
) -> RelaxExpression | None:
    """The operand of a load in a shape that broadcasts as the load does; None for another load."""
    array, found = constant_array(value), positions(load, stage)
    if str(load.source.dtype) != stage.dtype or found is None:
        return None
    # A constant of one element becomes a literal.
    if array is not None and array.size == 1 and not _is_ordinary(float(array.item())):
        return None
    for number, size in zip(found, load.source.shape, strict=True):
        if number is not None and not sizes.same(stage.axes[number].extent, sizes.extent(size)):
            return None
    used = any(number is not None for number in found)
    wanted = [a.extent if n in found else 1 for n, a in enumerate(stage.axes)] if used else []
    return reshaped(operands, value, wanted)
