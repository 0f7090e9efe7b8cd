"""Loops of stages without reduction: copies, paddings, and everything element by element.

Enters: a stage. Leaves: its statement: the innermost axis in vectors, the others in one parallel
loop. A row that no vector divides ends in narrower vectors.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvm_nnef.schedules.cpu import emit
from tvm_nnef.schedules.cpu.description import Description
from tvm_nnef.schedules.cpu.stages import Stage, substituted

PARALLEL_WORK = 1 << 15


def copy_statement(stage: Stage, dtype: str, description: Description) -> Any:
    """The loops that compute a stage without reduction."""
    if not stage.axes:
        return tirx.BufferStore(stage.buffer, stage.value, [])
    *outer, inner = stage.axes

    def row(indices: list[Any]) -> Any:
        values = {axis.var: index for axis, index in zip(outer, indices, strict=True)}

        def element(index: Any) -> Any:
            where = {**values, inner.var: index}
            value = substituted(stage.value, where)
            return tirx.BufferStore(stage.buffer, value, [*indices, index])

        return emit.loop(inner.extent, element, name="i", dtype=dtype)

    parallel = stage.work >= PARALLEL_WORK
    return emit.grid([axis.extent for axis in outer], row, dtype, parallel=parallel)
