"""Code generation for statements of TIR.

Input: nodes. Output: instructions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tvm import tirx

from tvm_nnef.spirv import control_flow
from tvm_nnef.spirv.arithmetic import Unsupported, binary
from tvm_nnef.spirv.expressions import Memory, Scope, Value, lanes_of
from tvm_nnef.vulkan_runtime.opcodes import BuiltIn, StorageClass

_STORAGE = {"local": StorageClass.Function, "shared": StorageClass.Workgroup}
"""Storage classes by the scope of a buffer."""

_THREADS = {"threadIdx": BuiltIn.LocalInvocationId, "blockIdx": BuiltIn.WorkgroupId}
"""Variables that the device sets, by the first part of the tag of a thread axis."""


class Statements(Scope):
    """The code of statements. ``local_size`` is the size of the workgroup, which they name."""

    def __init__(self, code: Any) -> None:
        """Create the writer; instructions are written to the assembler."""
        super().__init__(code)
        self.local_size = [1, 1, 1]

    def write(self, node: Any) -> None:
        """Write a statement."""
        handler = _STATEMENTS.get(type(node))
        if handler is None:
            raise Unsupported(f"a statement of the class {type(node).__name__}")
        handler(self, node)


def _sequence(scope: Statements, node: Any) -> None:
    for each in node.seq:
        scope.write(each)


def _bind(scope: Statements, node: Any) -> None:
    scope.values[node.var] = scope.value(node.value)


def _store(scope: Statements, node: Any) -> None:
    if getattr(node, "predicate", None) is not None:
        raise Unsupported("a store with a predicate")
    scope.store(node.buffer, node.indices, scope.value(node.value))


def _branch(scope: Statements, node: Any) -> None:
    otherwise = node.else_case
    control_flow.branch(
        scope.code,
        scope.scalar(node.condition),
        lambda: scope.write(node.then_case),
        None if otherwise is None else lambda: scope.write(otherwise),
    )


def _loop(scope: Statements, node: Any) -> None:
    if node.thread_binding is not None:
        raise Unsupported("a loop bound to threads")
    first, extent = scope.value(node.min), scope.value(node.extent)
    step = 1 if getattr(node, "step", None) is None else int(node.step)
    end = binary(scope.code, "Add", first.dtype, first.scalar, extent.scalar)

    def body(index: int) -> None:
        scope.values[node.loop_var] = Value(first.dtype, (index,))
        scope.write(node.body)

    increment = scope.code.constant(first.dtype, step)
    control_flow.count(scope.code, first.dtype, (first.scalar, end), increment, body)


def _while(scope: Statements, node: Any) -> None:
    control_flow.repeat(
        scope.code, lambda: scope.scalar(node.condition), lambda: scope.write(node.body)
    )


def _evaluate(scope: Statements, node: Any) -> None:
    scope.value(node.value)


def _attribute(scope: Statements, node: Any) -> None:
    if str(node.attr_key) == "thread_extent":
        _thread_axis(scope, node)
    scope.write(node.body)


def _thread_axis(scope: Statements, node: Any) -> None:
    """Write the index of a thread or block, and record the number of threads."""
    variable, (axis, component) = node.node.var, str(node.node.thread_tag).split(".")
    which, number = _THREADS.get(axis), "xyz".index(component)
    if which is None:
        raise Unsupported(f"the thread axis '{axis}'")
    if which is BuiltIn.LocalInvocationId:
        if not isinstance(node.value, tirx.IntImm):
            raise Unsupported("a dynamic number of threads")
        scope.local_size[number] = int(node.value)
    if variable not in scope.values:
        index = scope.code.built_in(which, number)
        scope.values[variable] = scope.as_dtype(Value("uint32", (index,)), str(variable.ty))


def _allocate(scope: Statements, node: Any) -> None:
    buffer = node.buffer
    storage = _STORAGE.get(str(buffer.scope()).split(".")[0])
    if storage is None:
        raise Unsupported(f"a buffer of the scope '{buffer.scope()}' inside of a kernel")
    if not all(isinstance(size, tirx.IntImm) for size in buffer.shape):
        raise Unsupported(f"the buffer '{buffer.name}' of a dynamic size inside of a kernel")
    dtype, lanes = lanes_of(buffer.dtype)
    count = max(1, lanes * math.prod(int(size) for size in buffer.shape))
    array = scope.code.array(scope.code.scalar(dtype), count)
    variable = scope.code.variable(storage, array)
    scope.code.name(variable, str(buffer.name))
    scope.memories[buffer] = Memory(variable, dtype, storage)


def _declare(scope: Statements, node: Any) -> None:
    """Declare another name of a buffer, or of a parameter."""
    source = node.data
    while not isinstance(source, tirx.Var):
        source = source.args[0]
    if source not in scope.memories:
        raise Unsupported(f"the buffer '{node.buffer.name}' over unknown memory")
    scope.memories[node.buffer] = scope.memories[source]


def _nothing(scope: Statements, node: Any) -> None:
    """Write nothing: assertions hold, or the function would not have been called."""


_STATEMENTS: Mapping[type, Callable[[Statements, Any], None]] = {
    tirx.SeqStmt: _sequence,
    tirx.Bind: _bind,
    tirx.BufferStore: _store,
    tirx.IfThenElse: _branch,
    tirx.For: _loop,
    tirx.While: _while,
    tirx.Evaluate: _evaluate,
    tirx.AttrStmt: _attribute,
    tirx.AllocBuffer: _allocate,
    tirx.DeclBuffer: _declare,
    tirx.AssertStmt: _nothing,
}
"""The functions that write a statement, by its class."""
