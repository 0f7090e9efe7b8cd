"""Loops as private Relax functions (section 2.10.1).

Input: a ``Loop``, and the walk of the function around it. Output: an expression for each result.
What the body reads is passed to the functions, never copied.

A loop runs by doubling, because a call uses the stack of the machine: the first function makes one
step, and each further one runs the one below it twice, so that n steps need log2(n) functions and
nested calls. They take ``(index, state …)`` and return ``(whether to go on, index, state …)``: the
state is the carried tensors, the new values of variables that the body updates, and the stacks of
the scan outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from tvm import relax

from tvm_nnef.arrays.coded_arrays import rounded
from tvm_nnef.arrays.few_bits import held
from tvm_nnef.diagnostics import error
from tvm_nnef.graph.nodes import (
    Graph,
    Loop,
    Tensor,
    bodies,
    tensors,
    updated_variables,
)
from tvm_nnef.lower.checks import block, defines_symbols, runs_pure
from tvm_nnef.lower.data_dependent_sizes import cut
from tvm_nnef.lower.loop_sizes import is_unrolled, most_steps
from tvm_nnef.lower.naming import identifier
from tvm_nnef.lower.private_functions import (
    Lowered,
    Variable,
    captured_tensors,
    choice_function,
    items_of,
    parameters_for,
    scalar,
)
from tvm_nnef.lower.run_time_packs import empty, item, part, stacked, stored
from tvm_nnef.lower.symbols import occurring, sizes
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import RelaxExpression
from tvm_nnef.tvm_support.function_attributes import CONSTANTS_FROM, LOOP_BODY, LOOP_STEPS

if TYPE_CHECKING:
    from tvm_nnef.lower.scope import Scope


Pack: TypeAlias = "Tensor | tuple[Tensor, ...]"
"""A scan output: a tensor for each step, or one in which as many as there were are stacked."""

_COUNTER = "int64"

_POLLED = 4
"""The doubling at which signals are polled: every 16 steps, each of which calls several kernels."""

_ENDLESS = 1 << 48
"""A loop without a known end makes no more steps than these, some years at a microsecond each."""


def lower_loop(node: Loop, walk: Scope) -> Lowered:
    """The steps one after the other where they are few and known, else calls by doubling."""
    if is_unrolled(node) and not defines_symbols(node.body, walk.known):
        return _unrolled(node, walk)
    name, updates = identifier(f"{node.label}_loop"), updated_variables(*bodies(node))
    return _Repeated(
        node, walk, name, captured_tensors(node), updates, runs_pure(node, walk.known)
    ).run()


def _unrolled(node: Loop, walk: Scope) -> Lowered:
    outer = {tensor: walk.values.get(tensor) for tensor in captured_tensors(node)}
    state, made = _initial(node, walk), []
    for step in range(most_steps(node) or 0):
        values = {**outer, **dict(zip(node.carried, state, strict=True))}
        for scan in node.scans:
            values[scan.item] = walk.values.get(scan.items[step], walk.machine_types[scan.item])
        if node.index is not None:
            number = rounded(np.array(step), walk.machine_types[node.index])
            values[node.index] = compat.constant(number)
        inner = walk.inside(values, walk.values.updated)
        inner.run(node.body)
        walk.values.updated.update(inner.values.updated)
        outputs = inner.values.outputs(node.body, _output_types(node, walk))
        state = outputs[: len(state)]
        made.append(outputs)
    packs = {position: [outputs[position] for outputs in made] for position in _packs(node)}
    return _results(node, state, packs, walk)


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A loop of many steps, or of a number that is known only when it runs.

    Its functions take the index, the state, and after it what stays the same: ``captured``, the
    stacks of the packs that are scanned, the symbols that are known, and the limit where the count
    is a tensor.
    """

    node: Loop
    walk: Scope
    name: str
    captured: tuple[Tensor, ...]
    updates: tuple[Tensor, ...]
    pure: bool

    def run(self) -> Lowered:
        """Makes the functions and calls the outermost."""
        node, walk, packs = self.node, self.walk, _packs(self.node)
        state = [*_initial(node, walk), *map(walk.values.new, self.updates)]
        for position, pack in packs.items():
            shape = _stack_shape(pack, node)
            state.append(empty(walk.builder, shape, held(_output_types(node, walk)[position])))
        index = _counter(0)
        if most_steps(node) != 0:
            index, *state = self._called(state)
        rest = iter(state)
        carried = [next(rest) for _ in node.carried]
        walk.values.updated.update({variable: next(rest) for variable in self.updates})
        made = {position: self._taken(next(rest), pack, index) for position, pack in packs.items()}
        return _results(node, carried, made, walk)

    def _taken(
        self, stack: RelaxExpression, pack: Pack, index: RelaxExpression
    ) -> list[RelaxExpression]:
        """The tensors of a scan output, of its stack; ``index`` is the number of steps made."""
        builder = self.walk.builder
        if isinstance(pack, Tensor):
            (symbol,) = occurring(pack.shape[:1])
            return [cut(builder, stack, index, symbol, pack.shape)]
        return [part(builder, stack, number) for number in range(len(pack))]

    def _called(self, state: Sequence[RelaxExpression]) -> list[RelaxExpression]:
        """Index and state after the last step, of at least one that is possible."""
        walk, changing = self.walk, 1 + len(state)
        scanned = []
        for scan in self.node.scans:
            dtype = walk.machine_types[scan.item]
            scanned.append(stacked(walk.builder, [walk.values.get(t, dtype) for t in scan.items]))
        count = self._count()
        known = sizes(walk.known.values())
        captured = map(walk.values.get, self.captured)
        arguments = [_counter(0), *state, *captured, *scanned, *known, *count]
        function = self._step(arguments, changing)
        most = _ENDLESS if (limit := most_steps(self.node)) is None else limit
        for level in range(1, 1 + (last := (most - 1).bit_length())):
            marks = self._marks(changing) if level == last else {CONSTANTS_FROM: changing}
            name = f"{self.name}_{1 << level}"
            polls = level == _POLLED
            function = self._twice(function, name, arguments, changing, marks, polls=polls)
        if count:
            parameters = parameters_for(arguments)
            call, end = relax.Call(function, parameters), _end(parameters[:changing])
            function = choice_function(self.name, parameters, (call, end), walk, self.pure)
            arguments = [walk.builder.emit(relax.op.less(_counter(0), *count)), *arguments]
        return items_of(relax.Call(function, arguments), 1 + changing, walk)[1:]

    def _count(self) -> list[RelaxExpression]:
        """The number of steps where a tensor gives it, no more than there are items to scan."""
        walk, count, limit = self.walk, self.node.count, most_steps(self.node)
        if not isinstance(count, Tensor):
            return []
        steps = scalar(walk.values.get(count, _COUNTER), walk)
        if limit is not None:
            steps = walk.builder.emit(relax.op.minimum(steps, _counter(limit)))
        return [steps]

    def _marks(self, changing: int) -> dict[str, int]:
        """The attributes of the function that makes all steps."""
        node = self.node
        if node.condition is not None and not node.post_test:
            return {CONSTANTS_FROM: changing}
        counted = node.condition is None and not isinstance(node.count, Tensor)
        return {CONSTANTS_FROM: changing, LOOP_STEPS: (most_steps(node) or 0) if counted else 0}

    def _twice(
        self,
        function: Any,
        name: str,
        arguments: Sequence[RelaxExpression],
        changing: int,
        marks: dict[str, int],
        *,
        polls: bool,
    ) -> Any:
        """A function that calls another, and calls it again unless the loop has ended."""
        builder, parameters = self.walk.builder, parameters_for(arguments)
        with builder.function(name, parameters, marks, pure=self.pure, private=True):
            given = [self._polled(parameters[0]), *parameters[1:]] if polls else parameters
            first = builder.emit(relax.Call(function, given))
            more, *state = items_of(first, 1 + changing, self.walk)
            again = relax.Call(function, [*state, *parameters[changing:]])
            return builder.emit_func_output(builder.emit(relax.If(more, again, first)))

    def _polled(self, index: RelaxExpression) -> RelaxExpression:
        """The index, from a kernel that polls for signals, so that a user can end the loop."""
        kernel = self.walk.builder.add_func(compat.polling_copy(), "poll")
        call = relax.op.call_tir(kernel, [index], out_ty=index.ty)
        return self.walk.builder.emit(call)

    def _step(self, arguments: Sequence[RelaxExpression], changing: int) -> Any:
        """The function of one step; a condition before it may end the loop instead."""
        node, builder = self.node, self.walk.builder
        advance = self._advance(arguments, changing)
        if node.condition is None or node.post_test:
            return advance
        parameters, marks = parameters_for(arguments), {CONSTANTS_FROM: changing}
        name = f"{self.name}_step"
        with builder.function(name, parameters, marks, pure=self.pure, private=True):
            with block(builder, pure=self.pure) as emit_output:
                inner = self.walk.inside(self._values(parameters))
                holds = emit_output(self._holds(node.condition, inner))
            call, end = relax.Call(advance, parameters), _end(parameters[:changing])
            return builder.emit_func_output(builder.emit(relax.If(holds, call, end)))

    def _advance(self, arguments: Sequence[RelaxExpression], changing: int) -> Any:
        """The function that runs the body and returns whether the loop may go on."""
        node, builder, parameters = self.node, self.walk.builder, parameters_for(arguments)
        name, marks = f"{self.name}_body", {CONSTANTS_FROM: changing, LOOP_BODY: 1}
        with builder.function(name, parameters, marks, pure=self.pure, private=True):
            with block(builder, pure=self.pure) as emit_output:
                values = self._values(parameters)
                pending = parameters[1 + len(node.carried) :]
                inner = self.walk.inside(values, dict(zip(self.updates, pending, strict=False)))
                inner.run(node.body)
                outputs = inner.values.outputs(node.body, _output_types(node, self.walk))
                carried = dict(zip(node.carried, outputs, strict=False))
                following = builder.emit(relax.op.add(parameters[0], _counter(1)))
                more = self._more(following, parameters)
                if node.condition is not None and node.post_test:
                    after = self.walk.inside({**values, **carried})
                    holds = self._holds(node.condition, after)
                    more = builder.emit(relax.op.logical_and(more, holds))
                state = [*carried.values(), *self._state(inner, outputs, parameters)]
                output = emit_output(relax.Tuple([more, following, *state]))
            return builder.emit_func_output(output)

    def _state(
        self, inner: Scope, outputs: Sequence[RelaxExpression], parameters: Sequence[Variable]
    ) -> list[RelaxExpression]:
        """The rest of the state, after the carried tensors, after a step."""
        first = 1 + len(self.node.carried) + len(self.updates)
        stacks = [
            stored(self.walk.builder, stack, outputs[position], parameters[0])
            for position, stack in zip(_packs(self.node), parameters[first:], strict=False)
        ]
        return [*map(inner.values.new, self.updates), *stacks]

    def _values(self, parameters: Sequence[Variable]) -> Lowered:
        """Return the tensors that body and condition read, from the parameters of a function."""
        node, count = self.node, len(self.node.carried)
        captured = 1 + count + len(self.updates) + len(_packs(node))
        index, rest = parameters[0], iter(parameters[captured:])
        values = dict(zip(node.carried, parameters[1:], strict=False))
        values.update((tensor, next(rest)) for tensor in self.captured)
        builder = self.walk.builder
        values.update((scan.item, item(builder, next(rest), index)) for scan in node.scans)
        if node.index is not None:
            dtype = self.walk.machine_types[node.index]
            values[node.index] = self.walk.values.cast(index, _COUNTER, dtype)
        return values

    def _more(self, index: RelaxExpression, parameters: Sequence[Variable]) -> RelaxExpression:
        """Whether the number of steps leaves room for the one of the given index."""
        limit = most_steps(self.node)
        if isinstance(self.node.count, Tensor):
            return self.walk.builder.emit(relax.op.less(index, parameters[-1]))
        if limit is None:
            return relax.const(True, "bool")
        return self.walk.builder.emit(relax.op.less(index, _counter(limit)))

    def _holds(self, condition: Graph, inner: Scope) -> RelaxExpression:
        inner.run(condition)
        if inner.values.updated:
            names = ", ".join(f"'{variable.name}'" for variable in inner.values.updated)
            message = f"the condition of a loop updates {names}"
            raise error(message, self.node.span, hint="update it in the body")
        (holds,) = inner.values.outputs(condition, ["bool"])
        return scalar(holds, inner)


def _packs(node: Loop) -> dict[int, Pack]:
    """The scan outputs that are kept, by their position among the outputs of the body."""
    packs = enumerate(node.results)
    return {position: pack for position, pack in packs if position >= len(node.carried) and pack}


def _stack_shape(pack: Pack, node: Loop) -> tuple[Dimension, ...]:
    """The shape of the stack of a scan output, with room for all steps that there can be."""
    if isinstance(pack, Tensor):
        assert node.most is not None
        return (node.most, *pack.shape[1:])
    return (len(pack), *pack[0].shape)


def _output_types(node: Loop, walk: Scope) -> list[str]:
    """The dtypes of the outputs of a body: those of carried tensors do not change."""
    outputs = node.body.output_tensors
    packs = {position: tensors(pack)[0] for position, pack in _packs(node).items()}
    meant = {**dict(enumerate(node.carried)), **packs}
    return [walk.machine_types[meant.get(position, made)] for position, made in enumerate(outputs)]


def _initial(node: Loop, walk: Scope) -> list[RelaxExpression]:
    return [
        walk.values.get(tensor, walk.machine_types[carried])
        for carried, tensor in zip(node.carried, node.initial, strict=True)
    ]


def _results(
    node: Loop,
    state: Sequence[RelaxExpression],
    packs: dict[int, list[RelaxExpression]],
    walk: Scope,
) -> Lowered:
    found = {position: [value] for position, value in enumerate(state)} | packs
    types = _output_types(node, walk)
    return {
        tensor: walk.values.cast(value, types[position], walk.machine_types[tensor])
        for position, result in enumerate(node.results)
        for tensor, value in zip(tensors(result), found.get(position, []), strict=False)
    }


def _end(state: Sequence[RelaxExpression]) -> RelaxExpression:
    """Return the results of a step that is not made: the loop ends, its state is as it was."""
    return relax.Tuple([relax.const(False, "bool"), *state])


def _counter(value: int) -> RelaxExpression:
    return relax.const(value, _COUNTER)
