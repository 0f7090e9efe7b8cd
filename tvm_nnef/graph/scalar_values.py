"""The values of integer scalars and conditions that do not depend on data.

Input: a scalar, and the values of the indices of loops. Output: a dimension, a condition, or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm_nnef.graph.formula import (
    Binary,
    Cast,
    Constant,
    Index,
    Local,
    Lookup,
    Scalar,
    Select,
    Unary,
)
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Condition, Dimension
from tvm_nnef.symbolic.functions import COMPARISONS, DIVISIONS

Value: TypeAlias = "Dimension | Condition | None"
"""The value of an int or bool; None if it depends on data."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of scalars for given values of indices, ``names``.

    ``named`` are the local values of a statement, ``bounds`` the largest values of symbols.
    """

    names: Mapping[str, Dimension]
    named: Mapping[str, Scalar] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)
    _known: dict[str, Value] = field(default_factory=dict)

    def of(self, scalar: Scalar) -> Value:
        """Return the value of an int or bool; None if it is not certain."""
        match scalar:
            case Constant("int" | "bool", value) if not isinstance(value, float):
                return value
            case Index(name):
                return self.names.get(name)
            case Local(name):
                return self._local(name)
            case Unary("not", operand):
                inner = self.of(operand)
                return None if inner is None else not inner
            case Unary("neg", operand):
                return self._arithmetic("sub", 0, self.of(operand))
            case Unary("abs", operand):
                inner = self.of(operand)
                negated = self._arithmetic("sub", 0, inner)
                return self._arithmetic("max", inner, negated)
            case Binary(function, left, right):
                return self._binary(function, left, right)
            case Select(condition, consequent, alternative):
                chosen = self.of(condition)
                if not isinstance(chosen, int):
                    return None
                return self.of(consequent if chosen else alternative)
            case Cast("int", operand) if operand.type != "real":
                inner = self.of(operand)
                return int(inner) if isinstance(inner, bool) else inner
            case Lookup(items, index):
                number = self.of(index)
                known = isinstance(number, int) and 0 <= number < len(items)
                return self.of(items[number]) if known else None  # type: ignore[index]
        return None

    def _local(self, name: str) -> Value:
        if name not in self._known:
            self._known[name] = self.of(self.named[name])
        return self._known[name]

    def _binary(self, function: str, left: Scalar, right: Scalar) -> Value:
        first = self.of(left)
        if function in ("and", "or"):
            if first is (function == "or"):
                return first
            second = self.of(right)
            return second if first is not None or second is (function == "or") else None
        second = self.of(right)
        if first is None or second is None:
            return None
        if isinstance(first, bool) or isinstance(second, bool):
            equal = first == second
            return {"eq": equal, "ne": not equal, "xor": not equal}.get(function)
        if function in COMPARISONS:
            return self.decided(dimensions.compare(function, first, second))
        return self._arithmetic(function, first, second)

    def _arithmetic(self, function: str, first: Value, second: Value) -> Value:
        """Return an int, wrapped around at 64 bits; a quotient by zero is 0."""
        if first is None or second is None:
            return None
        if function in DIVISIONS and not dimensions.is_static(second):
            return None
        if function in DIVISIONS and second == 0:
            return 0
        try:
            value = dimensions.FUNCTIONS[function](first, second)
        except (ValueError, ZeroDivisionError):
            return None
        return (value + 2**63) % 2**64 - 2**63 if dimensions.is_static(value) else value

    def decided(self, condition: Condition) -> bool | None:
        """Return whether a condition holds; None if that is not certain."""
        return dimensions.decide(condition, self.bounds)
