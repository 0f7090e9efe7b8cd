"""The functions of a parsed text run, with the tensors of ``tracing`` as their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import lark

from tvm_nnef.converters.tile import tracing
from tvm_nnef.converters.tile.dimensions import TensorDim
from tvm_nnef.converters.tile.indices import Constraint, TensorIndex
from tvm_nnef.converters.tile.locations import Mistake
from tvm_nnef.converters.tile.text.values import (
    FUNCTIONS,
    OPERATORS,
    VALUES,
    Tree,
    divided,
    is_token,
    kind_of,
    parameters_of,
    span_of,
    trees,
    type_of,
)
from tvm_nnef.converters.tile.tracing import Access, Output, Tensor
from tvm_nnef.diagnostics import NnefError, Source, Span, did_you_mean, error

MAX_STEPS = 1 << 15
"""Expressions and statements that may run, loops included."""
MAX_CALLS = 16
"""Functions that call each other."""
MAX_VECTOR = 64
"""Items of a vector."""
MAX_INTEGER = 1 << 62

Variables = dict[str, Any]


class _Return(Exception):
    """The value of a function."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@dataclass
class Interpreter:
    """A run of the functions of a text."""

    source: Source
    functions: Mapping[str, Tree]
    steps: int = 0
    calls: int = 0
    variables: Variables = field(default_factory=dict)

    def call(self, name: str, arguments: Sequence[Any], span: Span) -> Any:
        """The result of a function."""
        parameters = [str(each.children[-1]) for each in parameters_of(self.functions[name])]
        if len(parameters) != len(arguments):
            message = f"'{name}' takes {len(parameters)} arguments, not {len(arguments)}"
            raise error(message, span, hint=f"parameters are {', '.join(parameters)}")
        if self.calls >= MAX_CALLS:
            message = f"more than {MAX_CALLS} functions call each other"
            raise error(message, span, hint="do not call functions recursively")
        outer, self.variables = self.variables, dict(zip(parameters, arguments, strict=True))
        self.calls += 1
        try:
            self.block(trees(self.functions[name])[-1])
        except _Return as found:
            if not isinstance(found.value, Tensor):
                kind = kind_of(found.value)
                raise error(
                    f"'{name}' returns {kind}, not a tensor", span, hint="return O;"
                ) from None
            return found.value
        finally:
            self.variables, self.calls = outer, self.calls - 1
        raise error(f"'{name}' returns nothing", span, hint="end it with: return O;")

    def block(self, block: Tree) -> None:
        """Run the statements of a block; its variables are its own."""
        outer = dict(self.variables)
        for statement in trees(block):
            self.statement(statement)
        self.variables = {name: self.variables[name] for name in outer}

    def statement(self, statement: Tree) -> None:
        """Run one statement."""
        self._count(statement)
        children = trees(statement)
        match statement.data:
            case "declaration":
                for each in children[1:]:
                    self.declare(type_of(children[0]), each)
            case "assignment":
                self.assign(statement)
            case "evaluation":
                self.value(children[0])
            case "result":
                raise _Return(self.value(children[0]))
            case "loop":
                self.loop(*children)
            case "branch":
                condition, then, *otherwise = children
                if self.truth(condition):
                    self.block(then)
                elif otherwise and otherwise[0].data == "branch":
                    self.statement(otherwise[0])
                elif otherwise:
                    self.block(otherwise[0])
            case "block":
                self.block(statement)

    def loop(self, start: Tree, condition: Tree, step: Tree, body: Tree) -> None:
        """Run a loop over numbers."""
        outer = dict(self.variables)
        self.statement(start)
        while self.truth(condition):
            for each in trees(body):
                if each.data == "block":
                    self.block(each)
                else:
                    self.statement(each)
            inner = trees(step)
            if inner:
                self.statement(inner[0])
                continue
            name = next(str(t) for t in step.children if is_token(t, "NAME"))
            sign = next(str(t) for t in step.children if is_token(t, "INCREMENT"))
            old = self._variable(name, step)
            self.variables[name] = self._binary("+" if sign == "++" else "-", old, 1, step)
        self.variables = {name: self.variables[name] for name in outer}

    def truth(self, condition: Tree) -> bool:
        """The value of a condition on numbers."""
        value = self.value(condition)
        if not isinstance(value, (bool, int)):
            raise error(
                f"a condition of the text is a number, not {kind_of(value)}",
                span_of(self.source, condition),
                hint="use add_constraint for indices, and select for tensors",
            )
        return bool(value)

    def declare(self, type_: str, declarator: Tree) -> None:
        """Run the declaration of one variable."""
        name = str(declarator.children[0])
        span = span_of(self.source, declarator)
        given = [each for each in declarator.children[1:] if isinstance(each, lark.Tree)]
        if type_.startswith("vector"):
            self.variables[name] = self._vector(type_, name, declarator, given, span)
            return
        if declarator.data != "initialized":
            raise error(f"'{name}' is not a vector", span, hint=f"write '{type_} {name} = …'")
        if given:
            value = self.value(given[0])
        elif type_ in ("TensorDim", "TensorIndex"):
            value = TensorDim(name) if type_ == "TensorDim" else TensorIndex(name)
        else:
            value = 0 if type_ not in ("auto", "Tensor") else None
        if isinstance(value, Tensor) and not value.name:
            value.name = name
        self.variables[name] = list(value) if isinstance(value, list) else value

    def _vector(
        self, type_: str, name: str, declarator: Tree, given: Sequence[Tree], span: Span
    ) -> list[Any]:
        if declarator.data == "listed":
            return [self.value(each) for each in given]
        if declarator.data != "constructed":
            value = self.value(given[0]) if given else []
            if not isinstance(value, list):
                raise error(f"{kind_of(value)} is not a vector", span, hint="give its items in {}")
            return list(value)
        (count, *_) = [self.value(each) for each in trees(given[0])] or [0]
        if not isinstance(count, int) or not 0 <= count <= MAX_VECTOR:
            message = f"a vector has from 0 to {MAX_VECTOR} items, not {kind_of(count)}"
            raise error(message, span, hint="give its length as a number")
        kinds: Mapping[str, Callable[[str], Any]] = {
            "vector<TensorDim>": TensorDim, "vector<TensorIndex>": TensorIndex,
        }  # fmt: skip
        make = kinds.get(type_)
        return [0 if make is None else make(f"{name}{i}") for i in range(count)]

    def assign(self, statement: Tree) -> None:
        """Run an assignment: of an element of an output, of a variable, or of an item."""
        target, sign, right = statement.children
        assert isinstance(target, lark.Tree) and isinstance(right, lark.Tree)
        span = span_of(self.source, statement)
        value = self.value(right)
        base, *trailers = trees(target)
        if trailers and trailers[-1].data == "arguments":
            access = self.value(target)
            if not isinstance(access, Access) or str(sign) == "-=":
                raise error("this cannot be assigned", span, hint="write an element: O(i) = …")
            merge = cast(tracing.Aggregation, str(sign))
            self._guarded(span, lambda: access.aggregate(merge, value))
            self._located(access, span)
            return
        if str(sign) != "=":
            value = self._binary(str(sign)[0], self.value(target), value, statement)
        if base.data != "name":
            raise error("this cannot be assigned", span, hint="assign a variable or an item")
        name = str(base.children[0])
        self._variable(name, base)
        if isinstance(value, Tensor) and not value.name:
            value.name = name
        if not trailers:
            self.variables[name] = value
        elif len(trailers) == 1 and trailers[0].data == "item":
            vector = self.variables[name]
            vector[self._position(vector, trailers[0])] = value
        else:
            raise error("this cannot be assigned", span, hint="assign a variable or an item")

    def value(self, tree: Tree) -> Any:
        """The value of an expression."""
        self._count(tree)
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
                return self._variable(str(tree.children[0]), tree)
            case "integer":
                return self._integer(int(str(tree.children[0]).rstrip("uUlL")[:40]), tree)
            case "real":
                return float(str(tree.children[0]).rstrip("fF"))
        raise AssertionError(tree.data)

    def _chain(self, tree: Tree) -> Any:
        """Operators of one precedence, from left to right."""
        first, *rest = tree.children
        assert isinstance(first, lark.Tree)
        result = self.value(first)
        for sign, operand in zip(rest[::2], rest[1::2], strict=True):
            assert isinstance(operand, lark.Tree)
            result = self._binary(str(sign), result, self.value(operand), tree)
        return result

    def _unary(self, tree: Tree) -> Any:
        *signs, operand = tree.children
        assert isinstance(operand, lark.Tree)
        value = self.value(operand)
        if sum(str(each) == "-" for each in signs) % 2:
            if not isinstance(value, VALUES):
                raise self._untyped("-", tree, value)
            return self._located(self._guarded(span_of(self.source, tree), lambda: -value), tree)
        return value

    def _binary(self, sign: str, left: Any, right: Any, tree: Tree) -> Any:
        if not (isinstance(left, VALUES) and isinstance(right, VALUES)):
            raise self._untyped(sign, tree, left, right)
        span = span_of(self.source, tree)
        apply = OPERATORS.get(sign) or divided
        try:
            result = self._guarded(span, lambda: apply(left, right))
        except (TypeError, OverflowError):
            raise self._untyped(sign, tree, left, right) from None
        return self._located(self._integer(result, tree), span)

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
            return self._located(self._guarded(span, lambda: function(*values)), span)
        except TypeError:
            message = f"'{name}' does not take {len(values)} arguments"
            raise error(message, span, hint="select takes 3, pow 2, the others 1") from None

    def _access(self, value: Any, arguments: Tree, tree: Tree) -> Access:
        span = span_of(self.source, tree)
        if not isinstance(value, Tensor):
            hint = "only tensors and functions are followed by '('; vectors by '['"
            raise error(f"{kind_of(value)} is not a tensor", span, hint=hint)
        given = tuple(self._arguments(arguments))
        access = self._guarded(span, lambda: value.access(given))
        assert isinstance(access, Access)
        access.location = span
        return access

    def _member(self, value: Any, name: str, arguments: Tree, tree: Tree) -> Any:
        span = span_of(self.source, tree)
        given = self._arguments(arguments)
        if isinstance(value, list) and name == "size" and not given:
            return len(value)
        if isinstance(value, Tensor) and name == "bind_dims":
            self._guarded(span, lambda: value.bind_dims(*given))
            value.bindings[-1].location = span
            return None
        if isinstance(value, Tensor) and name == "add_constraint" and len(given) == 1:
            self._guarded(span, lambda: value.add_constraint(given[0]))
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
        return value[self._position(value, trailer)]

    def _position(self, vector: Any, trailer: Tree) -> int:
        position = self.value(trees(trailer)[0])
        span = span_of(self.source, trailer)
        if not isinstance(vector, list) or not isinstance(position, int):
            raise error("only vectors have items, by number", span, hint="write X[0]")
        if not 0 <= position < len(vector):
            hint = f"the vector has {len(vector)} items"
            raise error(f"there is no item {position}", span, hint=hint)
        return position

    def _variable(self, name: str, tree: Tree) -> Any:
        found = self.variables.get(name)
        if found is None:
            span = span_of(self.source, tree)
            is_empty = name in self.variables
            hint = did_you_mean(name, self.variables) or f"declare it: auto {name} = …;"
            message = f"'{name}' has no value" if is_empty else f"'{name}' is not declared"
            raise error(message, span, hint=hint)
        return found

    def _integer(self, value: Any, tree: Tree) -> Any:
        if type(value) is int and abs(value) > MAX_INTEGER:
            span = span_of(self.source, tree)
            raise error("the number is too large", span, hint="use integers of less than 63 bits")
        return value

    def _guarded(self, span: Span, run: Callable[[], Any]) -> Any:
        """A value, with the position of the text in errors."""
        try:
            return run()
        except Mistake as mistake:
            raise mistake.at(span) from None

    def _located(self, value: Any, where: Span | Tree) -> Any:
        """A value with its position in the text."""
        span = where if isinstance(where, Span) else span_of(self.source, where)
        if isinstance(value, (Tensor, Constraint)):
            value.location = span
        found = value.tensor if isinstance(value, Access) else None
        if isinstance(found, Output) and found.contraction is not None:
            found.contraction.location = span
        return value

    def _count(self, tree: Tree) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            message = f"the function takes more than {MAX_STEPS} steps"
            raise error(message, span_of(self.source, tree), hint="use shorter loops")
