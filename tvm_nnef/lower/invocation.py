"""The Relax side of one invocation, which a mapping gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.graph.arguments import Arguments
from tvm_nnef.graph.nodes import Operand, Operation, Tensor, tensors
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression

LoweredOperand: TypeAlias = "RelaxExpression | tuple[RelaxExpression, ...] | None"
"""As the operand: an expression, a tuple of them for a pack, or None."""

Lowered: TypeAlias = "RelaxExpression | tuple[LoweredOperand, ...] | None"
"""One expression for a single result, a tuple aligned with the results, or None: declined."""


@dataclass(frozen=True, slots=True)
class Invocation(Arguments[RelaxExpression]):
    """An operation that is being lowered, with its operands in Relax.

    ``builder`` is the ``relax.BlockBuilder``; everything that ``builder.emit`` takes may be made
    of it. Nothing is inferred here: attributes, shapes and dtypes are those of the Graph.
    """

    builder: BlockBuilder
    operation: Operation
    operands: tuple[LoweredOperand, ...]
    machine_types: Mapping[Tensor, str]

    @property
    def dtype(self) -> str:
        """The dtype of the only result."""
        return self.machine_types[self.result]

    def expression(self, number: int) -> RelaxExpression:
        """An operand that is one tensor."""
        return self.value(number)

    def dtypes(self) -> set[str]:
        """The dtypes of all operands and results."""
        everything: Sequence[Operand] = (*self.operation.operands, *self.operation.results)
        return {self.machine_types[t] for operand in everything for t in tensors(operand)}


LoweringFunction: TypeAlias = Callable[[Invocation], Lowered]
"""Lowers an operation whole, or declines by returning None."""


def is_uniform(operation: Operation, machine_types: Mapping[Tensor, str]) -> bool:
    """Whether tensors that are declared with one type have one dtype, as Relax needs them."""
    names = (*operation.operand_types, *operation.result_types)
    found: dict[str, set[str]] = {}
    for name, operand in zip(names, (*operation.operands, *operation.results), strict=True):
        dtypes = found.setdefault(name, set())
        dtypes.update(machine_types[tensor] for tensor in tensors(operand))
    return all(len(dtypes) < 2 for dtypes in found.values())
