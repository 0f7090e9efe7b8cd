"""What is resolved of an operation, by name and by position, for those that translate it whole."""

from __future__ import annotations

from tvm_nnef.graph.nodes import Attribute, Operation, Tensor
from tvm_nnef.symbolic.dimensions import Dimension


class Arguments:
    """Reads the attributes and operands of the ``operation`` that a class below has as a field."""

    __slots__ = ()

    operation: Operation

    def attribute(self, name: str) -> Attribute:
        """A resolved attribute; None for null."""
        return self.operation.attributes[name]

    def number(self, name: str) -> int:
        """An integer attribute."""
        value = self.operation.attributes[name]
        assert isinstance(value, int)
        return value

    def real(self, name: str) -> float | None:
        """A real attribute, or None for null."""
        value = self.operation.attributes[name]
        return float(value) if isinstance(value, (int, float)) else None

    def numbers(self, name: str) -> list[int]:
        """A pack of integers."""
        value = self.operation.attributes[name]
        assert isinstance(value, tuple)
        return [int(item) for item in value]

    def using(self, name: str) -> tuple[Dimension, ...]:
        """A value of the operator's ``@using`` block that is a pack of integers, maybe dynamic."""
        value = self.operation.using[name]
        assert isinstance(value, tuple)
        return value

    def tensor(self, operand: int) -> Tensor:
        """The Graph's tensor of an operand that is one tensor."""
        found = self.operation.operands[operand]
        assert isinstance(found, Tensor)
        return found

    def shape(self, operand: int) -> tuple[Dimension, ...]:
        """The shape of an operand."""
        return self.tensor(operand).shape

    @property
    def result(self) -> Tensor:
        """The only result of an operation that has one."""
        (found,) = self.operation.results
        assert isinstance(found, Tensor)
        return found
