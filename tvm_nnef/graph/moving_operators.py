"""Operators that move elements and compute none: their results have numbers of their operands."""

from __future__ import annotations

RESHAPING = (
    *("layout.reshape", "layout.flatten", "layout.unflatten"),
    *("layout.squeeze", "layout.unsqueeze"),
)
"""Operators whose result has the elements of the operand in the same order, in another shape."""

REORDERING = frozenset((*RESHAPING, "math.iden", "layout.transpose"))
"""Operators whose result has each element of the operand once, in another shape or order."""

MOVING = REORDERING | frozenset(
    ("layout.concat", "layout.stack", "layout.split", "layout.unstack", "layout.slice",
     "layout.tile", "layout.broadcast")
)  # fmt: skip
"""Operators whose results have elements of their operands, and no others."""
