"""The parts of TVM's API that change between releases, as of 0.27.

Input: NumPy arrays, shapes, dtype names. Output: TVM objects. Other packages import stable names
(``relax.op``, ``te.compute``, passes) from TVM itself.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import tvm
from tvm import relax, s_tir, tirx
from tvm.ir import TensorLoad
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder

from tvm_nnef.tvm_support import traversal
from tvm_nnef.tvm_support.function_attributes import (
    EXACT_BUFFERS,
    INPUTS,
    OP_PATTERN,
    POLLS_SIGNALS,
    STATE,
    FusionPattern,
)
from tvm_nnef.tvm_support.runtime import Array as Array
from tvm_nnef.tvm_support.runtime import runtime_tensor as runtime_tensor
from tvm_nnef.tvm_support.runtime import version as version

RelaxExpression: TypeAlias = relax.Expr
"""A Relax expression."""

PrimExpression: TypeAlias = tirx.Expr
"""A scalar expression of TIR."""

BUFFER_TYPE: Any = tirx.buffer.BufferType
"""The class of the type of a buffer."""

Var: TypeAlias = tirx.Var
"""A variable of TIR."""

Buffer: TypeAlias = tirx.Var
"""A buffer of TIR: since TVM 0.27 a variable of the type ``BUFFER_TYPE``."""

IR: Any = builder
"""The functions of TVM's IRBuilder, which write statements (see :func:`statements`)."""

PrimFunction: TypeAlias = tirx.PrimFunc
"""A ``tirx.PrimFunc``."""

Module: TypeAlias = tvm.IRModule
"""A ``tvm.IRModule``."""

_Function = TypeVar("_Function", bound=tvm.ir.BaseFunc)

BlockBuilder: TypeAlias = relax.BlockBuilder
"""TVM's builder of Relax functions."""

Target: TypeAlias = tvm.target.Target
"""A ``tvm.target.Target``."""


def tensor_type(shape: Sequence[Any], dtype: str) -> Any:
    """Return the Relax type of a tensor of a known shape."""
    return relax.TensorType(tuple(shape), dtype)


def shape_and_dtype(expression: RelaxExpression) -> tuple[tuple[Any, ...], str]:
    """Return shape (``int`` where static) and dtype of a Relax expression of a tensor type.

    Such an expression has a known shape (:func:`is_tensor`).
    """
    kind = expression.ty
    shape = tuple(int(e) if isinstance(e, tirx.IntImm) else e for e in kind.shape)
    return shape, str(kind.dtype)


def rank_and_dtype(expression: RelaxExpression) -> tuple[int, str] | tuple[None, None]:
    """Return rank and dtype of a Relax expression, None if it is not a tensor of a known rank."""
    kind = expression.ty
    if not isinstance(kind, relax.TensorType) or kind.ndim < 0:
        return None, None
    return int(kind.ndim), str(kind.dtype)


def is_tensor(expression: RelaxExpression) -> bool:
    """Whether a Relax expression is one tensor of a known rank and shape."""
    kind = expression.ty
    return isinstance(kind, relax.TensorType) and isinstance(kind.shape, relax.ShapeExpr)


def constant(array: Array) -> RelaxExpression:
    """Return a Relax constant that holds the array; of a dtype of few bits, its bytes."""
    return relax.const(runtime_tensor(array))


def constant_array(expression: RelaxExpression) -> Array | None:
    """Return the array of a Relax constant, not to be changed; None for any other expression."""
    if isinstance(expression, tvm.ir.GenericConst) and is_tensor(expression):
        value = expression.value
        # NumPy takes no bfloat16 from others; the method copies.
        copied = str(value.dtype) == "bfloat16"
        array: Array = value.numpy() if copied else np.from_dlpack(value)
        return array
    return None


def is_tensor_constant(expression: Any) -> bool:
    """Whether an expression is a Relax constant that is a tensor."""
    return isinstance(expression, tvm.ir.GenericConst) and is_tensor(expression)


def packed_call(name: str, kind: Any, *arguments: Any) -> RelaxExpression:
    """Return the call of a global function of TVM, whose result has a type."""
    converted = [relax.prim_value(each) if isinstance(each, int) else each for each in arguments]
    return relax.Call(relax.ExternFunc(name), converted, ty_args=[kind])


def function_variable(name: str, params: Sequence[Any], result: Any, *, pure: bool) -> Any:
    """Return the global variable by which a Relax function of a module is called."""
    variable = relax.GlobalVar(name)
    kind = relax.FuncType([parameter.ty for parameter in params], result, pure)
    relax.expr._update_type(variable, kind)
    return variable


def string(text: str) -> RelaxExpression:
    """Return a Relax expression of a string."""
    return tvm.ir.StringImm(text)


def dtype_of(expression: PrimExpression) -> str:
    """Return the dtype of a scalar expression."""
    return str(expression.ty)


def buffer(shape: Sequence[Any], dtype: str, name: str) -> Buffer:
    """Return a row-major buffer of TIR, whose shape may have symbols."""
    # Kernels that share a tensor are fused if their buffers have the same type, sizes included.
    sizes = [tirx.const(each, "int64") if isinstance(each, int) else each for each in shape]
    return tirx.decl_buffer(sizes, dtype, name, layout=None)


def with_shape(kind: Any, shape: Sequence[Any]) -> Any:
    """Return the type of a buffer (``BUFFER_TYPE``) with another shape."""
    rest = (kind.strides, kind.elem_offset, kind.data_alignment, kind.offset_factor, kind.layout)
    return BUFFER_TYPE(kind.dtype, kind.storage_scope, shape, *rest, kind.allocated_addr)


def parameter_count(function: Any) -> int:
    """Return the number of parameters of a function that are weights: those after its inputs.

    It is 0 if the function also has a state, which changes from call to call.
    """
    attributes = function.attrs or {}
    if INPUTS not in attributes or int(attributes.get(STATE, 0)):
        return 0
    return len(function.params) - int(attributes[INPUTS])


def is_scalar(parameter: Var) -> bool:
    """Whether a parameter of a PrimFunc is a number, not a buffer."""
    # Nothing derives from it, and ``isinstance`` is slow for what is not an instance.
    return type(parameter.ty) is tvm.ir.PrimType


def buffers_of(function: PrimFunction) -> list[Buffer]:
    """Return the parameters of a PrimFunc that are buffers.

    The others are sizes in their shapes.
    """
    return [parameter for parameter in function.params if not is_scalar(parameter)]


def opaque_function(
    name: str,
    parameters: Sequence[Var],
    written: Sequence[Buffer],
    allocated: Sequence[Buffer],
    body: tirx.Stmt,
) -> PrimFunction:
    """Return a PrimFunc of one block that schedules do not analyze.

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
    return function.with_attr({"tirx.noalias": True, "s_tir": True, EXACT_BUFFERS: 1})


def with_opaque_body(
    function: PrimFunction,
    written: Sequence[Buffer],
    allocated: Sequence[Buffer],
    body: tirx.Stmt,
) -> PrimFunction:
    """Return a function with the parameters and attributes of another, and its own body.

    ``written`` are the parameters that the body writes, the last ones; ``allocated`` buffers live
    inside the function. The result is one block that no schedule looks into.
    """
    rewritten = opaque_function("kernel", list(function.params), written, allocated, body)
    attributes = {str(name): value for name, value in dict(function.attrs or {}).items()}
    attributes.pop("global_symbol", None)
    return rewritten.with_attr(attributes) if attributes else rewritten


def opaque_block(function: PrimFunction) -> s_tir.SBlock | None:
    """Return the only block in the root block of a function, without iterators; None for others."""
    outer = function.body
    if not isinstance(outer, s_tir.SBlockRealize) or not isinstance(
        outer.block.body, s_tir.SBlockRealize
    ):
        return None
    block = outer.block.body.block
    return None if len(block.iter_vars) or len(outer.block.alloc_buffers) else block


def statements(write: Callable[[], None]) -> tirx.Stmt:
    """Return the statements that a function writes by the functions of ``IR``."""
    # One frame has to be around them.
    with IRBuilder() as written, builder.seq_scope():
        write()
    body: tirx.Stmt = written.get().body
    return body


def buffer_view(buffer: Buffer, shape: Sequence[int | PrimExpression]) -> tuple[Buffer, tirx.Stmt]:
    """Return a buffer of another shape over the same elements, and the statement that declares
    it.
    """
    view = tirx.decl_buffer(list(shape), buffer.dtype, f"{buffer.name}_view", layout=None)
    return view, tirx.DeclBuffer(view, data=tirx.buffer.buffer_data(buffer))


def prefetch(load: TensorLoad) -> tirx.Stmt:
    """Return the statement that prefetches the elements of a load into the nearest cache."""
    reading, near, data = 0, 3, 1
    address = tirx.address_of(load)
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", address, reading, near, data))


def assertion(condition: PrimExpression, message: str) -> tirx.Stmt:
    """Return the statement that raises a ValueError with a message if a condition does not hold."""
    kind, parts = tvm.ir.StringImm("ValueError"), [tvm.ir.StringImm(message)]
    # TVM 0.27 names the first two parameters in the opposite order.
    statement: tirx.Stmt = tirx.AssertStmt(condition, kind, parts)
    return statement


CHECK_SIGNALS = "TVMFFIEnvCheckSignals"
"""The C function of TVM that runs Python's signal handlers, or does nothing without Python."""


def poll_signals() -> tirx.Evaluate:
    """Return the statement at which a function ends with an exception if a signal handler raises
    one.
    """
    return tirx.Evaluate(tirx.call_extern("int32", CHECK_SIGNALS))


def cuda_call(name: str, source: str, *arguments: PrimExpression) -> tirx.Stmt:
    """Return a call of a CUDA function that is compiled with the kernel."""
    arguments_of_call = (name, *arguments, source)
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.cuda.func_call", *arguments_of_call))


def cuda_assertion(condition: PrimExpression, message: str) -> tirx.Stmt:
    """Return the statement of a CUDA kernel that prints a message and ends it if a condition is
    false.
    """
    name = f"fail_{zlib.crc32(message.encode()):08x}"
    text = json.dumps(message)
    body = f'__device__ void {name}() {{ printf("%s\\n", {text}); __trap(); }}\n'
    return tirx.IfThenElse(tirx.Not(condition), cuda_call(name, body), None)


def polling_copy() -> PrimFunction:
    """Return a PrimFunc that copies an int64 of rank 0, and polls for signals."""
    index, result = (buffer((), "int64", name) for name in ("index", "result"))
    body = tirx.SeqStmt([poll_signals(), tirx.BufferStore(result, index[()], [])])
    function = opaque_function("poll", [index, result], [result], [], body)
    return function.with_attr({POLLS_SIGNALS: 1, OP_PATTERN: int(FusionPattern.OPAQUE)})


def in_place_store(shape: Sequence[Any], dtype: str, scalars: Sequence[Any] = ()) -> PrimFunction:
    """Return a PrimFunc ``(value, index, stack, *scalars)`` that writes the value into the stack.

    ``shape`` is that of the stack, the value has it without the leading dimension; the index is an
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
    return function.with_attr(
        {"tirx.noalias": True, "s_tir": True, OP_PATTERN: int(FusionPattern.OPAQUE)}
    )


def _wide(extent: Any) -> Any:
    return tirx.const(extent, "int64") if isinstance(extent, int) else extent


def _whole(buffer: Buffer) -> Any:
    return tirx.BufferRegion(buffer, [tvm.ir.Range(0, extent) for extent in buffer.ty.shape])


def prim_functions(mod: Module) -> dict[str, PrimFunction]:
    """Return the PrimFuncs of a module by name, in the order of their names."""
    functions = {
        variable.name_hint: function
        for variable, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc)
    }
    return dict(sorted(functions.items()))


def with_own_symbols(function: _Function) -> _Function:
    """Return a copy of a Relax function or PrimFunc that shares no symbols with any other
    function.
    """
    if isinstance(function, tirx.PrimFunc):
        renewed: _Function = s_tir.renew_defs(function)
        return renewed
    copied: _Function = relax.utils.copy_with_new_vars(function)
    return copied


def with_mapped_body(function: PrimFunction, *rewrites: tuple[Any, Any]) -> PrimFunction:
    """Return the function with all nodes of some classes replaced, inner nodes before outer
    ones.
    """
    body = traversal.mapped(function.body, list(rewrites), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def update_functions(mod: Module, functions: Mapping[str, Any]) -> Module:
    """Return a copy of the module in which the named functions are replaced."""
    updated = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for name, function in functions.items():
        updated.update_func(mod.get_global_var(name), function)
    return updated


def is_conditional(expression: PrimExpression) -> bool:
    """Whether an expression is an ``if_then_else`` of condition, value and other value."""
    operator = getattr(expression, "op", None)
    return str(getattr(operator, "name", "")).split(".")[-1] == "if_then_else"


def choice_of(
    expression: PrimExpression,
) -> tuple[PrimExpression, PrimExpression, PrimExpression] | None:
    """Return condition, value and other value of an ``if_then_else`` or ``Select``.

    It is None for others.
    """
    if isinstance(expression, tirx.Select):
        return expression.condition, expression.true_value, expression.false_value
    if not isinstance(expression, tvm.ir.Call) or not is_conditional(expression):
        return None
    condition, value, other = expression.args
    return condition, value, other


def typed(dtype: str, lanes: int) -> tvm.ir.PrimType:
    """Return the type of a vector of ``lanes`` elements; of a scalar for one."""
    return tvm.ir.PrimType(dtype if lanes == 1 else f"{dtype}x{lanes}")


def lanes_of(kind: tvm.ir.Type | Buffer) -> int:
    """Return the number of elements of a scalar or vector type, or of an element of a buffer."""
    return int(kind.dtype.lanes)


def scalar_type_of(value: PrimExpression) -> str:
    """Return the dtype of a scalar, or of each element of a vector."""
    return str(value.ty.dtype).split("x")[0]


def bits_of(dtype: str) -> int:
    """Return the bits of an element in memory, or of each element of a vector."""
    number = re.search(r"\d+", dtype)
    return int(number[0]) if number else 8


def itemsize(dtype: str) -> int:
    """Return the bytes of an element."""
    return -(-bits_of(dtype) // 8)


def is_real_type(dtype: str) -> bool:
    """Whether elements of a dtype are floating-point numbers."""
    return dtype.startswith(("float", "bfloat"))


def is_cpu(target: Any) -> bool:
    """Whether a target is a CPU, and not a device that a CPU controls (its ``host``)."""
    return str(target.kind.name) == "llvm"
