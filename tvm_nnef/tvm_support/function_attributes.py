"""The attributes of functions, PrimFuncs and blocks by which passes of this compiler pass on facts.

Each is set in one pass and read in a later one; TVM keeps them and does not read them, except for
``OP_PATTERN`` and ``ON_HOST``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum

CONSTANTS_FROM = "constants_from"
"""Of a private Relax function: constants may be bound to its parameters from this number on, and
what they make of its result type stays as it is."""

DESCRIPTION = "nnef_description"
"""Of ``main``: the labels of the model and how its inputs are made from images, as in
``model.json``."""

LOOP_BODY = "loop_body"
"""Of a Relax function that makes one step of a loop: ``(index, state, ...)`` become ``(whether to
go on, index, state)``."""

LOOP_STEPS = "loop_steps"
"""Of a Relax function that makes this number of steps by a function with ``LOOP_BODY``; with 0 as
many as that function decides, at least one."""

INITIAL_STATE = "initial_state"
"""The name of the function that returns what the variables that ``@update`` changes start as."""

LIFTED = "main_transform_params"
"""The name that TVM gives to the function that computes what depends on weights alone."""

PREPARED = "main_prepared"
"""The name of the function that takes the results of the prepared computations on weights."""

METADATA = "metadata"
"""The name of the function in a library that returns its metadata."""

EQUAL_SIZES = "main_equal"
"""The name of the private function that ``main`` calls if sizes that could broadcast are equal."""

PORTS = "nnef_ports"
"""Of ``main``: its inputs, outputs and state, in JSON."""

SYMBOLS = "nnef_symbols"
"""Of ``main``: the bounds of the symbols of its inputs, in JSON."""

INPUTS = "num_input"
"""Of ``main``: how many of its first parameters are inputs; weights and state follow. As in TVM."""

STATE = "num_state"
"""Of ``main``: how many of its last parameters are state."""

EXACT_BUFFERS = "exact_buffers"
"""Of a PrimFunc whose buffers are as large as they have to be: no pass makes them smaller."""

KEEPS_BUFFERS = "keeps_buffers"
"""Of a PrimFunc in which no buffer may take the memory of another."""

ON_HOST = "tirx.is_host_func"
"""Of a PrimFunc in a module for a GPU that the CPU runs, on tensors in its memory; TVM reads it."""

POLLS_SIGNALS = "polls_signals"
"""Of a PrimFunc that polls for signals while it runs."""

PANEL_WIDTH = "panel_width"
"""Of a block with a reduction: the width of the panels in which an operand stores the columns (the
last axis) of the result, ``[..., N/width, ..., width]``. The last panel is filled with zeros.
Fusion keeps it, as it keeps blocks."""

CODE_BITS = "code_bits"
"""Of a block with a product: the bits of the codes that it reads, several in each element of an
operand in panels; those of the lowest bits have the first steps. The reduced axes are blocks of
codes, elements of a block, and codes of an element."""

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


SIZE_ESTIMATES = "size_estimates"
"""Of a Relax function: what its symbols are taken to be where work is counted, by name."""

SORT = "sort"
"""Of a PrimFunc that sorts: how, a :class:`Sort` in JSON. Its body is a definition of that in any
loops, for targets without a schedule strategy for it."""


@dataclass(frozen=True, slots=True)
class Sort:
    """``(data, indices)``: in each row, which runs along the last axis, the indices of the first
    elements in order; equal elements stay in their order.

    NaN comes last, and so do reals that are not greater than ``above``, if there is one.
    """

    largest: bool
    above: float | None = None


def sort_attributes(sort: Sort) -> dict[str, str | int]:
    """The attributes of a PrimFunc that sorts; it is fused with nothing."""
    return {SORT: json.dumps(asdict(sort)), OP_PATTERN: int(FusionPattern.OPAQUE)}


def read_sort(attributes: Mapping[str, object] | None) -> Sort | None:
    """How a PrimFunc with some attributes sorts; None if it does not."""
    text = (attributes or {}).get(SORT)
    return None if text is None else Sort(**json.loads(str(text)))


SUPPRESSION = "suppression"
"""Of a PrimFunc that chooses boxes which overlap no better one: how, a :class:`Suppression` in
JSON. Its body does that in loops with an order."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """``(boxes, scores, order, chosen, counts)``: the first boxes in order that do not overlap.

    A box is given by its ``center`` or by corners, overlaps another one from more than ``overlap``
    on as intersection over union, and is only chosen if its score exceeds ``score``, if there is
    one. ``chosen`` are those of each row, ``counts`` how many they are.
    """

    center: bool
    overlap: float
    score: float | None


def suppression_attributes(suppression: Suppression) -> dict[str, str | int]:
    """The attributes of a PrimFunc that chooses boxes; it is fused with nothing."""
    return {SUPPRESSION: json.dumps(asdict(suppression)), OP_PATTERN: int(FusionPattern.OPAQUE)}


def read_suppression(attributes: Mapping[str, object] | None) -> Suppression | None:
    """How a PrimFunc with some attributes chooses boxes; None if it does not."""
    text = (attributes or {}).get(SUPPRESSION)
    return None if text is None else Suppression(**json.loads(str(text)))
