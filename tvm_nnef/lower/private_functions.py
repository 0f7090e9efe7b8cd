"""Basis of functions for branches and loops: parameters, captured tensors, and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tvm import relax

from tvm_nnef.graph.nodes import (
    If,
    Loop,
    Tensor,
    bodies,
)
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import RelaxExpression
from tvm_nnef.tvm_support.function_attributes import CONSTANTS_FROM

if TYPE_CHECKING:
    from tvm_nnef.lower.scope import Scope

Variable: TypeAlias = Any
"""A ``relax.Var``."""

Lowered: TypeAlias = "dict[Tensor, RelaxExpression]"
"""The values of the results of a node."""

ALL_CONSTANT = {CONSTANTS_FROM: 0}
"""The attribute of a function none of whose parameters changes between its calls in a loop."""


def captured_tensors(node: If | Loop) -> tuple[Tensor, ...]:
    """The tensors that the graphs of a node read from outside; constants are created again."""
    local = node.local if isinstance(node, Loop) else ()
    read = [
        tensor
        for graph in bodies(node)
        for tensor in (*graph.input_tensors, *graph.variables)
        if tensor not in local and tensor.role != "constant"
    ]
    return tuple(dict.fromkeys(read))


def parameters_for(arguments: Sequence[RelaxExpression]) -> list[Variable]:
    """Parameters of a function, of the types of the arguments that it is called with."""
    return [relax.Var(f"p{number}", value.ty) for number, value in enumerate(arguments)]


def choice_function(
    name: str,
    parameters: list[Variable],
    arms: tuple[RelaxExpression, RelaxExpression],
    walk: Scope,
    pure: bool,
) -> Any:
    """A function that takes a condition before the parameters of two expressions."""
    condition = relax.Var("condition", compat.tensor_type((), "bool"))
    both = [condition, *parameters]
    with walk.builder.function(name, both, ALL_CONSTANT, pure=pure, private=True):
        chosen = walk.builder.emit(relax.If(condition, *arms))
        return walk.builder.emit_func_output(chosen)


def items_of(call: RelaxExpression, count: int, walk: Scope) -> list[RelaxExpression]:
    """The items of the tuple that a call returns."""
    pack = walk.values.provenance.emitted(walk.builder, call)
    return [walk.builder.emit(relax.TupleGetItem(pack, number)) for number in range(count)]


def scalar(value: RelaxExpression, walk: Scope) -> RelaxExpression:
    """A tensor of one element as one of rank 0."""
    shape, _ = compat.shape_and_dtype(value)
    return walk.builder.emit(relax.op.reshape(value, ())) if shape else value
