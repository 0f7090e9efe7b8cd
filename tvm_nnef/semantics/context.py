"""The context of an expression: the names that it may use, and where its errors are reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias

from tvm_nnef.diagnostics import did_you_mean
from tvm_nnef.semantics.names import Names, Report
from tvm_nnef.semantics.types import Generics, Type
from tvm_nnef.syntax import nodes

BlockRole: TypeAlias = Literal["static", "lower", "compose"]


class Rules(Protocol):
    """The interface of the type inference of any expression."""

    def __call__(self, expression: nodes.Expression, context: Context) -> Type:
        """Return the type of an expression."""


@dataclass(frozen=True, slots=True)
class Context:
    """The context of an expression; ``block`` decides whether a tensor's name has a value in it.

    The name means nothing, an element, or the tensor. ``rules`` infer types
    (:func:`tvm_nnef.semantics.infer.infer`). ``elsewhere`` has a hint for each name that is
    declared, but not visible. ``tools`` is true if the rules of the tools dialect apply where the
    dialects differ.
    """

    rules: Rules
    names: Names
    report: Report
    generics: Generics
    block: BlockRole = "static"
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    tools: bool = False

    def infer(self, expression: nodes.Expression) -> Type:
        """Return the type of an expression in this context."""
        return self.rules(expression, self)

    def at(self, block: BlockRole) -> Context:
        """Return a context with the same names at another location."""
        return replace(self, block=block)

    def enter(self) -> Context:
        """Return a context whose new names are not visible outside of it."""
        return replace(self, names=self.names.enter())

    def promote(self, names: Iterable[str]) -> Context:
        """Return a context in which some optional names are known not to be null (2.4)."""
        symbols = [symbol for name in names if (symbol := self.names.find(name))]
        if not symbols:
            return self
        required = [replace(symbol, type=symbol.type.required) for symbol in symbols]
        return replace(self, names=self.names.enter(required))

    def undefined(self, name: nodes.Identifier) -> None:
        """Report a name that is not visible."""
        hint = self.elsewhere.get(name.name) or did_you_mean(name.name, self.names)
        self.report.error(f"'{name.name}' is not defined", name.span, hint or self._declaring())

    def _declaring(self) -> str:
        """Return a hint how names are declared in this block."""
        if self.block == "compose":
            return "a tensor is an '@input', a '@variable', or a result of a line before"
        index = "an index needs a bound, as in 'i < n'; " if self.block == "lower" else ""
        return f"{index}a number is an '@attrib', is set in '@using', or is a dimension of an input"
