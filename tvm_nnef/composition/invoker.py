"""What parts of the composer need of it: names, values, tensors and invocations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tvm_nnef.composition.binding import Invocation
from tvm_nnef.composition.budget import Budget
from tvm_nnef.composition.frame import Frame
from tvm_nnef.composition.values import Value
from tvm_nnef.diagnostics import Span
from tvm_nnef.graph.nodes import Operand, Tensor
from tvm_nnef.semantics.program import CheckedDefinition, Program
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.syntax import nodes


class Invoker(Protocol):
    """The part of :class:`tvm_nnef.composition.composer.Composer` that other modules call."""

    program: Program
    budget: Budget

    def name(self, base: str) -> str:
        """A tensor name that is not taken: the one asked for, or a numbered one."""

    def label(self, targets: Sequence[nodes.Target]) -> str | None:
        """The name of the single result, if there is just one."""

    def as_tensors(
        self, value: Value, frame: Frame, span: Span, name: str | None = None
    ) -> Operand:
        """A value as tensors: numbers become constants of rank 0."""

    def constant(
        self,
        frame: Frame,
        name: str,
        value: Value,
        type_: str,
        shape: tuple[Dimension, ...],
        span: Span | None = None,
    ) -> Tensor:
        """A uniform tensor of the frame."""

    def value(
        self,
        node: nodes.Body | nodes.Branch | nodes.Loop,
        frame: Frame,
        targets: Sequence[nodes.Target],
    ) -> tuple[Value, ...]:
        """A right-hand side: a value for each target."""

    def assign(self, component: nodes.Component, values: tuple[Value, ...], frame: Frame) -> None:
        """Gives values to the names on the left-hand side."""

    def invoke_bound(
        self,
        definition: CheckedDefinition,
        invocation: Invocation,
        call: nodes.Call,
        frame: Frame,
        targets: Sequence[nodes.Target],
    ) -> tuple[Operand, ...]:
        """The results of an invocation whose attributes and operands are evaluated already."""
