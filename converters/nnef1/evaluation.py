"""Evaluation of compile-time expressions (section 3.3.3), and of tensors in them.

Input: an expression and the values of names. Output: its value. Expressions are evaluated without
recursion of Python functions: an evaluation yields those that it waits for. Operations are
evaluated by :mod:`.expansion`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import ChainMap
from collections.abc import Generator, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tvm_nnef.converters.common.symbolic import Shape, Symbolic
from tvm_nnef.converters.nnef1 import constants, nodes
from tvm_nnef.converters.nnef1.calls import Tensor, Value
from tvm_nnef.converters.nnef1.fragments import Signatures
from tvm_nnef.converters.nnef1.labels import Labels
from tvm_nnef.converters.nnef1.typing import BINARY, UNARY
from tvm_nnef.diagnostics import NnefError, Note, Span, error

MAX_WORK = 1_000_000
"""Upper limit of the expressions that are evaluated; items and characters of results count as
parts.
"""

_ITEMS = 8
"""The number of items of arrays, or characters of strings, that count as one expression."""

_SHOWN = 3
"""The number of fragments that are shown at either end of a long chain."""

Evaluation: TypeAlias = "Generator[Evaluation, Value, Value]"
"""An evaluation in progress: it yields the evaluations that it waits for."""


class Exhausted(NnefError):
    """The document takes too much work; the rest of it is not expanded."""


class Skipped(Exception):
    """The name belongs to a wrong statement, which has been reported."""


@dataclass(frozen=True)
class Frame:
    """The context in which expressions are evaluated: a fragment, or the graph.

    ``chain`` has the fragments around and the location of each invocation, ``base`` is the prefix
    of names for tensors without a name. ``wanted`` are the labels of results.
    """

    names: MutableMapping[str, Value]
    signatures: Signatures
    base: str = ""
    generic: str | None = None
    chain: tuple[tuple[str, Span], ...] = ()
    wanted: Mapping[str, Labels] = field(default_factory=dict)
    prefix: str = ""


@dataclass
class Evaluator(ABC):
    """An evaluator of expressions within a budget."""

    work: int = field(default=0, init=False)

    @abstractmethod
    def operation(
        self,
        node: nodes.Unary | nodes.Binary,
        name: str,
        operands: Sequence[Value],
        frame: Frame,
        wanted: Labels,
    ) -> Evaluation:
        """Evaluate an operator on tensors as an invocation of its fragment."""

    @abstractmethod
    def invocation(self, node: nodes.Invocation, frame: Frame, wanted: Labels) -> Evaluation:
        """Evaluate an invocation; return its results."""

    @abstractmethod
    def shape(self, tensor: Tensor) -> Shape | None:
        """Return the shape of a tensor; None if it is not known."""

    def run(self, evaluation: Evaluation) -> Value:
        """Run an evaluation on an explicit stack; return its value."""
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

    def spend(self, amount: int, span: Span, frame: Frame) -> None:
        """Take work from the budget; raises Exhausted if there is none left."""
        self.work += amount
        if self.work > MAX_WORK:
            message = f"expanding the document takes more than {MAX_WORK} steps"
            hint = "use shorter arrays, or fewer fragments inside each other"
            raise Exhausted(self.error(message, span, hint, frame).diagnostics)

    def error(self, message: str, span: Span, hint: str, frame: Frame) -> NnefError:
        """Return an error in a frame, with the fragments around it."""
        return with_chain(error(message, span, hint=hint), frame)

    def evaluate(self, node: nodes.Expression, frame: Frame, wanted: Labels = None) -> Evaluation:
        """Evaluate an expression; the tensors that it computes get the labels ``wanted``."""
        self.spend(1, node.span, frame)
        match node:
            case nodes.Literal(value=value):
                return value
            case nodes.Name(name=name):
                if name not in frame.names:
                    raise Skipped
                return frame.names[name]
            case nodes.Array(items=items) | nodes.Tuple(items=items):
                parts = wanted if isinstance(wanted, tuple) else ()
                values: list[Value] = []
                for number, item in enumerate(items):
                    label = parts[number] if number < len(parts) else None
                    values.append((yield self.evaluate(item, frame, label)))
                return tuple(values)
            case nodes.Unary(operator=sign):
                operand = yield self.evaluate(node.operand, frame)
                if isinstance(operand, Tensor):
                    return (yield self.operation(node, UNARY[sign], (operand,), frame, wanted))
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
                return (yield self.invocation(node, frame, wanted))

    def _binary(self, node: nodes.Binary, frame: Frame, wanted: Labels) -> Evaluation:
        sign = node.operator
        left = yield self.evaluate(node.left, frame)
        if isinstance(left, bool) and sign in ("&&", "||") and left == (sign == "||"):
            return left
        right = yield self.evaluate(node.right, frame)
        if sign == "in":
            assert isinstance(right, tuple)
            self.spend(len(right) // _ITEMS, node.span, frame)
            return left in right
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return (yield self.operation(node, BINARY[sign], (left, right), frame, wanted))
        if isinstance(left, bool) and isinstance(right, bool) and sign in ("&&", "||"):
            return right
        if isinstance(left, (tuple, str)) and sign in ("+", "*"):
            return self._joined(node, left, right, frame)
        try:
            return constants.binary(sign, left, right)
        except constants.Undefined as problem:
            raise self.error(problem.reason, node.span, problem.hint, frame) from None

    def _joined(
        self, node: nodes.Binary, left: tuple[Value, ...] | str, right: Value, frame: Frame
    ) -> Value:
        """Return arrays or strings concatenated, or one repeated several times."""
        self._check_static(right, node.span, frame)
        if isinstance(right, int):
            if right < 0:
                hint = "the number of copies is 0 or more"
                raise self.error(f"{right} copies of an array", node.span, hint, frame)
            self.spend(len(left) * right // _ITEMS, node.span, frame)
            return left * right
        assert isinstance(right, (tuple, str))
        self.spend((len(left) + len(right)) // _ITEMS, node.span, frame)
        return left + right  # type: ignore[operator]

    def _comprehension(self, node: nodes.Comprehension, frame: Frame, wanted: Labels) -> Evaluation:
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
            raise self.error(message, node.span, hint, frame)
        found: list[Value] = []
        labels = wanted if isinstance(wanted, tuple) else ()
        for items in zip(*sources, strict=True):
            inner = replace(
                frame, names=ChainMap(dict(zip(names, items, strict=True)), frame.names)
            )
            self.spend(1, node.span, frame)
            if node.condition is not None and not (yield self.evaluate(node.condition, inner)):
                continue
            label = labels[len(found)] if len(found) < len(labels) else None
            found.append((yield self.evaluate(node.item, inner, label)))
        return tuple(found)

    def _subscript(self, node: nodes.Subscript, frame: Frame) -> Evaluation:
        value = yield self.evaluate(node.value, frame)
        index = yield self.evaluate(node.index, frame)
        self._check_static(index, node.index.span, frame)
        assert isinstance(value, (tuple, str)) and isinstance(index, int)
        if not 0 <= index < len(value):
            message = f"the subscript {index} of an array with {len(value)} items"
            hint = f"subscripts are 0 to {len(value) - 1}" if value else "the array is empty"
            raise self.error(message, node.index.span, hint, frame)
        return value[index]

    def _slice(self, node: nodes.Slice, frame: Frame) -> Evaluation:
        value = yield self.evaluate(node.value, frame)
        assert isinstance(value, (tuple, str))
        begin: Value = 0
        end: Value = len(value)
        if node.begin is not None:
            begin = yield self.evaluate(node.begin, frame)
        if node.end is not None:
            end = yield self.evaluate(node.end, frame)
        for bound in (begin, end):
            self._check_static(bound, node.span, frame)
        assert isinstance(begin, int) and isinstance(end, int)
        if not (0 <= begin <= len(value) and 0 <= end <= len(value)):
            message = f"the range {begin}:{end} of an array with {len(value)} items"
            hint = f"ranges are within 0:{len(value)}"
            raise self.error(message, node.span, hint, frame)
        self.spend(max(0, end - begin) // _ITEMS, node.span, frame)
        return value[begin:end]

    def _check_static(self, value: Value, span: Span, frame: Frame) -> None:
        """Raise NnefError for a dynamic dimension."""
        if isinstance(value, Symbolic):
            problem = constants.dynamic(value)
            raise self.error(problem.reason, span, problem.hint, frame)

    def _builtin(self, node: nodes.Builtin, operand: Value, frame: Frame) -> Value:
        match node.name:
            case "shape_of":
                return self._shape(node, operand, frame)
            case "length_of":
                assert isinstance(operand, (tuple, str))
                return len(operand)
            case "range_of":
                assert isinstance(operand, (tuple, str))
                self.spend(len(operand) // _ITEMS, node.span, frame)
                return tuple(range(len(operand)))
        try:
            found = constants.cast(node.name, operand)
        except constants.Undefined as problem:
            raise self.error(problem.reason, node.span, problem.hint, frame) from None
        if isinstance(found, str):
            self.spend(len(found) // _ITEMS, node.span, frame)
        return found

    def _shape(self, node: nodes.Builtin, operand: Value, frame: Frame) -> Value:
        if not isinstance(operand, Tensor):
            return ()
        found = self.shape(operand)
        if found is None:
            hint = "'shape_of' is deprecated; hand the shape to the fragment as an attribute"
            message = f"the shape of '{operand.label}' is not known here"
            raise self.error(message, node.span, hint, frame)
        return found

    def unpacked(
        self, target: nodes.Expression, value: Value, frame: Frame
    ) -> Iterator[tuple[nodes.Name, Value]]:
        """Yield the names of a left-hand side with their parts of a value."""
        match target:
            case nodes.Name():
                yield target, value
            case nodes.Array(items=items) | nodes.Tuple(items=items):
                assert isinstance(value, tuple)
                if len(items) != len(value):
                    message = f"{len(value)} items for {len(items)} names"
                    hint = f"write {len(value)} names in the brackets"
                    raise self.error(message, target.span, hint, frame)
                for each, part in zip(items, value, strict=True):
                    yield from self.unpacked(each, part, frame)


def with_chain(problem: NnefError, frame: Frame) -> NnefError:
    """Return the same error, with the fragments around it."""
    chain = frame.chain[::-1]
    if len(chain) > 2 * _SHOWN:
        chain = (*chain[:_SHOWN], *chain[-_SHOWN:])
    for name, span in chain:
        problem = problem.with_note(Note(f"in the expansion of '{name}'", span))
    return problem
