"""Loops of the virtual machine that become one kernel, with the kernels of a step in it.

Input: a module whose PrimFuncs are scheduled. Output: the same, in which a call of a function with
``LOOP_STEPS`` is a call of one PrimFunc: the steps in order, each the scheduled kernels of a body.
The virtual machine takes longer to start a small kernel than the kernel takes. The body may call
kernels only, and the shapes of its operands must define all symbols; other loops stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import relax, tirx
from tvm.ir import PrimType
from tvm.relax.expr_functor import PyExprMutator, mutator

from tvm_nnef.function_attributes import LOOP_BODY, LOOP_STEPS, POLLS_SIGNALS
from tvm_nnef.schedules import emit
from tvm_nnef.schedules.analysis import sizes
from tvm_nnef.schedules.analysis.expressions import substituted, variables
from tvm_nnef.schedules.graph.rewriting import operator_name
from tvm_nnef.tvm_support.compat import (
    BUFFER_TYPE,
    Module,
    PrimFunction,
    constant_array,
    is_scalar,
    is_tensor,
    opaque_function,
    poll_signals,
    prim_functions,
    with_own_symbols,
)
from tvm_nnef.tvm_support.compat import buffer as new_buffer

NAME = "cpu.loop"

_MOST_KERNELS = 64
"""The body of a loop with more kernels is as long as it takes to start them."""

_LARGEST_STATE = 1 << 20
"""Tensors that are carried from step to step are copied; more elements than these take too long."""

_LANES = 16

_POLLED = 256
"""Signals are polled once in so many steps."""

Buffer = Any
Operand = Any
"""A buffer, or a Relax constant."""


def with_loop_kernels(mod: Module, strategy: str) -> Module:
    """The module with loops as kernels; ``strategy`` is the attribute that names their strategy."""
    if not any(LOOP_STEPS in (function.attrs or {}) for function in mod.functions.values()):
        return mod
    walk = _LoopCalls(mod, strategy)
    for variable, function in list(mod.functions.items()):
        if isinstance(function, relax.Function):
            walk.builder_.update_func(variable, walk.visit_expr(function))
    return walk.builder_.get() if walk.made else mod


@mutator
class _LoopCalls(PyExprMutator):  # type: ignore[misc]
    """Replaces calls of loops; ``made`` are the kernels by the body that they run."""

    def __init__(self, mod: Module, strategy: str) -> None:
        super().__init__(mod)
        self.mod = mod
        self.strategy = strategy
        self.kernels = prim_functions(mod)
        self.made: dict[Any, _Loop] = {}

    def visit_call_(self, call: Any) -> Any:
        visited = super().visit_call_(call)
        function = self._function(visited.op)
        if function is None or LOOP_STEPS not in (function.attrs or {}):
            return visited
        body = self._body(function)
        loop = None if body is None else _Loop.of(body, self.kernels)
        if loop is None:
            return visited
        kernel = loop.kernel(int(function.attrs[LOOP_STEPS])).with_attr(self.strategy, NAME)
        variable = self.builder_.add_func(kernel, "loop")
        self.made[variable] = loop
        given = [argument for argument in visited.args if is_tensor(argument)]
        arguments = relax.Tuple([*given, *loop.constants])
        return relax.op.call_tir(variable, arguments, list(call.ty.fields))

    def _function(self, operator: Any) -> Any:
        if not isinstance(operator, relax.GlobalVar):
            return None
        found = self.mod[operator]
        return found if isinstance(found, relax.Function) else None

    def _body(self, function: Any) -> Any:
        """The function that makes a step, which another calls, or one that it calls."""
        while LOOP_BODY not in (function.attrs or {}):
            called: list[Any] = []

            def visit(expression: Any, called: list[Any] = called) -> None:
                found = self._function(getattr(expression, "op", None))
                called.extend([found] if found is not None else [])

            relax.analysis.post_order_visit(function, visit)
            if not called:
                return None
            function = called[0]
        return function


@dataclass(frozen=True, slots=True)
class _Step:
    """A call of a kernel: what it reads, then what it writes."""

    kernel: PrimFunction
    operands: tuple[Operand, ...]


@dataclass(slots=True)
class _Loop:
    """The body of a loop: ``carried`` hold index and state, ``given`` what stays the same.

    ``results`` are the operands that the next step begins with, the first one whether there is one.
    """

    carried: list[Buffer]
    given: list[Buffer]
    steps: list[_Step] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    held: list[Buffer] = field(default_factory=list)
    made: list[Buffer] = field(default_factory=list)
    results: list[Operand] = field(default_factory=list)

    @staticmethod
    def of(function: Any, kernels: Mapping[str, PrimFunction]) -> _Loop | None:
        """The loop that a function is the body of; None if it does more than call kernels."""
        count = len(function.ret_ty.fields) - 1
        parameters = [p for p in function.params if not isinstance(p.ty, relax.ShapeType)]
        if not all(map(is_tensor, parameters)):
            return None
        buffers = [_buffer(p, f"p{number}") for number, p in enumerate(parameters)]
        loop = _Loop(buffers[:count], buffers[count:])
        size = sum(sizes.estimate(sizes.elements(buffer)) for buffer in loop._copied(function))
        values = dict(zip(parameters, buffers, strict=True))
        if size > _LARGEST_STATE or not loop._read(function, values, kernels):
            return None
        return loop if 0 < len(loop.steps) <= _MOST_KERNELS and loop._defines_symbols() else None

    def _defines_symbols(self) -> bool:
        """Whether all symbols are dimensions of the operands of the loop."""
        defined = [extent for buffer in (*self.carried, *self.given) for extent in buffer.shape]
        found = [s for step in self.steps for o in step.operands for s in _symbols(o)]
        return all(any(symbol.same_as(each) for each in defined) for symbol in found)

    def _copied(self, function: Any) -> Iterator[Buffer]:
        """State that is not written in place."""
        results = _bindings(function).get(function.body.body)
        fields = results.fields if isinstance(results, relax.Tuple) else ()
        for buffer, value in zip(self.carried, fields[1:], strict=False):
            made = _bindings(function).get(value)
            if made is None or operator_name(made) != "call_tir_inplace":
                yield buffer

    def _read(
        self, function: Any, values: dict[Any, Any], kernels: Mapping[str, PrimFunction]
    ) -> bool:
        """Fills in the steps; false for a binding that is no call of a kernel."""
        for variable, value in _bindings(function).items():
            made = self._value(value, values, kernels)
            if made is None:
                return False
            values[variable] = made
        results = values.get(function.body.body)
        if not isinstance(results, list) or len(results) != 1 + len(self.carried):
            return False
        self.results = results
        # State that becomes other state would be overwritten before it is copied.
        return not any(
            _is_among(buffer, [c for other, c in enumerate(self.carried, 1) if other != number])
            for number, buffer in enumerate(results)
        )

    def _value(
        self, value: Any, values: Mapping[Any, Any], kernels: Mapping[str, PrimFunction]
    ) -> Any:
        """The buffer of an expression, a list for a tuple; None for other expressions."""
        match value:
            case relax.Tuple():
                fields = [self._value(each, values, kernels) for each in value.fields]
                return None if any(each is None for each in fields) else fields
            case relax.TupleGetItem():
                whole = values.get(value.tuple_value)
                return whole[int(value.index)] if isinstance(whole, list) else None
            case relax.Var():
                return value if isinstance(value.ty, PrimType) else values.get(value)
        if isinstance(getattr(value, "ty", None), PrimType):
            return value
        if constant_array(value) is not None:
            return self._constant(value)
        return self._called(value, values, kernels)

    def _constant(self, value: Any) -> Buffer:
        for known, buffer in zip(self.constants, self.held, strict=True):
            if known.same_as(value):
                return buffer
        self.constants.append(value)
        self.held.append(_buffer(value, f"constant{len(self.held)}"))
        return self.held[-1]

    def _called(
        self, call: Any, values: Mapping[Any, Any], kernels: Mapping[str, PrimFunction]
    ) -> Any:
        name = operator_name(call)
        if name not in ("call_tir", "call_tir_inplace") or len(call.args) != 2:
            return None
        kernel = kernels.get(str(call.args[0].name_hint))
        read = self._value(call.args[1], values, kernels)
        kinds = list(call.ty.fields) if isinstance(call.ty, relax.TupleType) else [call.ty]
        if kernel is None or not isinstance(read, list) or not all(map(_has_shape, kinds)):
            return None
        if name == "call_tir_inplace":
            (index,) = call.attrs.inplace_indices
            written = [read[int(index)]]
            if not any(written[0].same_as(buffer) for buffer in self.carried):
                return None
            self.steps.append(_Step(kernel, tuple(read)))
        else:
            written = [_typed_buffer(kind, f"made{len(self.made) + n}")
                       for n, kind in enumerate(kinds)]  # fmt: skip
            if any(map(_is_bool_vector, written)):
                return None
            self.made += written
            self.steps.append(_Step(kernel, (*read, *written)))
        return written if isinstance(call.ty, relax.TupleType) else written[0]

    def kernel(self, count: int) -> PrimFunction:
        """The PrimFunc of all steps, or for 0 of as many as each says that another follows."""
        results = [_like(self.results[0], "more"), *(_like(b, "state") for b in self.carried)]
        held = dict(zip(self.carried, results[1:], strict=True))
        starts = [_like(buffer, "start") for buffer in self.carried]
        direct = [n for n in range(len(results)) if self._is_direct(n)]
        held.update({self.results[n]: results[n] for n in direct})
        following = [
            _copy(target, source)
            for n, (target, source) in enumerate(zip(results, self.results, strict=True))
            if n not in direct and not held.get(source, source).same_as(target)
        ]
        step = emit.sequence(
            [_polling(results[1]), *(_inlined(each, held) for each in self.steps), *following]
        )
        begin = [_copy(target, source) for target, source in zip(results[1:], starts, strict=True)]
        if count:
            loop = emit.loop(count, lambda _: step, name="step")
        else:
            true = tirx.const(1, "bool")
            begin.append(tirx.BufferStore(results[0], true, []))
            loop = tirx.While(results[0][()], step)
        made = [buffer for buffer in self.made if buffer not in held]
        parameters = [*starts, *self.given, *self.held, *results]
        body = emit.sequence([*begin, loop])
        made_kernel = opaque_function("loop", parameters, results, made, body)
        return with_own_symbols(made_kernel).with_attr(POLLS_SIGNALS, 1)

    def _is_direct(self, number: int) -> bool:
        """Whether a step may write a result into the buffer that the next step reads.

        No kernel after the one that writes it may read the old value.
        """
        value = self.results[number]
        if not any(value.same_as(buffer) for buffer in self.made):
            return False
        if sum(value.same_as(result) for result in self.results) > 1:
            return False
        if number == 0:
            return True
        old = self.carried[number - 1]
        first = next(n for n, each in enumerate(self.steps) if _is_among(value, each.operands))
        later = any(_is_among(old, each.operands) for each in self.steps[first:])
        return not later and not _is_among(old, self.results)


def _polling(index: Buffer) -> Any:
    """Polls for signals in some of the steps, as a step may take nanoseconds."""
    chosen = tirx.bitwise_and(index[()], tirx.const(_POLLED - 1, "int64")) == _POLLED - 1
    return tirx.IfThenElse(chosen, poll_signals(), None)


def _is_bool_vector(buffer: Buffer) -> bool:
    """Whether a local buffer holds several truth values.

    TVM stores a local vector of bools as int8, which then is no condition of a select.
    """
    return str(buffer.dtype) == "bool" and len(buffer.shape) > 0


def _is_among(buffer: Buffer, others: Sequence[Operand]) -> bool:
    return any(buffer.same_as(other) for other in others)


def _bindings(function: Any) -> dict[Any, Any]:
    """What the variables of a function are bound to, in order."""
    return {
        binding.var: getattr(binding, "value", None)
        for part in function.body.blocks
        for binding in part.bindings
    }


def _has_shape(kind: Any) -> bool:
    return isinstance(getattr(kind, "shape", None), relax.ShapeExpr)


def _typed_buffer(kind: Any, name: str) -> Buffer:
    return new_buffer(list(kind.shape.values), str(kind.dtype), name)


def _symbols(operand: Operand) -> list[Any]:
    """The variables in the shape of a buffer, or in an expression."""
    parts = list(operand.shape) if isinstance(operand.ty, BUFFER_TYPE) else [operand]
    return [variable for part in parts for variable in variables(part)]


def _buffer(expression: Any, name: str) -> Buffer:
    return _typed_buffer(expression.ty, name)


def _like(buffer: Buffer, name: str) -> Buffer:
    return new_buffer(list(buffer.shape), str(buffer.dtype), name)


def _inlined(step: _Step, held: Mapping[Buffer, Buffer]) -> Any:
    """The statement of a kernel on the buffers of a step."""
    kernel = with_own_symbols(step.kernel)
    values: dict[Any, Any] = {}
    for parameter, operand in zip(kernel.params, step.operands, strict=True):
        values[parameter] = held.get(operand, operand)
        if not is_scalar(parameter):
            pairs = zip(parameter.shape, operand.shape, strict=True)
            values.update((own, given) for own, given in pairs if isinstance(own, tirx.Var))
    return substituted(kernel.body, values)


def _copy(target: Buffer, source: Buffer) -> Any:
    """All elements of a buffer, in another one of the same shape."""
    shape = [sizes.extent(extent) for extent in target.shape]
    if not shape:
        return tirx.BufferStore(target, source[()], [])

    def row(outer: list[Any]) -> Any:
        def element(last: Any) -> Any:
            position = (*outer, last)
            return tirx.BufferStore(target, source[position], list(position))

        return emit.strip(shape[-1], _LANES, element)

    return emit.grid(shape[:-1], row, "int64", parallel=False)
