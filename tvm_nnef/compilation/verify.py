"""Every scheduled kernel against its unscheduled TIR, on random data.

A module before scheduling and what it was compiled to in, NnefError out if a kernel computes
something else. Dynamic dimensions have several sizes. Random integers are small, and 0 or 1 if they
are used as indices or sizes; a kernel that refuses such data, scheduled or not, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvm_nnef import schedules
from tvm_nnef.compilation.metadata import bounds_of
from tvm_nnef.compilation.passes import compile_kernel
from tvm_nnef.diagnostics import Diagnostic, NnefError
from tvm_nnef.graph.check_failure import CheckFailure
from tvm_nnef.measurement.kernels import random_arguments
from tvm_nnef.profiling.flop_counts import extent_value
from tvm_nnef.schedules.machine import cpu_model
from tvm_nnef.schedules.plan.verify import verify_plan
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import Module, PrimFunction, Target, prim_functions

SIZES = (1, 3, 8, 17)
"""The sizes of dynamic dimensions, limited to their bounds."""

_EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_ROUNDINGS = {"float64": 64, "float32": 64, "float16": 8, "bfloat16": 8}
"""Number of roundings that may differ; formulas on narrow reals compute in float32 in between."""

_JUMPS = 0.02
"""Fraction of elements that may differ if a kernel rounds, compares or orders real numbers."""

_DEFECT = "this is a defect of tvm_nnef, please report it"


class KernelError(NnefError):
    """A scheduled kernel that does not compute what its unscheduled TIR computes."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference of a tensor from what it should be, and the first index of one."""

    largest: float
    index: tuple[int, ...]


def verify_kernels(
    fused: Module,
    scheduled: Module,
    kernel_of: Callable[[str], Callable[..., object] | None],
    *,
    checked: bool = False,
) -> None:
    """Compares the kernels of a compiled module with the PrimFuncs before they were scheduled.

    ``kernel_of`` gives the machine code of a kernel by its name. With ``checked`` the unscheduled
    kernels check their indices. Raises KernelError with a diagnostic for each kernel that
    differs or that reads outside of its tensors.
    """
    strategies = {kernel.name: kernel.strategy or "none" for kernel in schedules.report(scheduled)}
    bounds = bounds_of(scheduled)
    problems: list[Diagnostic] = []
    for name, function in prim_functions(fused).items():
        kernel = kernel_of(name)
        if kernel is None or schedules.STRATEGY in (function.attrs or {}):
            continue
        problem = _problem(function, kernel, bounds, checked)
        if problem is not None:
            strategy = strategies.get(name, "none")
            message = f"the schedule '{strategy}' of kernel '{name}' is wrong: {problem}"
            problems.append(Diagnostic(message, hint=_DEFECT))
    if problems:
        raise KernelError(problems)


def verify_plans(fused: Module, scheduled: Module, target: Target) -> None:
    """Checks the loops of scheduled kernels against the limits of a CPU, and what they store.

    Raises KernelError with a diagnostic for each kernel whose loops are wrong.
    """
    machine, bounds = cpu_model(target), bounds_of(scheduled)
    functions = prim_functions(scheduled)
    problems: list[Diagnostic] = []
    for kernel in schedules.report(scheduled):
        function = prim_functions(fused).get(kernel.name)
        if function is None or not kernel.plan:
            continue
        for sizes in _sizes(function, bounds):
            parameters = [each for each in function.params if not compat.is_scalar(each)]
            shapes = [[extent_value(n, sizes) for n in each.shape] for each in parameters]
            known = [[n for n in shape if n is not None and n >= 0] for shape in shapes]
            if known != shapes:
                continue
            found = verify_plan(functions[kernel.name], known, machine, function)
            message = f"the plan '{kernel.plan}' of kernel '{kernel.name}' is wrong: "
            problems += [Diagnostic(message + each, hint=_DEFECT) for each in found]
    if problems:
        raise KernelError(problems)


def _problem(
    function: PrimFunction,
    kernel: Callable[..., object],
    bounds: Mapping[str, int],
    checked: bool,
) -> str | None:
    """Return the error of a kernel; None if there is none."""
    reference: Callable[..., object] | None = None
    for sizes in _sizes(function, bounds):
        given = random_arguments(function, sizes)
        # Without elements to combine, the unscheduled kernel does not write its result.
        if given is None or any(0 in each.shape for each in given if hasattr(each, "numpy")):
            continue
        if reference is None:
            reference = _unscheduled(function, checked)
        found, expected = _copies(given), _copies(given)
        if _failure(reference, expected) is not None:
            continue
        failure = _failure(kernel, found)
        if failure is not None:
            return failure
        for one, other in zip(found, expected, strict=True):
            if not hasattr(one, "numpy"):
                continue
            difference = difference_of(one, other, function, _largest(given))
            if difference is not None:
                shape = " x ".join(map(str, one.shape)) or "scalar"
                return (
                    f"it differs by up to {difference.largest:.6g}, first at index "
                    f"{list(difference.index)} of a tensor of {shape}"
                )
    return None


def _sizes(function: PrimFunction, bounds: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """Values of the symbols of a kernel: all equal if their bounds allow."""
    names = sorted({str(var.name) for var in _symbols(function)})
    if not names:
        yield {}
        return
    for size in SIZES:
        yield {name: min(size, bounds.get(name, size)) for name in names}


def _symbols(function: PrimFunction) -> list[Any]:
    found: list[Any] = [p for p in function.params if compat.is_scalar(p)]
    for parameter in function.params:
        if not compat.is_scalar(parameter):
            for size in parameter.shape:
                tvm_ffi.structural_walk(size, (tirx.Var, found.append))
    return found


def _unscheduled(function: PrimFunction, checked: bool) -> Callable[..., object]:
    """The machine code of a kernel as it was before scheduling."""
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    copy = compat.with_own_symbols(function)
    return compile_kernel(copy, target, scheduled=False, checked=checked)


def _copies(arguments: Sequence[Any]) -> list[Any]:
    """The arguments with their own memory."""
    return [
        compat.runtime_tensor(each.numpy()) if hasattr(each, "numpy") else each
        for each in arguments
    ]


def _failure(kernel: Callable[..., object], arguments: Sequence[Any]) -> str | None:
    """Return the failure that a kernel reports when it is called; None if there is none."""
    try:
        kernel(*arguments)
    except (RuntimeError, TypeError, ValueError) as problem:
        failure = CheckFailure.of(problem)
        text = str(problem).strip() or type(problem).__name__
        return failure.message if failure is not None else text.splitlines()[-1]
    return None


def _largest(arguments: Sequence[Any]) -> float:
    """The largest absolute value of the real arguments."""
    arrays = [np.asarray(each.numpy()) for each in arguments if hasattr(each, "numpy")]
    sizes = [np.abs(each.astype("float64")) for each in arrays if each.dtype.name in _EPSILONS]
    return max((float(each.max(initial=0.0)) for each in sizes), default=0.0)


def difference_of(
    found: Any, expected: Any, function: PrimFunction, largest: float
) -> Difference | None:
    """Return the difference of a tensor from the expected one; None if it is only rounding.

    ``largest`` is that of the operands: in ``a * b - c * d`` one of the products may be rounded.
    """
    one, other = (np.asarray(each.numpy()) for each in (found, expected))
    if one.dtype.name not in _EPSILONS:
        wrong = one != other
        gap = np.abs(one.astype("float64") - other.astype("float64"))
    else:
        one, other = one.astype("float64"), other.astype("float64")
        with np.errstate(invalid="ignore", over="ignore"):
            same = (one == other) | (np.isnan(one) & np.isnan(other))
            gap = np.where(same, 0.0, np.abs(one - other))
        finite = np.abs(other[np.isfinite(other)])
        scale = np.maximum(np.abs(other), finite.mean() if finite.size else 0.0)
        rounding = _EPSILONS[found.numpy().dtype.name] * largest**2
        with np.errstate(invalid="ignore"):
            wrong = ~same & ~(gap <= np.maximum(_tolerance(function) * scale, rounding))
    if not wrong.any() or (_jumps(function) and wrong.mean() <= _JUMPS):
        return None
    first = tuple(int(each) for each in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return Difference(float(np.max(np.where(np.isnan(gap), np.inf, gap)[wrong])), first)


def _tolerance(function: PrimFunction) -> float:
    """The relative error that rounding makes: more for longer sums and narrower dtypes."""
    dtypes = {str(parameter.dtype) for parameter in function.params if hasattr(parameter, "dtype")}
    buffers: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, buffers.append))
    dtypes |= {str(store.buffer.dtype) for store in buffers}
    length = math.sqrt(_reduction_length(function))
    errors = (_EPSILONS[dtype] * (_ROUNDINGS[dtype] + length) for dtype in dtypes & set(_EPSILONS))
    return max(errors, default=0.0)


def _reduction_length(function: PrimFunction) -> int:
    """The number of terms of the longest sums, if it is static."""
    longest = 1

    def look(block: Any) -> None:
        nonlocal longest
        reduced = [i for i in block.iter_vars if i.iter_type == tirx.IterVar.CommReduce]
        extents = [extent_value(i.dom.extent, {}) or max(SIZES) for i in reduced]
        longest = max(longest, math.prod(extents))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, look))
    return longest


def _jumps(function: PrimFunction) -> bool:
    """Whether a small error of a real number may change a result by much."""
    found: list[Any] = []

    def look(node: Any) -> None:
        operand = node.value if isinstance(node, tirx.Cast) else node.a
        own = compat.dtype_of(node)
        if "float" in compat.dtype_of(operand) and "float" not in own:
            found.append(node)

    kinds = (tirx.Cast, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)
    tvm_ffi.structural_walk(function.body, (kinds, look))
    return bool(found)
