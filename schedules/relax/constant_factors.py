"""Sums of products in which what is multiplied is computed from constants, inside of the sum.

Input: a kernel, and which buffers are constants. Output: the kernel, in which the product of all
factors that read constants alone has its own stage if bytes are among these: they are codes of
weights. The sum is then one of products of elements, which may be a contraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce

from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.schedules.analysis.kernel import Axis, Kernel, Stage
from tvm_nnef.schedules.analysis.reducers import SUM
from tvm_nnef.schedules.machine import bits_of
from tvm_nnef.tir.expressions import loads, mentions, substituted
from tvm_nnef.tvm_support.compat import Buffer, PrimExpression, dtype_of

_BYTE = 8


def with_own_weights(kernel: Kernel, is_constant: Callable[[Buffer], bool]) -> Kernel:
    """The kernel with a stage for the weights of each such sum."""
    stages: list[Stage] = []
    for stage in kernel.stages:
        stages += _separated(stage, is_constant)
    return replace(kernel, stages=tuple(stages)) if len(stages) > len(kernel.stages) else kernel


def factors(value: PrimExpression) -> list[PrimExpression]:
    """The factors of a product."""
    if isinstance(value, tirx.Mul):
        return [*factors(value.a), *factors(value.b)]
    return [value]


def _separated(stage: Stage, is_constant: Callable[[Buffer], bool]) -> Iterator[Stage]:
    """The stage of weights, and the one that reads them; the stage itself if there is none."""
    every = factors(stage.value) if stage.reducer is SUM else []
    fixed = [f for f in every if all(is_constant(load.source) for load in loads(f))]
    others = [f for f in every if not any(f.same_as(each) for each in fixed)]
    bytes_read = [x for f in fixed for x in loads(f) if bits_of(str(x.source.dtype)) == _BYTE]
    axes = [a for a in (*stage.axes, *stage.reduced) if any(mentions(f, [a.var]) for f in fixed)]
    known = all(axis.is_known for axis in axes)
    if len(others) != 1 or not isinstance(others[0], TensorLoad) or not bytes_read or not known:
        yield stage
        return
    own = [Axis(tirx.Var(str(axis.var.name), dtype_of(axis.var)), axis.extent) for axis in axes]
    pairs = zip(axes, own, strict=True)
    value = substituted(reduce(tirx.Mul, fixed), {axis.var: new.var for axis, new in pairs})
    weights = tirx.decl_buffer([axis.extent for axis in axes], stage.dtype, "weights")
    yield Stage(weights, tuple(own), value)
    yield replace(stage, value=tirx.Mul(others[0], weights[tuple(axis.var for axis in axes)]))
