"""Operators described for people: signature, comment, text, and how each is lowered.

Input: checked definitions. Output: entries, and the Markdown page of the standard library, which
``scripts/write_operators.py`` writes to ``docs/operators.md``. Nothing is composed here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tvm_nnef.diagnostics import Source
from tvm_nnef.semantics.program import CheckedDefinition, Program
from tvm_nnef.stdlib.library import extensions, standard_operators
from tvm_nnef.stdlib.mapped_operators import MAPPED_OPERATORS
from tvm_nnef.syntax import nodes

_WIDTH = 96
"""The columns of a signature on the page; a longer one has its attributes below each other."""

_HEAD = """\
<!-- Written by scripts/write_operators.py from tvm_nnef/stdlib; do not edit. -->
# Standard operators

What `import`ing a standard module gives to a model: [all operators by name](#by-name). The line
below a name says how it is compiled:

- **mapped**: by the Relax operators that are the same thing (`tvm_nnef/lower/ops`), where types and
  attributes allow; else, and always with `route="formula"`, by its body:
- **formula**: index notation (`@lower`) that becomes its own kernel;
- **composition**: other operators (`@compose`), which replace it;
- **intrinsic**: no body can say it; each route has code for it.

`tvm-nnef ops NAME` prints an operator with its text. The same operators in the dialect of Khronos's
tools differ in the points that `tvm_nnef/stdlib/tools` lists.
[How to add an operator](adding-an-operator.md).

## By name
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """An operator as it is listed.

    ``comment`` is the comment above the operator in its text, without the comment signs.
    """

    module: str
    name: str
    generics: str
    attributes: tuple[str, ...]
    operands: str
    lowering: str
    comment: str
    text: str
    source: Source
    is_private: bool

    @property
    def qualified_name(self) -> str:
        """The name with its module, as in ``nn.conv``."""
        return f"{self.module}.{self.name}"

    @property
    def signature(self) -> str:
        """The operator in a line: ``<T: num>{attributes}(inputs) -> outputs``."""
        attributes = f"{{{', '.join(self.attributes)}}}" if self.attributes else ""
        return f"{self.generics}{attributes}{self.operands}"


def standard_entries() -> list[Entry]:
    """The operators of the standard library, in the order of modules and text."""
    return [entry_of(each, _lowering(each)) for each in standard_operators()]


def importable_entries() -> list[Entry]:
    """The operators of other modules that every model may import."""
    return [entry_of(each, _lowering(each)) for each in standard_operators(extensions())]


def own_entries(program: Program) -> list[Entry]:
    """The operators of a model's own modules, in the order of modules and text."""
    own = (module for module in program.modules.values() if not module.is_standard)
    definitions = (each for module in own for each in module.definitions.values())
    return [entry_of(each, _lowering(each)) for each in definitions if not each.is_graph]


def page(entries: Iterable[Entry]) -> str:
    """The Markdown page of operators, a section for each module."""
    public = [entry for entry in entries if not entry.is_private]
    modules = {
        module: list(members)
        for module, members in itertools.groupby(public, lambda entry: entry.module)
    }
    lines = [_HEAD, "| module | operators |\n|---|---|"]
    for module, members in modules.items():
        names = ", ".join(f"[{each.name}](#{module}{each.name})" for each in members)
        lines.append(f"| [`{module}`](#{module}) | {names} |")
    sections = (_section(module, members) for module, members in modules.items())
    return "\n".join([*lines, "", *itertools.chain(*sections)])


def entry_of(definition: CheckedDefinition, lowering: str = "") -> Entry:
    """The entry of an operator; ``lowering`` says how it is executed."""
    generics = ", ".join(
        f"{dtype.name.name}: {dtype.base.span.text}" for dtype in definition.dtypes
    )
    inputs = ", ".join(map(parameter_text, definition.inputs))
    outputs = ", ".join(map(parameter_text, definition.outputs))
    span = definition.node.span
    return Entry(
        definition.module,
        definition.name,
        f"<{generics}>" if generics else "",
        tuple(map(parameter_text, definition.attributes)),
        f"({inputs}) -> {outputs}",
        lowering,
        _comment_above(span.source.text[: span.start].splitlines()),
        span.text,
        span.source,
        definition.is_private,
    )


def _lowering(definition: CheckedDefinition) -> str:
    """Return the implementation of an operator: a Relax operator, or its body."""
    body = "formula" if definition.is_lowered else "composition"
    if not definition.has_body:
        body = "intrinsic"
    return f"mapped, {body}" if definition.qualified_name in MAPPED_OPERATORS else body


def parameter_text(parameter: nodes.Parameter) -> str:
    """A parameter on one line, as in ``padding: optional int = 0``."""
    text = parameter.type.span.text
    default = "" if parameter.default is None else f" = {parameter.default.span.text}"
    return " ".join(f"{parameter.name.name}: {text}{default}".split())


def _comment_above(lines: Sequence[str]) -> str:
    """The comment that ends right above an operator."""
    return _uncommented(reversed([*itertools.takewhile(_is_comment, reversed(lines))]))


def _comment_on_top(lines: Sequence[str]) -> str:
    """The comment with which a module begins."""
    return _uncommented(itertools.takewhile(_is_comment, lines))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _uncommented(lines: Iterable[str]) -> str:
    return "\n".join(line.lstrip().removeprefix("#").removeprefix(" ").rstrip() for line in lines)


def _section(module: str, entries: Sequence[Entry]) -> Iterator[str]:
    yield f"## `{module}`\n"
    yield f"{_escaped(_comment_on_top(entries[0].source.text.splitlines()))}\n"
    for entry in entries:
        yield f"### {entry.qualified_name}\n"
        comment = f"\n{_escaped(entry.comment)}" if entry.comment else ""
        yield f"*{entry.lowering.capitalize()}.*{comment}\n"
        yield f"```sknd\n{listing(entry)}\n```\n"


def listing(entry: Entry) -> str:
    """The name and signature, with attributes below each other where it is long."""
    line = f"{entry.name}{entry.signature}"
    if len(line) <= _WIDTH or not entry.attributes:
        return line
    attributes = "".join(f"    {attribute},\n" for attribute in entry.attributes)
    return f"{entry.name}{entry.generics}{{\n{attributes}}}{entry.operands}"


def _escaped(text: str) -> str:
    """A comment as Markdown: signs that would mark text up, outside of back-ticks, are escaped."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<\[\]])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)
