"""Recognition of prefix scans: loop nests that combine each element with the one before.

Input: a loop nest. Output: a :class:`PrefixScan`, or None.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis import reducers, sizes
from tvm_nnef.schedules.analysis.accesses import COMPARISONS, slope, threshold
from tvm_nnef.schedules.analysis.dependences import Nest
from tvm_nnef.schedules.analysis.kernel import Axis
from tvm_nnef.schedules.analysis.reducers import Reducer
from tvm_nnef.tir.expressions import mentions, substituted
from tvm_nnef.tvm_support.compat import dtype_of

_ASSOCIATIVE = (reducers.SUM, reducers.PRODUCT, reducers.MAX, reducers.MIN)


@dataclass(frozen=True, slots=True, eq=False)
class PrefixScan:
    """A scan: ``element`` becomes the combination by ``reducer`` of all elements so far, in each
    row.

    The element of the first step stays as it is.
    """

    element: TensorLoad
    reducer: Reducer
    rows: tuple[Axis, ...]
    step: Axis


def read_scan(nest: Nest) -> PrefixScan | None:
    """Return the scan that a loop nest computes; None for others."""
    if not isinstance(nest.body, tirx.IfThenElse) or nest.body.else_case is not None:
        return None
    guard, store = nest.body.condition, nest.body.then_case
    if not isinstance(store, tirx.BufferStore):
        return None
    combined = reducers.read_combined(store.value)
    if combined is None or combined[0] not in _ASSOCIATIVE:
        return None
    reducer, *operands = combined
    loads = [each for each in operands if isinstance(each, TensorLoad)]
    if len(loads) < 2 or not all(each.source.same_as(store.buffer) for each in loads):
        return None
    element = store.buffer[tuple(store.indices)]
    before = next((each for each in loads if _is_another(element, each)), element)
    rows = [var for var in nest.loops if var in nest.independent.values()]
    steps = [var for var in nest.loops if var not in rows]
    if len(steps) != 1 or len(rows) != len(store.indices) - 1:
        return None
    (step,) = steps
    last = {step: step - tirx.const(1, dtype_of(step))}
    shifted = store.buffer[tuple(substituted(index, last) for index in store.indices)]
    follows = not _is_another(shifted, before) and not all(
        _is_another(element, each) for each in loads
    )
    moves = [slope(index, step) in (1, -1) for index in store.indices if mentions(index, [step])]
    starts = isinstance(guard, COMPARISONS) and threshold(guard, step) == (1, False)
    if not follows or moves != [True] or not starts:
        return None
    axes = [Axis(var, nest.loops[var]) for var in (*rows, step)]
    return PrefixScan(element, reducer, tuple(axes[:-1]), axes[-1])


def _is_another(first: TensorLoad, second: TensorLoad) -> bool:
    """Whether two loads may read different elements."""
    pairs = zip(first.indices, second.indices, strict=True)
    distances = (sizes.simplified(a - b) for a, b in pairs)
    return any(not (sizes.is_known(each) and each == 0) for each in distances)
