"""Composition of components into operations (NNEF 2.0 draft, section 2.10 and chapter 3).

Input: checked definitions and values. Output: operations with their bodies; branches and loops are
composed by :mod:`tvm_nnef.composition.control_flow`. This module does not know how an operation is
executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tvm_nnef.composition import declarations
from tvm_nnef.composition.assignment import assignment_of, decompose
from tvm_nnef.composition.binding import Invocation, bind
from tvm_nnef.composition.budget import OPERATION, Budget
from tvm_nnef.composition.checks import check_outputs, helper_values
from tvm_nnef.composition.compaction import check_counted, counted_body, counter, lowered_part
from tvm_nnef.composition.control_flow import branch, loop
from tvm_nnef.composition.dynamic_packs import joined, taken_apart
from tvm_nnef.composition.evaluate import known
from tvm_nnef.composition.expansions import Expansions
from tvm_nnef.composition.frame import Frame
from tvm_nnef.composition.invoker import Invoker
from tvm_nnef.composition.naming import operand_shapes, plain_name, scope_of
from tvm_nnef.composition.quantize import Entry, check_applied, entries, quantized
from tvm_nnef.composition.results import declared_result, results_like
from tvm_nnef.composition.static_types import StaticTypes
from tvm_nnef.composition.updates import updates
from tvm_nnef.composition.values import (
    Value,
    as_operand,
)
from tvm_nnef.diagnostics import Diagnostic, NnefError, Note, Span, error
from tvm_nnef.graph.formula import Formula
from tvm_nnef.graph.nodes import Graph, Operand, Operation, flatten
from tvm_nnef.semantics.program import STDLIB_PREFIX, CheckedDefinition, Program
from tvm_nnef.syntax import nodes

MAX_DEPTH = 64
"""Upper limit of the depth to which operators may invoke each other."""


class Composer(Invoker):
    """A composer of the definitions of one program into one graph; used once."""

    def __init__(self, program: Program, budget: Budget, quantize: bool = True) -> None:
        super().__init__(program, budget)
        self.quantize = quantize
        self.quantizations: dict[str, Entry] = {}
        self._static_types = StaticTypes(program)
        self._expansions = Expansions()

    def begin(
        self, definition: CheckedDefinition, frame: Frame, operands: Sequence[Operand]
    ) -> None:
        """Declare the inputs, constants and variables of a definition's body in its frame."""
        if self.quantize and definition.quantizations:
            self.quantizations |= entries(definition, frame.scope, frame.env)
        names = (parameter.name.name for parameter in definition.inputs)
        self.define(dict(zip(names, operands, strict=True)), frame)
        for parameter in definition.constants:
            tensors = declarations.constants(
                parameter, frame.env, lambda name: self.name(f"{frame.scope}.{name}")
            )
            frame.constants += flatten((tensors,))
            self.define({parameter.name.name: tensors}, frame)
        for parameter in definition.variables:
            location = frame.trace[-1] if frame.trace else parameter.span
            name = partial(self.variable_name, frame.scope, location)
            tensors = declarations.variables(parameter, frame.env, name)
            frame.variables += flatten((tensors,))
            self.define({parameter.name.name: tensors}, frame)

    def run(self, components: Sequence[nodes.Component], frame: Frame) -> None:
        """Compose components one after the other; their results become names of the frame."""
        for component in components:
            values = self.value(component.value, frame, component.targets)
            self.assign(component, values, frame)

    def assign(self, component: nodes.Component, values: tuple[Value, ...], frame: Frame) -> None:
        """Assign values to the names on the left-hand side."""
        targets = component.targets
        if len(targets) > len(values):
            message = f"{len(values)} results are assigned to {len(targets)} names"
            hint = f"write {len(values)} of the names on the left"
            raise error(message, component.span, hint=hint)
        # Trailing results may be left out, as trailing arguments may.
        for target, value in zip(targets, values, strict=False):
            operand = self.as_tensors(value, frame, target.span, plain_name(target))
            declarations.check_target(target, operand, frame.env)
            self.define(decompose(target, operand, frame.env, target.span), frame)

    def define(self, names: Mapping[str, Value], frame: Frame) -> None:
        """Declare names in a frame, each tensor after its quantization."""
        for name, value in names.items():
            entry = self.quantizations.pop(f"{frame.scope}.{name}", None)
            frame.declare({name: value if entry is None else quantized(self, entry, value, frame)})

    def value(
        self,
        node: nodes.Body | nodes.Branch | nodes.Loop,
        frame: Frame,
        targets: Sequence[nodes.Target],
    ) -> tuple[Value, ...]:
        """Return the values of a right-hand side: one for each target."""
        match node:
            case nodes.Branch():
                return branch(self, node, frame, targets)
            case nodes.Loop():
                return loop(self, node, frame, targets)
            case nodes.Scope(components, yields, label):
                name = self.label(targets)
                scope = f"{frame.scope}.{name}" if name else frame.scope
                inner = frame.inner(frame.labelled(label.name) if label else scope)
                self.run(components, inner)
                return tuple(known(item, inner.env) for item in yields)
            case nodes.Call() if str(node.callee) not in frame.env.types:
                return self.invoke(node, frame, targets)
            case _:
                return (known(node, frame.env),)

    def invoke(
        self, call: nodes.Call, frame: Frame, targets: Sequence[nodes.Target]
    ) -> tuple[Operand, ...]:
        """Compose an invocation and return its results.

        Raises NnefError; one inside the operator has notes with the chain of invocations.
        """
        definition = self.program.resolve(frame.module, call.callee)
        invocation = self._invocation(definition, call, frame)
        return self.invoke_bound(definition, invocation, call, frame, targets)

    def invoke_bound(
        self,
        definition: CheckedDefinition,
        invocation: Invocation,
        call: nodes.Call,
        frame: Frame,
        targets: Sequence[nodes.Target],
    ) -> tuple[Operand, ...]:
        """Compose an invocation whose attributes and operands are evaluated already."""
        try:
            arguments = (definition, invocation, call, frame, targets)
            return (
                joined(self, *arguments)
                or taken_apart(self, *arguments)
                or self._invoke(*arguments)
            )
        except NnefError as problem:
            raise _traced(problem, call, definition) from None

    def _invocation(
        self, definition: CheckedDefinition, call: nodes.Call, frame: Frame
    ) -> Invocation:
        attributes = {item.name.name: known(item.value, frame.env) for item in call.attributes}
        arguments = call.arguments or ()
        if len(arguments) > len(definition.inputs):
            message = (
                f"'{definition.qualified_name}' takes {len(definition.inputs)} inputs, "
                f"found {len(arguments)}"
            )
            names = ", ".join(each.name.name for each in definition.inputs) or "none"
            hint = f"the inputs are {names}; attributes go in braces"
            raise error(message, call.span, hint=hint)
        operands: list[Operand] = [
            None
            if isinstance(argument, nodes.Omitted)
            else self.as_tensors(known(argument, frame.env), frame, argument.span)
            for argument in arguments
        ]
        operands += [None] * (len(definition.inputs) - len(operands))
        types = {
            dtype.name.name: frame.env.types.get(type_.name, type_.name)
            for dtype, type_ in zip(definition.dtypes, call.generics, strict=False)
        }
        known_types = dict(self._static_types.of(definition, call, attributes, operands, frame))
        return Invocation(attributes, tuple(operands), types, call.span, known_types)

    def _invoke(
        self,
        definition: CheckedDefinition,
        invocation: Invocation,
        call: nodes.Call,
        frame: Frame,
        targets: Sequence[nodes.Target],
    ) -> tuple[Operand, ...]:
        self.budget.spend("operations", OPERATION, call.span)
        if len(frame.trace) >= MAX_DEPTH:
            hint = "an operator may not invoke itself; repeat with 'do', 'while' or 'unroll'"
            raise error("operators invoke each other without end", call.span, hint=hint)
        label = call.label.name if call.label else self.label(targets)
        env, operands = bind(definition, invocation, frame.env, partial(self.constant, frame))
        self._expansions.run_helpers(definition, env, invocation.location)
        scope = scope_of(definition, call, label, frame)
        inner = Frame(
            definition.module,
            env,
            scope or f"{frame.scope}..{definition.name}",
            (*frame.trace, call.span),
            public=definition.is_public,
            definition=definition,
        )
        self.begin(definition, inner, operands)
        results, body = self._body(definition, inner, operands, frame, targets)
        check_applied(self.quantizations, inner.scope, self.names)
        if scope is None and inner.variables:
            name = definition.qualified_name
            message = f"an invocation of '{name}' needs a label for its variables"
            hint = "write a label before it, as in 'layer1: operator(x)'"
            raise error(message, call.span, hint=hint)
        frame.variables += inner.variables
        frame.operations.append(
            Operation(
                definition.qualified_name,
                {p.name.name: env.names[p.name.name] for p in definition.attributes},
                {dtype.name.name: env.types[dtype.name.name] for dtype in definition.dtypes},  # type: ignore[misc]
                operands,
                results,
                tuple(parameter.type.name.name for parameter in definition.inputs),
                tuple(parameter.type.name.name for parameter in definition.outputs),
                body,
                label or "",
                inner.trace,
                definition.is_public,
                self.program.modules[definition.module].is_standard,
                helper_values(definition, env),
                definition.node.span,
            )
        )
        return results

    def _body(
        self,
        definition: CheckedDefinition,
        inner: Frame,
        operands: tuple[Operand, ...],
        frame: Frame,
        targets: Sequence[nodes.Target],
    ) -> tuple[tuple[Operand, ...], Graph | Formula | None]:
        """Return the results of an invocation, which are tensors of ``frame``, and the body that
        computes them.
        """
        padded = [*targets, *([None] * (len(definition.outputs) - len(targets)))]
        declared = list(zip(definition.outputs, padded, strict=False))
        if definition.is_composed:
            local = definition.constants or definition.variables
            single = len(definition.components) == 1 and not definition.is_graph
            inner.transparent = single and not local
            self.run(definition.components, inner)
            body = self.graph(definition, inner, operands, inner.trace[-1])
            results = tuple(
                port.operand
                and declared_result(
                    self.name, parameter, operand_shapes(port.operand), inner.env, frame, target
                )
                for (parameter, target), port in zip(declared, body.outputs, strict=True)
            )
            return results, body
        before, counted = len(inner.env.symbols.bounds), counter(definition, inner.env.names)
        own: tuple[Operand, ...] | None = None
        if counted is not None:
            own = counted_body(definition, counted, inner, self.name)
            shapes = [operand_shapes(operand) for operand in own]
        else:
            shapes = [declarations.item_shapes(parameter, inner.env) for parameter, _ in declared]
        check_counted(definition, len(inner.env.symbols.bounds) - before, counted)
        results = tuple(
            declared_result(self.name, parameter, shape, inner.env, frame, target)
            for (parameter, target), shape in zip(declared, shapes, strict=True)
        )
        names = [parameter.name.name for parameter in definition.outputs]
        env = inner.env.extended(dict(zip(names, results, strict=True)))
        check_outputs(definition, env, inner.trace[-1])
        if not definition.is_lowered:
            return results, None
        if own is None and not inner.operations:
            return results, self._expansions.formula(definition, results, env)
        if own is None:
            # The formula of the operator reads its quantized tensors.
            own = results_like(self.name, results, inner, ())
            env = env.extended(dict(zip(names, own, strict=True)))
            formula = self._expansions.formula(definition, own, env)
            inner.operations.append(lowered_part(definition, inner, own, formula))
        return results, inner.graph(definition, operands, own)

    def graph(
        self,
        definition: CheckedDefinition,
        frame: Frame,
        operands: tuple[Operand, ...],
        location: Span,
    ) -> Graph:
        """Return the graph of a frame whose components have been composed.

        Its outputs are checked.
        """
        changes = updates(self, definition, frame)
        outputs: list[Operand] = []
        for parameter in definition.outputs:
            name = parameter.name.name
            if name not in frame.env.names:
                hint = f"assign it in '@compose', as in '{name} = ...;'"
                raise error(f"output '{name}' is never assigned", parameter.span, hint=hint)
            operand = as_operand(frame.env.names[name], parameter.span)
            if operand is not None or not parameter.type.optional:
                assigned = assignment_of(name, definition.components) or location
                declarations.check_result(parameter, operand, frame.env, assigned)
            outputs.append(operand)
        check_outputs(definition, frame.env, location)
        return replace(frame.graph(definition, operands, tuple(outputs)), updates=changes)


def _traced(problem: NnefError, call: nodes.Call, definition: CheckedDefinition) -> NnefError:
    """Return the error with a note of the invocation, unless the error points at it already.

    An error in the text of a standard operator is moved to the invocation by the model.
    """
    name, span = definition.qualified_name, problem.diagnostics[0].span
    if span is None or span == call.span:
        return problem
    if _is_standard(span) and not _is_standard(call.span):
        return type(problem)(_moved(each, call.span, name) for each in problem.diagnostics)
    return problem.with_note(Note(f"in this invocation of '{name}'", call.span))


def _moved(diagnostic: Diagnostic, span: Span, name: str) -> Diagnostic:
    """Return a diagnostic at an invocation instead of the text of an operator."""
    note = Note(f"in the standard operator '{name}'", diagnostic.span)
    return replace(diagnostic, span=span, notes=(note, *diagnostic.notes))


def _is_standard(span: Span) -> bool:
    return span.source.path.startswith(STDLIB_PREFIX)
