"""An operation of a Graph as the input of the function that exports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.nnef1.export.emitter import Emitter
from tvm_nnef.converters.nnef1.export.values import Shape, Value
from tvm_nnef.graph.arguments import Arguments
from tvm_nnef.graph.nodes import Operation, Tensor, flatten
from tvm_nnef.symbolic.dimensions import Dimension

HINT = "write it with operators that NNEF 1 has (docs/nnef1.md), or convert the model to ONNX"
_SHAPES_HINT = "give the shapes of the inputs: input_shapes={'x': (1, 3)} (--shape x=1,3)"

Exported: TypeAlias = "Value | Sequence[Value | Sequence[Value]] | None"
"""The result of an export, or one for each result; None if the operation has to be expanded."""


def static(shape: Sequence[Dimension]) -> Shape:
    """Return a static shape as numbers. Raises Inexpressible if a dimension is dynamic."""
    sizes = tuple(each for each in shape if isinstance(each, int))
    if len(sizes) < len(shape):
        shown = ", ".join(map(str, shape))
        raise Inexpressible(f"NNEF 1 has static shapes only, and it has [{shown}]", _SHAPES_HINT)
    if 0 in sizes:
        raise Inexpressible(f"NNEF 1 has no tensors without elements, and it has {list(sizes)}")
    return sizes


@dataclass(frozen=True, slots=True)
class Invocation(Arguments[Value]):
    """An operation that is being exported, with its operands as values."""

    emitter: Emitter
    operation: Operation
    operands: tuple[Value | tuple[Value, ...] | None, ...]

    @property
    def out(self) -> Shape:
        """The shape of the first result."""
        return static(self.results[0].shape)

    @property
    def results(self) -> tuple[Tensor, ...]:
        """The tensors of all results."""
        return flatten(self.operation.results)

    @property
    def rank(self) -> int:
        """The rank of the first operand."""
        return self.value(0).rank

    def text(self, name: str) -> str:
        """Return a string attribute."""
        value = self.attribute(name)
        assert isinstance(value, str)
        return value

    def flag(self, name: str) -> bool:
        """Return a bool attribute."""
        return bool(self.attribute(name))

    def reals(self, name: str) -> list[float]:
        """Return an attribute that is a pack of reals."""
        values = self.attribute(name)
        assert isinstance(values, tuple)
        return [float(each) for each in values if isinstance(each, (int, float))]

    def call(self, operation: str, *operands: object, **attributes: object) -> Value:
        """Emit a call whose result has the shape of the operation's first one."""
        return self.emitter.call(operation, *operands, shape=self.out, **attributes)  # type: ignore[arg-type]


ExportFunction: TypeAlias = "Callable[[Invocation], Exported]"
"""A function that exports an operation, or returns None to have it expanded; raises
Inexpressible.
"""
