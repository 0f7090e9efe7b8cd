"""The attributes of Relax functions and PrimFuncs by which passes of this compiler pass on facts.

Each is set in one pass and read in a later one; TVM keeps them and does not read them, except for
``OP_PATTERN``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, TypeAlias, cast

Combine: TypeAlias = Literal["sum", "product", "max", "min"]
"""How a prefix scan combines elements; max and min keep NaN."""

CONSTANTS_FROM = "constants_from"
"""Of a private Relax function: constants may be bound to its parameters from this number on, and
what they make of its result type stays as it is."""

LOOP_BODY = "loop_body"
"""Of a Relax function that makes one step of a loop: ``(index, state, ...)`` become ``(whether to
go on, index, state)``."""

LOOP_STEPS = "loop_steps"
"""Of a Relax function that makes this number of steps by a function with ``LOOP_BODY``; with 0 as
many as that function decides, at least one."""

PREPARED = "main_prepared"
"""The name of the function that takes the results of the prepared computations on weights."""

EXACT_BUFFERS = "exact_buffers"
"""Of a PrimFunc whose buffers are as large as they have to be: no pass makes them smaller."""

KEEPS_BUFFERS = "keeps_buffers"
"""Of a PrimFunc in which no buffer may take the memory of another."""

POLLS_SIGNALS = "polls_signals"
"""Of a PrimFunc that polls for signals while it runs."""

OP_PATTERN = "op_pattern"
"""Of a PrimFunc: its :class:`FusionPattern`, which TVM's FuseOps reads."""


class FusionPattern(IntEnum):
    """How a kernel may be fused with others (``OpPatternKind`` in TVM)."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    OUTPUT_ELEMENTWISE = 4
    """Takes elementwise kernels that read its result in (``kOutEWiseFusable``)."""
    OPAQUE = 8
    """Is fused with nothing."""


PREFIX_SCAN = "prefix_scan"
"""Of a PrimFunc of serial loops: the :class:`PrefixScan` that its last statement is."""


@dataclass(frozen=True, slots=True)
class PrefixScan:
    """Each element becomes its combination with all elements before it along ``axis``.

    ``reverse`` scans begin at the end. The loop nest of a scan is the one that reads the buffer
    that it writes.
    """

    axis: int
    combine: Combine
    reverse: bool = False

    @property
    def attribute(self) -> list[int | str]:
        """The scan as a value of the attribute."""
        return [self.axis, self.combine, int(self.reverse)]

    @staticmethod
    def of(attributes: Mapping[str, Any]) -> PrefixScan | None:
        """The scan among the attributes of a PrimFunc; None if there is none."""
        if PREFIX_SCAN not in attributes:
            return None
        axis, combine, reverse = attributes[PREFIX_SCAN]
        return PrefixScan(int(axis), cast("Combine", str(combine)), bool(reverse))
