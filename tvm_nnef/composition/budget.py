"""Upper limit of the work for composing one graph, so that a short text cannot exhaust a
machine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tvm_nnef.diagnostics import Note, Span, error
from tvm_nnef.symbolic import dimensions, trees

LIMIT = 1 << 22
"""Upper limit of the units for composing a graph; a unit is about the evaluation of one
operator.
"""

TENSOR = 8
OPERATION = 64
CHARACTERS = 64
"""The number of characters of a text that count as one unit; an item of a pack counts as much."""
FREE_TERMS = 32
MAX_TERMS = 300
"""Upper limit of the terms of an expression of dynamic dimensions, whose simplification is
superlinear.
"""

_LARGE = 256

Kind: TypeAlias = Literal["expressions", "items of packs", "characters", "tensors", "operations"]


@dataclass(slots=True)
class Budget:
    """The units used so far; one object for each call of ``compose_graph``."""

    used: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    large: Counter[Span] = field(default_factory=Counter)
    latest: Span | None = None

    def spend(self, kind: Kind, units: int, span: Span | None = None) -> None:
        """Count units. Raises NnefError beyond the limit; its message names ``kind``."""
        self.used += units
        self.kinds[kind] += units
        self.latest = span or self.latest
        if units >= _LARGE and span is not None:
            self.large[span] += units
        if self.used > LIMIT:
            raise self._exhausted()

    def spend_value(self, value: object, span: Span) -> None:
        """Count the evaluation of an expression, by the size of its value."""
        self.spend("expressions", 1, span)
        if isinstance(value, tuple):
            self.spend("items of packs", len(value), span)
        elif isinstance(value, str):
            self.spend("characters", len(value) // CHARACTERS, span)
        elif dimensions.is_symbolic(value):
            terms = trees.size(value, MAX_TERMS)
            self.spend("expressions", terms**2 if terms > FREE_TERMS else 0, span)

    def _exhausted(self) -> Exception:
        ((kind, units),) = self.kinds.most_common(1)
        notes = tuple(
            Note(f"{spent} of {self.used} units of work were used here", span)
            for span, spent in self.large.most_common(1)
        )
        return error(
            f"composing this graph takes too much work: {units} of {self.used} units were used "
            f"for {kind}",
            self.latest,
            hint="make the model smaller, or keep large constants in '.dat' files",
            notes=notes,
        )
