"""Loops of the virtual machine that become one kernel, with the kernels of a step in it.

Input: a module whose PrimFuncs are scheduled. Output: the same, in which a call of a function with
``LOOP_STEPS`` is a call of one PrimFunc: the steps in order, each the scheduled kernels of a body.
The virtual machine takes longer to start a small kernel than the kernel takes. The body may call
kernels only, and the shapes of its operands must define all symbols; other loops stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tvm import relax, tirx
from tvm.ir import Call, PrimType, TensorLoad, TensorRegion, Type
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.machine import CpuModel, bits_of
from tvm_nnef.schedules.plan import emit
from tvm_nnef.schedules.plan.plan import STRATEGY
from tvm_nnef.schedules.relax.rewriting import operator_name, with_functions
from tvm_nnef.tir.expressions import nodes, substituted, variables
from tvm_nnef.tvm_support.compat import (
    Buffer,
    Module,
    PrimExpression,
    PrimFunction,
    RelaxExpression,
    Var,
    constant_array,
    is_scalar,
    is_tensor,
    opaque_function,
    poll_signals,
    prim_functions,
    with_own_symbols,
)
from tvm_nnef.tvm_support.compat import buffer as new_buffer
from tvm_nnef.tvm_support.function_attributes import LOOP_BODY, LOOP_STEPS, POLLS_SIGNALS
from tvm_nnef.tvm_support.traversal import mapped

NAME = "cpu.loop"

_MOST_KERNELS = 64
"""The most kernels of a step: a limit of compile time, where starting each costs little."""

_POLLED = 256
"""Signals are polled once in so many steps: a user waits for these after an interrupt."""

_NO = tirx.const(0, "int8")
"""The byte of False."""

_Value: TypeAlias = "PrimExpression | list[PrimExpression]"
"""A buffer, a number, or those of a tuple."""


def with_loop_kernels(mod: Module, machine: CpuModel) -> Module:
    """The module with loops as kernels."""
    if not any(LOOP_STEPS in (function.attrs or {}) for function in mod.functions.values()):
        return mod
    walk = _LoopCalls(mod, machine)
    return with_functions(walk, walk.visit_expr)


@mutator
class _LoopCalls(PyExprMutator):  # type: ignore[misc]
    """Replaces calls of loops."""

    def __init__(self, mod: Module, machine: CpuModel) -> None:
        super().__init__(mod)
        self.mod = mod
        self.machine = machine
        self.kernels = prim_functions(mod)

    def visit_call_(self, call: Call) -> RelaxExpression:
        visited: Call = super().visit_call_(call)
        function = self._function(visited.op)
        count = None if function is None else (function.attrs or {}).get(LOOP_STEPS)
        body = None if count is None else self._body(function)
        loop = None if body is None else _read_loop(body, self.kernels, self.machine)
        if count is None or loop is None:
            return visited
        kernel = loop.kernel(int(count)).with_attr(STRATEGY, NAME)
        variable = self.builder_.add_func(kernel, "loop")
        given = [argument for argument in visited.args if is_tensor(argument)]
        arguments = relax.Tuple([*given, *loop.constants])
        return relax.op.call_tir(variable, arguments, list(call.ty.fields))

    def _function(self, operator: RelaxExpression) -> relax.Function | None:
        found = self.mod[operator] if isinstance(operator, relax.GlobalVar) else None
        return found if isinstance(found, relax.Function) else None

    def _body(self, function: relax.Function | None) -> relax.Function | None:
        """The function that makes a step, which another calls, or one that it calls."""
        while function is not None and LOOP_BODY not in (function.attrs or {}):
            called = map(self._function, relax.analysis.all_global_vars(function))
            function = next((each for each in called if each is not None), None)
        return function


def _read_loop(
    function: relax.Function, kernels: Mapping[str, PrimFunction], machine: CpuModel
) -> _Loop | None:
    """The loop that a function is the body of; None if it does more than call kernels."""
    count = len(function.ret_ty.fields) - 1
    parameters = [p for p in function.params if not isinstance(p.ty, relax.ShapeType)]
    if not all(map(is_tensor, parameters)):
        return None
    buffers = [_buffer(p.ty, f"p{number}") for number, p in enumerate(parameters)]
    values: dict[RelaxExpression, _Value] = dict(zip(parameters, buffers, strict=True))
    loop = _Loop(machine, kernels, buffers[:count], buffers[count:], values)
    for block in function.body.blocks:
        for binding in block.bindings:
            made = loop.value(getattr(binding, "value", binding))
            if made is None:
                return None
            values[binding.var] = made
    found = values.get(function.body.body)
    loop.results = [b for b in found if isinstance(b, tirx.Var)] if isinstance(found, list) else []
    if len(loop.results) != 1 + count or any(result in loop.bytes for result in loop.results):
        return None
    return loop if 0 < len(loop.steps) <= _MOST_KERNELS and loop.can_be_copied() else None


@dataclass(slots=True)
class _Loop:
    """The body of a loop, as it is read: ``values`` are those of the variables known so far.

    ``carried`` are index and state, which each step reads and writes, ``given`` what stays the
    same, ``made`` what a step computes, by statements and their operands. ``results`` are what the
    next step begins with; the first one says whether there is one. ``bytes`` are the buffers of
    int8 that hold arrays of bools.
    """

    machine: CpuModel
    kernels: Mapping[str, PrimFunction]
    carried: list[Buffer]
    given: list[Buffer]
    values: dict[RelaxExpression, _Value]
    steps: list[tuple[tirx.Stmt, Sequence[PrimExpression]]] = field(default_factory=list)
    constants: dict[RelaxExpression, Buffer] = field(default_factory=dict)
    made: list[Buffer] = field(default_factory=list)
    bytes: dict[Buffer, Buffer] = field(default_factory=dict)
    results: list[Buffer] = field(default_factory=list)

    def value(self, expression: RelaxExpression) -> _Value | None:
        """The buffer of an expression, a list for a tuple; None for other expressions."""
        match expression:
            case relax.Tuple():
                fields = [self.value(each) for each in expression.fields]
                known = [each for each in fields if isinstance(each, RelaxExpression)]
                return known if len(known) == len(fields) else None
            case relax.TupleGetItem():
                whole = self.values.get(expression.tuple_value)
                return whole[int(expression.index)] if isinstance(whole, list) else None
        if isinstance(getattr(expression, "ty", None), PrimType):
            return expression
        if constant_array(expression) is not None:
            name = f"constant{len(self.constants)}"
            return self.constants.setdefault(expression, _buffer(expression.ty, name))
        if isinstance(expression, Call):
            return self._called(expression)
        return self.values.get(expression)

    def _called(self, call: Call) -> _Value | None:
        """The results of a call of a kernel, which becomes a step; None for other calls."""
        name = operator_name(call)
        if name not in ("call_tir", "call_tir_inplace") or len(call.args) != 2:
            return None
        kinds = list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else [call.ty]
        read = self.value(call.args[1])
        if not isinstance(read, list) or not all(map(_has_shape, kinds)):
            return None
        written: list[PrimExpression] = []
        if name == "call_tir_inplace":
            (index,) = call.attrs.inplace_indices
            written, operands = [read[int(index)]], read
            if not any(written[0].same_as(buffer) for buffer in self.carried):
                return None
        else:
            made = [_buffer(k, f"made{len(self.made) + n}") for n, k in enumerate(kinds)]
            written, operands = [*made], [*read, *made]
            # TVM stores local arrays of bools as int8, but the condition of a select must be bool.
            self.bytes.update(
                (each, new_buffer(list(each.shape), "int8", "bytes"))
                for each in made
                if str(each.dtype) == "bool" and len(each.shape)
            )
            self.made += made
        defined = [extent for buffer in (*self.carried, *self.given) for extent in buffer.shape]
        if not all(_is_among(v, defined) for operand in operands for v in _symbols(operand)):
            return None
        statement = self._in_bytes(_inlined(self.kernels[call.args[0].name_hint], operands))
        if self.bytes and any(each in self.bytes for each in nodes(statement, tirx.Var)):
            return None
        self.steps.append((statement, operands))
        return written if isinstance(call.ty, relax.TupleType) else written[0]

    def _in_bytes(self, statement: tirx.Stmt) -> tirx.Stmt:
        """The statement with arrays of bools in int8, if it only loads and stores elements."""

        def load(element: TensorLoad) -> PrimExpression:
            held = self.bytes.get(element.source)
            return element if held is None else tirx.NE(held[tuple(element.indices)], _NO)

        def store(written: tirx.BufferStore) -> tirx.Stmt:
            held = self.bytes.get(written.buffer)
            if held is None:
                return written
            return tirx.BufferStore(held, tirx.Cast("int8", written.value), written.indices)

        def annotation(region: TensorRegion) -> TensorRegion:
            held = self.bytes.get(region.source)
            return region if held is None else tirx.BufferRegion(held, region.region)

        if not self.bytes:
            return statement
        return mapped(
            statement,
            [(TensorLoad, load), (tirx.BufferStore, store), (TensorRegion, annotation)],
        )

    def can_be_copied(self) -> bool:
        """Whether results can become the state of the next step one after the other, in time."""
        copied = [(n, s) for n, s in enumerate(self.results[1:]) if not s.same_as(self.carried[n])]
        size = sum(sizes.estimate(sizes.elements(self.carried[n])) for n, _ in copied)
        early = any(source.same_as(buffer) for _, source in copied for buffer in self.carried)
        return size <= self.machine.copied_elements and not early

    def _written_early(self, states: Sequence[Buffer]) -> dict[Var, PrimExpression]:
        """The results that steps may write to the state, as nothing reads its old value later."""
        found: dict[Var, PrimExpression] = {}
        for state, result in zip(states, self.results, strict=True):
            using = [n for n, (_, operands) in enumerate(self.steps) if _is_among(result, operands)]
            later = [operands for _, operands in self.steps[using[0] :]] if using else []
            old_is_read = any(_is_among(state, operands) for operands in (*later, self.results))
            once = sum(result.same_as(each) for each in self.results) == 1
            if once and _is_among(result, self.made) and not old_is_read:
                found[result] = state
        return found

    def kernel(self, count: int) -> PrimFunction:
        """The PrimFunc of all steps, or for 0 of as many as each says that another follows."""
        starts = [new_buffer(list(b.shape), str(b.dtype), "start") for b in self.carried]
        more = new_buffer([], "bool", "more")
        results = [more, *self.carried]
        early = self._written_early(results)
        steps = [substituted(statement, early) for statement, _ in self.steps]
        pairs = zip(results, self.results, strict=True)
        copies = [
            _copy(to, made, self.machine)
            for to, made in pairs
            if not early.get(made, made).same_as(to)
        ]
        step = emit.sequence([_polling(self.carried[0]), *steps, *copies])
        states = zip(self.carried, starts, strict=True)
        begin = [_copy(state, start, self.machine) for state, start in states]
        if count:
            loop = emit.loop(count, lambda _: step, name="step")
        else:
            begin.append(tirx.BufferStore(more, tirx.const(1, "bool"), []))
            loop = tirx.While(more[()], step)
        parameters = [*starts, *self.given, *self.constants.values(), *results]
        body = emit.sequence([*begin, loop])
        local = [self.bytes.get(buffer, buffer) for buffer in self.made if buffer not in early]
        made = opaque_function("loop", parameters, results, local, body)
        return with_own_symbols(made).with_attr(POLLS_SIGNALS, 1)


def _polling(index: Buffer) -> tirx.Stmt:
    """Polls for signals in some of the steps, as a step may take nanoseconds."""
    chosen = tirx.bitwise_and(index[()], tirx.const(_POLLED - 1, "int64")) == _POLLED - 1
    return tirx.IfThenElse(chosen, poll_signals(), None)


def _has_shape(kind: Type) -> bool:
    return isinstance(getattr(kind, "shape", None), relax.ShapeExpr)


def _buffer(kind: Type, name: str) -> Buffer:
    made: Buffer = new_buffer(list(kind.shape.values), str(kind.dtype), name)
    return made


def _is_among(value: PrimExpression, others: Sequence[PrimExpression]) -> bool:
    """Whether a node is one of others: ``==`` makes an expression."""
    return any(value.same_as(other) for other in others)


def _symbols(operand: PrimExpression) -> list[Var]:
    """The variables in the shape of a buffer, or in a number."""
    parts = operand.shape if isinstance(operand, tirx.Var) and not is_scalar(operand) else [operand]
    return [variable for part in parts for variable in variables(part)]


def _inlined(kernel: PrimFunction, operands: Sequence[PrimExpression]) -> tirx.Stmt:
    """The statement of a kernel on some operands."""
    own = with_own_symbols(kernel)
    values: dict[Var, PrimExpression] = dict(zip(own.params, operands, strict=True))
    for parameter, operand in list(values.items()):
        if isinstance(operand, tirx.Var) and not is_scalar(parameter):
            pairs = zip(parameter.shape, operand.shape, strict=True)
            values.update((extent, size) for extent, size in pairs if isinstance(extent, tirx.Var))
    body: tirx.Stmt = substituted(own.body, values)
    return body


def _copy(target: Buffer, source: Buffer, machine: CpuModel) -> tirx.Stmt:
    """All elements of a buffer, in another one of the same shape."""
    shape = [*map(sizes.extent, target.shape)] or [1]
    lanes = machine.lanes(bits_of(str(target.dtype)))

    def row(outer: list[PrimExpression]) -> tirx.Stmt:
        def element(last: PrimExpression) -> tirx.Stmt:
            position = [*outer, last][: len(target.shape)]
            return tirx.BufferStore(target, source[tuple(position)], position)

        return emit.strip(shape[-1], lanes, element)

    return emit.grid(shape[:-1], row, "int64")
