"""Expansion of a checked document into the flat graph: fragments inlined, attributes computed
(chapter 6).

Input: a checked document. Output: operations, each passed to a :class:`Sink` when it is reached,
which knows the shapes of the tensors computed so far.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from types import MappingProxyType
from typing import Protocol

from tvm_nnef.converters.common.symbolic import Shape
from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.calls import Call, Tensor, Value
from tvm_nnef.converters.nnef1.checking import Checked, standard_generics, targets
from tvm_nnef.converters.nnef1.evaluation import (
    Evaluation,
    Evaluator,
    Exhausted,
    Frame,
    Skipped,
    with_chain,
)
from tvm_nnef.converters.nnef1.fragments import Signature, Signatures, standard
from tvm_nnef.converters.nnef1.labels import Labelling, Labels, labels_of, leaves, tensors
from tvm_nnef.converters.nnef1.scan import Scan, steps_of
from tvm_nnef.converters.nnef1.types import TensorType
from tvm_nnef.diagnostics import Diagnostic, NnefError, Source, Span, error

MAX_DEPTH = 500
"""Upper limit of the nesting of fragments."""

_FRAGMENT = 16
"""The number of expressions that take as long as preparing the expansion of a fragment."""

MAX_OPERATIONS = 100_000
"""Upper limit of the operations of the flat graph."""

_PRIMITIVES = {bool: "logical", int: "integer", float: "scalar", str: "string"}


class Sink(Protocol):
    """The interface of a consumer of the flat graph's operations."""

    def call(self, call: Call) -> None:
        """Take an operation; raise NnefError, without a span, if it cannot be converted."""

    def shape(self, tensor: Tensor) -> Shape | None:
        """Return the shape of a result of an earlier operation; None if it is not known."""

    def begin(self, fragment: str, label: str, arguments: Mapping[str, Value]) -> None:
        """Begin a fragment of the document: operations up to the next ``end`` belong to it."""

    def end(self, results: Mapping[str, Value]) -> None:
        """End the fragment that was begun last; ``results`` are its results."""


def expand(
    checked: Checked,
    operations: Container[str],
    sink: Sink,
    symbols: Mapping[str, Value] = MappingProxyType({}),
) -> None:
    """Pass the operations of a document to a sink, in the order of the text.

    ``operations`` are not expanded although they have a body; ``symbols`` are the dynamic
    dimensions that the document names. Raises NnefError with the diagnostics of the document and of
    all statements of the graph that do not depend on a wrong one.
    """
    expansion = _Expansion(
        checked.signatures, checked.generics, operations, sink, symbols, checked.extended.scans
    )
    expansion.names.update(symbols)
    for statement in checked.document.graph.body:
        expansion.labelling.labels.avoid(*(each.name for each in targets(statement.target)))
    source = checked.document.graph.span.source
    ordered = [(_position(each, source), each) for each in checked.problems]
    reported: set[tuple[str, Span | None]] = set()
    for statement in checked.statements:
        try:
            expansion.statement(statement)
        except Skipped:
            pass
        except NnefError as problem:
            for each in problem.diagnostics:
                key = (each.message, each.span)
                if key not in reported:
                    ordered.append(((False, statement.span.start), each))
                reported.add(key)
            if isinstance(problem, Exhausted):
                break
    if ordered:
        raise NnefError([each for _, each in sorted(ordered, key=itemgetter(0))])


def _position(problem: Diagnostic, source: Source) -> tuple[bool, int]:
    """Return the sort key of a diagnostic: the order of the text of a graph, other files last."""
    span = problem.span
    return (False, 0) if span is None else (span.source is not source, span.start)


def expand_call(
    checked: Checked,
    operations: Container[str],
    sink: Sink,
    call: Call,
    operand: Tensor,
    label: str,
) -> None:
    """Pass an operation on a tensor to a sink, expanded if it has a body; its result gets a label.

    The call has all arguments but the first.
    """
    expansion = _Expansion(checked.signatures, checked.generics, operations, sink)
    expansion.labelling.labels.avoid(label)
    signature = checked.signatures[call.operation]
    arguments = {signature.parameters[0].name.name: operand, **call.arguments}
    frame = Frame({}, checked.signatures, label)
    value = expansion.run(
        expansion.invoke(signature, arguments, call.item_type, frame, label, call.location)
    )
    if value != Tensor(label):
        message = f"'{call.operation}' does not compute its own tensor"
        raise error(message, call.location, hint="use another quantization")


@dataclass
class _Expansion(Evaluator):
    signatures: Signatures
    generics: Mapping[nodes.Invocation, str | None]
    operations: Container[str]
    sink: Sink
    symbols: Mapping[str, Value] = field(default_factory=dict)
    scans: Mapping[str, Scan] = field(default_factory=dict)
    names: dict[str, Value] = field(default_factory=dict)
    labelling: Labelling = field(default_factory=Labelling)
    calls: int = 0

    def statement(self, statement: nodes.Assignment) -> None:
        """Expand a statement of the graph."""
        wanted = labels_of(statement.target, lambda name: name)
        (base, *_) = (*leaves(wanted), "")
        frame = Frame(self.names, self.signatures, base)
        value = self.run(self.evaluate(statement.value, frame, wanted))
        for name, each in self.unpacked(statement.target, value, frame):
            self.names[name.name] = self._named(name, each, frame)

    def _named(self, name: nodes.Name, value: Value, frame: Frame) -> Value:
        """Return a tensor under its name in the graph: a copy if it has another name, or is a
        constant.
        """
        if value == Tensor(name.name):
            return value
        result = Tensor(name.name)
        if isinstance(value, Tensor):
            item = self.labelling.item_types[value.label]
            call = Call("copy", {"x": value}, {"y": result}, item, (), name.span)
        else:
            item = _PRIMITIVES[type(value)]
            attributes: dict[str, Value] = {"shape": (), "value": (value,)}
            call = Call("constant", attributes, {"output": result}, item, (), name.span)
        self._emit(call, frame)
        self.labelling.item_types[name.name] = item
        return result

    def shape(self, tensor: Tensor) -> Shape | None:
        """Return the shape of a tensor computed so far."""
        return self.sink.shape(tensor)

    def operation(
        self,
        node: nodes.Unary | nodes.Binary,
        name: str,
        operands: Sequence[Value],
        frame: Frame,
        wanted: Labels,
    ) -> Evaluation:
        """Evaluate an operator on tensors as an invocation of its fragment."""
        signature = standard()[name]
        arguments = {
            parameter.name.name: operand
            for parameter, operand in zip(signature.parameters, operands, strict=True)
        }
        (first, *_) = (each for each in operands if isinstance(each, Tensor))
        item = self.labelling.item_types[first.label] if signature.is_generic else None
        return (yield self.invoke(signature, arguments, item, frame, wanted, node.span))

    def invocation(self, node: nodes.Invocation, frame: Frame, wanted: Labels) -> Evaluation:
        signature = frame.signatures[node.name.name]
        given: dict[str, Value] = {}
        for number, argument in enumerate(node.arguments):
            name = argument.name or signature.parameters[number].name
            given[name.name] = yield self.evaluate(argument.value, frame)
        generic = self._generic(node, frame)
        return (yield self.invoke(signature, given, generic, frame, wanted, node.span))

    def _generic(self, node: nodes.Invocation, frame: Frame) -> str | None:
        table = self.generics if node in self.generics else standard_generics()
        found = table.get(node)
        return frame.generic if found == "?" else found

    def invoke(
        self,
        signature: Signature,
        given: Mapping[str, Value],
        generic: str | None,
        frame: Frame,
        wanted: Labels,
        span: Span,
    ) -> Evaluation:
        """Evaluate a fragment: return the results of its body, or of an operation of the flat
        graph.
        """
        arguments = {
            name: given[name] if name in given else signature.defaults[name]
            for name in (each.name.name for each in signature.parameters)
        }
        labels = self._result_labels(signature, wanted, frame)
        if signature.name in self.scans:
            scan = self.scans[signature.name]
            return (yield self._scanned(scan, arguments, labels, frame, span))
        body = signature.node.body
        if body is None or signature.name in self.operations:
            return self._called(signature, arguments, generic, labels, frame, span)
        if len(frame.chain) >= MAX_DEPTH:
            message = f"fragments are invoked inside each other more than {MAX_DEPTH} times"
            hint = "does the recursion have an end, as in '… if length_of(x) > 0 else 0.0'?"
            raise self.error(message, span, hint, frame)
        self.spend(_FRAGMENT, span, frame)
        signatures = standard() if signature.is_standard else self.signatures
        prefix = next(leaves(tuple(labels.values())), signature.name)
        inner = Frame(
            {}, signatures, prefix, generic, (*frame.chain, (signature.name, span)), labels, prefix
        )
        if not signature.is_standard:
            self.sink.begin(signature.name, prefix, arguments)
        results = yield self._body(signature, body, arguments, inner)
        if not signature.is_standard:
            values = results if len(labels) > 1 else (results,)
            assert isinstance(values, tuple)
            self.sink.end(dict(zip(labels, values, strict=True)))
        return results

    def _body(
        self,
        signature: Signature,
        body: Sequence[nodes.Assignment],
        arguments: Mapping[str, Value],
        frame: Frame,
    ) -> Evaluation:
        names = {**self.symbols, **arguments}
        for statement in body:
            wanted = labels_of(statement.target, lambda name: self._local_label(name, frame))
            base = next(leaves(wanted), frame.prefix)
            inner = replace(frame, names=names, base=base)
            value = yield self.evaluate(statement.value, inner, wanted)
            for name, each in self.unpacked(statement.target, value, inner):
                names[name.name] = each
        for result in signature.results:
            self.labelling.note_types(result.type, names[result.name.name], frame.generic)
        results = tuple(names[each.name.name] for each in signature.results)
        return results[0] if len(results) == 1 else results

    def _local_label(self, name: str, frame: Frame) -> Labels:
        if name in frame.wanted:
            return frame.wanted[name]
        return self.labelling.labels.name(f"{frame.prefix}/{name}")

    def _scanned(
        self,
        scan: Scan,
        arguments: Mapping[str, Value],
        labels: Mapping[str, Labels],
        frame: Frame,
        span: Span,
    ) -> Evaluation:
        """Evaluate a scan: invoke its fragment for each part of the scanned tensors."""
        fragment = self.signatures[scan.body]
        names = [each.name.name for each in fragment.results]
        states = {name: arguments[name] for name, _ in scan.carried}
        parts: list[dict[str, Value]] = []
        for step in range(self._steps(scan, arguments, frame, span)):
            step_arguments = {name: arguments[name] for name in scan.whole} | states
            for name in scan.scanned:
                step_arguments[name] = self._part(name, step, arguments, frame, span)
            wanted = tuple(self.labelling.labels.name(f"{frame.base}/{each}") for each in names)
            one = wanted if len(names) > 1 else wanted[0]
            found = yield self.invoke(fragment, step_arguments, None, frame, one, span)
            values = found if len(names) > 1 else (found,)
            assert isinstance(values, tuple)
            parts.append(dict(zip(names, values, strict=True)))
            states = {name: parts[-1][result] for name, result in scan.carried}
        results: list[Value] = []
        for number, ((name, is_full), label) in enumerate(
            zip(scan.outputs, labels.values(), strict=True), 1
        ):
            every = [each[name] for each in parts]
            if isinstance(pace := arguments[f"{number}_pace"], int) and pace < 0:
                every.reverse()
            joined: dict[str, Value] = {
                "values": tuple(every), "axis": arguments[f"{number}_axis"]
            }  # fmt: skip
            last = parts[-1][name]
            operation, step_arguments = ("concat", joined) if is_full else ("copy", {"x": last})
            results.append(self._step(operation, step_arguments, last, label, frame, span))
        return results[0] if len(results) == 1 else tuple(results)

    def _steps(self, scan: Scan, arguments: Mapping[str, Value], frame: Frame, span: Span) -> int:
        """Return the number of parts of the scanned tensors."""
        sizes: list[tuple[int, int]] = []
        for name in scan.scanned:
            tensor, axis, pace = (arguments[f"{name}{each}"] for each in ("", "_axis", "_pace"))
            shape = (self.sink.shape(tensor) if isinstance(tensor, Tensor) else None) or ()
            size = shape[axis] if isinstance(axis, int) and 0 <= axis < len(shape) else None
            if not isinstance(size, int) or not isinstance(pace, int):
                message = f"the dimension along which '{name}' is scanned is not static"
                hint = "give the shapes of the inputs: convert(…, input_shapes={…})"
                raise self.error(message, span, hint, frame)
            sizes.append((size, pace))
        try:
            return steps_of(sizes, span)
        except NnefError as problem:
            raise with_chain(problem, frame) from None

    def _part(
        self, name: str, step: int, arguments: Mapping[str, Value], frame: Frame, span: Span
    ) -> Value:
        """Return the part of a scanned tensor that belongs to a step."""
        tensor, axis, pace = (arguments[f"{name}{each}"] for each in ("", "_axis", "_pace"))
        assert isinstance(tensor, Tensor) and isinstance(axis, int) and isinstance(pace, int)
        shape = self.sink.shape(tensor)
        assert shape is not None
        begin = step * pace if pace > 0 else shape[axis] - 1 - step
        attributes: dict[str, Value] = {
            "input": tensor, "axes": (axis,), "begin": (begin,), "end": (begin + abs(pace),),
            "stride": (1,),
        }  # fmt: skip
        return self._step("slice", attributes, tensor, None, frame, span)

    def _step(
        self,
        operation: str,
        given: Mapping[str, Value],
        like: Value,
        wanted: Labels,
        frame: Frame,
        span: Span,
    ) -> Tensor:
        """Return the result of a standard operation on tensors of one type, which ``like`` has."""
        label = wanted if isinstance(wanted, str) else None
        result = Tensor(label or self.labelling.labels.name(f"{frame.base}/{operation}"))
        item = (
            self.labelling.item_types[like.label]
            if isinstance(like, Tensor)
            else _PRIMITIVES[type(like)]
        )
        (name,) = (each.name.name for each in standard()[operation].results)
        chain = tuple(name for name, _ in frame.chain)
        self.labelling.item_types.setdefault(result.label, item)
        self._emit(Call(operation, given, {name: result}, item, chain, span), frame)
        return result

    def _result_labels(
        self, signature: Signature, wanted: Labels, frame: Frame
    ) -> dict[str, Labels]:
        names = [each.name.name for each in signature.results]
        if len(names) == 1:
            own = wanted
            if own is None and isinstance(signature.results[0].type, TensorType):
                own = self.labelling.labels.name(f"{frame.base}/{signature.name}")
            return {names[0]: own}
        assert isinstance(wanted, tuple)
        return dict(zip(names, wanted, strict=True))

    def _called(
        self,
        signature: Signature,
        arguments: Mapping[str, Value],
        generic: str | None,
        labels: Mapping[str, Labels],
        frame: Frame,
        span: Span,
    ) -> Value:
        results = {name: tensors(each) for name, each in labels.items()}
        chain = tuple(name for name, _ in frame.chain)
        for result in signature.results:
            self.labelling.note_types(result.type, results[result.name.name], generic)
        self._emit(Call(signature.name, arguments, results, generic, chain, span), frame)
        values = tuple(results.values())
        return values[0] if len(values) == 1 else values

    def _emit(self, call: Call, frame: Frame) -> None:
        self.calls += 1
        if self.calls > MAX_OPERATIONS:
            message = f"the document has more than {MAX_OPERATIONS} operations when expanded"
            hint = "use fewer fragments inside each other"
            raise Exhausted(self.error(message, call.location, hint, frame).diagnostics)
        try:
            self.sink.call(call)
        except NnefError as problem:
            raise with_chain(problem, frame) from None
