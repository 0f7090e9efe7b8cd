"""tract's extensions of NNEF 1: ``extension tract_…`` and the operations of its registries.

Input: a document with them. Output: a document in the terms of the specification. ``tract_symbol``
declares dynamic dimensions, of which ``tract_assert`` may give the bound. The operations of
``tract.nnef`` are known in documents that name their registry. tract needs no extension for
fragments and expressions, and none of its ``tract_core_properties``, which describe the file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from types import MappingProxyType

from tvm_nnef.converters.common.types import kind
from tvm_nnef.converters.nnef1 import nodes
from tvm_nnef.converters.nnef1.dialect import Extended
from tvm_nnef.converters.nnef1.fragments import (
    EXPRESSIONS,
    FRAGMENTS,
    Signature,
    Signatures,
    library,
    signatures,
)
from tvm_nnef.converters.nnef1.scan import Scans, rewritten
from tvm_nnef.converters.nnef1.tract_calls import OWN, refusals, with_attributes
from tvm_nnef.converters.nnef1.tract_operators import DTYPES, FUNCTIONS
from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean
from tvm_nnef.storage.container import Container

REGISTRIES = ("tract_nnef", "tract_core", "tract_onnx", "tract_extra", "tract_transformers")
"""Registries of operations; operations that are not in ``tract.nnef`` are reported as
unsupported.
"""

_PROPERTIES = "tract_core_properties"
_STREAMING = "tract_pulse_streaming_symbol"
_BOUND = re.compile(r"(<=?|==)\s*([0-9]{1,18})")
_LOWER_BOUND = re.compile(r">=?\s*[0-9]+")
_ITEM_TYPES = {"real": "scalar", "int": "integer", "bool": "logical"}


def extended(document: nodes.Document, files: Container | None) -> Extended:
    """Return the document without tract's extensions; ``files`` hold its variables.

    Raises NnefError for anything without an exact meaning.
    """
    problems: list[Diagnostic] = []
    symbols: dict[str, nodes.Name] = {}
    bounds: dict[str, int] = {}
    registries: set[str] = set()
    extensions: list[nodes.Extension] = []
    for extension in document.extensions:
        match [each.name for each in extension.words]:
            case ["tract_registry", registry] if registry in REGISTRIES and not extension.condition:
                registries.add(registry)
            case ["tract_registry", *_]:
                problems.append(_unknown_registry(extension))
            case ["tract_symbol", name] if not extension.condition:
                symbols[name] = extension.words[1]
            case ["tract_assert", *names]:
                bounds |= _bound(extension, names, problems)
            case [name] if name == _STREAMING:
                symbols["S"] = extension.words[0]
            case [name, *_] if name.startswith("tract_"):
                hint = "known are tract_registry, tract_symbol and tract_assert"
                message = "this extension cannot be converted"
                problems.append(Diagnostic(message, extension.span, hint))
            case _:
                extensions.append(extension)
    implied = tuple(nodes.Name(document.span, each) for each in (FRAGMENTS, EXPRESSIONS))
    problems += refusals(document, _operations(), registries)
    document = with_attributes(document, _operations(), files)
    scans = Scans({})
    if "tract_core" in registries:
        document, scans = rewritten(document, problems)
    body, dtypes = _body(document.graph.body, problems)
    if problems:
        raise NnefError(problems)
    known = {
        name: each for name, each in _operations().items()
        if name.startswith((*registries, *OWN))
    }  # fmt: skip
    return Extended(
        replace(
            document,
            extensions=(*extensions, nodes.Extension(document.span, implied)),
            fragments=tuple(each for each in document.fragments if each.name.name != _PROPERTIES),
            graph=replace(document.graph, body=body),
        ),
        {**known, **signatures(scans.declarations)},
        FUNCTIONS, symbols, bounds, dtypes, scans.scans, tract_items=True,
    )  # fmt: skip


def _unknown_registry(extension: nodes.Extension) -> Diagnostic:
    given = extension.words[-1].name
    hint = did_you_mean(given, REGISTRIES) or f"registries are {', '.join(REGISTRIES)}"
    return Diagnostic("the operations of this registry are not known", extension.span, hint)


def _bound(
    extension: nodes.Extension, names: list[str], problems: list[Diagnostic]
) -> dict[str, int]:
    """Return the upper bound that an assertion states.

    A lower bound is ignored, since sizes are positive.
    """
    match = _BOUND.fullmatch(extension.condition)
    if len(names) == 1 and match is not None:
        largest = int(match[2]) - (match[1] == "<")
        if largest >= 1:
            return {names[0]: largest}
    if len(names) != 1 or _LOWER_BOUND.fullmatch(extension.condition) is None:
        hint = "write bounds as in 'extension tract_assert N <= 16;'"
        problems.append(Diagnostic("this assertion cannot be kept", extension.span, hint))
    return {}


def _body(
    body: tuple[nodes.Assignment, ...], problems: list[Diagnostic]
) -> tuple[tuple[nodes.Assignment, ...], dict[str, str]]:
    """Return the statements with 'external' instead of tract's form of it, and the dtypes of those
    inputs.
    """
    statements: list[nodes.Assignment] = []
    dtypes: dict[str, str] = {}
    for statement in body:
        value, target = statement.value, statement.target
        if isinstance(value, nodes.Invocation) and value.name.name == "tract_core_external":
            arguments = {each.name.name: each for each in value.arguments if each.name is not None}
            named = arguments.pop("datum_type", None)
            dtype = _dtype(named.value if named else value, problems)
            name = nodes.Name(value.name.span, "external")
            value = replace(
                value, name=name, generic=_ITEM_TYPES[kind(dtype)],
                arguments=tuple(each for each in value.arguments if each is not named),
            )  # fmt: skip
            if isinstance(target, nodes.Name):
                dtypes[target.name] = dtype
        statements.append(replace(statement, value=value))
    return tuple(statements), dtypes


def _dtype(node: nodes.Expression, problems: list[Diagnostic]) -> str:
    given = node.value if isinstance(node, nodes.Literal) else None
    if isinstance(given, str) and given.lower() in DTYPES:
        return DTYPES[given.lower()]
    hint = f"datum types are {', '.join(DTYPES)}"
    problems.append(Diagnostic("this datum type cannot be converted", node.span, hint))
    return "float32"


@functools.cache
def _operations() -> Signatures:
    text = resources.files(__package__).joinpath("tract.nnef").read_text("utf-8")
    return MappingProxyType(dict(_typed(library("<tract>/tract.nnef", text))))


def _typed(signatures: Signatures) -> Iterator[tuple[str, Signature]]:
    """Return the signatures; that of a cast derives the result type from a string."""
    for name, each in signatures.items():
        is_cast = name == "tract_core_cast"
        yield name, replace(each, item_type=("to", item_type)) if is_cast else each


def item_type(name: str) -> str | None:
    """Return the type of NNEF 1 for a datum type of tract, None if there is none."""
    dtype = DTYPES.get(name.lower())
    return None if dtype is None else _ITEM_TYPES[kind(dtype)]
