"""Conversion of lark's parse tree of NNEF 1 into :mod:`~tvm_nnef.converters.nnef1.nodes`.

It also reports errors that the grammar admits: numbers out of range, unprintable strings, trees too
deep to be processed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import lark

from tvm_nnef.converters.nnef1 import nodes, types
from tvm_nnef.diagnostics import Diagnostic, NnefError, Source, Span, error

MAX_DEPTH = 100
"""Upper limit of the nesting of an expression."""

MAX_INTEGER = 2**63 - 1

_ESCAPE = re.compile(r"\\(.)")

Children: TypeAlias = "list[Any]"
Rule: TypeAlias = Callable[[Children, Span], Any]


@dataclass(frozen=True, slots=True)
class Built:
    """A node, the depth of its tree, and the diagnostics of errors inside."""

    value: Any
    depth: int
    problems: tuple[Diagnostic, ...] = ()


def build_tree(tree: lark.Tree[lark.Token], source: Source) -> Built:
    """Build the node of a parse tree, from the leaves upwards and without recursion."""
    built: dict[int, Built] = {}
    problems: list[Diagnostic] = []
    for subtree in tree.iter_subtrees():
        depth = 0
        children: Children = []
        for child in subtree.children:
            if isinstance(child, lark.Tree):
                below = built[id(child)]
                children.append(below.value)
                depth = max(depth, below.depth)
            elif isinstance(child, lark.Token) and child.type == "IDENTIFIER":
                children.append(nodes.Name(_token_span(child, source), str(child)))
            else:
                children.append(child)
        meta = subtree.meta
        span = Span(source, 0, 0) if meta.empty else Span(source, meta.start_pos, meta.end_pos)
        try:
            value = _RULES[subtree.data](children, span)
        except NnefError as found:
            problems.extend(found.diagnostics)
            value = nodes.Literal(span, 0)
        if depth == MAX_DEPTH:
            problems.append(_too_deep(span))
        built[id(subtree)] = Built(value, depth + 1)
    return Built(built[id(tree)].value, built[id(tree)].depth, tuple(problems))


def _token_span(token: lark.Token, source: Source) -> Span:
    assert token.start_pos is not None and token.end_pos is not None
    return Span(source, token.start_pos, token.end_pos)


def _too_deep(span: Span) -> Diagnostic:
    return Diagnostic(
        f"this is nested more than {MAX_DEPTH} levels deep",
        Span(span.source, span.start, min(span.end, span.start + 1)),
        "assign parts of it to their own names",
    )


def _number(children: Children, span: Span) -> nodes.Literal:
    text = str(children[0])
    if text.isdigit():
        if len(text) > 19 or int(text) > MAX_INTEGER:
            raise error("an integer has at most 63 bits", span, hint="write a scalar: '1.0e20'")
        return nodes.Literal(span, int(text))
    value = float(text)
    if math.isinf(value):
        raise error("this number is too large for a scalar", span, hint="use a smaller one")
    return nodes.Literal(span, value)


def _text(children: Children, span: Span) -> nodes.Literal:
    return nodes.Literal(span, unquoted(str(children[0]), span))


def unquoted(literal: str, span: Span) -> str:
    """Return the characters of a string literal."""
    text = _ESCAPE.sub(r"\1", literal[1:-1])
    if not (text.isascii() and text.isprintable()):
        raise error(
            "a string consists of printable ASCII characters",
            span,
            hint="remove the other characters",
        )
    return text


def _fragment(children: Children, span: Span) -> nodes.Fragment:
    name, generic, parameters, results, *body = children
    header = Span(span.source, span.start, name.span.end)
    return nodes.Fragment(
        header,
        name,
        generic is not None,
        generic[0] if generic else None,
        parameters or (),
        results,
        body[0] if body else None,
    )


def _graph(children: Children, span: Span) -> nodes.Graph:
    name, parameters, results, body = children
    return nodes.Graph(span, name, parameters or (), results, body)


def _document(children: Children, span: Span) -> nodes.Document:
    def of(kind: type[Any]) -> tuple[Any, ...]:
        return tuple(each for each in children if isinstance(each, kind))

    (version,) = of(nodes.Version) or (None,)
    (graph,) = of(nodes.Graph)
    return nodes.Document(span, version, of(nodes.Extension), of(nodes.Fragment), graph)


def _binary(children: Children, span: Span) -> nodes.Binary:
    left, operator, right = children
    return nodes.Binary(span, str(operator), left, right)


def _comprehension(children: Children, span: Span) -> nodes.Comprehension:
    iterators, condition, item = children
    return nodes.Comprehension(span, iterators, condition, item)


def _argument(children: Children, span: Span) -> nodes.Argument:
    name, value = children
    return nodes.Argument(span, name, value)


def _invocation(children: Children, span: Span) -> nodes.Invocation:
    name, generic, *arguments = children
    return nodes.Invocation(span, name, generic, _present(arguments))


def _quantized(children: Children, span: Span) -> nodes.Quantized:
    token, quantizer = children
    name_span = _token_span(token, span.source)
    return nodes.Quantized(span, unquoted(str(token), name_span), name_span, quantizer)


def _present(children: Children) -> tuple[Any, ...]:
    """Return the children without the placeholder of a list that is omitted."""
    return tuple(each for each in children if each is not None)


_RULES: Mapping[str, Rule] = MappingProxyType({
    "document": _document,
    "library": lambda children, _: tuple(children),
    "quantization": lambda children, _: tuple(children),
    "quantized": _quantized,
    "version": lambda children, span: nodes.Version(span, str(children[0])),
    "extension": lambda children, span: nodes.Extension(
        span, tuple(children[:-1]), children[-1] or ""
    ),
    "condition": lambda _, span: span.text,
    "fragment": _fragment,
    "generic": lambda children, _: [children[0]],
    "parameters": lambda children, _: tuple(children),
    "parameter": lambda children, span: nodes.Parameter(span, *children),
    "results": lambda children, _: tuple(children),
    "result": lambda children, span: nodes.Result(span, *children),
    "type_name": lambda children, _: str(children[0]),
    "primitive": lambda children, _: types.Primitive(children[0]),
    "tensor": lambda children, _: types.TensorType(children[0]),
    "array_type": lambda children, _: types.ArrayType(children[0]),
    "tuple_type": lambda children, _: types.TupleType(tuple(children)),
    "graph": _graph,
    "names": lambda children, _: tuple(children),
    "body": lambda children, _: tuple(children),
    "assignment": lambda children, span: nodes.Assignment(span, *children),
    "name": lambda children, _: children[0],
    "array": lambda children, span: nodes.Array(span, _present(children)),
    "tuple": lambda children, span: nodes.Tuple(span, tuple(children)),
    "number": _number,
    "text": _text,
    "logical": lambda children, span: nodes.Literal(span, str(children[0]) == "true"),
    "unary": lambda children, span: nodes.Unary(span, str(children[0]), children[1]),
    "binary": _binary,
    "contains": lambda children, span: nodes.Binary(span, "in", children[0], children[1]),
    "select": lambda children, span: nodes.Select(span, *children),
    "subscript": lambda children, span: nodes.Subscript(span, *children),
    "slice": lambda children, span: nodes.Slice(span, *children),
    "comprehension": _comprehension,
    "iterators": lambda children, _: tuple(children),
    "iterator": lambda children, span: nodes.Iterator(span, *children),
    "builtin": lambda children, span: nodes.Builtin(span, str(children[0]), children[1]),
    "invocation": _invocation,
    "argument": _argument,
})  # fmt: skip
