"""A model with codes for some variables of a graph, and quantizers for some of its tensors.

Input: a model, blocks of codes by the names of variables of a graph, and codes of activations by
the names of tensors. Output: the model, whose text is as it was but for the declarations of these
variables, the components that compute them from codes, a block ``@quantize``, and imports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tvm_nnef.diagnostics import Span, error
from tvm_nnef.model.model import Model
from tvm_nnef.model.pickling import program_of, texts_of
from tvm_nnef.quantization.blocks import Blocks
from tvm_nnef.quantization.ranges import Codes
from tvm_nnef.semantics.program import MAIN, CheckedDefinition

MODULE = "nbits"
"""The module of the operators that say what codes mean."""

_QUANTIZER = "quant.zero_point_linear_quantize"

_WORD = re.compile(r"\w+")


def with_codes(
    model: Model,
    scope: str,
    blocks: Mapping[str, Blocks],
    activations: Mapping[str, Codes] = MappingProxyType({}),
) -> Model:
    """The model with codes and scales for some variables, by their names in a scope: a graph.

    ``activations`` are rounded to codes, by the names of tensors in that scope. The items of a
    pack, ``w:1`` and so on, are alike, and all of them are there or none. Raises NnefError in the
    tools dialect, which has no such operators.
    """
    if model.dialect == "tools":
        hint = "write it in the draft dialect: tvm-nnef format does not translate between them"
        raise error("a model in the tools dialect cannot be quantized", hint=hint, file=model.path)
    definition = next(each for each in model.program.graphs if f"{MAIN}.{each.name}" == scope)
    names = _Names(model.program.modules[MAIN].source.text)
    edits: dict[Span, str] = {}
    components: list[str] = []
    values: dict[str, Any] = {}
    types: dict[str, str] = {}
    for parameter in definition.variables:
        name = parameter.name.name
        items = {whole: found for whole, found in blocks.items() if pack_of(whole) == name}
        if not items:
            continue
        made = _Made(*(names.new(f"{name}_{part}") for part in ("codes", "scales", "steps")))
        count = len(items) if parameter.type.pack else None
        first = next(iter(items.values()))
        edits[parameter.span] = _declared(parameter.span, made, count, first)
        components += _components(name, made, count, first)
        for whole, found in items.items():
            item = whole.removeprefix(name)
            codes = f"{scope}.{made.codes}{item}"
            values |= {codes: found.packed, f"{scope}.{made.scales}{item}": found.scales}
            types |= {codes: "uint8"} if found.are_bytes else {}
    quantizers = [
        f"{name}: {_QUANTIZER}{_attributes(codes)};" for name, codes in activations.items()
    ]
    modules_used = [*([MODULE] if blocks else []), *(["quant"] if quantizers else [])]
    text = _edited(
        model.program.modules[MAIN].source.text, edits, components, quantizers, definition
    )
    for module in modules_used:
        text = _with_import(text, module)
    gone = {f"{scope}.{name}" for name in blocks}
    kept = {name: array for name, array in model.variables.items() if name not in gone}
    texts = texts_of(model.program, model.metadata)
    modules = {**texts.modules, MAIN: (texts.modules[MAIN][0], text)}
    modules.pop(MODULE, None)  # A converted model has a part of it.
    program, _ = program_of(replace(texts, modules=modules))
    metadata = replace(model.metadata, machine_types={**model.metadata.machine_types, **types})
    return replace(model, program=program, variables={**kept, **values}, metadata=metadata)


def pack_of(name: str) -> str:
    """Return the name of the pack that a variable is an item of, or else of the variable."""
    return name.partition(":")[0]


@dataclass(frozen=True, slots=True)
class _Made:
    """The new names for a variable: of codes and scales, and of codes in tensors of integers."""

    codes: str
    scales: str
    steps: str


class _Names:
    """Names that a text has not."""

    def __init__(self, text: str) -> None:
        self._taken = set(_WORD.findall(text))

    def new(self, wanted: str) -> str:
        """The name that is wanted, or one like it."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}{number}"
        self._taken.add(name)
        return name


def _shape(array: Any) -> str:
    return ", ".join(map(str, array.shape))


def _declared(span: Span, made: _Made, count: int | None, found: Blocks) -> str:
    """The declarations of codes and scales, with a semicolon at the end if there was one."""
    end = ";" if span.text.endswith(";") else ""
    pack = f"..({count})" if count else ""
    codes = f"{made.codes}: int[{_shape(found.packed)}]{pack}"
    return f"{codes}; {made.scales}: real[{_shape(found.scales)}]{pack}{end}"


def _components(name: str, made: _Made, count: int | None, found: Blocks) -> list[str]:
    """The components that compute a variable, or each item of a pack, from its codes."""
    unpack = f"{MODULE}.unpack{{bits={found.bits}, length={found.codes.shape[-1]}}}"
    dequantize = f"{MODULE}.dequantize{{blocks={[*found.sizes]}, zero={float(found.zero)}}}"
    if not count:
        if not found.are_bytes:
            return [f"{name} = {dequantize}({made.codes}, {made.scales});"]
        steps = f"{made.steps} = {unpack}({made.codes});"
        return [steps, f"{name} = {dequantize}({made.steps}, {made.scales});"]
    items = f"for c : {made.codes}, s : {made.scales}"
    body = f"{made.steps} = {unpack}(c); w = {dequantize}({made.steps}, s); yield w;"
    return [f"{name}..({count}) = {items} unroll {{ {body} }};"]


def _attributes(codes: Codes) -> str:
    """Return the attributes of a quantizer."""
    signed = str(codes.low < 0).lower()
    return f"{{zero_point={codes.zero}, scale={codes.scale!r}, bits=8, signed={signed}}}"


def _edited(
    text: str,
    edits: Mapping[Span, str],
    components: list[str],
    quantizers: list[str],
    definition: CheckedDefinition,
) -> str:
    """Return the text with parts replaced, new components first, and quantizers last."""
    (compose,) = (each for each in definition.node.blocks if each.kind == "compose")
    first, last = compose.statements[0].span.start, compose.span.end
    inner, outer = _indentation(text, first), _indentation(text, compose.span.start)
    places = [(span.start, span.end, new) for span, new in edits.items()]
    places.append((first, first, "".join(each + inner for each in components)))
    if quantizers:
        block = f"{outer}@quantize {{" + "".join(inner + each for each in quantizers) + f"{outer}}}"
        places.append((last, last, block))
    for start, end, new in sorted(places, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _indentation(text: str, position: int) -> str:
    """Return a line break with the indentation of a line; a space inside of a line."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return f"\n{line}" if line.isspace() or not line else " "


def _with_import(text: str, module: str) -> str:
    """Return the text with an import of a module before the first line that is not a comment."""
    if re.search(rf"^import\b[^;]*\b{module}\b", text, re.M):
        return text
    lines = text.splitlines(keepends=True)
    plain = (n for n, line in enumerate(lines) if line.strip() and not line.startswith("#"))
    count = next(plain, len(lines))
    return "".join([*lines[:count], f"import {module};\n", *lines[count:]])
