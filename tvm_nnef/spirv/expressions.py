"""Code generation for expressions of TIR.

Input: nodes. Output: values. Vectors are written lane by lane: a value is a tuple of ids, and
drivers combine them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import TensorLoad

from tvm_nnef.spirv import arithmetic, calls, control_flow
from tvm_nnef.spirv.arithmetic import Unsupported
from tvm_nnef.spirv.assembler import Assembler, Id
from tvm_nnef.tvm_support.compat import Buffer, Var, choice_of, is_conditional
from tvm_nnef.vulkan_runtime.opcodes import Op, StorageClass


@dataclass(frozen=True, slots=True)
class Value:
    """The ids of the lanes of a value, one for a scalar, and the dtype of each."""

    dtype: str
    lanes: tuple[Id, ...]

    @property
    def scalar(self) -> Id:
        """The id of a scalar."""
        (lane,) = self.lanes
        return lane


@dataclass(frozen=True, slots=True)
class Memory:
    """An array of scalars: the variable, the dtype in which it is stored, and its storage class."""

    variable: Id
    dtype: str
    storage: StorageClass


class Scope:
    """The ids of the names of a kernel, and the values of its expressions."""

    def __init__(self, code: Assembler) -> None:
        """Create the scope; instructions are written to the assembler."""
        self.code = code
        self.values: dict[Var, Value] = {}
        self.memories: dict[Buffer, Memory] = {}

    def value(self, node: Any) -> Value:
        """Return the value of an expression."""
        write = _NODES.get(type(node))
        if write is None:
            raise Unsupported(f"an expression of the class {type(node).__name__}")
        return write(self, node)

    def scalar(self, node: Any) -> Id:
        """Return the id of the value of an expression that is not a vector."""
        return self.value(node).scalar

    def constant(self, dtype: str, value: float) -> Value:
        """Return a scalar constant."""
        return Value(dtype, (self.code.constant(dtype, value),))

    def each(self, dtype: str, write: Callable[..., Id], *values: Value) -> Value:
        """Return the value whose lanes are written one by one from those of others."""
        count = max(len(value.lanes) for value in values)
        lanes = [
            value.lanes if len(value.lanes) == count else value.lanes * count for value in values
        ]
        return Value(dtype, tuple(write(*each) for each in zip(*lanes, strict=True)))

    def as_dtype(self, value: Value, dtype: str) -> Value:
        """Return a value converted to another dtype."""

        def write(lane: Id) -> Id:
            return arithmetic.converted(self.code, lane, value.dtype, dtype)

        return self.each(dtype, write, value)

    def pointers(self, buffer: Buffer, indices: Sequence[Any]) -> tuple[Memory, str, list[Id]]:
        """Return the location of elements of a buffer: memory, dtype, and a pointer for each
        lane.
        """
        if buffer not in self.memories:
            raise Unsupported(f"the buffer '{buffer.name}', which is declared nowhere")
        memory, (dtype, width) = self.memories[buffer], lanes_of(buffer.dtype)
        if len(indices) != 1:
            raise Unsupported("a buffer that is not flat")
        index = self.value(indices[0])
        offsets = list(index.lanes)
        if width > 1:
            offsets = [self._offset(index, width, lane) for lane in range(width)]
        kind = self.code.pointer(memory.storage, self.code.scalar(memory.dtype))
        # A buffer in device memory is a member of a structure.
        outer = memory.storage is StorageClass.StorageBuffer
        path = [self.code.constant("uint32", 0)] if outer else []
        return (
            memory,
            dtype,
            [
                self.code.result(Op.AccessChain, kind, memory.variable, *path, offset)
                for offset in offsets
            ],
        )

    def _offset(self, index: Value, width: int, lane: int) -> Id:
        first = arithmetic.binary(
            self.code, "Mul", index.dtype, index.scalar, self.code.constant(index.dtype, width)
        )
        number = self.code.constant(index.dtype, lane)
        return arithmetic.binary(self.code, "Add", index.dtype, first, number)

    def store(self, buffer: Buffer, indices: Sequence[Any], value: Value) -> None:
        """Write a value to a buffer."""
        memory, dtype, pointers = self.pointers(buffer, indices)
        lanes = value.lanes if len(value.lanes) == len(pointers) else value.lanes * len(pointers)
        for pointer, lane in zip(pointers, lanes, strict=True):
            stored = arithmetic.reinterpreted(self.code, lane, dtype, memory.dtype)
            self.code.emit(Op.Store, pointer, stored)


def lanes_of(dtype: Any) -> tuple[str, int]:
    """Return the dtype of an element of a vector, and the number of elements."""
    scalar, _, lanes = str(dtype).partition("x")
    return scalar, int(lanes or 1)


def _load(scope: Scope, node: Any) -> Value:
    memory, dtype, pointers = scope.pointers(node.source, node.indices)
    kind = scope.code.scalar(memory.dtype)
    loaded = (scope.code.result(Op.Load, kind, pointer) for pointer in pointers)
    return Value(
        dtype,
        tuple(arithmetic.reinterpreted(scope.code, each, memory.dtype, dtype) for each in loaded),
    )


def _variable(scope: Scope, node: Any) -> Value:
    if node not in scope.values:
        raise Unsupported(f"the variable '{node.name}', which has no value")
    return scope.values[node]


def _number(scope: Scope, node: Any) -> Value:
    return scope.constant(str(node.ty), node.value)


def _binary(scope: Scope, node: Any) -> Value:
    a, b = scope.value(node.a), scope.value(node.b)
    name = type(node).__name__

    def write(left: Id, right: Id) -> Id:
        return arithmetic.binary(scope.code, name, a.dtype, left, right)

    return scope.each(lanes_of(node.ty)[0], write, a, b)


def _not(scope: Scope, node: Any) -> Value:
    kind = scope.code.scalar("bool")
    operand = scope.value(node.a)
    return scope.each("bool", lambda a: scope.code.result(Op.LogicalNot, kind, a), operand)


def _bitwise_not(scope: Scope, node: Any) -> Value:
    operand = scope.value(node.a)
    kind = scope.code.scalar(operand.dtype)
    op = Op.LogicalNot if operand.dtype == "bool" else Op.Not
    return scope.each(operand.dtype, lambda a: scope.code.result(op, kind, a), operand)


def _cast(scope: Scope, node: Any) -> Value:
    return scope.as_dtype(scope.value(node.value), lanes_of(node.ty)[0])


def _select(scope: Scope, node: Any) -> Value:
    condition, then, otherwise = (scope.value(each) for each in choice_of(node) or ())
    kind = scope.code.scalar(then.dtype)

    def write(*operands: Id) -> Id:
        return scope.code.result(Op.Select, kind, *operands)

    return scope.each(then.dtype, write, condition, then, otherwise)


def _let(scope: Scope, node: Any) -> Value:
    """Write a named value exactly, as those of expanded functions: their rounding matters."""
    code = scope.code
    outer, code.is_exact = code.is_exact, True
    scope.values[node.var] = scope.value(node.value)
    result = scope.value(node.body)
    code.is_exact = outer
    return result


def _ramp(scope: Scope, node: Any) -> Value:
    base, stride = scope.value(node.base), scope.value(node.stride)
    found = [base.scalar]
    for _ in range(int(node.lanes) - 1):
        found.append(arithmetic.binary(scope.code, "Add", base.dtype, found[-1], stride.scalar))
    return Value(base.dtype, tuple(found))


def _broadcast(scope: Scope, node: Any) -> Value:
    value = scope.value(node.value)
    return Value(value.dtype, value.lanes * (int(node.lanes)))


def _shuffle(scope: Scope, node: Any) -> Value:
    vectors = [scope.value(each) for each in node.vectors]
    lanes = [lane for vector in vectors for lane in vector.lanes]
    return Value(vectors[0].dtype, tuple(lanes[int(index)] for index in node.indices))


def _call(scope: Scope, node: Any) -> Value:
    if is_conditional(node):
        return _conditional(scope, node)
    dtype = lanes_of(node.ty)[0]
    name, operands = calls.named(node)
    if name == "tvm_storage_sync":
        calls.barrier(scope.code, str(operands[0].value))
        return Value("int32", ())
    if name == "large_uint_imm":
        low, high = (int(each.value) for each in operands)
        return scope.constant(dtype, high << 32 | low)
    values = [scope.value(each) for each in operands]
    if not values:
        raise Unsupported(f"the function '{name}'")
    source = values[0].dtype

    def write(*lanes: Id) -> Id:
        return calls.result(scope.code, name, source, dtype, lanes)

    return scope.each(dtype, write, *values)


def _conditional(scope: Scope, node: Any) -> Value:
    """Write ``if_then_else``: the other operand is not computed, as it may be outside of a
    buffer.
    """
    condition, then, otherwise = node.args
    dtype = lanes_of(node.ty)[0]
    lanes = control_flow.choose(
        scope.code,
        scope.code.scalar(dtype),
        scope.scalar(condition),
        lambda: scope.value(then).lanes,
        lambda: scope.value(otherwise).lanes,
    )
    return Value(dtype, lanes)


_BINARY = (
    *(tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod),
    *(tirx.Min, tirx.Max, tirx.And, tirx.Or),
    *(tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE),
    *(tirx.BitwiseAnd, tirx.BitwiseOr, tirx.BitwiseXor, tirx.LShift, tirx.RShift),
)

_NODES: Mapping[Any, Callable[[Scope, Any], Value]] = {
    **dict.fromkeys(_BINARY, _binary),
    tirx.Var: _variable,
    tirx.IntImm: _number,
    tirx.FloatImm: _number,
    TensorLoad: _load,
    tirx.Cast: _cast,
    tirx.Not: _not,
    tirx.BitwiseNot: _bitwise_not,
    tirx.Select: _select,
    tirx.Let: _let,
    tirx.Ramp: _ramp,
    tirx.Broadcast: _broadcast,
    tirx.Shuffle: _shuffle,
    tvm.ir.Call: _call,
}
"""The functions that write a node, by its class."""
