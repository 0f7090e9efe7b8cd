"""Shape arithmetic: what becomes of dimensions that flow through tensors of integers.

``Shape`` of a tensor with dynamic dimensions starts such a chain; gathering, joining, cutting and
arithmetic carry it on, on arrays of dimensions; whatever reads it as numbers (a reshape, a slice)
finds them in ``Tensor.sizes``. Nothing else is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx

from tvm_nnef.converters.common.symbolic import (
    array,
    equal,
    maximum,
    minimum,
    product,
    truncated_quotient,
    truncated_remainder,
)
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.onnx.node import attributes_of

Sizes: TypeAlias = "np.ndarray[Any, np.dtype[np.object_]]"
_Attributes: TypeAlias = "Mapping[str, Any]"
_Function: TypeAlias = "Callable[[Sequence[Sizes | None], _Attributes], Any]"
"""A function of sizes and attributes; one that returns a list has several results."""


def propagate(proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> list[Sizes] | None:
    """The results of a node as arrays of dimensions, None if it is not shape arithmetic."""
    if is_shape_arithmetic(proto) and inputs and inputs[0] is not None:
        return [_shape(proto, inputs[0])]
    function = _FUNCTIONS.get(proto.op_type)
    if function is None or proto.domain not in ("", "ai.onnx"):
        return None
    if not any(each is not None and each.sizes is not None for each in inputs):
        return None
    arrays = [None if each is None else known_sizes(each) for each in inputs]
    if any(own is None and each is not None for own, each in zip(arrays, inputs, strict=True)):
        return None
    try:
        found = function(arrays, attributes_of(proto))
    except (Unconvertible, ArithmeticError, TypeError, IndexError, ValueError):
        # It depends on what is known only at run time; then it is computed in the run.
        return None
    results = found if isinstance(found, list) else [found]
    return [array(each) for each in results]


def is_shape_arithmetic(proto: onnx.NodeProto) -> bool:
    """Whether a node gives dimensions, whatever its input holds."""
    return proto.op_type in ("Shape", "Size")


def known_sizes(tensor: Tensor) -> Sizes | None:
    """The elements of a tensor as dimensions, where they are numbers or dimensions."""
    if tensor.sizes is not None:
        return tensor.sizes
    value = tensor.value
    if value is None or value.dtype.kind not in "iub":
        return None
    return array(value)


def _shape(proto: onnx.NodeProto, tensor: Tensor) -> Sizes:
    if proto.op_type == "Size":
        return array(product(tensor.shape))
    attributes = attributes_of(proto)
    start, end = attributes.get("start", 0), attributes.get("end", tensor.rank)
    return array(list(tensor.shape[slice(start, end)]))


def _axes(inputs: Sequence[Sizes | None], attributes: _Attributes) -> list[int]:
    given = attributes.get("axes")
    if given is None and len(inputs) > 1 and inputs[1] is not None:
        given = inputs[1].reshape(-1)
    return [int(axis) for axis in given] if given is not None else []


def _unsqueeze(inputs: Sequence[Sizes | None], attributes: _Attributes) -> Any:
    return np.expand_dims(_first(inputs), tuple(_axes(inputs, attributes)))


def _squeeze(inputs: Sequence[Sizes | None], attributes: _Attributes) -> Any:
    axes = _axes(inputs, attributes)
    return np.squeeze(_first(inputs), tuple(axes) if axes else None)


def _slice(inputs: Sequence[Sizes | None], attributes: _Attributes) -> Any:
    x = _first(inputs)

    def numbers(position: int, name: str) -> list[int] | None:
        given = inputs[position] if position < len(inputs) else None
        return attributes.get(name) if given is None else [int(item) for item in given.reshape(-1)]

    starts, ends = numbers(1, "starts") or [], numbers(2, "ends") or []
    axes, steps = numbers(3, "axes"), numbers(4, "steps")
    parts = [slice(None)] * x.ndim
    for position, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = position if axes is None else axes[position]
        parts[axis] = slice(start, end, 1 if steps is None else steps[position])
    return x[tuple(parts)]


def _gather(inputs: Sequence[Sizes | None], attributes: _Attributes) -> Any:
    x, positions = _first(inputs), inputs[1]
    assert positions is not None
    return np.take(x, positions.astype(np.int64), attributes.get("axis", 0))


def _reshape(inputs: Sequence[Sizes | None], attributes: _Attributes) -> Any:
    assert inputs[1] is not None
    return _first(inputs).reshape([int(item) for item in inputs[1]])


def _modulo(inputs: Sequence[Sizes | None], attributes: _Attributes) -> Any:
    """A remainder with the sign of the divisor, or with ``fmod`` with that of the dividend."""
    if not attributes.get("fmod"):
        return _pairs(lambda left, right: left % right)(inputs, attributes)
    return _pairs(truncated_remainder)(inputs, attributes)


def _first(inputs: Sequence[Sizes | None]) -> Sizes:
    assert inputs[0] is not None
    return inputs[0]


def _pairs(function: Callable[[Any, Any], Any]) -> _Function:
    each = np.frompyfunc(function, 2, 1)
    return lambda inputs, attributes: each(inputs[0], inputs[1])


_FUNCTIONS: Mapping[str, _Function] = {
    "Identity": lambda inputs, attributes: inputs[0],
    "Cast": lambda inputs, attributes: _cast(_first(inputs), attributes),
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Gather": _gather,
    "Reshape": _reshape,
    "Concat": lambda inputs, attributes: np.concatenate(
        [each for each in inputs if each is not None], attributes["axis"]
    ),
    "Split": lambda inputs, attributes: _split(inputs, attributes),
    "Add": _pairs(lambda left, right: left + right),
    "Sub": _pairs(lambda left, right: left - right),
    "Mul": _pairs(lambda left, right: left * right),
    "Div": _pairs(truncated_quotient),
    "Mod": _modulo,
    "Min": _pairs(minimum),
    "Max": _pairs(maximum),
    "Equal": _pairs(equal),
    "Less": _pairs(lambda left, right: left < right),
    "LessOrEqual": _pairs(lambda left, right: left <= right),
    "Greater": _pairs(lambda left, right: left > right),
    "GreaterOrEqual": _pairs(lambda left, right: left >= right),
    "Where": lambda inputs, attributes: _where(inputs),
    "ReduceProd": lambda inputs, attributes: _product(inputs, attributes),
}


def _where(inputs: Sequence[Sizes | None]) -> Any:
    condition, then, otherwise = inputs
    assert condition is not None and then is not None and otherwise is not None
    return np.where(condition.astype(bool), then, otherwise)


def _cast(x: Sizes, attributes: _Attributes) -> Sizes:
    if attributes["to"] not in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
        raise ValueError("not integers any more")
    return x


def _split(inputs: Sequence[Sizes | None], attributes: _Attributes) -> list[Any]:
    x, sizes = _first(inputs), attributes.get("split")
    if sizes is None and len(inputs) > 1 and inputs[1] is not None:
        sizes = [int(item) for item in inputs[1]]
    if sizes is None:
        raise ValueError("the number of parts is not known here")
    return list(np.split(x, np.cumsum(sizes)[:-1], attributes.get("axis", 0)))


def _product(inputs: Sequence[Sizes | None], attributes: _Attributes) -> Any:
    x = _first(inputs)
    if x.ndim != 1:
        raise ValueError("not a vector")
    found = product(tuple(x))
    return array([found]) if attributes.get("keepdims", 1) else found
