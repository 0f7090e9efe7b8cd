"""Conversion of the flat graph and of ``graph.quant`` into steps, operation by operation."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.grouping import Group
from tvm_nnef.converters.common.steps import hint, needed, results
from tvm_nnef.converters.common.symbolic import Shape, Symbolic, largest
from tvm_nnef.converters.common.tensors import Call as Step
from tvm_nnef.converters.common.tensors import ConvertedGraph, Tensor
from tvm_nnef.converters.common.types import kind
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1 import calls, nodes
from tvm_nnef.converters.nnef1.calls import Call, Value
from tvm_nnef.converters.nnef1.checking import Checked
from tvm_nnef.converters.nnef1.expansion import expand, expand_call
from tvm_nnef.converters.nnef1.inputs import Given, graph_inputs
from tvm_nnef.converters.nnef1.operators.operation import DTYPES
from tvm_nnef.converters.nnef1.operators.registry import MAX_ELEMENTS, Table, convert_call
from tvm_nnef.converters.nnef1.quantization import as_operator
from tvm_nnef.converters.nnef1.variables import Files, check_label, read_variable
from tvm_nnef.diagnostics import Diagnostic, NnefError, Note, error
from tvm_nnef.storage.container import Container

MAX_CONSTANT = 1 << 28
"""Upper limit of the elements of a ``constant``, whose values a short text can repeat."""

Groups = Mapping[int, tuple[Group, ...]]


def convert_graph(
    checked: Checked,
    files: Container | None,
    quantizers: Mapping[str, Call],
    table: Table,
    given: Given,
    path: str,
) -> tuple[ConvertedGraph, Groups]:
    """Return the graph of a document as steps, and the groups of steps of the user's fragments.

    ``given`` are the user's specifications of inputs, ``path`` the model's name in messages. Raises
    NnefError, which lists every operation that cannot be converted.
    """
    graph = checked.document.graph
    try:
        inputs, symbols = graph_inputs(checked, given, path)
    except NnefError as problem:
        raise NnefError([*checked.problems, *problem.diagnostics]) from None
    stored = None if files is None else Files(files)
    state = _State(checked, stored, quantizers, table, _updated(graph), inputs)
    expand(checked, table, state, symbols)
    names = [each.name for each in graph.results]
    builder = state.builder
    outputs = builder.outputs([state.scope[name] for name in names], names)
    updates = [(state.states[id(variable)], new) for variable, new in state.updates]
    steps = needed(builder.steps, (*outputs, *(new for _, new in updates)))
    kept = {id(each) for step in steps for each in results(step)}
    made = {id(each) for step in builder.steps for each in results(step)}
    graph_ = ConvertedGraph(
        tuple(inputs[each.name] for each in graph.parameters),
        tuple(outputs),
        tuple(steps),
        tuple(updates),
        tuple(each for each in state.quantized if id(each[0]) in kept or id(each[0]) not in made),
    )
    return graph_, state.groups


def _updated(graph: nodes.Graph) -> frozenset[str]:
    """Return the names of tensors in the operations that update, and of variables with their
    labels.
    """
    names = {
        argument.value.name
        for statement in graph.body
        for node in nodes.expressions(statement.value)
        if isinstance(node, nodes.Invocation) and node.name.name == "update"
        for argument in node.arguments
        if isinstance(argument.value, nodes.Name)
    }
    labels = {
        statement.target.name: argument.value.value.lower()
        for statement in graph.body
        if isinstance(statement.target, nodes.Name)
        if isinstance(statement.value, nodes.Invocation)
        if statement.value.name.name == "variable"
        for argument in statement.value.arguments
        if isinstance(argument.value, nodes.Literal) and isinstance(argument.value.value, str)
    }
    updated = {labels[name] for name in names if name in labels}
    return frozenset(names | {name for name, label in labels.items() if label in updated})


@dataclass
class _State:
    """The sink of an expansion: steps, and the tensors computed so far by label.

    ``states`` are the variables of tensors that updates may change, by identity. ``stored`` has the
    variables by label, ``open`` the fragments being expanded.
    """

    checked: Checked
    files: Files | None
    quantizers: Mapping[str, Call]
    table: Table
    updated: frozenset[str]
    inputs: Mapping[str, Tensor]
    builder: Builder = field(default_factory=Builder)
    scope: dict[str, Tensor] = field(default_factory=dict)
    states: dict[int, Tensor] = field(default_factory=dict)
    stored: dict[str, tuple[Call, Tensor]] = field(default_factory=dict)
    updates: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    quantized: list[tuple[Tensor, Step]] = field(default_factory=list)
    groups: dict[int, tuple[Group, ...]] = field(default_factory=dict)
    open: list[Group] = field(default_factory=list)

    def call(self, call: Call) -> None:
        """Convert an operation. Raises NnefError if that fails."""
        start = len(self.builder.steps)
        labels = list(_labels(tuple(call.results.values())))
        try:
            self._convert(call)
            for label in labels:
                if label in self.quantizers:
                    self._quantize(label, self.quantizers[label])
        except Unconvertible as problem:
            own = f"give one: convert(…, converters={{'{call.operation}': function}})"
            message = f"'{call.operation}': {problem.reason}"
            diagnostic = Diagnostic(
                message, call.location, problem.hint or own, is_unsupported=problem.is_unsupported
            )
            raise NnefError(diagnostic) from None
        except NnefError:
            raise
        except Exception as problem:
            # A converter, ours or a user's, may fail in any way; other statements are converted.
            raise _unexpected(problem, call, self.scope) from problem
        steps = self.builder.steps[start:]
        hint(steps, labels[0] if labels else call.operation)
        groups = _without_recursion(self.open)
        for step in steps:
            self.groups |= {id(each): groups for each in results(step)}

    def shape(self, tensor: calls.Tensor) -> Shape | None:
        """Return the shape of a tensor."""
        return self.scope[tensor.label].shape

    def begin(self, fragment: str, label: str, arguments: Mapping[str, Value]) -> None:
        """Begin a fragment: the next steps belong to it."""
        group = Group(fragment, f"{label}_{fragment}")
        group.names.update(self._names(arguments))
        self.open.append(group)

    def end(self, results: Mapping[str, Value]) -> None:
        """End a fragment: its steps are complete."""
        self.open.pop().names.update(self._names(results))

    def _names(self, values: Mapping[str, Value]) -> dict[int, str]:
        """Return the names that a fragment gives to tensors, by the identity of the tensor."""
        return {
            id(self.scope[label]): name if value == calls.Tensor(label) else f"{name}_{number}"
            for name, value in values.items()
            for number, label in enumerate(_labels(value), 1)
        }

    def _convert(self, call: Call) -> None:
        if call.item_type is not None and call.item_type not in DTYPES:
            message = f"tensors of type {call.item_type} cannot be converted"
            raise error(message, call.location, hint=f"types are {', '.join(DTYPES)}")
        if call.operation == "external":
            self._external(call)
        elif call.operation == "variable":
            self._variable(call)
        else:
            if call.operation == "constant":
                _check_shape(call, MAX_CONSTANT)
            done = len(self.updates)
            convert_call(call, self.scope, self.builder, self.table, self.updates)
            for variable, _ in self.updates[done:]:
                self._check_update(variable, self.updates[:done], call)

    def _check_update(
        self, variable: Tensor, earlier: Sequence[tuple[Tensor, Tensor]], call: Call
    ) -> None:
        """Raise NnefError unless a tensor is a variable that was not updated before."""
        if id(variable) not in self.states:
            hint_ = "name the result of 'variable', which is not that of an update"
            raise error("'update' of a tensor that is not a variable", call.location, hint=hint_)
        if any(self.states[id(each)] is self.states[id(variable)] for each, _ in earlier):
            hint_ = "update it once"
            raise error("a variable is updated twice", call.location, hint=hint_)

    def _external(self, call: Call) -> None:
        (label,) = _labels(tuple(call.results.values()))
        default = DTYPES[call.item_type or "scalar"]
        tensor = self.inputs[label]
        if kind(tensor.dtype) != kind(default):
            message = (
                f"the input '{label}' is of type {call.item_type}, which is not {tensor.dtype}"
            )
            raise error(message, call.location, hint=f"give a dtype such as {default}")
        _check_sizes(tuple(map(largest, tensor.shape)), call, MAX_ELEMENTS)
        self.scope[label] = tensor

    def _variable(self, call: Call) -> None:
        (name,) = _labels(tuple(call.results.values()))
        label = check_label(call)
        shape = _check_shape(call, MAX_ELEMENTS)
        if label.lower() in self.stored:
            other, variable = self.stored[label.lower()]
            if other.arguments["shape"] != shape or other.item_type != call.item_type:
                message = f"variables with the label '{label}' differ in shape or type"
                note = Note("the other one is declared here", other.location)
                hint_ = "variables of one label share their values; rename one, or declare it alike"
                raise error(message, call.location, hint=hint_, notes=(note,))
        else:
            value = read_variable(
                self.files, call, self.quantizers.get(name), self.checked.extended.tract_items
            )
            variable = self.builder.constant(value, source=label)
            self.stored[label.lower()] = (call, variable)
        self.scope[name] = variable
        if name in self.updated:
            # The value is that of the first run only, so that nothing may be computed from it here.
            variable.is_state = True
            current = self._own(name)
            self.states[id(current)] = variable

    def _own(self, label: str) -> Tensor:
        """Return the tensor of a label as the result of a step, which has that name alone."""
        tensor = self.builder.call("math.iden", self.scope[label])
        tensor.source = label
        self.scope[label] = tensor
        return tensor

    def _quantize(self, label: str, quantizer: Call) -> None:
        """Quantize a tensor as ``graph.quant`` demands: by ``@quantize``, or by steps."""
        tensor = self.scope[label]
        if kind(tensor.dtype) != "real":
            message = f"'{label}' is quantized, and its elements are not scalars"
            raise error(message, quantizer.location, hint="remove this line")
        if tensor.source != label or tensor.value is not None:
            tensor = self._own(label)
        operator = as_operator(quantizer)
        start = len(self.builder.steps)
        if operator is None:
            result = f"{label}/quantized"
            expand_call(self.checked, self.table, self, quantizer, calls.Tensor(label), result)
            steps = self.builder.steps[start:]
            operator = _operator_on(tensor, steps)
            if operator is None:
                tensor.source, self.scope[label] = f"{label}/exact", self.scope[result]
                self.scope[label].source = label
                if id(tensor) in self.states:
                    self.states[id(self.scope[label])] = self.states[id(tensor)]
                return
            del self.builder.steps[start:]
        self.quantized.append((tensor, operator))


def _operator_on(tensor: Tensor, steps: Sequence[object]) -> Step | None:
    """Return the operator that quantizes a tensor by itself.

    It is None if there are other steps or operands.
    """
    match steps:
        case [Step(arguments=(operand,)) as step] if operand is tensor:
            return replace(step, arguments=(), results=())
    return None


def _labels(value: Value) -> Iterator[str]:
    if isinstance(value, calls.Tensor):
        yield value.label
    elif isinstance(value, tuple):
        for each in value:
            yield from _labels(each)


def _without_recursion(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return the groups up to the first that has the name of an outer one: no operator invokes
    itself.
    """
    kept_groups: list[Group] = []
    for each in groups:
        if any(each.name == other.name for other in kept_groups):
            break
        kept_groups.append(each)
    return tuple(kept_groups)


def _check_shape(call: Call, most: int) -> tuple[int, ...]:
    """Check the attribute ``shape``, whose items must be positive."""
    items = call.arguments["shape"]
    assert isinstance(items, tuple)
    if any(isinstance(each, Symbolic) for each in items):
        message = "a dimension is known only at run time"
        raise error(message, call.location, hint="give the shapes of the inputs: input_shapes={…}")
    shape = tuple(each for each in items if isinstance(each, int))
    _check_sizes(shape, call, most)
    return shape


def _check_sizes(shape: Shape, call: Call, most: int) -> None:
    if any(each < 1 for each in shape):
        message = f"the shape {list(shape)} has items that are not positive"
        raise error(message, call.location, hint="give the size of each dimension")
    if math.prod(shape) > most:
        message = f"a tensor of shape {list(shape)} has more than {most} elements"
        raise error(message, call.location, hint="use smaller dimensions")


def _unexpected(problem: Exception, call: Call, scope: Mapping[str, Tensor]) -> NnefError:
    """Return the error that is reported if a converter fails with an unexpected exception."""
    if isinstance(problem, MemoryError):
        message = f"'{call.operation}' does not fit into memory"
        return error(message, call.location, hint="use smaller dimensions")
    last = traceback.extract_tb(problem.__traceback__)[-1]
    position = f"{Path(last.filename).name}:{last.lineno}"
    shown = ", ".join(
        str(scope[label]) for label in _labels(tuple(call.arguments.values())) if label in scope
    )
    reason = f"{type(problem).__name__}: {problem}".rstrip(": ")
    message = f"'{call.operation}' cannot be converted with these tensors: {shown or 'none'}"
    hint_ = f"correct the arguments; if they are right, report this ({reason} in {position})"
    return error(message, call.location, hint=hint_)
