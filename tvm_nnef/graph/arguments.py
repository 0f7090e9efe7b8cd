"""Access to an operation's attributes and operands, by name and position, for translations of
it.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from tvm_nnef.graph.nodes import Attribute, Operation, Tensor
from tvm_nnef.symbolic.dimensions import Dimension

Value = TypeVar("Value")


class Arguments(Generic[Value]):
    """Access to the attributes and operands of ``operation``, a field of the subclass.

    ``operands`` are the translated tensors: a value, a tuple of values for a pack, or None.
    """

    __slots__ = ()

    operation: Operation
    operands: tuple[Value | tuple[Value, ...] | None, ...]

    def value(self, number: int) -> Value:
        """Return an operand that is one tensor."""
        operand = self.optional(number)
        assert operand is not None
        return operand

    def optional(self, number: int) -> Value | None:
        """Return an operand that is one tensor, or None if it is omitted."""
        operand = self.operands[number] if number < len(self.operands) else None
        assert not isinstance(operand, tuple)
        return operand

    def pack(self, number: int = 0) -> tuple[Value, ...]:
        """Return the values of an operand that is a pack."""
        operand = self.operands[number]
        assert isinstance(operand, tuple)
        return operand

    def attribute(self, name: str) -> Attribute:
        """Return a resolved attribute; None for null."""
        return self.operation.attributes[name]

    def number(self, name: str) -> int:
        """Return an integer attribute."""
        value = self.operation.attributes[name]
        assert isinstance(value, int)
        return value

    def real(self, name: str) -> float | None:
        """Return a real attribute, or None for null."""
        value = self.operation.attributes[name]
        return float(value) if isinstance(value, (int, float)) else None

    def numbers(self, name: str) -> list[int]:
        """Return a pack of integers."""
        value = self.operation.attributes[name]
        assert isinstance(value, tuple)
        return [int(item) for item in value]

    def axes(self, name: str = "axes") -> list[int]:
        """Return a pack of axes of the first operand, counted from the front."""
        rank = self.tensor(0).rank
        return [axis % rank for axis in self.numbers(name)]

    def axis(self, name: str = "axis") -> int:
        """Return an axis of the first operand, counted from the front."""
        return self.number(name) % self.tensor(0).rank

    def order(self, name: str) -> list[int]:
        """Return the dimensions of the first operand by a format such as NXC: N, C, then spatial
        ones.
        """
        layout, rank = str(self.operation.attributes[name]), self.tensor(0).rank
        at = layout.index("X")
        n, c = (i + (rank - 3 if i > at else 0) for i in (layout.index("N"), layout.index("C")))
        return [n, c, *range(at, at + rank - 2)]

    def using(self, name: str) -> tuple[Dimension, ...]:
        """Return a value of the operator's ``@using`` block that is a pack of integers, possibly
        dynamic.
        """
        value = self.operation.using[name]
        assert isinstance(value, tuple)
        return value

    def tensor(self, operand: int) -> Tensor:
        """Return the Graph's tensor of an operand that is one tensor."""
        tensor = self.operation.operands[operand]
        assert isinstance(tensor, Tensor)
        return tensor

    def shape(self, operand: int) -> tuple[Dimension, ...]:
        """Return the shape of an operand."""
        return self.tensor(operand).shape

    @property
    def result(self) -> Tensor:
        """The result of an operation that has only one."""
        (found,) = self.operation.results
        assert isinstance(found, Tensor)
        return found
