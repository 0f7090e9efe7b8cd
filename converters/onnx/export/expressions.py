"""Scalars of a formula as values over the loops of its statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export import scalars
from tvm_nnef.converters.onnx.export.emitter import Emitter
from tvm_nnef.converters.onnx.export.frame import Frame, Spread, over, single
from tvm_nnef.converters.onnx.export.reading import read
from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Index,
    Load,
    Local,
    Lookup,
    Scalar,
    ScalarType,
    Select,
    Unary,
)
from tvm_nnef.reference.arithmetic import constant

_LONGEST_PRODUCT = 64
"""Powers of ints with larger exponents are not written out as products."""


def evaluate(scalar: Scalar, frame: Frame) -> Spread:
    """A scalar in all steps at once; raises Inexpressible."""
    emitter, dtypes = frame.emitter, frame.dtypes
    match scalar:
        case Constant():
            return single(number(scalar, dtypes, emitter))
        case Index(name):
            return _index(name, frame)
        case Local(name):
            if name not in frame.locals:
                local = next(each for each in frame.statement.locals if each.name == name)
                frame.locals[name] = evaluate(local.value, frame)
            return frame.locals[name]
        case Unary(function, operand):
            inner = evaluate(operand, frame)
            made = scalars.unary(function, inner.name, dtypes[operand.type], emitter)
            return over(made, [inner])
        case Binary(function, left, right):
            if function == "pow" and left.type == "int":
                return _int_power(left, right, frame)
            sides = (evaluate(left, frame), evaluate(right, frame))
            first, second = (each.name for each in sides)
            nonzero = _divides_safely(right, frame)
            dtype = dtypes[left.type]
            made = scalars.binary(function, first, second, dtype, emitter, nonzero=nonzero)
            return over(made, sides)
        case Select(condition, consequent, alternative):
            three = [evaluate(each, frame) for each in (condition, consequent, alternative)]
            first, second, third = (each.name for each in three)
            made = scalars.select(first, second, third, scalar.type, emitter)
            return over(made, three)
        case Cast(type, operand):
            inner = evaluate(operand, frame)
            made = scalars.cast(inner.name, dtypes[operand.type], dtypes[type], emitter)
            return over(made, [inner])
        case Lookup(items, index):
            return _lookup(items, index, frame)
        case Load(tensor, subscripts):
            return read(tensor, subscripts, frame, evaluate)


def _divides_safely(divisor: Scalar, frame: Frame) -> bool:
    """Whether a divisor is known to be neither 0 nor -1."""
    match divisor:
        case Constant(_, int() as value):
            return value not in (0, -1)
        case Load(tensor):
            array = frame.context.known(tensor)
            return array is not None and not np.isin(array, (0, -1)).any()
    return False


def _int_power(left: Scalar, right: Scalar, frame: Frame) -> Spread:
    """A power of ints as a product or out of a table, which wrap around as they should."""
    exponent, known = _single_int(right, frame), _single_int(left, frame)
    if exponent is None and known is not None and known and known % 2 == 0:
        return _power_of_even(known, evaluate(right, frame), frame)
    if exponent is None or not 0 <= exponent <= _LONGEST_PRODUCT:
        raise Inexpressible("a power of ints is exact, and ONNX's is not")
    if not exponent:
        return single(frame.emitter.constant(1, frame.dtypes["int"]))
    base = evaluate(left, frame)
    name = base.name
    for _ in range(exponent - 1):
        name = frame.emitter.node("Mul", name, base.name)
    return over(name, [base])


def _power_of_even(base: int, exponent: Spread, frame: Frame) -> Spread:
    """Powers of an even number: none for a negative exponent, and none that has too many bits."""
    dtype = np.dtype(frame.dtypes["int"])
    bits = dtype.itemsize * 8
    numbers = [0, *(base**n for n in range(bits)), 0]
    table = frame.emitter.constant(np.stack([constant(n, dtype) for n in numbers]), str(dtype))
    least, most, one = (frame.emitter.constant(n, str(dtype)) for n in (-1, bits, 1))
    inside = frame.emitter.node("Max", frame.emitter.node("Min", exponent.name, most), least)
    position = frame.emitter.node("Add", inside, one)
    return over(frame.emitter.node("Gather", table, position, axis=0), [exponent])


def _single_int(scalar: Scalar, frame: Frame) -> int | None:
    """The value of a scalar that is the same in every step."""
    match scalar:
        case Constant(_, int() as value):
            return value
        case Load(tensor):
            array = frame.context.known(tensor)
            return int(array.item()) if array is not None and array.size == 1 else None
    return None


def _index(name: str, frame: Frame) -> Spread:
    """The numbers of the steps of a loop, along its dimension."""
    emitter, order = frame.emitter, frame.order
    after = len(order) - 1 - order.index(name)
    size, dtype = frame.extent(name), frame.dtypes["int"]
    if isinstance(size, int):
        numbers = np.arange(size).reshape(-1, *[1] * after)
        return Spread(emitter.constant(numbers, dtype, "range"), after + 1, frozenset([name]))
    ends = (emitter.constant(0, "int64"), emitter.dimension(size), emitter.constant(1, "int64"))
    numbers_ = emitter.cast(emitter.node("Range", *ends), "int64", dtype)
    return Spread(
        emitter.unsqueeze(numbers_, list(range(1, after + 1))), after + 1, frozenset([name])
    )


def _lookup(items: Sequence[Scalar], index: Scalar, frame: Frame) -> Spread:
    """An item of a list, by an index that loops decide."""
    if isinstance(index, Constant) and isinstance(index.value, int):
        return evaluate(items[index.value], frame)
    if not all(isinstance(item, Constant) and _is_number(item.value) for item in items):
        raise Inexpressible("its formula chooses between tensors by an index")
    dtype = frame.dtypes[items[0].type]
    numbers = [constant(static(item), np.dtype(dtype)) for item in items]
    table = frame.emitter.constant(np.stack(numbers), dtype)
    position = evaluate(index, frame)
    return over(frame.emitter.node("Gather", table, position.name, axis=0), [position])


def number(scalar: Constant, dtypes: Mapping[ScalarType, str], emitter: Emitter) -> str:
    """A number, or a dimension that is computed from shapes."""
    dtype = dtypes[scalar.type]
    if _is_number(scalar.value):
        return emitter.constant(constant(static(scalar), np.dtype(dtype)), dtype)
    return emitter.cast(emitter.dimension(scalar.value), "int64", dtype)


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float))


def static(scalar: Scalar) -> float:
    """A number that is known."""
    assert isinstance(scalar, Constant)
    if not isinstance(scalar.value, (bool, int, float)):
        raise Inexpressible("its formula has a number that is known at run time only")
    return scalar.value
