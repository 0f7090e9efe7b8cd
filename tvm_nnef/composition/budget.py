"""How much work composing one graph may take, so that a short text cannot use up a machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tvm_nnef.diagnostics import Note, Span, error
from tvm_nnef.symbolic import dimensions, trees

LIMIT = 1 << 22
"""Units that composing a graph may take; a unit is about the evaluation of one operator."""

TENSOR = 8
OPERATION = 64
CHARACTERS = 64
"""Characters of a text that count as one unit; so does each item of a pack."""
FREE_TERMS = 32
MAX_TERMS = 300
"""Terms of an expression of dynamic dimensions, which is simplified in more than linear time."""

_LARGE = 256

Kind: TypeAlias = Literal["expressions", "items of packs", "characters", "tensors", "operations"]


@dataclass(slots=True)
class Budget:
    """What was used so far; one object for each call of ``compose_graph``."""

    used: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)
    large: Counter[Span] = field(default_factory=Counter)
    latest: Span | None = None

    def spend(self, kind: Kind, units: int, span: Span | None = None) -> None:
        """Counts units. Raises NnefError, which says what used them, beyond the limit."""
        self.used += units
        self.kinds[kind] += units
        self.latest = span or self.latest
        if units >= _LARGE and span is not None:
            self.large[span] += units
        if self.used > LIMIT:
            raise self._exhausted()

    def spend_value(self, value: object, span: Span) -> None:
        """Counts the evaluation of an expression, by the size of its value."""
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
