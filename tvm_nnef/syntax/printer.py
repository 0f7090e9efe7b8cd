"""Printing of syntax trees as SkriptND text, in either dialect.

Input: a module or an expression. Output: text that the parser reads back as an equal tree. Comments
and the author's line breaks are not in the tree, so they are lost. The draft does not have the
words ``static`` and ``dynamic`` and loses them; anything else that a dialect cannot express is an
error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tvm_nnef.diagnostics import error
from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.expressible import check_expressible_in_tools
from tvm_nnef.syntax.expression_printer import ExpressionPrinter, Level
from tvm_nnef.syntax.spelling import Spelling, spelling_of

WIDTH = 100
INDENT = "    "

_STRING = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_WORDS = re.compile(rf"""(?:{_STRING.pattern}|[^\s"'])+""", re.DOTALL)
"""A unit that line breaks may not split: it has no white space outside of strings."""


def print_module(module: nodes.Module, dialect: str = "draft") -> str:
    """Return the text of a file; ``parse(print_module(module, d), dialect=d) == module``.

    Raises :class:`NnefError` for everything that the dialect cannot express, except for ``static``
    and ``dynamic``, which the draft implies.
    """
    spelling = spelling_of(dialect)
    if spelling.is_tools:
        check_expressible_in_tools(module)
    printer = _Printer(spelling, ExpressionPrinter(spelling))
    imports = "".join(f"import {item.path};\n" for item in module.imports)
    definitions = ["\n".join(printer.definition(item)) + "\n" for item in module.definitions]
    return "\n".join(([imports] if imports else []) + definitions)


def print_expression(expression: nodes.Expression, dialect: str = "draft") -> str:
    """Return the text of an expression, on one line except for line breaks inside of strings.

    Raises :class:`NnefError` for anything that the dialect cannot express.
    """
    spelling = spelling_of(dialect)
    if spelling.is_tools:
        check_expressible_in_tools(expression)
    return ExpressionPrinter(spelling).print(expression)


@dataclass(frozen=True, slots=True)
class _Printer:
    """Prints definitions in one spelling, statement by statement."""

    spelling: Spelling
    expressions: ExpressionPrinter

    def definition(self, definition: nodes.Definition) -> Iterator[str]:
        """Yield the lines of a definition."""
        public = "public " if definition.public else ""
        yield f"{public}{definition.kind} {definition.name.name} {{"
        for block in definition.blocks:
            yield f"{INDENT}@{block.kind} {{"
            for statement in block.statements:
                yield wrap(self._statement(statement, INDENT * 2), INDENT * 2)
            yield f"{INDENT}}}"
        yield "}"

    def _statement(self, statement: nodes.Statement, indent: str) -> str:
        match statement:
            case nodes.DtypeDefinition(name, base, default):
                return f"{name.name}: {base.name}{f' = {default.name}' if default else ''};"
            case nodes.Parameter(name, type_spec, default, bounds):
                value = f" = {self.expressions.print(default)}" if default else ""
                return f"{name.name}: {self._type_spec(type_spec)}{value}{self._bounds(bounds)};"
            case nodes.Using(target, value):
                return f"{self._target(target)} = {self.expressions.print(value)};"
            case nodes.Assertion():
                return self._assertion(statement)
            case nodes.Lowering():
                return self._lowering(statement)
            case nodes.Component(targets, value):
                return f"{self._targets(targets)} = {self._component_value(value, indent)};"
            case nodes.Quantization(tensor, quantizer):
                return f"{tensor}: {self.expressions.call(quantizer)};"

    def _assertion(self, assertion: nodes.Assertion) -> str:
        if assertion.message is None:
            return f"{self.expressions.print(assertion.condition)};"
        details = (
            f", {f'{self.expressions.text(detail.label)}: ' if detail.label else ''}"
            f"{self.expressions.print(detail.value)}"
            for detail in assertion.details
        )
        condition = self.expressions.print(assertion.condition, Level.CLOSED)
        return f"{condition}: {self.expressions.text(assertion.message)}{''.join(details)};"

    def _lowering(self, lowering: nodes.Lowering) -> str:
        unroll = f"unroll{self._iteration(lowering.unroll)} " if lowering.unroll else ""
        values = self._local_values(lowering.locals)
        operator = self.spelling.assignments.get(lowering.operator, lowering.operator)
        target, value = map(self.expressions.print, (lowering.target, lowering.value))
        condition = f" | {self.expressions.print(lowering.condition)}" if lowering.condition else ""
        bounds = self._bounds(lowering.bounds)
        return f"{unroll}{values}{target} {operator} {value}{bounds}{condition};"

    def _local_values(self, values: Sequence[nodes.LocalValue]) -> str:
        if not self.spelling.is_tools:
            return "".join(
                f"{local.name.name} = {self.expressions.print(local.value)}, " for local in values
            )
        text = ", ".join(
            f"{local.name.name} = {self.expressions.print(local.value, Level.CLOSED)}"
            for local in values
        )
        return f"with {text}: " if text else ""

    def _bounds(self, bounds: Iterable[nodes.LoopBound]) -> str:
        return "".join(
            f", {bound.index.name} < {self.expressions.print(bound.extent)}" for bound in bounds
        )

    def _iteration(self, count: nodes.IterationCount) -> str:
        index = f"{count.index.name} ->" if count.index else ""
        number = self.expressions.print(count.count) if count.count else ""
        return f"..({' '.join(filter(None, (index, number)))})"

    def _type_spec(self, type_spec: nodes.TypeSpec) -> str:
        modifiers = "optional " if type_spec.optional else ""
        modifiers += self._word("dynamic", type_spec.dynamic)
        rank = f"^({type_spec.rank.name})" if type_spec.rank else ""
        return self._packed(
            f"{modifiers}{type_spec.name.name}{rank}{self._shape(type_spec.shape)}", type_spec.pack
        )

    def _word(self, word: str, said: bool) -> str:
        """Return a word that only the tools dialect has."""
        return f"{word} " if said and self.spelling.is_tools else ""

    def _packed(self, text: str, pack: nodes.Pack | None) -> str:
        if pack is None:
            return text
        if pack.bound is not None and not self.spelling.is_tools:
            raise error(
                "the draft has no bounds for the length of a pack",
                pack.span,
                hint="give the pack a fixed length, or write the model in the tools dialect",
            )
        dots = self.expressions.packed(text, None)
        if pack.length is None:
            return dots
        modifiers = self._word("static", pack.static) + self._word("dynamic", pack.dynamic)
        length = self._bounded(self.expressions.print(pack.length), pack.bound)
        return f"{dots}({modifiers}{length})"

    def _bounded(self, value: str, bound: nodes.Expression | None) -> str:
        if bound is None:
            return value
        limit = self.expressions.print(bound)
        # Two bars in a row would be the operator.
        bar = " | " if value.endswith("|") or limit.startswith("|") else "|"
        return value + bar + limit

    def _shape(self, shape: tuple[nodes.Extent, ...] | None) -> str:
        return "" if shape is None else f"[{', '.join(map(self._extent, shape))}]"

    def _extent(self, extent: nodes.Extent) -> str:
        modifiers = self._word("static", extent.static) + (".." if extent.per_item else "")
        value = self._bounded(self.expressions.optional(extent.value), extent.bound)
        return self._packed(modifiers + value, extent.pack)

    def _targets(self, targets: Iterable[nodes.Target]) -> str:
        return ", ".join(map(self._target, targets))

    def _target(self, target: nodes.Target) -> str:
        match target:
            case nodes.NameTarget(name, type_name, shape, pack):
                type_text = f": {type_name.name}{self._shape(shape)}" if type_name else ""
                return self._packed(name.name + type_text, pack)
            case nodes.ListTarget(items):
                return f"[{self._targets(items)}]"
            case nodes.ZipTarget(names, pack):
                return self._packed(f"({self._targets(names)})", pack)
            case nodes.Omitted():
                return "~"

    def _component_value(self, value: nodes.Body | nodes.Branch | nodes.Loop, indent: str) -> str:
        match value:
            case nodes.Branch(arms, alternative):
                text = " elif ".join(
                    f"{self._body(arm.condition, indent)} then {self._body(arm.consequent, indent)}"
                    for arm in arms
                )
                return f"if {text} else {self._body(alternative, indent)}"
            case nodes.Loop():
                return self._loop(value, indent)
            case _:
                return self._body(value, indent)

    def _loop(self, loop: nodes.Loop, indent: str) -> str:
        carried = ", ".join(
            f"{self._target(nodes.NameTarget(item.name, item.type, item.shape, span=item.span))}"
            f" = {self.expressions.print(item.value)}"
            for item in loop.carried
        )
        scans = ", ".join(
            f"{scan.name.name} : {self.expressions.print(scan.value)}" for scan in loop.scans
        )
        condition = f"while {self._body(loop.condition, indent)}" if loop.condition else ""
        keyword = "unroll" if loop.unroll else "do"
        clauses = (
            f"with {carried}" if carried else "",
            f"for {scans}" if scans else "",
            "" if loop.post_test else condition,
            keyword + (self._iteration(loop.iteration) if loop.iteration else ""),
            self._body(loop.body, indent),
            condition if loop.post_test else "",
        )
        return " ".join(filter(None, clauses))

    def _body(self, body: nodes.Body, indent: str) -> str:
        if not isinstance(body, nodes.Scope):
            return self.expressions.print(body)
        inner = indent + INDENT
        lines = [wrap(self._statement(component, inner), inner) for component in body.components]
        lines.append(wrap(f"yield {', '.join(map(self.expressions.print, body.yields))};", inner))
        label = f"{body.label.name}: " if body.label else ""
        return f"{label}{{\n" + "\n".join(lines) + f"\n{indent}}}"


def wrap(statement: str, indent: str) -> str:
    """Break a long line between words; every line break is white space to the parser."""
    opening = _STRING.sub(lambda text: "_" * len(text[0]), statement).find("{\n")
    if opening >= 0:
        return wrap(statement[: opening + 1], indent) + statement[opening + 1 :]
    if len(indent) + len(statement) <= WIDTH:
        return indent + statement
    words, lines = _WORDS.findall(statement), list[str]()
    while words:
        start = indent + INDENT if lines else indent
        count = _words_on_line(words, WIDTH - len(start))
        lines.append(start + " ".join(words[:count]))
        words = words[count:]
    return "\n".join(lines)


def _words_on_line(words: list[str], room: int) -> int:
    """Return the number of words for one line: up to the outermost comma or colon in its second
    half.

    It is an earlier word if that keeps a list in one piece.
    """
    length, depth = -1, 0
    breaks: list[tuple[float, bool, int]] = []
    for position, word in enumerate(words, 1):
        length += 1 + len(word)
        if length > room and breaks:
            return -min(breaks)[2]
        bare = _STRING.sub("", word)
        depth += sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
        early = 0.0 if 2 * length > room else 1.5
        breaks.append((depth + early, not word.endswith((",", ":")), -position))
    return len(words)
