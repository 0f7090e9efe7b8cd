"""Shapes from the end: what a declared output says about the tensors that it is made of.

A tensor of data-dependent shape, such as a reduction over axes that arrive at run time, has no
its own shape in the model; but if there are only elementwise operators between it and an output
that has one, it is known all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from tvm_nnef.converters.common.types import PartialShape, PartialSize, Type
from tvm_nnef.converters.onnx.inference import UNKNOWN

_SAME_SHAPE = frozenset(
    ("Abs", "Neg", "Ceil", "Floor", "Exp", "Log", "Sqrt", "Reciprocal", "Sin", "Cos", "Tan",
     "Tanh", "Erf", "Sigmoid", "Relu", "Round", "Sign", "Not", "Cast", "CastLike", "Identity",
     "Softmax", "LogSoftmax", "Clip", "Gelu", "LeakyRelu", "Softplus", "Dropout", "Trilu",
     "CumSum", "IsNaN", "IsInf")
)  # fmt: skip
_BROADCASTING = frozenset(
    ("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Equal", "Greater", "Less",
     "GreaterOrEqual", "LessOrEqual", "And", "Or", "Xor", "Where")
)  # fmt: skip


def backward(nodes: Sequence[onnx.NodeProto], known: Mapping[str, Type]) -> dict[str, Type]:
    """``known`` with the dimensions added that follow from those of results."""
    found = dict(known)
    symbols: dict[str, int] = {}
    for node in reversed(nodes):
        if not node.output or node.output[0] not in found:
            continue
        shape = _completed(found[node.output[0]].shape, symbols)
        if shape is None:
            continue
        if node.op_type in _SAME_SHAPE and node.input:
            _add(found, node.input[0], shape, symbols)
        elif node.op_type in _BROADCASTING:
            _broadcast(found, node.input, shape, symbols)
    return {name: Type(each.dtype, _completed(each.shape, symbols)) for name, each in found.items()}


def _completed(shape: PartialShape, symbols: Mapping[str, int]) -> PartialShape:
    if shape is None:
        return None
    return tuple(symbols.get(each, each) if isinstance(each, str) else each for each in shape)


def _add(found: dict[str, Type], name: str, shape: PartialShape, symbols: dict[str, int]) -> None:
    """Infers the dynamic dimensions of a tensor, and the symbols that they are."""
    old = found.get(name, UNKNOWN)
    if shape is None or (old.shape is not None and len(old.shape) != len(shape)):
        return
    sizes = []
    for own, new in zip(old.shape or (None,) * len(shape), shape, strict=True):
        if isinstance(own, str) and isinstance(new, int):
            symbols.setdefault(own, new)
        sizes.append(own if isinstance(own, int) else own if new is None else new)
    found[name] = Type(old.dtype, tuple(sizes))


def _broadcast(
    found: dict[str, Type],
    names: Sequence[str],
    shape: Sequence[PartialSize],
    symbols: dict[str, int],
) -> None:
    """Infer dimensions of operands that are broadcast.

    A dimension of the result that is not 1 belongs to the only operand that may have it; where it
    is 1, all operands have 1.
    """
    operands = [(name, _completed(found.get(name, UNKNOWN).shape, symbols)) for name in names]
    for position, (name, own) in enumerate(operands):
        others = [other for location, (_, other) in enumerate(operands) if location != position]
        if own is None and all(other is not None and not other for other in others):
            _add(found, name, tuple(shape), symbols)
        if own is None or any(other is None for other in others):
            continue
        padded = [_padded(other or (), len(shape)) for other in others]
        offset = len(shape) - len(own)
        sizes = [
            _size(each, shape[location + offset], [other[location + offset] for other in padded])
            for location, each in enumerate(own)
        ]
        _add(found, name, tuple(sizes), symbols)


def _size(own: PartialSize, result: PartialSize, others: Sequence[PartialSize]) -> PartialSize:
    """The dimension of an operand, from those of the result and of the others."""
    if isinstance(own, int) or not isinstance(result, int):
        return own
    if result == 1 or all(other == 1 or (own is not None and other == own) for other in others):
        return result
    return own


def _padded(shape: Sequence[PartialSize], rank: int) -> tuple[PartialSize, ...]:
    return (*((1,) * (rank - len(shape))), *shape)
