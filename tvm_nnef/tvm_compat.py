"""The one door to what moves between TVM releases (this one speaks 0.27).

Enters: NumPy arrays, shapes, dtype names. Leaves: TVM objects. The other rooms import stable names
(``relax.op``, ``te.compute``, passes) directly; what was renamed or moved lately is here.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.target import codegen

RelaxExpression: TypeAlias = Any
"""A Relax expression (``relax.Expr``); TVM ships no types, so they end at this door."""

PrimExpression: TypeAlias = Any
"""A scalar expression of TIR."""

BUFFER_LOAD: Any = tvm.ir.TensorLoad
"""The class of a load from a buffer, whose ``source`` is the buffer."""

BUFFER_TYPE: Any = tirx.buffer.BufferType
"""The class of the type of a buffer."""

PrimFunction: TypeAlias = Any
"""A ``tirx.PrimFunc``."""

PREPARE = "main_transform_params"
"""The name that TVM gives to what computes all that depends on weights alone."""

PREPARED = "main_prepared"
"""The name of the function that takes its results in place of the weights."""

CONSTANTS_FROM = "constants_from"
"""The attribute of a private Relax function that stays what it is where constants are bound to its
parameters from this number on."""

LOOP_BODY = "loop_body"
"""The attribute of a Relax function that makes a step: ``(index, state, ...)`` become ``(whether to
go on, index, state)``."""

LOOP_STEPS = "loop_steps"
"""The attribute of a Relax function that makes so many steps by a function with ``LOOP_BODY``, for
0 as many as that says, one at least."""

Module: TypeAlias = Any
"""A ``tvm.IRModule``."""

CALL: Any = tvm.ir.Call
"""The class of a call, of an operator or intrinsic on arguments."""

Target: TypeAlias = Any
"""A ``tvm.target.Target``."""


def version() -> str:
    """The version of TVM."""
    return str(tvm.__version__)


def tensor_type(shape: Sequence[Any], dtype: str) -> Any:
    """The Relax type of a tensor of a known shape."""
    return relax.TensorType(tuple(shape), dtype)


def shape_and_dtype(expression: RelaxExpression) -> tuple[tuple[Any, ...], str]:
    """Shape (``int`` where static) and dtype of a Relax expression of a tensor type.

    Such an expression has a known shape (:func:`is_tensor`).
    """
    kind = expression.ty
    shape = tuple(int(e) if isinstance(e, tirx.IntImm) else e for e in kind.shape)
    return shape, str(kind.dtype)


def rank_and_dtype(expression: RelaxExpression) -> tuple[int, str] | tuple[None, None]:
    """Rank and dtype of a Relax expression, None where it is no tensor of a known rank."""
    kind = expression.ty
    if not isinstance(kind, relax.TensorType) or kind.ndim < 0:
        return None, None
    return int(kind.ndim), str(kind.dtype)


def is_tensor(expression: RelaxExpression) -> bool:
    """Whether a Relax expression is one tensor of a known rank and shape."""
    kind = expression.ty
    return isinstance(kind, relax.TensorType) and isinstance(kind.shape, relax.ShapeExpr)


def constant(array: np.ndarray[Any, Any]) -> RelaxExpression:
    """A Relax constant that holds the array."""
    return relax.const(np.ascontiguousarray(array).reshape(array.shape), str(array.dtype))


def constant_array(expression: RelaxExpression) -> np.ndarray[Any, Any] | None:
    """The array of a Relax constant, not to be changed; None for any other expression."""
    if isinstance(expression, tvm.ir.GenericConst) and is_tensor(expression):
        value = expression.value
        # NumPy takes no bfloat16 from others; the method copies.
        copied = str(value.dtype) == "bfloat16"
        array: np.ndarray[Any, Any] = value.numpy() if copied else np.from_dlpack(value)
        return array
    return None


def string(text: str) -> RelaxExpression:
    """A Relax expression of a string."""
    return tvm.ir.StringImm(text)


def runtime_tensor(array: np.ndarray[Any, Any]) -> Any:
    """A tensor on the CPU that holds a copy of the array."""
    return tvm.runtime.tensor(np.ascontiguousarray(array).reshape(array.shape))


def dtype_of(expression: PrimExpression) -> str:
    """The dtype of a scalar expression."""
    return str(expression.ty)


def buffer(shape: Sequence[Any], dtype: str, name: str) -> Any:
    """A row-major buffer of TIR, whose shape may have symbols."""
    return tirx.decl_buffer(tuple(shape), dtype, name, layout=None)


def with_shape(kind: Any, shape: Sequence[Any]) -> Any:
    """The type of a buffer (``BUFFER_TYPE``) with another shape."""
    rest = (kind.strides, kind.elem_offset, kind.data_alignment, kind.offset_factor, kind.layout)
    return BUFFER_TYPE(kind.dtype, kind.storage_scope, shape, *rest, kind.allocated_addr)


def parameter_count(function: Any) -> int:
    """How many parameters of a function are weights: those behind its inputs.

    None are where it has a state as well, which changes from call to call.
    """
    attributes = function.attrs or {}
    if "num_input" not in attributes or int(attributes.get("num_state", 0)):
        return 0
    return len(function.params) - int(attributes["num_input"])


def is_scalar(parameter: Any) -> bool:
    """Whether a parameter of a PrimFunc is a number, not a buffer."""
    return isinstance(parameter.ty, tvm.ir.PrimType)


def opaque_function(
    name: str,
    parameters: Sequence[Any],
    written: Sequence[Any],
    allocated: Sequence[Any],
    body: Any,
) -> PrimFunction:
    """A PrimFunc of one block that no schedule looks into.

    ``parameters`` are buffers, and variables for scalars, the ``written`` buffers last;
    ``allocated`` buffers live inside the function.
    """
    inputs = parameters[: len(parameters) - len(written)]
    read = [each for each in inputs if not is_scalar(each)]
    block = s_tir.SBlock(
        [],
        [_whole(buffer) for buffer in read],
        [_whole(buffer) for buffer in written],
        name,
        body,
        alloc_buffers=list(allocated),
    )
    root = s_tir.SBlock([], [], [], "root", s_tir.SBlockRealize([], True, block))
    function = tirx.PrimFunc(list(parameters), s_tir.SBlockRealize([], True, root))
    return function.with_attr({"tirx.noalias": True, "s_tir": True})


def with_opaque_body(
    function: PrimFunction, written: Sequence[Any], allocated: Sequence[Any], body: Any
) -> PrimFunction:
    """A function with the parameters and attributes of another, and a body of its own.

    ``written`` are the parameters that the body writes, the last ones; ``allocated`` buffers live
    inside the function. The result is one block that no schedule looks into.
    """
    made = opaque_function("kernel", list(function.params), written, allocated, body)
    kept = {str(name): value for name, value in dict(function.attrs or {}).items()}
    kept.pop("global_symbol", None)
    return made.with_attr(kept) if kept else made


def buffer_view(buffer: Any, shape: Sequence[int]) -> tuple[Any, Any]:
    """A buffer of another shape over the same elements, and the statement that declares it."""
    view = tirx.decl_buffer(list(shape), buffer.dtype, f"{buffer.name}_view", layout=None)
    return view, tirx.DeclBuffer(view, data=tirx.buffer.buffer_data(buffer))


def prefetch(element: PrimExpression, *, writing: bool) -> Any:
    """The statement that asks for the cache line of an element, to be read or written soon."""
    keep, data = 3, 1
    arguments = (tirx.address_of(element), int(writing), keep, data)
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", *arguments))


def in_place_store(shape: Sequence[Any], dtype: str, scalars: Sequence[Any] = ()) -> PrimFunction:
    """A PrimFunc ``(value, index, stack, *scalars)`` that writes the value into the stack.

    ``shape`` is that of the stack, the value has it without the leading extent; the index is an
    int64 of rank 0, ``scalars`` are symbols in the shape. It is not fused, as the passes that fuse
    take results for new memory.
    """
    value = buffer(shape[1:], dtype, "value")
    index = buffer((), "int64", "index")
    stack = buffer(shape, dtype, "stack")
    loops = [tirx.Var(f"i{number}", "int64") for number in range(len(shape) - 1)]
    ranges = [tvm.ir.Range(0, _wide(extent)) for extent in shape[1:]]
    iterators = [
        tirx.IterVar(extent, tirx.Var(f"v{number}", "int64"), tirx.IterVar.DataPar)
        for number, extent in enumerate(ranges)
    ]
    axes = [iterator.var for iterator in iterators]
    points = [tvm.ir.Range.from_min_extent(axis, tirx.const(1, "int64")) for axis in axes]
    stored = tirx.BufferStore(
        stack, tirx.BufferLoad(value, axes), [tirx.BufferLoad(index, []), *axes]
    )
    reads = [tirx.BufferRegion(value, points), tirx.BufferRegion(index, [])]
    whole = tvm.ir.Range(0, _wide(shape[0]))
    block = s_tir.SBlock(
        iterators, reads, [tirx.BufferRegion(stack, [whole, *points])], "store", stored
    )
    body: Any = s_tir.SBlockRealize(loops, True, block)
    for variable, extent in zip(reversed(loops), reversed(ranges), strict=True):
        body = tirx.For(variable, extent.min, extent.extent, tirx.ForKind.SERIAL, body)
    root = s_tir.SBlock([], [], [], "root", body)
    parameters = [value, index, stack, *scalars]
    function = tirx.PrimFunc(parameters, s_tir.SBlockRealize([], True, root))
    opaque = 8
    return function.with_attr({"tirx.noalias": True, "s_tir": True, "op_pattern": opaque})


def _wide(extent: Any) -> Any:
    return tirx.const(extent, "int64") if isinstance(extent, int) else extent


def _whole(buffer: Any) -> Any:
    return tirx.BufferRegion(buffer, [tvm.ir.Range(0, extent) for extent in buffer.ty.shape])


def prim_functions(mod: Module) -> dict[str, PrimFunction]:
    """The PrimFuncs of a module by name, in the order of their names."""
    found = {
        variable.name_hint: function
        for variable, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc)
    }
    return dict(sorted(found.items()))


def with_own_symbols(function: Any) -> Any:
    """A copy of a Relax function or PrimFunc that shares no symbols with any other function."""
    if isinstance(function, tirx.PrimFunc):
        return s_tir.renew_defs(function)
    return relax.utils.copy_with_new_vars(function)


def update_functions(mod: Module, functions: Mapping[str, Any]) -> Module:
    """A copy of the module in which the named functions are replaced."""
    updated = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for name, function in functions.items():
        updated.update_func(mod.get_global_var(name), function)
    return updated


def is_conditional(expression: PrimExpression) -> bool:
    """Whether an expression is an ``if_then_else`` of condition, value and other value."""
    operator = getattr(expression, "op", None)
    return str(getattr(operator, "name", "")).split(".")[-1] == "if_then_else"


def typed(dtype: str, lanes: int) -> Any:
    """The type of a vector of so many elements, of a scalar for one."""
    return tvm.ir.PrimType(dtype if lanes == 1 else f"{dtype}x{lanes}")


def lanes_of(kind: Any) -> int:
    """How many elements a scalar or vector type has."""
    return int(tvm.DataType(str(kind.dtype)).lanes)


_PIPELINE = "tvm_nnef"
"""The name under which TVM knows our lowering of PrimFuncs."""


@functools.cache
def _register_pipeline(expand: Callable[[PrimFunction], PrimFunction]) -> str:
    """Our lowering of PrimFuncs: TVM's own for schedules, and then ``expand`` for each function."""

    @tvm.transform.module_pass(opt_level=0, name="expand_functions")  # type: ignore[untyped-decorator]
    def expanded(mod: Module, context: Any) -> Module:
        return update_functions(mod, {n: expand(f) for n, f in prim_functions(mod).items()})

    def pipeline() -> tuple[Any, Any, Any]:
        lowering, host, device = s_tir.pipeline.default_s_tir_pipeline()
        return tvm.transform.Sequential([_lowered_soundly(lowering), expanded]), host, device

    tirx.register_tir_pipeline(_PIPELINE, pipeline)
    return _PIPELINE


def _lowered_soundly(lowering: Any) -> Any:
    """A lowering of PrimFuncs, without TVM's reuse of memory where that goes wrong.

    A buffer takes the memory of one that a loop reads for the last time, if it is as large and the
    loop reads it where it writes. What goes through views of the two buffers is not seen in that
    test, and buffers whose extents only a run tells are all taken to be as large.
    """

    @tvm.transform.module_pass(opt_level=0, name="lower_soundly")  # type: ignore[untyped-decorator]
    def lowered(mod: Module, context: Any) -> Module:
        parts: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
        for variable, function in mod.functions.items():
            parts[_views_own_memory(function)][variable] = function
        plain, viewed = (tvm.IRModule(part, attrs=mod.attrs) for part in parts)
        result = lowering(plain)
        if parts[True]:
            with _sound_passes("tirx.StorageRewrite"):
                result.update(lowering(viewed))
        return result

    return lowered


def _views_own_memory(function: Any) -> bool:
    """Whether a PrimFunc allocates several buffers, and declares views of some buffers."""
    if not isinstance(function, tirx.PrimFunc):
        return False
    allocated: list[Any] = []
    views: list[Any] = []
    tvm_ffi.structural_walk(
        function.body, (s_tir.SBlock, lambda block: allocated.extend(block.alloc_buffers))
    )
    tvm_ffi.structural_walk(function.body, (tirx.DeclBuffer, views.append))
    return len(allocated) > 1 and bool(views)


def compile_virtual_machine(
    mod: Module, target: Target, expand: Callable[[PrimFunction], PrimFunction] | None = None
) -> Any:
    """Machine code for the PrimFuncs of a module, and code of the virtual machine for the rest.

    ``expand`` is applied to each PrimFunc after its loops are lowered. Every operator is a call of
    a PrimFunc already, and every PrimFunc scheduled: TVM's own pipeline
    would fold constants by compiling them, and fuse scheduled kernels anew.
    """
    generic = relax.backend.cpu_generic.pipeline
    passes = [
        relax.transform.DeadCodeElimination(),
        *generic.dataflow_lower_passes(target),
        *generic.finalize_passes(target),
    ]
    lowering = "default" if expand is None else _register_pipeline(expand)
    with _sound_passes():
        return relax.build(
            mod, target, relax_pipeline=tvm.transform.Sequential(passes), tir_pipeline=lowering
        )


def _sound_passes(*others: str) -> Any:
    """A context without TVM's lifting of conditions out of loops, and without other passes.

    It comes after what that loop makes certain was dropped from the condition: a guard of a
    division by a symbol is gone where the loop would not have run. LLVM lifts safely.
    """
    return tvm.transform.PassContext(disabled_pass=["s_tir.HoistIfThenElse", *others])


def compile_kernel(
    function: PrimFunction, target: Target, expand: Callable[[PrimFunction], PrimFunction] | None
) -> Callable[..., object]:
    """The machine code of one scheduled PrimFunc, as :func:`compile_virtual_machine` makes it."""
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    lowering = "default" if expand is None else _register_pipeline(expand)
    with _sound_passes():
        compiled: Callable[..., object] = tirx.build(mod, target=target, pipeline=lowering)["main"]
    return compiled


def host_cpu() -> tuple[str, str]:
    """LLVM's name of the host CPU, and its target triple."""
    return str(codegen.llvm_get_system_cpu()), str(codegen.llvm_get_system_triple())


def host_feature_differences(description: Mapping[str, Any]) -> list[str]:
    """The CPU features in which the host differs from the model of CPU that a target names.

    As LLVM writes them: ``+avx2`` where only the host has it, ``-avx512f`` where only the model.
    """
    host = tvm.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    model = {str(name) for name in codegen.llvm_get_cpu_features(tvm.target.Target(description))}
    states = {str(name): bool(present) for name, present in dict(host).items()}
    missing = [f"-{name}" for name, present in states.items() if not present and name in model]
    extra = [f"+{name}" for name, present in states.items() if present and name not in model]
    return sorted([*missing, *extra])


def target_features(target: Target) -> tuple[str, frozenset[str]]:
    """The triple of a CPU target, and LLVM's names of the features that it has."""
    if str(target.kind.name) != "llvm":
        return "", frozenset()
    attributes = target.attrs
    triple = str(attributes["mtriple"]) if "mtriple" in attributes else host_cpu()[1]
    return triple, frozenset(str(name) for name in codegen.llvm_get_cpu_features(target))


def virtual_machine(library: Any) -> Any:
    """A Relax virtual machine on the CPU for what was built or loaded."""
    return relax.VirtualMachine(library, tvm.cpu())


def load_library(path: str) -> Any:
    """A library that ``export_library`` wrote."""
    return tvm.runtime.load_module(path)


def default_threads() -> int:
    """How many threads kernels use: one for each core that this process may run on.

    Where the user has set TVM_NUM_THREADS or OMP_NUM_THREADS, which TVM reads, it is that number,
    though never more than there are cores.
    """
    cores = len(_cores())
    for name in ("TVM_NUM_THREADS", "OMP_NUM_THREADS"):
        if os.environ.get(name, "").isdecimal():
            return min(max(1, int(os.environ[name])), cores)
    return cores


def use_threads(count: int) -> None:
    """Let the kernels that this thread of Python calls run on so many threads, or on all cores."""
    _prepare_threads()
    count = min(count, len(_cores()))
    if tvm.get_global_func("runtime.NumThreads")() != count:
        _configure_threads(count)


@functools.cache
def _prepare_threads() -> None:
    """Before anything else: TVM by itself takes half of the hardware threads, for good.

    Its threads would also spin for a tenth of a second after each kernel, and the system makes who
    spins wait when other processes want the cores. Some hundred microseconds bridge the way to the
    next kernel.
    """
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "2000")
    _configure_threads(default_threads())


def _configure_threads(count: int) -> None:
    share_all_cores = -3
    cores = [str(core) for core in _cores()]
    tvm.get_global_func("runtime.config_threadpool")(share_all_cores, count, cores)


def _cores() -> list[int]:
    """The numbers of the cores that this process may run on."""
    allowed: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return sorted(allowed(0)) if allowed else list(range(os.cpu_count() or 1))


def kernels_of(library: Any) -> Callable[[str], Callable[..., object] | None]:
    """The machine code of the PrimFuncs of what :func:`compile_virtual_machine` gave, by name."""
    parts = list(library.mod.imports)

    def find(name: str) -> Callable[..., object] | None:
        return next((part[name] for part in parts if part.implements_function(name)), None)

    return find
