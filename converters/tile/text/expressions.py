"""Interpretation of the expressions of a parsed text, with the tensors of ``tracing`` as values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import lark

from tvm_nnef.converters.tile.indices import Constraint
from tvm_nnef.converters.tile.locations import Mistake
from tvm_nnef.converters.tile.text.values import (
    FUNCTIONS,
    OPERATORS,
    VALUES,
    Tree,
    divided,
    kind_of,
    span_of,
    trees,
)
from tvm_nnef.converters.tile.tracing import Access, Output, Tensor
from tvm_nnef.diagnostics import NnefError, Source, Span, did_you_mean, error

MAX_STEPS = 1 << 15
"""Upper limit of the expressions and statements that run, loops included."""
MAX_INTEGER = 1 << 62

UNKNOWN = object()
"""The value of a variable whose definition is an error."""


class UnknownValue(Exception):
    """A value is read that is unknown because of an error."""


@dataclass
class Expressions:
    """The evaluation of expressions; ``variables`` are those of the function that runs."""

    source: Source
    functions: Mapping[str, Tree]
    steps: int = 0
    variables: dict[str, Any] = field(default_factory=dict)

    @abstractmethod
    def call(self, name: str, arguments: Sequence[Any], span: Span) -> Any:
        """Call a function of the text; return its result."""

    def value(self, tree: Tree) -> Any:
        """Return the value of an expression."""
        self.count(tree)
        match tree.data:
            case "comparison" if tree.children[1] is None:
                return self.value(trees(tree)[0])
            case "comparison" | "sum" | "product":
                return self._chain(tree)
            case "unary":
                return self._unary(tree)
            case "postfix":
                return self._postfix(tree)
            case "name":
                return self.variable(str(tree.children[0]), tree)
            case "integer":
                return self._integer(int(str(tree.children[0]).rstrip("uUlL")[:40]), tree)
            case "real":
                return float(str(tree.children[0]).rstrip("fF"))
        raise AssertionError(tree.data)

    def _chain(self, tree: Tree) -> Any:
        """Return the value of operators of one precedence, from left to right."""
        first, *rest = tree.children
        assert isinstance(first, lark.Tree)
        result = self.value(first)
        for sign, operand in zip(rest[::2], rest[1::2], strict=True):
            assert isinstance(operand, lark.Tree)
            result = self.binary(str(sign), result, self.value(operand), tree)
        return result

    def _unary(self, tree: Tree) -> Any:
        *signs, operand = tree.children
        assert isinstance(operand, lark.Tree)
        value = self.value(operand)
        if sum(str(each) == "-" for each in signs) % 2:
            if not isinstance(value, VALUES):
                raise self._untyped("-", tree, value)
            return self.located(self.guarded(span_of(self.source, tree), lambda: -value), tree)
        return value

    def binary(self, sign: str, left: Any, right: Any, tree: Tree) -> Any:
        """Return the result of an operator."""
        if not (isinstance(left, VALUES) and isinstance(right, VALUES)):
            raise self._untyped(sign, tree, left, right)
        span = span_of(self.source, tree)
        apply = OPERATORS.get(sign) or divided
        try:
            result = self.guarded(span, lambda: apply(left, right))
        except (TypeError, OverflowError):
            raise self._untyped(sign, tree, left, right) from None
        return self.located(self._integer(result, tree), span)

    def _untyped(self, sign: str, tree: Tree, *operands: object) -> NnefError:
        kinds = " and ".join(map(kind_of, operands))
        hint = "see the operations of Tile: contractions, element-wise operations, sizes"
        return error(
            f"'{sign}' cannot be applied to {kinds}", span_of(self.source, tree), hint=hint
        )

    def _postfix(self, tree: Tree) -> Any:
        base, *trailers = trees(tree)
        name = str(base.children[0]) if base.data == "name" else ""
        if trailers and name and name not in self.variables and trailers[0].data == "arguments":
            value = self._function(name, trailers.pop(0), tree)
        else:
            value = self.value(base)
        while trailers:
            trailer = trailers.pop(0)
            if trailer.data == "item":
                value = self._item(value, trailer)
            elif trailer.data == "member":
                if not trailers or trailers[0].data != "arguments":
                    hint = "call it: I.bind_dims(N)"
                    raise error("a member is not called", span_of(self.source, trailer), hint=hint)
                value = self._member(value, str(trailer.children[0]), trailers.pop(0), tree)
            else:
                value = self._access(value, trailer, tree)
        return value

    def _function(self, name: str, arguments: Tree, tree: Tree) -> Any:
        span = span_of(self.source, tree)
        values = self._arguments(arguments)
        if name in self.functions:
            return self.call(name, values, span)
        function = FUNCTIONS.get(name.removeprefix("std::"))
        if function is None:
            hint = did_you_mean(name, [*FUNCTIONS, *self.functions, *self.variables])
            known = hint or f"functions are {', '.join(FUNCTIONS)}"
            raise error(f"there is no function or tensor '{name}'", span, hint=known)
        try:
            return self.located(self.guarded(span, lambda: function(*values)), span)
        except TypeError:
            message = f"'{name}' does not take {len(values)} arguments"
            raise error(message, span, hint="select takes 3, pow 2, the others 1") from None

    def _access(self, value: Any, arguments: Tree, tree: Tree) -> Access:
        span = span_of(self.source, tree)
        if not isinstance(value, Tensor):
            hint = "only tensors and functions are followed by '('; vectors by '['"
            raise error(f"{kind_of(value)} is not a tensor", span, hint=hint)
        given = tuple(self._arguments(arguments))
        access = self.guarded(span, lambda: value.access(given))
        assert isinstance(access, Access)
        access.location = span
        return access

    def _member(self, value: Any, name: str, arguments: Tree, tree: Tree) -> Any:
        span = span_of(self.source, tree)
        given = self._arguments(arguments)
        if isinstance(value, list) and name == "size" and not given:
            return len(value)
        if isinstance(value, Tensor) and name == "bind_dims":
            self.guarded(span, lambda: value.bind_dims(*given))
            value.bindings[-1].location = span
            return None
        if isinstance(value, Tensor) and name == "add_constraint" and len(given) == 1:
            self.guarded(span, lambda: value.add_constraint(given[0]))
            return None
        names = ["size"] if isinstance(value, list) else ["bind_dims", "add_constraint"]
        hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
        raise error(f"{kind_of(value)} has no '{name}' of {len(given)} arguments", span, hint=hint)

    def _arguments(self, arguments: Tree) -> list[Any]:
        return [self.value(each) for each in trees(arguments)]

    def _item(self, value: Any, trailer: Tree) -> Any:
        if not isinstance(value, list):
            span = span_of(self.source, trailer)
            hint = "elements of tensors are written with parentheses: I(i, j)"
            raise error(f"{kind_of(value)} is not a vector", span, hint=hint)
        return value[self.position(value, trailer)]

    def position(self, vector: Any, trailer: Tree) -> int:
        """Return the position of an item of a vector."""
        position = self.value(trees(trailer)[0])
        span = span_of(self.source, trailer)
        if not isinstance(vector, list) or not isinstance(position, int):
            raise error("only vectors have items, by number", span, hint="write X[0]")
        if not 0 <= position < len(vector):
            hint = f"the vector has {len(vector)} items"
            raise error(f"there is no item {position}", span, hint=hint)
        return position

    def variable(self, name: str, tree: Tree) -> Any:
        """Return the value of a variable. Raises UnknownValue if its definition is an error."""
        value = self.variables.get(name)
        if value is UNKNOWN:
            raise UnknownValue
        if value is None:
            span = span_of(self.source, tree)
            is_empty = name in self.variables
            near = None if is_empty else did_you_mean(name, self.variables)
            hint = near or f"define it: auto {name} = …;"
            message = f"'{name}' has no value" if is_empty else f"'{name}' is not declared"
            raise error(message, span, hint=hint)
        return value

    def _integer(self, value: Any, tree: Tree) -> Any:
        if type(value) is int and abs(value) > MAX_INTEGER:
            span = span_of(self.source, tree)
            raise error("the number is too large", span, hint="use integers of less than 63 bits")
        return value

    def guarded(self, span: Span, run: Callable[[], Any]) -> Any:
        """Return a value; errors get the position of the text."""
        try:
            return run()
        except Mistake as mistake:
            raise mistake.at(span) from None

    def located(self, value: Any, where: Span | Tree) -> Any:
        """Return a value with its position in the text."""
        span = where if isinstance(where, Span) else span_of(self.source, where)
        if isinstance(value, (Tensor, Constraint)):
            value.location = span
        written = value.tensor if isinstance(value, Access) else None
        if isinstance(written, Output) and written.contraction is not None:
            written.contraction.location = span
        return value

    def count(self, tree: Tree) -> None:
        """Count a step. Raises NnefError beyond the limit."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            message = f"the function takes more than {MAX_STEPS} steps"
            raise error(message, span_of(self.source, tree), hint="use shorter loops")
