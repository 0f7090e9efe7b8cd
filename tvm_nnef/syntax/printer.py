"""From a syntax tree to SkriptND text, in the spelling of the draft.

A module or an expression enters; text leaves that the parser reads back as an equal tree. Comments
and the author's line breaks are not in the tree, so they are lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tvm_nnef.syntax import nodes
from tvm_nnef.syntax.expression_printer import ExpressionPrinter, Level

WIDTH = 100
INDENT = "    "

_PRINTER = ExpressionPrinter()
_STRING = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_WORDS = re.compile(rf"""(?:{_STRING.pattern}|[^\s"'])+""", re.DOTALL)
"""What may not be broken: no white space outside of a string."""


def print_module(module: nodes.Module) -> str:
    """The text of a file; ``parse(print_module(module)) == module``."""
    imports = "".join(f"import {item.path};\n" for item in module.imports)
    definitions = ["\n".join(_definition(item)) + "\n" for item in module.definitions]
    return "\n".join(([imports] if imports else []) + definitions)


def print_expression(expression: nodes.Expression) -> str:
    """The text of an expression, on one line but for line breaks inside of strings."""
    return _PRINTER.print(expression)


def _definition(definition: nodes.Definition) -> Iterator[str]:
    public = "public " if definition.public else ""
    yield f"{public}{definition.kind} {definition.name.name} {{"
    for block in definition.blocks:
        yield f"{INDENT}@{block.kind} {{"
        for statement in block.statements:
            yield _wrap(_statement(statement, INDENT * 2), INDENT * 2)
        yield f"{INDENT}}}"
    yield "}"


def _wrap(statement: str, indent: str) -> str:
    """Break a long line between words; every line break is white space to the parser."""
    if len(indent) + len(statement) <= WIDTH or "{\n" in statement:
        return indent + statement
    words, lines = _WORDS.findall(statement), list[str]()
    while words:
        start = indent + INDENT if lines else indent
        count = _words_on_line(words, WIDTH - len(start))
        lines.append(start + " ".join(words[:count]))
        words = words[count:]
    return "\n".join(lines)


def _words_on_line(words: list[str], room: int) -> int:
    """How many words to put on a line: to the outermost comma or colon in its latter half."""
    length, depth = -1, 0
    breaks: list[tuple[int, bool, int]] = []
    for position, word in enumerate(words, 1):
        length += 1 + len(word)
        if length > room and breaks:
            return -min(breaks)[2]
        bare = _STRING.sub("", word)
        depth += sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
        if 2 * length > room:
            breaks.append((depth, not word.endswith((",", ":")), -position))
    return len(words)


def _statement(statement: nodes.Statement, indent: str) -> str:
    match statement:
        case nodes.DtypeDefinition(name, base, default):
            return f"{name.name}: {base.name}{f' = {default.name}' if default else ''};"
        case nodes.Parameter(name, type_spec, default, bounds):
            value = f" = {_PRINTER.print(default)}" if default else ""
            return f"{name.name}: {_type_spec(type_spec)}{value}{_bounds(bounds)};"
        case nodes.Using(target, value):
            return f"{_target(target)} = {_PRINTER.print(value)};"
        case nodes.Assertion():
            return _assertion(statement)
        case nodes.Lowering():
            return _lowering(statement)
        case nodes.Component(targets, value):
            return f"{', '.join(map(_target, targets))} = {_component_value(value, indent)};"
        case nodes.Quantization(tensor, quantizer):
            return f"{tensor}: {_PRINTER.call(quantizer)};"


def _assertion(assertion: nodes.Assertion) -> str:
    if assertion.message is None:
        return f"{_PRINTER.print(assertion.condition)};"
    details = (
        f", {f'{_PRINTER.text(detail.label)}: ' if detail.label else ''}"
        f"{_PRINTER.print(detail.value)}"
        for detail in assertion.details
    )
    condition = _PRINTER.print(assertion.condition, Level.CLOSED)
    return f"{condition}: {_PRINTER.text(assertion.message)}{''.join(details)};"


_ASSIGNMENTS = {"min=": "<=", "max=": ">="}


def _lowering(lowering: nodes.Lowering) -> str:
    unroll = f"unroll{_iteration(lowering.unroll)} " if lowering.unroll else ""
    values = "".join(
        f"{local.name.name} = {_PRINTER.print(local.value)}, " for local in lowering.locals
    )
    operator = _ASSIGNMENTS.get(lowering.operator, lowering.operator)
    formula = f"{_PRINTER.print(lowering.target)} {operator} {_PRINTER.print(lowering.value)}"
    condition = f" | {_PRINTER.print(lowering.condition)}" if lowering.condition else ""
    return f"{unroll}{values}{formula}{_bounds(lowering.bounds)}{condition};"


def _bounds(bounds: Iterable[nodes.LoopBound]) -> str:
    return "".join(f", {bound.index.name} < {_PRINTER.print(bound.extent)}" for bound in bounds)


def _iteration(count: nodes.IterationCount) -> str:
    index = f"{count.index.name} ->" if count.index else ""
    number = _PRINTER.print(count.count) if count.count else ""
    return f"..({' '.join(filter(None, (index, number)))})"


# --- types and targets ----------------------------------------------------------------------


def _type_spec(type_spec: nodes.TypeSpec) -> str:
    optional = "optional " if type_spec.optional else ""
    rank = f"^({type_spec.rank.name})" if type_spec.rank else ""
    return _packed(
        f"{optional}{type_spec.name.name}{rank}{_shape(type_spec.shape)}", type_spec.pack
    )


def _packed(text: str, pack: nodes.Pack | None) -> str:
    return _PRINTER.packed(text, pack.length) if pack else text


def _shape(shape: tuple[nodes.Extent, ...] | None) -> str:
    return "" if shape is None else f"[{', '.join(map(_extent, shape))}]"


def _extent(extent: nodes.Extent) -> str:
    value = _PRINTER.optional(extent.value)
    if extent.bound is not None:
        bound = _PRINTER.print(extent.bound)
        # Two bars in a row would be the operator.
        value += " | " if value.endswith("|") or bound.startswith("|") else "|"
        value += bound
    return _packed((".." if extent.per_item else "") + value, extent.pack)


def _target(target: nodes.Target) -> str:
    match target:
        case nodes.NameTarget(name, type_name, shape, pack):
            type_text = f": {type_name.name}{_shape(shape)}" if type_name else ""
            return _packed(name.name + type_text, pack)
        case nodes.ListTarget(items):
            return f"[{', '.join(map(_target, items))}]"
        case nodes.ZipTarget(names, pack):
            return _packed(f"({', '.join(map(_target, names))})", pack)
        case nodes.Omitted():
            return "~"


# --- bodies, branches and loops -------------------------------------------------------------


def _component_value(value: nodes.Body | nodes.Branch | nodes.Loop, indent: str) -> str:
    match value:
        case nodes.Branch(arms, alternative):
            text = " elif ".join(
                f"{_body(arm.condition, indent)} then {_body(arm.consequent, indent)}"
                for arm in arms
            )
            return f"if {text} else {_body(alternative, indent)}"
        case nodes.Loop():
            return _loop(value, indent)
        case _:
            return _body(value, indent)


def _loop(loop: nodes.Loop, indent: str) -> str:
    carried = ", ".join(
        f"{_target(nodes.NameTarget(item.name, item.type, item.shape, span=item.span))}"
        f" = {_PRINTER.print(item.value)}"
        for item in loop.carried
    )
    scans = ", ".join(f"{scan.name.name} : {_PRINTER.print(scan.value)}" for scan in loop.scans)
    condition = f"while {_body(loop.condition, indent)}" if loop.condition else ""
    keyword = "unroll" if loop.unroll else "do"
    clauses = (
        f"with {carried}" if carried else "",
        f"for {scans}" if scans else "",
        "" if loop.post_test else condition,
        keyword + (_iteration(loop.iteration) if loop.iteration else ""),
        _body(loop.body, indent),
        condition if loop.post_test else "",
    )
    return " ".join(filter(None, clauses))


def _body(body: nodes.Body, indent: str) -> str:
    if not isinstance(body, nodes.Scope):
        return _PRINTER.print(body)
    inner = indent + INDENT
    lines = [_wrap(_statement(component, inner), inner) for component in body.components]
    lines.append(_wrap(f"yield {', '.join(map(_PRINTER.print, body.yields))};", inner))
    label = f"{body.label.name}: " if body.label else ""
    return f"{label}{{\n" + "\n".join(lines) + f"\n{indent}}}"
