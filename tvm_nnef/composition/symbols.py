"""Symbols of dynamic dimensions, and the conditions on them to check at run time (section 3.1).

Input: names, bounds and conditions. Output: symbols, and the checks of a graph. The arithmetic on
symbols is in :mod:`tvm_nnef.symbolic.dimensions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tvm_nnef.diagnostics import Note, Span, error
from tvm_nnef.graph.nodes import Check, Tensor
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Condition, Dimension


def plain(message: Iterable[str | Dimension]) -> str:
    """Return the parts of a message as one text, in which symbols are written by name."""
    return "".join(part if isinstance(part, str) else trees.text(part) for part in message)


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols of a model with their bounds, and the checks of the graph being composed.

    ``stacked`` are tensors that represent a pack (:mod:`tvm_nnef.composition.dynamic_packs`).
    """

    bounds: dict[str, int] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    stacked: set[Tensor] = field(default_factory=set)

    def new(self, name: str, bound: int) -> Dimension:
        """Return a symbol for a dimension of at most ``bound``, under a new name."""
        free, number = name, 1
        while free in self.bounds:
            number += 1
            free = f"{name}_{number}"
        self.bounds[free] = bound
        return dimensions.symbol(free)

    def separate(self) -> Symbols:
        """Return the symbols for a branch or a loop body, with separate checks."""
        return Symbols(self.bounds, [], self.stacked)

    def largest(self, size: Dimension) -> int:
        """Return the upper bound of a dimension."""
        return dimensions.limits(size, self.bounds)[1]

    def room(self, size: Dimension) -> Dimension:
        """Return the upper bound of a dimension; the dimension itself if a symbol in it has
        none.
        """
        bounds = (self.bounds[name] for name in dimensions.symbols(size))
        return size if max(bounds, default=0) >= dimensions.UNLIMITED else self.largest(size)

    def require(
        self,
        condition: Condition,
        message: Sequence[str | Dimension],
        location: Span | None,
        notes: tuple[Note, ...] = (),
        *,
        hint: str,
    ) -> None:
        """Raise NnefError if a condition never holds.

        Add a run-time check if that is not known now.

        ``message`` describes the violation: texts, and dimensions that are replaced by their
        values.
        """
        decided = dimensions.decide(condition, self.bounds)
        if decided is False:
            raise error(plain(message), location, hint=hint, notes=notes)
        if decided is None:
            self.checks.append(Check(condition, tuple(message), location, notes, hint))
