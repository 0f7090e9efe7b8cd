"""Operators that move elements and compute none: their results have numbers of their operands."""

from __future__ import annotations

REORDERING = frozenset(
    ("math.iden", "layout.reshape", "layout.flatten", "layout.unflatten", "layout.squeeze",
     "layout.unsqueeze", "layout.transpose")
)  # fmt: skip
"""Operators whose result has each element of the operand once, in another shape or order."""

MOVING = REORDERING | frozenset(
    ("layout.concat", "layout.stack", "layout.split", "layout.unstack", "layout.slice",
     "layout.tile", "layout.broadcast")
)  # fmt: skip
"""Operators whose results have elements of their operands, and no others."""
