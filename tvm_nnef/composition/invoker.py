"""Names and constants of a graph during composition: the base class of the composer.

Branches, loops, packs and quantization (``control_flow``, ``subgraphs``, ``dynamic_packs``,
``quantize``, ``updates``) compose their parts with an :class:`Invoker`, which is the
:class:`tvm_nnef.composition.composer.Composer` that uses them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tvm_nnef.composition import value_hints
from tvm_nnef.composition.binding import Invocation
from tvm_nnef.composition.budget import TENSOR, Budget
from tvm_nnef.composition.frame import Frame
from tvm_nnef.composition.naming import plain_name
from tvm_nnef.composition.scalar_tensors import computed, needs_run
from tvm_nnef.composition.values import Value, defined, describe, is_known, is_scalar, type_of
from tvm_nnef.diagnostics import Span, error
from tvm_nnef.graph.nodes import Operand, Tensor
from tvm_nnef.semantics.program import CheckedDefinition, Program
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.syntax import nodes


class Invoker(ABC):
    """The names and constants of one graph, and the interface that composes values and
    invocations.
    """

    def __init__(self, program: Program, budget: Budget) -> None:
        self.program = program
        self.budget = budget
        self.names: set[str] = set()
        self._numbers: dict[str, int] = {}

    def name(self, base: str) -> str:
        """Return a tensor name that is not in use: ``base``, or ``base`` with a number."""
        self.budget.spend("tensors", TENSOR)
        candidate = base
        while candidate in self.names:
            self._numbers[base] = number = self._numbers.get(base, 1) + 1
            candidate = f"{base}.{number}"
        self.names.add(candidate)
        return candidate

    def variable_name(self, scope: str, span: Span, name: str) -> str:
        """Return the name of a variable, which is also that of its file, so it never gets a
        number.
        """
        full = f"{scope}.{name}"
        if full in self.names:
            hint = "give the invocations different labels"
            raise error(f"two tensors are named '{full}'", span, hint=hint)
        self.names.add(full)
        return full

    @staticmethod
    def label(targets: Sequence[nodes.Target]) -> str | None:
        """Return the name of the single result, if there is just one (section 2.10, labelling)."""
        return plain_name(targets[0]) if len(targets) == 1 else None

    def as_tensors(
        self, value: Value, frame: Frame, span: Span, name: str | None = None
    ) -> Operand:
        """Return a value as tensors: numbers become constants of rank 0 (section 2.10)."""
        defined(value)
        if value is None or isinstance(value, Tensor):
            return value
        if isinstance(value, tuple):
            return tuple(
                item if isinstance(item, Tensor) else self._literal(item, frame, span)
                for item in value
            )
        return self._literal(value, frame, span, name)

    def _literal(self, value: Value, frame: Frame, span: Span, name: str | None = None) -> Tensor:
        if not (is_known(value) or is_scalar(value)) or isinstance(value, str):
            message = f"expected a tensor, found {describe(value)}"
            raise error(message, span, hint=value_hints.tensor(value))
        return self.constant(frame, name or ".L1", value, type_of(value), (), span)

    def constant(
        self,
        frame: Frame,
        name: str,
        value: Value,
        type_: str,
        shape: tuple[Dimension, ...],
        span: Span | None = None,
    ) -> Tensor:
        """Return a uniform tensor of the frame: a constant, unless its value is known only at run
        time.
        """
        number = float(value) if type_ == "real" and isinstance(value, int) else value
        full = self.name(f"{frame.scope}.{name}")
        if needs_run(value, shape):
            result = Tensor(full, type_, shape, "result", None, span)  # type: ignore[arg-type]
            trace = (*frame.trace, *([] if span is None else [span]))
            frame.operations.append(computed(result, number, trace))
            return result
        result_constant = Tensor(full, type_, shape, "constant", number, span)  # type: ignore[arg-type]
        frame.constants.append(result_constant)
        return result_constant

    @abstractmethod
    def value(
        self,
        node: nodes.Body | nodes.Branch | nodes.Loop,
        frame: Frame,
        targets: Sequence[nodes.Target],
    ) -> tuple[Value, ...]:
        """Return the values of a right-hand side: one for each target."""

    @abstractmethod
    def assign(self, component: nodes.Component, values: tuple[Value, ...], frame: Frame) -> None:
        """Assign values to the names on the left-hand side."""

    @abstractmethod
    def invoke_bound(
        self,
        definition: CheckedDefinition,
        invocation: Invocation,
        call: nodes.Call,
        frame: Frame,
        targets: Sequence[nodes.Target],
    ) -> tuple[Operand, ...]:
        """Return the results of an invocation whose attributes and operands are evaluated
        already.
        """
