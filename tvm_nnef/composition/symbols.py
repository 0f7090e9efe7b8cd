"""Symbols of dynamic dimensions, and the conditions on them to check at run time (section 3.1).

The arithmetic on symbols is in :mod:`tvm_nnef.symbolic.dimensions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tvm_nnef.diagnostics import Note, Span, error
from tvm_nnef.graph.nodes import Check, Tensor
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Condition, Dimension


def plain(message: Iterable[str | Dimension]) -> str:
    """The parts of a message as one text, in which symbols stand for their values."""
    return "".join(part if isinstance(part, str) else trees.text(part) for part in message)


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols of a model with their bounds, and the checks of the graph being composed.

    ``stacked`` are tensors that stand for a pack (:mod:`tvm_nnef.composition.dynamic_packs`).
    """

    bounds: dict[str, int] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    stacked: set[Tensor] = field(default_factory=set)

    def new(self, name: str, bound: int) -> Dimension:
        """A symbol for an extent of at most ``bound``, under a name that no other one has."""
        free, number = name, 1
        while free in self.bounds:
            number += 1
            free = f"{name}_{number}"
        self.bounds[free] = bound
        return dimensions.symbol(free)

    def separate(self) -> Symbols:
        """For a branch or a loop body, which checks only what it comes to."""
        return Symbols(self.bounds, [], self.stacked)

    def largest(self, extent: Dimension) -> int:
        """The upper bound of an extent."""
        return dimensions.limits(extent, self.bounds)[1]

    def room(self, extent: Dimension) -> Dimension:
        """The upper bound of an extent; the extent itself if a symbol in it has none."""
        bounds = (self.bounds[name] for name in dimensions.symbols(extent))
        return extent if max(bounds, default=0) >= dimensions.UNLIMITED else self.largest(extent)

    def require(
        self,
        condition: Condition,
        message: Sequence[str | Dimension],
        location: Span | None,
        notes: tuple[Note, ...] = (),
        *,
        hint: str,
    ) -> None:
        """A condition that must hold: decided now if it can be, else left to a run to check.

        ``message`` says what is wrong otherwise: texts, and extents whose values belong there.
        Raises NnefError if the condition never holds.
        """
        decided = dimensions.decide(condition, self.bounds)
        if decided is False:
            raise error(plain(message), location, hint=hint, notes=notes)
        if decided is None:
            self.checks.append(Check(condition, tuple(message), location, notes, hint))
