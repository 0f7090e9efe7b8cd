"""Passes over PrimFuncs that replace incorrect passes of TVM or are missing in it.

Input and output: modules of PrimFuncs, or one PrimFunc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call, TensorLoad

from tvm_nnef.tvm_support.build import module_like
from tvm_nnef.tvm_support.compat import (
    CHECK_SIGNALS,
    Buffer,
    Module,
    PrimExpression,
    PrimFunction,
    Target,
    bits_of,
    dtype_of,
    is_cpu,
    is_real_type,
    lanes_of,
    prim_functions,
    typed,
    update_functions,
    with_mapped_body,
)
from tvm_nnef.tvm_support.function_attributes import EXACT_BUFFERS, KEEPS_BUFFERS, POLLS_SIGNALS
from tvm_nnef.tvm_support.traversal import renewed, walk

_CHOICES = (tirx.Select, tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)

_MANY_CHOICES = 5_000
"""The number of choices and quotients in a function that TVM simplifies in some seconds
(measured).
"""

_MANY_VALUES = 3
"""The number of nested ``Let`` that TVM simplifies in less than a second (measured)."""


def with_target(target: Target) -> Any:
    """Return a pass that sets the target of each PrimFunc: the machine that runs it, and its
    host.
    """
    host = target.host or (target if is_cpu(target) else tvm.target.Target("llvm"))
    return tirx.transform.BindTarget(target.with_host(host))


def compacted(mod: Module) -> Module:
    """Return the module with each buffer reduced to the region in use, as MetaSchedule requires.

    Kernels with ``EXACT_BUFFERS`` stay as they are: TVM gets it wrong if dimensions are quotients
    of symbols.
    """
    chosen = {n: f for n, f in prim_functions(mod).items() if EXACT_BUFFERS not in (f.attrs or {})}
    if not chosen:
        return mod
    passes = [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
    ]
    compacted_module = tvm.transform.Sequential(passes)(tvm.IRModule(chosen))
    return update_functions(mod, prim_functions(compacted_module))


def vectorized(mod: Module) -> Module:
    """Return the module with its vectorized loops replaced by vector operations."""
    mod = update_functions(mod, {n: _named_apart(f) for n, f in prim_functions(mod).items()})
    functions, vectorize = prim_functions(mod), tirx.transform.VectorizeLoop(True)
    for_cpu = all(map(is_host_function, functions.values()))
    module = _with_hidden_target(vectorize, mod) if for_cpu else vectorize(mod)
    changed = {
        name: with_mapped_body(each, (tirx.Broadcast, _of_bits))
        for name, each in prim_functions(module).items()
    }
    return update_functions(mod, changed)


def _named_apart(function: PrimFunction) -> PrimFunction:
    """Return the function with a distinct variable for each ``Let``.

    Conversions to bfloat16 repeat their operand. TVM reports a variable that is bound twice as an
    error, unless both values are equal to it, and it never takes values that contain a ``Let`` for
    equal.
    """
    return with_mapped_body(function, (tirx.Let, renewed)) if names_values(function) else function


def _with_hidden_target(vectorize: Callable[[Module], Module], mod: Module) -> Module:
    """Return what a pass makes of kernels while their target is a CPU without vectors of unknown
    length.

    For CPUs with such vectors TVM 0.27 turns copies into loops over vectors, which are slower, and
    for which it cannot always generate code.
    """
    functions, hidden = prim_functions(mod), tvm.target.Target("llvm")
    named = {name: each.with_attr("target", hidden) for name, each in functions.items()}
    with hidden:
        functions_for_hidden_target = prim_functions(vectorize(update_functions(mod, named)))
    targets = {name: (each.attrs or {})["target"] for name, each in functions.items()}
    return update_functions(
        mod,
        {
            name: each.with_attr("target", targets[name])
            for name, each in functions_for_hidden_target.items()
        },
    )


def _of_bits(vector: tirx.Broadcast) -> PrimExpression:
    """Return a vector of one bfloat16 constant as one of its bits: TVM stores no other form."""
    match vector.value:
        case tvm.ir.Call(args=[bits]) as call if dtype_of(call) == "bfloat16":
            kind = typed("bfloat16", lanes_of(vector.ty))
            wide = tirx.Broadcast(bits, lanes_of(vector.ty))
            return tirx.call_intrin(kind, call.op, wide)
    return vector


def keeping_buffers(function: PrimFunction) -> PrimFunction:
    """Return the function with the attribute ``KEEPS_BUFFERS`` if TVM's reuse of memory is wrong in
    it.

    TVM lets a buffer reuse the memory of another one that a loop reads for the last time, if it is
    as large and the loop reads and writes the same position. TVM does not see accesses through
    views of the two buffers, and takes all buffers of dynamic sizes for equally large. And a loop
    may compute its last elements again, which gives other results after their operands are
    overwritten.
    """
    return function.with_attr(KEEPS_BUFFERS, 1) if _reuse_is_unsound(function) else function


def _reuse_is_unsound(function: PrimFunction) -> bool:
    """Whether a PrimFunc reuses memory in a way that TVM does not analyze correctly.

    It has several buffers of dynamic sizes, or one that is computed from another with views, or in
    loops whose last vectors overlap the ones before; or it has booleans, which are stored as other
    types.
    """
    allocated: list[Any] = []
    views: list[Any] = []
    minima: list[Any] = []
    stores: list[Any] = []
    walk(function.body, (s_tir.SBlock, lambda block: allocated.extend(block.alloc_buffers)))
    in_blocks = len(allocated) > 1
    walk(function.body, (tirx.AllocBuffer, lambda statement: allocated.append(statement.buffer)))
    walk(function.body, (tirx.DeclBuffer, views.append))
    walk(function.body, (tirx.Min, minima.append))
    walk(function.body, (tirx.BufferStore, stores.append))
    has_bools = any(str(buffer.dtype) == "bool" for buffer in allocated)
    dynamic = any(not isinstance(size, tirx.IntImm) for each in allocated for size in each.shape)
    own_buffers = set(allocated)
    chained = in_blocks or any(_sources(store, own_buffers, {}) for store in stores)
    if has_bools or (len(allocated) > 1 and dynamic) or (chained and bool(minima or views)):
        return True
    roots: dict[Buffer, Buffer] = {}
    for view in views:
        source = view.data.args[0] if isinstance(view.data, Call) else view.data
        roots[view.buffer] = roots.get(source, source)
    return any(_may_overwrite(store, own_buffers, roots) for store in stores if views)


def _may_overwrite(store: Any, buffers: set[Buffer], roots: Mapping[Buffer, Buffer]) -> bool:
    """Whether TVM may give a buffer the memory of one that it is computed from through views.

    It does so if the memory has exactly the size of the buffer, and memory has the size of the
    first buffer that was in it.
    """
    if not _sources(store, buffers, roots):
        return False
    target = roots.get(store.buffer, store.buffer)
    return _bits(target) in {_bits(each) for each in buffers - {target}}


def _bits(buffer: Any) -> int:
    """Return the bits of a buffer of a static shape."""
    return math.prod(map(int, buffer.shape)) * lanes_of(buffer) * bits_of(str(buffer.dtype))


def _sources(store: Any, buffers: set[Buffer], roots: Mapping[Buffer, Buffer]) -> set[Buffer]:
    """Return the buffers from which what is stored in another one of them is computed.

    ``roots`` has the buffer of each view that counts as an access to it.
    """
    target = roots.get(store.buffer, store.buffer)
    if target not in buffers:
        return set()
    read: list[Buffer] = []
    walk(store.value, (TensorLoad, lambda load: read.append(load.source)))
    return {roots.get(each, each) for each in read} & (buffers - {target})


def is_tangled(function: PrimFunction) -> bool:
    """Whether TVM needs minutes to simplify the index arithmetic of a function, with little
    gain.
    """
    choices: list[tirx.Expr] = []
    tvm_ffi.structural_walk(function.body, (_CHOICES, choices.append))
    return len(choices) > _MANY_CHOICES


def names_many_values(function: PrimFunction) -> bool:
    """Whether TVM's first simplification takes long: twice as long for each ``Let`` in another."""
    stores: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, stores.append))
    return any(len(_named_values(store.value)) > _MANY_VALUES for store in stores)


def names_values(function: PrimFunction) -> bool:
    """Whether a function has a ``Let``.

    TVM 0.27 looks for common subexpressions in the body of a ``Let`` too, but may define them
    after the statement that it is in.
    """
    return bool(_named_values(function.body))


def converts_positions(function: PrimFunction) -> bool:
    """Whether a function converts a vector of integer positions to real numbers.

    TVM 0.27 looks for the bounds of such a vector if a variable is bound to it, and fails because
    it takes them for integers.
    """
    ramps: list[tirx.Ramp] = []

    def converted(cast: tirx.Cast) -> None:
        if is_real_type(dtype_of(cast)) and lanes_of(cast.ty) > 1:
            entries = [
                (tirx.Ramp, ramps.append),
                (TensorLoad, lambda load: tvm_ffi.WalkResult.SKIP),
            ]
            tvm_ffi.structural_walk(cast.value, entries, order="pre")

    walk(function.body, (tirx.Cast, converted))
    return bool(ramps)


def _named_values(node: Any) -> list[tirx.Let]:
    lets: list[tirx.Let] = []
    tvm_ffi.structural_walk(node, (tirx.Let, lets.append))
    return lets


def polling(function: PrimFunction) -> PrimFunction:
    """Return a lowered function in which each poll for signals raises the signal handler's
    exception.
    """
    if POLLS_SIGNALS not in (function.attrs or {}):
        return function

    def checked(statement: Any) -> Any:
        call = statement.value
        names = [str(getattr(each, "value", "")) for each in getattr(call, "args", ())]
        if names != [CHECK_SIGNALS]:
            return statement
        # The error by which TVM reports that Python already has an exception.
        kind = tvm.ir.StringImm("EnvErrorAlreadySet")
        return tirx.AssertStmt(call == 0, kind, [tvm.ir.StringImm("")])

    return with_mapped_body(function, (tirx.Evaluate, checked))


def is_host_function(function: PrimFunction) -> bool:
    """Whether a function with a target runs on a CPU, and not on a device that a CPU controls."""
    target = (function.attrs or {}).get("target")
    return target is None or str(target.kind.name) in ("llvm", "c")


def device_functions(mod: Module) -> dict[str, PrimFunction]:
    """Return the functions of a module that run on a device that a CPU controls, by name."""
    return {n: f for n, f in prim_functions(mod).items() if not is_host_function(f)}


def with_all_registers(function: PrimFunction) -> PrimFunction:
    """Return a GPU function with no limit on registers per thread; a host function unchanged.

    Without this the assembler may spill registers to memory so that more blocks run at a time.
    """
    if is_host_function(function):
        return function
    return function.with_attr("tirx.launch_bounds_min_blocks_per_sm", 1)


def with_written_infinities(function: PrimFunction) -> PrimFunction:
    """Return the function with infinite and NaN constants of bfloat16 as conversions from float32.

    TVM 0.27 writes such a constant as ``inff``, which is not CUDA.
    """

    def converted(constant: tirx.FloatImm) -> Any:
        if math.isfinite(constant.value) or dtype_of(constant) != "bfloat16":
            return constant
        return tirx.Cast("bfloat16", tirx.const(constant.value, "float32"))

    return with_mapped_body(function, (tirx.FloatImm, converted))


def with_rounded_bfloat16(function: PrimFunction) -> PrimFunction:
    """Return the function with conversions to bfloat16 that round although TVM computes in float32.

    TVM widens arithmetic on bfloat16 and drops the conversions, except those in stores.
    """
    stored: list[Any] = []
    walk(function.body, (tirx.BufferStore, lambda store: stored.append(store.value)))

    def rounded(cast: tirx.Cast) -> Any:
        if dtype_of(cast) != "bfloat16" or any(cast.same_as(value) for value in stored):
            return cast
        wide = cast.value if dtype_of(cast.value) == "float32" else tirx.Cast("float32", cast.value)
        return tirx.Cast("bfloat16", _to_bfloat16(wide))

    return with_mapped_body(function, (tirx.Cast, rounded))


def _to_bfloat16(value: PrimExpression) -> PrimExpression:
    """Return the nearest number with the 16 upper bits of a float32, ties to even.

    NaN stays NaN.
    """

    def number(bits: int) -> PrimExpression:
        return tirx.const(bits, "uint32")

    bits = tirx.reinterpret("uint32", value)
    odd = tirx.bitwise_and(tirx.shift_right(bits, number(16)), number(1))
    upper = tirx.bitwise_and(bits + number(0x7FFF) + odd, number(0xFFFF0000))
    return tirx.Select(tirx.isnan(value), value, tirx.reinterpret("float32", upper))


def on_host(transform: Callable[[Module], Module]) -> Callable[[Module], Module]:
    """Return a pass over the functions that run on a CPU."""

    def run(mod: Module) -> Module:
        chosen = {n: f for n, f in prim_functions(mod).items() if is_host_function(f)}
        return update_functions(mod, prim_functions(transform(module_like(mod, chosen))))

    return run
