"""Names of the attributes of functions, PrimFuncs and blocks that carry facts between passes.

Each is set in one pass and read in a later one; TVM keeps them and does not read them, except for
``OP_PATTERN`` and ``ON_HOST``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum

CONSTANTS_FROM = "constants_from"
"""Attribute of a private Relax function: the index of the first parameter that may be bound to a
constant. The binding does not change the type of its result.
"""

DESCRIPTION = "nnef_description"
"""Attribute of ``main``: the labels of the model and how its inputs are made from images, as in
``model.json``.
"""

LOOP_BODY = "loop_body"
"""Attribute of a Relax function that computes one step of a loop: ``(index, state, ...)`` become
``(whether to continue, index, state)``.
"""

LOOP_STEPS = "loop_steps"
"""Attribute of a Relax function that runs a function with ``LOOP_BODY``: the number of steps; 0 if
that function decides, after at least one step.
"""

INITIAL_STATE = "initial_state"
"""The name of the function that returns the initial values of the variables that ``@update``
changes.
"""

LIFTED = "main_transform_params"
"""The name that TVM gives to the function that computes everything that depends on weights
alone.
"""

PREPARED = "main_prepared"
"""The name of the function that takes the results of the prepared computations on weights."""

METADATA = "metadata"
"""The name of the function in a library that returns its metadata."""

EQUAL_SIZES = "main_equal"
"""The name of the private function that ``main`` calls if sizes that could broadcast are equal."""

PORTS = "nnef_ports"
"""Attribute of ``main``: its inputs, outputs and state, in JSON."""

SYMBOLS = "nnef_symbols"
"""Attribute of ``main``: the bounds of the symbols in its input shapes, in JSON."""

INPUTS = "num_input"
"""Attribute of ``main``: the number of inputs, its first parameters; weights and state follow. TVM
uses the same attribute.
"""

STATE = "num_state"
"""Attribute of ``main``: the number of its last parameters that are state."""

EXACT_BUFFERS = "exact_buffers"
"""Attribute of a PrimFunc whose buffers have their final size: no pass makes them smaller."""

KEEPS_BUFFERS = "keeps_buffers"
"""Attribute of a PrimFunc in which no buffer may reuse the memory of another."""

ON_HOST = "tirx.is_host_func"
"""Attribute of a PrimFunc in a module for a GPU that the CPU runs, on tensors in its memory; TVM
reads it.
"""

POLLS_SIGNALS = "polls_signals"
"""Attribute of a PrimFunc that polls for signals while it runs."""

PANEL_WIDTH = "panel_width"
"""Attribute of a block with a reduction: the width of the panels in which an operand stores the
columns (the last axis) of the result, ``[..., N/width, ..., width]``. The last panel is padded with
zeros. Fusion keeps the attribute, as it keeps blocks.
"""

CODE_BITS = "code_bits"
"""Attribute of a block with a product: the number of bits of the codes that it reads. Each element
of an operand in panels packs several codes; the lowest bits belong to the first steps. The reduced
axes are blocks of codes, elements of a block, and codes of an element.
"""

INT8_DATA = "int8_data"
"""Attribute of a block with ``CODE_BITS``: the data of many rows may be rounded to int8, with a
factor for each block of a row.
"""

OP_PATTERN = "op_pattern"
"""Attribute of a PrimFunc: its :class:`FusionPattern`, which TVM's FuseOps reads."""


class FusionPattern(IntEnum):
    """The ways in which a kernel may be fused with others (``OpPatternKind`` in TVM)."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    OUTPUT_ELEMENTWISE = 4
    """May be fused with elementwise kernels that read its result (``kOutEWiseFusable``)."""
    OPAQUE = 8
    """Is not fused with any kernel."""


SIZE_ESTIMATES = "size_estimates"
"""Attribute of a Relax function: size estimates of its symbols by name, used where work is
counted.
"""

SORT = "sort"
"""Attribute of a PrimFunc that sorts: its :class:`Sort` in JSON. The body defines the sort by plain
loops, for targets without a schedule strategy for it.
"""


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort ``(data, indices)`` of rows along the last axis.

    ``indices`` gets the indices of the first elements of each row in order; equal elements keep
    their order. NaN comes last, and so do reals that do not exceed ``above``, if that is given.
    """

    largest: bool
    above: float | None = None


def sort_attributes(sort: Sort) -> dict[str, str | int]:
    """Return the attributes of a PrimFunc that sorts; it is fused with nothing."""
    return {SORT: json.dumps(asdict(sort)), OP_PATTERN: int(FusionPattern.OPAQUE)}


def read_sort(attributes: Mapping[str, object] | None) -> Sort | None:
    """Return the sort that a PrimFunc with some attributes computes; None if it does not sort."""
    text = (attributes or {}).get(SORT)
    return None if text is None else Sort(**json.loads(str(text)))


SUPPRESSION = "suppression"
"""Attribute of a PrimFunc for non-maximum suppression: its :class:`Suppression` in JSON. The body
does it by sequential loops.
"""


@dataclass(frozen=True, slots=True)
class Suppression:
    """Non-maximum suppression ``(boxes, scores, order, chosen, counts)``.

    It chooses boxes in the given order that do not overlap a box chosen before. A box is given by
    its ``center`` or by corners. Two boxes overlap if their intersection over union exceeds
    ``overlap``. A box is only chosen if its score exceeds ``score``, if that is given. ``chosen``
    holds the boxes of each row, ``counts`` their number.
    """

    center: bool
    overlap: float
    score: float | None


def suppression_attributes(suppression: Suppression) -> dict[str, str | int]:
    """Return the attributes of a PrimFunc that chooses boxes; it is fused with nothing."""
    return {SUPPRESSION: json.dumps(asdict(suppression)), OP_PATTERN: int(FusionPattern.OPAQUE)}


def read_suppression(attributes: Mapping[str, object] | None) -> Suppression | None:
    """Return the suppression that a PrimFunc with some attributes computes.

    It is None for other kernels.
    """
    text = (attributes or {}).get(SUPPRESSION)
    return None if text is None else Suppression(**json.loads(str(text)))
