"""The attributes of Relax functions and PrimFuncs by which passes of this compiler pass on facts.

Each is set in one pass and read in a later one; TVM keeps them and does not read them, except for
``OP_PATTERN``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Literal, TypeAlias

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


ANNOTATION = "annotation"
"""Of a PrimFunc: what it computes, an :class:`Annotation` in JSON. Its body is a definition of that
in any loops, for targets without a schedule strategy for it."""


@dataclass(frozen=True, slots=True)
class Sort:
    """``(data, indices)``: in each row, which runs along the last axis, the indices of the first
    elements in order; equal elements stay in their order.

    NaN comes last, and so do reals that are not greater than ``above``, if there is one.
    """

    largest: bool
    above: float | None = None


@dataclass(frozen=True, slots=True)
class ArgReduction:
    """``(data, indices)``: the first index of the max or the min over ``count`` axes from
    ``first`` on, in row-major order of these axes.

    A NaN at index 0 is the result, others are skipped. The dimensions of the result are those of
    the data without the reduced ones, and any number of 1s.
    """

    first: int
    count: int
    largest: bool


@dataclass(frozen=True, slots=True)
class PrefixScan:
    """Serial loops whose last statement is a prefix scan: each element becomes its combination with
    all elements before it along ``axis``.

    ``reverse`` scans begin at the end. The loop nest of a scan is the one that reads the buffer
    that it writes.
    """

    axis: int
    combine: Combine
    reverse: bool = False


Annotation: TypeAlias = "Sort | ArgReduction | PrefixScan"

_ANNOTATIONS: Mapping[str, type[Sort] | type[ArgReduction] | type[PrefixScan]] = {
    each.__name__: each for each in (Sort, ArgReduction, PrefixScan)
}


def annotation_attributes(annotation: Annotation) -> dict[str, str | int]:
    """The attributes of a PrimFunc with an annotation, which it loses if it is fused."""
    text = json.dumps([type(annotation).__name__, asdict(annotation)])
    return {ANNOTATION: text, OP_PATTERN: int(FusionPattern.OPAQUE)}


def read_annotation(attributes: Mapping[str, object] | None) -> Annotation | None:
    """The annotation in the attributes of a PrimFunc, if there is one."""
    text = (attributes or {}).get(ANNOTATION)
    if text is None:
        return None
    name, fields = json.loads(str(text))
    return _ANNOTATIONS[name](**fields)
