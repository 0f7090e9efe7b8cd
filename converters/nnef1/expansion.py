"""From a checked document to the flat graph: fragments expanded, attributes computed (chapter 6).

Each operation goes to a :class:`Sink` when it is reached, which may tell the shapes of tensors made
so far. Expressions are evaluated without recursion of Python functions, so that the depth of
fragments is limited by :data:`MAX_DEPTH` alone.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Container, Generator, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from tvm_nnef.converters.nnef1 import constants, nodes
from tvm_nnef.converters.nnef1.calls import Call, Tensor, Value
from tvm_nnef.converters.nnef1.checking import Checked, standard_generics, targets
from tvm_nnef.converters.nnef1.fragments import Signature, Signatures, standard
from tvm_nnef.converters.nnef1.types import ArrayType, TensorType, TupleType, Type, bound
from tvm_nnef.converters.nnef1.typing import BINARY, UNARY
from tvm_nnef.diagnostics import Diagnostic, NnefError, Note, Span, error

MAX_DEPTH = 500
"""Fragments that may be inside each other."""

MAX_WORK = 1_000_000
"""Expressions that may be evaluated in all; items and characters that are made count as parts."""

_ITEMS = 8
"""Items of arrays and characters of strings that take as long as an expression."""

_FRAGMENT = 16
"""Expressions that take as long as preparing the expansion of a fragment."""

_SHOWN = 3
"""Fragments that are shown at either end of a long chain."""

MAX_OPERATIONS = 100_000
"""Operations of the flat graph."""

_PRIMITIVES = {bool: "logical", int: "integer", float: "scalar", str: "string"}

Labels: TypeAlias = "str | tuple[Labels, ...] | None"
"""What tensors shall be called, in the structure of a value; None if it does not matter."""
Evaluation: TypeAlias = "Generator[Evaluation, Value, Value]"
"""An evaluation in progress: it yields those that it waits for."""


class Sink(Protocol):
    """What takes the operations of the flat graph."""

    def call(self, call: Call) -> None:
        """Take an operation; raises NnefError, without a span, if it cannot be converted."""

    def shape(self, tensor: Tensor) -> tuple[int, ...] | None:
        """The shape of a tensor that an operation gave, None if it is not known."""

    def begin(self, fragment: str, label: str, arguments: Mapping[str, Value]) -> None:
        """The operations up to the next ``end`` are those of a fragment of the document."""

    def end(self, results: Mapping[str, Value]) -> None:
        """The fragment begun last is complete, and has these results."""


class _Exhausted(NnefError):
    """A document that takes too much work, so that nothing more of it is expanded."""


class _Skipped(Exception):
    """A name whose statement was wrong, which has been reported."""


@dataclass(frozen=True)
class _Frame:
    """Where expressions are evaluated: a fragment, or the graph.

    ``chain`` has the fragments around and where each was invoked, ``base`` what tensors without a
    name of their own are called after. ``wanted`` are the labels of results.
    """

    names: MutableMapping[str, Value]
    signatures: Signatures
    base: str = ""
    generic: str | None = None
    chain: tuple[tuple[str, Span], ...] = ()
    wanted: Mapping[str, Labels] = field(default_factory=dict)
    prefix: str = ""


def expand(checked: Checked, operations: Container[str], sink: Sink) -> None:
    """Hand the operations of a document to a sink, in the order of the text.

    ``operations`` are those that are not expanded although they have a body. Raises NnefError with
    what is wrong in all statements of the graph that do not depend on a wrong one.
    """
    expansion = _Expansion(checked.signatures, checked.generics, operations, sink)
    for statement in checked.document.graph.body:
        expansion.labels |= {each.name for each in targets(statement.target)}
    problems: list[Diagnostic] = []
    reported: set[tuple[str, Span | None]] = set()
    for statement in checked.document.graph.body:
        try:
            expansion.statement(statement)
        except _Skipped:
            pass
        except NnefError as problem:
            for each in problem.diagnostics:
                key = (each.message, each.span)
                if key not in reported:
                    problems.append(each)
                reported.add(key)
            if isinstance(problem, _Exhausted):
                break
    if problems:
        raise NnefError(problems)


def expand_call(
    checked: Checked,
    operations: Container[str],
    sink: Sink,
    call: Call,
    operand: Tensor,
    label: str,
) -> None:
    """Hand an operation of a tensor to a sink, expanded if it has a body; its result has a label.

    The call has all arguments but the first.
    """
    expansion = _Expansion(checked.signatures, checked.generics, operations, sink)
    expansion.labels |= {label}
    signature = checked.signatures[call.operation]
    given = {signature.parameters[0].name.name: operand, **call.arguments}
    frame = _Frame({}, checked.signatures, label)
    value = expansion.run(
        expansion.invoke(signature, given, call.item_type, frame, label, call.place)
    )
    if value != Tensor(label):
        message = f"'{call.operation}' does not compute a tensor of its own"
        raise error(message, call.place, hint="use another quantization")


@dataclass
class _Expansion:
    signatures: Signatures
    generics: Mapping[nodes.Invocation, str | None]
    operations: Container[str]
    sink: Sink
    names: dict[str, Value] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    item_types: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    work: int = 0
    calls: int = 0

    def statement(self, statement: nodes.Assignment) -> None:
        """Expand a statement of the graph."""
        wanted = _labels(statement.target, lambda name: name)
        (base, *_) = (*_leaves(wanted), "")
        frame = _Frame(self.names, self.signatures, base)
        value = self.run(self.evaluate(statement.value, frame, wanted))
        for name, each in self._unpacked(statement.target, value, frame):
            self.names[name.name] = self._named(name, each, frame)

    def _named(self, name: nodes.Name, value: Value, frame: _Frame) -> Value:
        """A tensor under its name in the graph: a copy if it has another one, or is a constant."""
        if value == Tensor(name.name):
            return value
        result = Tensor(name.name)
        if isinstance(value, Tensor):
            item = self.item_types[value.label]
            call = Call("copy", {"x": value}, {"y": result}, item, (), name.span)
        else:
            item = _PRIMITIVES[type(value)]
            given: dict[str, Value] = {"shape": (), "value": (value,)}
            call = Call("constant", given, {"output": result}, item, (), name.span)
        self._emit(call, frame)
        self.item_types[name.name] = item
        return result

    def run(self, evaluation: Evaluation) -> Value:
        """The value of an evaluation, on a stack of our own."""
        stack = [evaluation]
        value: Value = None
        while stack:
            try:
                stack.append(stack[-1].send(value))
                value = None
            except StopIteration as finished:
                stack.pop()
                value = finished.value
        return value

    def _spend(self, amount: int, span: Span, frame: _Frame) -> None:
        self.work += amount
        if self.work > MAX_WORK:
            message = f"expanding the document takes more than {MAX_WORK} steps"
            hint = "use shorter arrays, or fewer fragments inside each other"
            raise _Exhausted(self._error(message, span, hint, frame).diagnostics)

    def _error(self, message: str, span: Span, hint: str, frame: _Frame) -> NnefError:
        return _with_chain(error(message, span, hint=hint), frame)

    def evaluate(self, node: nodes.Expression, frame: _Frame, wanted: Labels = None) -> Evaluation:
        """The value of an expression, its tensors called as wanted if they are made by it."""
        self._spend(1, node.span, frame)
        match node:
            case nodes.Literal(value=value):
                return value
            case nodes.Name(name=name):
                if name not in frame.names:
                    raise _Skipped
                return frame.names[name]
            case nodes.Array(items=items) | nodes.Tuple(items=items):
                parts = wanted if isinstance(wanted, tuple) else ()
                found: list[Value] = []
                for number, item in enumerate(items):
                    label = parts[number] if number < len(parts) else None
                    found.append((yield self.evaluate(item, frame, label)))
                return tuple(found)
            case nodes.Unary(operator=sign):
                operand = yield self.evaluate(node.operand, frame)
                if isinstance(operand, Tensor):
                    return (yield self._operation(node, UNARY[sign], (operand,), frame, wanted))
                return constants.unary(sign, operand)
            case nodes.Binary():
                return (yield self._binary(node, frame, wanted))
            case nodes.Select():
                condition = yield self.evaluate(node.condition, frame)
                chosen = node.consequent if condition else node.alternative
                return (yield self.evaluate(chosen, frame, wanted))
            case nodes.Comprehension():
                return (yield self._comprehension(node, frame, wanted))
            case nodes.Subscript():
                return (yield self._subscript(node, frame))
            case nodes.Slice():
                return (yield self._slice(node, frame))
            case nodes.Builtin():
                operand = yield self.evaluate(node.operand, frame)
                return self._builtin(node, operand, frame)
            case nodes.Invocation():
                return (yield self._invocation(node, frame, wanted))

    def _binary(self, node: nodes.Binary, frame: _Frame, wanted: Labels) -> Evaluation:
        sign = node.operator
        left = yield self.evaluate(node.left, frame)
        if isinstance(left, bool) and sign in ("&&", "||") and left == (sign == "||"):
            return left
        right = yield self.evaluate(node.right, frame)
        if sign == "in":
            assert isinstance(right, tuple)
            self._spend(len(right) // _ITEMS, node.span, frame)
            return left in right
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return (yield self._operation(node, BINARY[sign], (left, right), frame, wanted))
        if isinstance(left, bool) and isinstance(right, bool) and sign in ("&&", "||"):
            return right
        if isinstance(left, (tuple, str)) and sign in ("+", "*"):
            return self._joined(node, left, right, frame)
        try:
            return constants.binary(sign, left, right)
        except constants.Undefined as problem:
            raise self._error(problem.reason, node.span, problem.hint, frame) from None

    def _joined(
        self, node: nodes.Binary, left: tuple[Value, ...] | str, right: Value, frame: _Frame
    ) -> Value:
        """Arrays or strings one after the other, or one several times."""
        if isinstance(right, int):
            if right < 0:
                hint = "the number of copies is 0 or more"
                raise self._error(f"{right} copies of an array", node.span, hint, frame)
            self._spend(len(left) * right // _ITEMS, node.span, frame)
            return left * right
        assert isinstance(right, (tuple, str))
        self._spend((len(left) + len(right)) // _ITEMS, node.span, frame)
        return left + right  # type: ignore[operator]

    def _operation(
        self,
        node: nodes.Unary | nodes.Binary,
        name: str,
        operands: Sequence[Value],
        frame: _Frame,
        wanted: Labels,
    ) -> Evaluation:
        """An operator on tensors as an invocation of its fragment."""
        signature = standard()[name]
        given = {
            parameter.name.name: operand
            for parameter, operand in zip(signature.parameters, operands, strict=True)
        }
        (first, *_) = (each for each in operands if isinstance(each, Tensor))
        item = self.item_types[first.label] if signature.is_generic else None
        return (yield self.invoke(signature, given, item, frame, wanted, node.span))

    def _comprehension(
        self, node: nodes.Comprehension, frame: _Frame, wanted: Labels
    ) -> Evaluation:
        names = [each.name.name for each in node.iterators]
        sources: list[tuple[Value, ...]] = []
        for each in node.iterators:
            source = yield self.evaluate(each.source, frame)
            assert isinstance(source, tuple)
            sources.append(source)
        lengths = [len(each) for each in sources]
        if len(set(lengths)) > 1:
            message = f"the arrays have different lengths: {', '.join(map(str, lengths))}"
            hint = "arrays that are iterated together are of one length"
            raise self._error(message, node.span, hint, frame)
        found: list[Value] = []
        labels = wanted if isinstance(wanted, tuple) else ()
        for items in zip(*sources, strict=True):
            inner = replace(
                frame, names=ChainMap(dict(zip(names, items, strict=True)), frame.names)
            )
            self._spend(1, node.span, frame)
            if node.condition is not None and not (yield self.evaluate(node.condition, inner)):
                continue
            label = labels[len(found)] if len(found) < len(labels) else None
            found.append((yield self.evaluate(node.item, inner, label)))
        return tuple(found)

    def _subscript(self, node: nodes.Subscript, frame: _Frame) -> Evaluation:
        value = yield self.evaluate(node.value, frame)
        index = yield self.evaluate(node.index, frame)
        assert isinstance(value, (tuple, str)) and isinstance(index, int)
        if not 0 <= index < len(value):
            message = f"the subscript {index} of an array with {len(value)} items"
            hint = f"subscripts are 0 to {len(value) - 1}" if value else "the array is empty"
            raise self._error(message, node.index.span, hint, frame)
        return value[index]

    def _slice(self, node: nodes.Slice, frame: _Frame) -> Evaluation:
        value = yield self.evaluate(node.value, frame)
        assert isinstance(value, (tuple, str))
        begin: Value = 0
        end: Value = len(value)
        if node.begin is not None:
            begin = yield self.evaluate(node.begin, frame)
        if node.end is not None:
            end = yield self.evaluate(node.end, frame)
        assert isinstance(begin, int) and isinstance(end, int)
        if not (0 <= begin <= len(value) and 0 <= end <= len(value)):
            message = f"the range {begin}:{end} of an array with {len(value)} items"
            hint = f"ranges are within 0:{len(value)}"
            raise self._error(message, node.span, hint, frame)
        self._spend(max(0, end - begin) // _ITEMS, node.span, frame)
        return value[begin:end]

    def _builtin(self, node: nodes.Builtin, operand: Value, frame: _Frame) -> Value:
        match node.name:
            case "shape_of":
                return self._shape(node, operand, frame)
            case "length_of":
                assert isinstance(operand, (tuple, str))
                return len(operand)
            case "range_of":
                assert isinstance(operand, (tuple, str))
                self._spend(len(operand) // _ITEMS, node.span, frame)
                return tuple(range(len(operand)))
        try:
            found = constants.cast(node.name, operand)
        except constants.Undefined as problem:
            raise self._error(problem.reason, node.span, problem.hint, frame) from None
        if isinstance(found, str):
            self._spend(len(found) // _ITEMS, node.span, frame)
        return found

    def _shape(self, node: nodes.Builtin, operand: Value, frame: _Frame) -> Value:
        if not isinstance(operand, Tensor):
            return ()
        found = self.sink.shape(operand)
        if found is None:
            hint = "'shape_of' is deprecated; hand the shape to the fragment as an attribute"
            message = f"the shape of '{operand.label}' is not known here"
            raise self._error(message, node.span, hint, frame)
        return found

    def _invocation(self, node: nodes.Invocation, frame: _Frame, wanted: Labels) -> Evaluation:
        signature = frame.signatures[node.name.name]
        given: dict[str, Value] = {}
        for number, argument in enumerate(node.arguments):
            name = argument.name or signature.parameters[number].name
            given[name.name] = yield self.evaluate(argument.value, frame)
        generic = self._generic(node, frame)
        return (yield self.invoke(signature, given, generic, frame, wanted, node.span))

    def _generic(self, node: nodes.Invocation, frame: _Frame) -> str | None:
        table = self.generics if node in self.generics else standard_generics()
        found = table.get(node)
        return frame.generic if found == "?" else found

    def invoke(
        self,
        signature: Signature,
        given: Mapping[str, Value],
        generic: str | None,
        frame: _Frame,
        wanted: Labels,
        span: Span,
    ) -> Evaluation:
        """The results of a fragment: of its body, or those of an operation of the flat graph."""
        arguments = {
            name: given[name] if name in given else signature.defaults[name]
            for name in (each.name.name for each in signature.parameters)
        }
        labels = self._result_labels(signature, wanted, frame)
        body = signature.node.body
        if body is None or signature.name in self.operations:
            return self._called(signature, arguments, generic, labels, frame, span)
        if len(frame.chain) >= MAX_DEPTH:
            message = f"fragments are invoked inside each other more than {MAX_DEPTH} times"
            hint = "does the recursion have an end, as in '… if length_of(x) > 0 else 0.0'?"
            raise self._error(message, span, hint, frame)
        self._spend(_FRAGMENT, span, frame)
        signatures = standard() if signature.is_standard else self.signatures
        prefix = next(_leaves(tuple(labels.values())), signature.name)
        inner = _Frame(
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
        frame: _Frame,
    ) -> Evaluation:
        names = dict(arguments)
        for statement in body:
            wanted = _labels(statement.target, lambda name: self._local_label(name, frame))
            base = next(_leaves(wanted), frame.prefix)
            inner = replace(frame, names=names, base=base)
            value = yield self.evaluate(statement.value, inner, wanted)
            for name, each in self._unpacked(statement.target, value, inner):
                names[name.name] = each
        for result in signature.results:
            self._note_types(result.type, names[result.name.name], frame.generic)
        results = tuple(names[each.name.name] for each in signature.results)
        return results[0] if len(results) == 1 else results

    def _local_label(self, name: str, frame: _Frame) -> Labels:
        if name in frame.wanted:
            return frame.wanted[name]
        return self._fresh(f"{frame.prefix}/{name}")

    def _result_labels(
        self, signature: Signature, wanted: Labels, frame: _Frame
    ) -> dict[str, Labels]:
        names = [each.name.name for each in signature.results]
        if len(names) == 1:
            own = wanted
            if own is None and isinstance(signature.results[0].type, TensorType):
                own = self._fresh(f"{frame.base}/{signature.name}")
            return {names[0]: own}
        assert isinstance(wanted, tuple)
        return dict(zip(names, wanted, strict=True))

    def _called(
        self,
        signature: Signature,
        arguments: Mapping[str, Value],
        generic: str | None,
        labels: Mapping[str, Labels],
        frame: _Frame,
        span: Span,
    ) -> Value:
        results = {name: _tensors(each) for name, each in labels.items()}
        chain = tuple(name for name, _ in frame.chain)
        for result in signature.results:
            self._note_types(result.type, results[result.name.name], generic)
        self._emit(Call(signature.name, arguments, results, generic, chain, span), frame)
        values = tuple(results.values())
        return values[0] if len(values) == 1 else values

    def _emit(self, call: Call, frame: _Frame) -> None:
        self.calls += 1
        if self.calls > MAX_OPERATIONS:
            message = f"the document has more than {MAX_OPERATIONS} operations when expanded"
            hint = "use fewer fragments inside each other"
            raise _Exhausted(self._error(message, call.place, hint, frame).diagnostics)
        try:
            self.sink.call(call)
        except NnefError as problem:
            raise _with_chain(problem, frame) from None

    def _note_types(self, type_: Type, value: Value, generic: str | None) -> None:
        """Keep the data types of tensors."""
        match bound(type_, generic) if generic else type_:
            case TensorType(item) if isinstance(value, Tensor) and item is not None:
                self.item_types.setdefault(value.label, item)
            case ArrayType(inner) if isinstance(value, tuple) and inner is not None:
                for each in value:
                    self._note_types(inner, each, generic)
            case TupleType(items) if isinstance(value, tuple):
                for part, each in zip(items, value, strict=True):
                    self._note_types(part, each, generic)

    def _fresh(self, label: str) -> str:
        """A label that no other tensor has."""
        found, number = label, self.numbers.get(label, 2)
        while found in self.labels:
            found, number = f"{label}_{number}", number + 1
        self.numbers[label] = number
        self.labels.add(found)
        return found

    def _unpacked(
        self, target: nodes.Expression, value: Value, frame: _Frame
    ) -> Iterator[tuple[nodes.Name, Value]]:
        match target:
            case nodes.Name():
                yield target, value
            case nodes.Array(items=items) | nodes.Tuple(items=items):
                assert isinstance(value, tuple)
                if len(items) != len(value):
                    message = f"{len(value)} items for {len(items)} names"
                    hint = f"write {len(value)} names in the brackets"
                    raise self._error(message, target.span, hint, frame)
                for each, part in zip(items, value, strict=True):
                    yield from self._unpacked(each, part, frame)


def _labels(target: nodes.Expression, label: Any) -> Labels:
    """The labels of a left-hand side; ``label`` gives that of a name."""
    match target:
        case nodes.Name(name=name):
            found: Labels = label(name)
            return found
        case nodes.Array(items=items) | nodes.Tuple(items=items):
            return tuple(_labels(each, label) for each in items)
    raise AssertionError(target)


def _leaves(labels: Labels) -> Iterator[str]:
    if isinstance(labels, str):
        yield labels
    elif labels is not None:
        for each in labels:
            yield from _leaves(each)


def _tensors(labels: Labels) -> Value:
    if isinstance(labels, str):
        return Tensor(labels)
    assert labels is not None
    return tuple(map(_tensors, labels))


def _with_chain(problem: NnefError, frame: _Frame) -> NnefError:
    """The same error, with the fragments around it."""
    chain = frame.chain[::-1]
    if len(chain) > 2 * _SHOWN:
        chain = (*chain[:_SHOWN], *chain[-_SHOWN:])
    for name, span in chain:
        problem = problem.with_note(Note(f"in the expansion of '{name}'", span))
    return problem


class _Nowhere:
    """Where only attributes are computed."""

    def call(self, call: Call) -> None:
        hint = "write numbers"
        raise error("an operation in a compile-time expression", call.place, hint=hint)

    def shape(self, tensor: Tensor) -> None:
        return None

    def begin(self, fragment: str, label: str, arguments: Mapping[str, Value]) -> None: ...

    def end(self, results: Mapping[str, Value]) -> None: ...


def evaluated(node: nodes.Expression) -> Value:
    """The value of an expression without tensors, fragments or names, whose types were checked."""
    expansion = _Expansion(standard(), {}, (), _Nowhere())
    return expansion.run(expansion.evaluate(node, _Frame({}, standard())))
