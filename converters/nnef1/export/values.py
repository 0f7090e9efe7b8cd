"""Values of an exported graph, statements over them, and their text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.converters.common.inexpressible import Inexpressible

Literal: TypeAlias = "bool | int | float"
Shape: TypeAlias = "tuple[int, ...]"


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of the exported graph, or a literal.

    ``type`` is ``scalar``, ``integer`` or ``logical``. ``name`` is empty until all names are
    assigned; ``hint`` is the preferred name of a tensor that has no name in the model.
    """

    type: str
    shape: Shape
    literal: Literal | None = None
    hint: str = ""
    name: str = ""

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


Argument: TypeAlias = "Value | Literal | str | Sequence[Argument]"
"""An argument; a list is an array, a tuple a tuple."""

Results: TypeAlias = "tuple[Value | list[Value], ...]"


@dataclass(frozen=True, slots=True)
class Statement:
    """A call of an operation; a result that is a list is an array."""

    operation: str
    item_type: str | None
    positional: tuple[Argument, ...]
    named: Mapping[str, Argument]
    results: Results

    def written(self) -> str:
        """Return the statement as text, when all values have names."""
        targets = ", ".join(written(each) for each in self.results)
        generic = f"<{self.item_type}>" if self.item_type else ""
        arguments = [written(each) for each in self.positional]
        arguments += [f"{name} = {written(each)}" for name, each in self.named.items()]
        return f"{targets} = {self.operation}{generic}({', '.join(arguments)});"


def written(argument: Argument) -> str:
    """Return an argument as text. Raises Inexpressible for numbers without a literal."""
    match argument:
        case Value(literal=None):
            return argument.name
        case Value(literal=literal):
            assert literal is not None
            return written(literal)
        case bool():
            return str(argument).lower()
        case int():
            return str(argument)
        case float():
            return _number(argument)
        case str():
            return f"'{argument}'"
        case tuple():
            return f"({', '.join(map(written, argument))})"
        case _:
            return f"[{', '.join(map(written, argument))}]"


def _number(value: float) -> str:
    """Return the shortest literal that equals a number; one without a point would be an integer."""
    if not math.isfinite(value):
        raise Inexpressible(f"NNEF 1 has no literal for {value}")
    digits, exponent, power = repr(value).partition("e")
    return f"{digits if '.' in digits else f'{digits}.0'}{exponent}{power}"
