"""Interpretation of the statements and functions of a parsed text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import lark

from tvm_nnef.converters.common.collected_errors import Problems
from tvm_nnef.converters.tile import tracing
from tvm_nnef.converters.tile.dimensions import TensorDim
from tvm_nnef.converters.tile.indices import TensorIndex
from tvm_nnef.converters.tile.text.expressions import (
    MAX_STEPS,
    UNKNOWN,
    Expressions,
    UnknownValue,
)
from tvm_nnef.converters.tile.text.values import (
    Tree,
    defined_in,
    is_token,
    kind_of,
    parameters_of,
    span_of,
    trees,
    type_of,
)
from tvm_nnef.converters.tile.tracing import Access, Tensor
from tvm_nnef.diagnostics import NnefError, Span, error

MAX_CALLS = 16
"""Upper limit of the nesting of calls."""
MAX_VECTOR = 64
"""Upper limit of the items of a vector."""


class _Return(Exception):
    """The value of a function."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@dataclass
class Interpreter(Expressions):
    """A run of the functions of a text.

    A wrong statement is reported, and its variables are ``broken``: statements that read them are
    skipped. ``beside`` are the other tensors that such statements read.
    """

    calls: int = 0
    failures: int = 0
    problems: Problems = field(default_factory=Problems)
    broken: list[Tensor] = field(default_factory=list)
    beside: list[Tensor] = field(default_factory=list)

    def run(self, name: str, arguments: Sequence[Any], span: Span) -> Tensor | None:
        """Call a function.

        Return its result, or None if it is unknown because of one of the ``problems``.
        """
        try:
            result: Tensor = self.call(name, arguments, span)
        except UnknownValue:
            return None
        except NnefError as problem:
            self.problems.add(problem)
            return None
        return result

    def call(self, name: str, arguments: Sequence[Any], span: Span) -> Any:
        """Call a function; return its result."""
        parameters = [str(each.children[-1]) for each in parameters_of(self.functions[name])]
        if len(parameters) != len(arguments):
            message = f"'{name}' takes {len(parameters)} arguments, not {len(arguments)}"
            raise error(message, span, hint=f"parameters are {', '.join(parameters)}")
        if self.calls >= MAX_CALLS:
            message = f"more than {MAX_CALLS} functions call each other"
            raise error(message, span, hint="do not call functions recursively")
        outer, self.variables = self.variables, dict(zip(parameters, arguments, strict=True))
        failures = self.failures
        self.calls += 1
        try:
            self.block(trees(self.functions[name])[-1])
        except _Return as found:
            if found.value is UNKNOWN:
                raise UnknownValue from None
            if not isinstance(found.value, Tensor):
                kind = kind_of(found.value)
                raise error(
                    f"'{name}' returns {kind}, not a tensor", span, hint="return O;"
                ) from None
            return found.value
        finally:
            self.variables, self.calls = outer, self.calls - 1
        if self.failures > failures:
            raise UnknownValue
        raise error(f"'{name}' returns nothing", span, hint="end it with: return O;")

    def block(self, block: Tree) -> None:
        """Run the statements of a block, which has a separate scope."""
        outer = dict(self.variables)
        for statement in trees(block):
            self.attempt(statement)
        self.variables = {name: self.variables[name] for name in outer}

    def attempt(self, statement: Tree) -> None:
        """Run one statement.

        Its variables are unknown if it is wrong, or reads an unknown value.
        """
        try:
            self.statement(statement)
            return
        except NnefError as problem:
            if self.steps > MAX_STEPS:
                raise
            self.problems.add(problem)
        except UnknownValue:
            pass
        self.failures += 1
        assigned, changed = defined_in(statement)
        read = {str(each.children[0]) for each in statement.find_data("name")} - changed
        known = {name: each for name, each in self.variables.items() if isinstance(each, Tensor)}
        self.broken += [each for name, each in known.items() if name in changed]
        self.beside += [each for name, each in known.items() if name in read]
        self.variables.update(dict.fromkeys((*assigned, *changed), UNKNOWN))
        if statement.data == "result":
            raise _Return(UNKNOWN)

    def statement(self, statement: Tree) -> None:
        """Run one statement."""
        self.count(statement)
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
                    self.attempt(each)
            inner = trees(step)
            if inner:
                self.statement(inner[0])
                continue
            name = next(str(t) for t in step.children if is_token(t, "NAME"))
            sign = next(str(t) for t in step.children if is_token(t, "INCREMENT"))
            old = self.variable(name, step)
            self.variables[name] = self.binary("+" if sign == "++" else "-", old, 1, step)
        self.variables = {name: self.variables[name] for name in outer}

    def truth(self, condition: Tree) -> bool:
        """Return the value of a condition on numbers."""
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
        initial = [each for each in declarator.children[1:] if isinstance(each, lark.Tree)]
        if type_.startswith("vector"):
            self.variables[name] = self._vector(type_, name, declarator, initial, span)
            return
        if declarator.data != "initialized":
            raise error(f"'{name}' is not a vector", span, hint=f"write '{type_} {name} = …'")
        if initial:
            value = self.value(initial[0])
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
            self.guarded(span, lambda: access.aggregate(merge, value))
            self.located(access, span)
            return
        if str(sign) != "=":
            value = self.binary(str(sign)[0], self.value(target), value, statement)
        if base.data != "name":
            raise error("this cannot be assigned", span, hint="assign a variable or an item")
        name = str(base.children[0])
        self.variable(name, base)
        if isinstance(value, Tensor) and not value.name:
            value.name = name
        if not trailers:
            self.variables[name] = value
        elif len(trailers) == 1 and trailers[0].data == "item":
            vector = self.variables[name]
            vector[self.position(vector, trailers[0])] = value
        else:
            raise error("this cannot be assigned", span, hint="assign a variable or an item")
