"""Which rule takes a PrimFunc: the first that can, and the fallback for the rest."""

from __future__ import annotations

from collections.abc import Callable

from tvm_nnef.schedules.cpu import copies, fallback, register_tile, row_reduction
from tvm_nnef.schedules.cpu.description import Description, describe
from tvm_nnef.schedules.stages import Kernel, read_kernel
from tvm_nnef.tvm_compat import PrimFunction, Target

Rule = Callable[[PrimFunction, Kernel, Description], PrimFunction | None]

RULES: tuple[tuple[str, Rule], ...] = (
    (register_tile.NAME, register_tile.apply),
    (row_reduction.NAME, row_reduction.apply),
    (copies.NAME, copies.apply),
)
"""The rules by name, in the order in which they are asked."""


def apply(function: PrimFunction, target: Target) -> tuple[PrimFunction, str]:
    """The scheduled function, and the name of the rule that took it."""
    kernel = read_kernel(function)
    if kernel is not None:
        description = describe(target)
        for name, rule in RULES:
            scheduled = rule(function, kernel, description)
            if scheduled is not None:
                return scheduled, name
    return fallback.apply(function, target)
