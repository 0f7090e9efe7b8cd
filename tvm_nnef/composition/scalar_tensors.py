"""Tensors of numbers known only at run time: dimensions and expressions of them (section 3.1).

Input: a value. Output: the operation that computes a tensor of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm_nnef.composition.values import Item, is_scalar, scalar
from tvm_nnef.diagnostics import Span
from tvm_nnef.graph import formula
from tvm_nnef.graph.formula import ScalarType
from tvm_nnef.graph.nodes import Operation, Tensor
from tvm_nnef.symbolic.dimensions import Dimension, is_static, is_symbolic

OPERATOR = "value"
"""The operator name of such operations in a graph; no declared operator can have this name."""


def needs_run(value: Item, shape: tuple[Dimension, ...]) -> bool:
    """Whether a uniform tensor is not a constant: its value or its shape is known only at run
    time.
    """
    return is_scalar(value) or is_symbolic(value) or not all(map(is_static, shape))


def computed(tensor: Tensor, value: Item, trace: tuple[Span, ...]) -> Operation:
    """Return the operation that fills a tensor with a value, which may read tensors of rank 0."""
    return _operation(tensor, lambda _: scalar(value, tensor.type), trace)


def item(tensor: Tensor, stacked: Tensor, index: Tensor, trace: tuple[Span, ...]) -> Operation:
    """Return the operation that reads one item of tensors that are stacked along the first
    dimension.
    """
    first = formula.Subscript(formula.Load(index, ()))
    return _operation(tensor, lambda positions: formula.Load(stacked, (first, *positions)), trace)


def _operation(
    tensor: Tensor,
    value: Callable[[tuple[formula.Subscript, ...]], formula.Scalar],
    trace: tuple[Span, ...],
) -> Operation:
    """Return the operation that computes each element of a tensor from its position."""
    symbols = tuple(formula.Index(f"i{position}") for position in range(tensor.rank))
    sizes = (scalar(size, "int") for size in tensor.shape)
    positions = tuple(map(formula.Subscript, symbols))
    store = formula.Store(tensor, positions, "=", value(positions))
    loops = tuple(map(formula.Loop, symbols, sizes))
    statement = formula.Statement(loops, (store,), (), None, trace[-1] if trace else None)
    fill = formula.Fill(tensor, formula.Constant(tensor.type, _ZERO[tensor.type]))
    read = tuple(dict.fromkeys(load.tensor for load in formula.loads(statement)))
    types = tuple(operand.type for operand in read)
    body = formula.Formula((fill,), (statement,))
    return Operation(OPERATOR, {}, {}, read, (tensor,), types, (tensor.type,), body, "", trace)


_ZERO: Mapping[ScalarType, int | float | bool] = {"int": 0, "real": 0.0, "bool": False}
