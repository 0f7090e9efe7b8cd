"""Which mappings take tensors with dynamic dimensions.

A mapping needs some dimensions as numbers. For each operator, this lists in which
dimensions it needs none; the others are lowered from their bodies where a dimension is a symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_nnef.graph.moving_operators import RESHAPING
from tvm_nnef.graph.nodes import Operation, Tensor, flatten
from tvm_nnef.lower.ops import math
from tvm_nnef.symbolic.dimensions import equal, is_static, is_symbolic


def is_safe(operation: Operation) -> bool:
    """Whether the mapping of an operation, if it has one, takes its dimensions and attributes."""
    touched = flatten((*operation.operands, *operation.results))
    symbolic = any(not is_static(size) for tensor in touched for size in tensor.shape)
    name = operation.standard_operator
    if name in RESHAPING:
        return True
    attributes = operation.attributes.values()
    if any(map(is_symbolic, (part for value in attributes for part in _parts(value)))):
        return False
    return not symbolic or _RULES.get(name or "", _nowhere)(operation)


def _parts(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _nowhere(operation: Operation) -> bool:
    return False


def _anywhere(operation: Operation) -> bool:
    return True


def _broadcast(operation: Operation) -> bool:
    """Where each size is 1, or certainly one of the result: Relax decides nothing at run time."""
    kept = [size for result in flatten(operation.results) for size in result.shape]
    return all(
        any(equal(size, other) for other in (1, *kept))
        for operand in flatten(operation.operands)
        for size in operand.shape
    )


def _off_the_channels(operation: Operation) -> bool:
    """Everywhere but in the channels, and in all that is not data."""
    data, *others = operation.operands
    assert isinstance(data, Tensor)
    layout = str(operation.attributes.get("data_format", "NCX"))
    channel = 1 if layout.index("C") < layout.index("X") else len(data.shape) - 1
    rest = [tensor.shape for tensor in flatten(tuple(others))]
    static = all(is_static(size) for shape in rest for size in shape)
    return layout.startswith("N") and static and is_static(data.shape[channel])


def _on_axes(operation: Operation) -> bool:
    """In the first dimension and those that ``axes`` name."""
    (data,) = flatten(operation.operands)
    axes = {0, *(int(a) % len(data.shape) for a in _parts(operation.attributes["axes"]))}  # type: ignore[call-overload]
    named = 0 not in _parts(operation.attributes["axes"])
    return named and all(is_static(e) for n, e in enumerate(data.shape) if n not in axes)


def _off_axis(operation: Operation) -> bool:
    """Everywhere but in the dimensions that ``axis``, ``axes`` or ``channel_axis`` name."""
    (first, *_) = flatten(operation.operands)
    named = [operation.attributes.get(key, ()) for key in ("axis", "axes", "channel_axis")]
    axes = [axis for value in named for axis in _parts(value) if isinstance(axis, int)]
    return all(is_static(first.shape[axis]) for axis in axes)


_BINARY = (
    *("add", "sub", "mul", "div", "mod", "pow", "min", "max", "select"),
    *("lt", "gt", "le", "ge", "eq", "ne", "and", "or", "xor"),
)

_RULES: Mapping[str, Callable[[Operation], bool]] = {
    **dict.fromkeys(math.MAPPINGS, _anywhere),
    **{f"math.{name}": _broadcast for name in _BINARY},
    **dict.fromkeys(
        ("layout.cast", "layout.concat", "layout.stack", "layout.transpose",
         "layout.pad", "linalg.matmul", "nn.linear", "nn.relu", "nn.prelu", "nn.gelu", "nn.sigmoid",
         "nn.silu", "nn.erf", "nn.softmax"),
        _anywhere,
    ),
    "nn.avg_pool": _on_axes,
    "nn.max_pool": _on_axes,
    **dict.fromkeys(("nn.conv", "nn.deconv"), _off_the_channels),
    **dict.fromkeys(
        ("layout.slice", "layout.split", "layout.unstack", "nn.batch_norm"),
        _off_axis,
    ),
}  # fmt: skip
