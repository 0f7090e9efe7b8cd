"""Checks of every index, compiled into a kernel.

Input: a PrimFunc whose loops are lowered and whose buffers have one dimension. Output: the same
with an assertion before each statement for every element that it loads or stores: that the element
is inside of its buffer. TVM's instrumentation does not support vectors, and does not name the
buffer. This is the last pass, so that the code that is checked is the code that runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm_ffi import StructuralKey, WalkResult

from tvm_nnef.schedules.plan import emit
from tvm_nnef.tir.expressions import substituted
from tvm_nnef.tvm_support.compat import (
    Buffer,
    PrimExpression,
    PrimFunction,
    dtype_of,
    is_conditional,
    lanes_of,
)

Assertion: TypeAlias = Callable[[PrimExpression, str, str], tirx.Stmt]
"""A function that returns the statement that ends a kernel if a condition does not hold, given the
condition and the names of kernel and buffer.
"""

Test: TypeAlias = "tuple[Buffer, PrimExpression]"
"""A buffer, and the condition that an access stays in it."""


def with_bounds_checks(function: PrimFunction, assertion: Assertion) -> PrimFunction:
    """Return the function with an assertion for each element that is loaded or stored."""
    name = str((function.attrs or {}).get("global_symbol", "kernel")).removeprefix("__tvm_ffi_")

    def assertions(*expressions: PrimExpression) -> list[tirx.Stmt]:
        unique: dict[StructuralKey, Test] = {}
        for test in (each for expression in expressions for each in _tests(expression)):
            unique.setdefault(StructuralKey(test[1]), test)
        # What is a view of a buffer is called like it.
        return [
            assertion(condition, name, str(buffer.name).removesuffix("_view"))
            for buffer, condition in unique.values()
        ]

    def store(store: tirx.BufferStore) -> tirx.Stmt:
        stored = store.buffer[tuple(store.indices)]
        return emit.sequence([*assertions(store.value, stored), store])

    def with_value(statement: tirx.Bind | tirx.Evaluate) -> tirx.Stmt:
        return emit.sequence([*assertions(statement.value), statement])

    def branch(branch: tirx.IfThenElse) -> tirx.Stmt:
        return emit.sequence([*assertions(branch.condition), branch])

    def loop(loop: tirx.For) -> tirx.Stmt:
        if loop.kind == tirx.ForKind.PARALLEL:
            # TVM 0.27 may lose the error of the thread that ends last.
            serial = tirx.ForKind.SERIAL
            loop = tirx.For(loop.loop_var, loop.min, loop.extent, serial, loop.body)
        return emit.sequence([*assertions(loop.min, loop.extent), loop])

    # The condition of a while loop is the element of a buffer of one.
    statements = [
        (tirx.BufferStore, store),
        ((tirx.Bind, tirx.Evaluate), with_value),
        (tirx.IfThenElse, branch),
        (tirx.For, loop),
    ]
    return function.with_body(tvm_ffi.structural_map(function.body, statements, order="post"))


def _tests(expression: PrimExpression) -> list[Test]:
    """Return the tests of the loads of an expression, those first on which others depend."""
    tests: list[Test] = []

    def load(load: TensorLoad) -> WalkResult:
        for index in load.indices:
            tests.extend(_tests(index))
        pairs = zip(load.indices, load.source.shape, strict=True)
        inside = [t for i, size in pairs for p in _positions(i) for t in (p >= 0, p < size)]
        needed = [test for test in inside if not (isinstance(test, tirx.IntImm) and test.value)]
        if needed:
            tests.append((load.source, tirx.all(*needed)))
        return WalkResult.SKIP

    def call(call: Call) -> WalkResult:
        if is_conditional(call) and lanes_of(call.args[0].ty) == 1:
            condition, first, second = call.args
            tests.extend(_tests(condition))
            for buffer, test in _tests(first):
                tests.append((buffer, tirx.if_then_else(condition, test, True)))
            for buffer, test in _tests(second):
                tests.append((buffer, tirx.if_then_else(condition, True, test)))
            return WalkResult.SKIP
        # An address may be that of any element.
        is_address = str(getattr(call.op, "name", "")).endswith(".address_of")
        return WalkResult.SKIP if is_address else WalkResult.ADVANCE

    def named(let: tirx.Let) -> WalkResult:
        tests.extend(_tests(let.value))
        for buffer, test in _tests(let.body):
            tests.append((buffer, substituted(tirx.Let(let.var, let.value, test), {})))
        return WalkResult.SKIP

    tvm_ffi.structural_walk(
        expression, [(TensorLoad, load), (Call, call), (tirx.Let, named)], order="pre"
    )
    return tests


def _positions(index: PrimExpression) -> list[PrimExpression]:
    """Return the positions that an index covers: the ends of a ramp, all lanes of another
    vector.
    """
    if isinstance(index, tirx.Ramp):
        last = index.stride * tirx.const(int(index.lanes) - 1, dtype_of(index.stride))
        return [index.base, index.base + last]
    lanes = lanes_of(index.ty)
    return [index] if lanes == 1 else [tirx.Shuffle([index], [lane]) for lane in range(lanes)]
