"""The call ``einstein_v2("…", {…})``, from its text or from Python, as one description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lark
import numpy as np

from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.converters.antares import syntax
from tvm_nnef.converters.antares.literals import WORDS, Reader, Value
from tvm_nnef.converters.antares.text import Text
from tvm_nnef.converters.common.collected_errors import Problems
from tvm_nnef.converters.common.types import MAX_RANK
from tvm_nnef.diagnostics import Source, Span, did_you_mean, error
from tvm_nnef.graph.machine_types import DTYPES

MAX_DIMENSION = 2**31 - 1
_PARAMETERS = ("exprss", "input_dict", "extra_outputs")
_ALIASES = {"expression": "exprss", "expr": "exprss"}


@dataclass(frozen=True)
class Input:
    """An input: its shape and dtype, None if it is not given, and its location."""

    shape: tuple[int, ...] | None
    dtype: str | None
    span: Span | None = None


@dataclass(frozen=True)
class Call:
    """The expressions, the inputs in order, and the names of further outputs."""

    text: Text
    inputs: Mapping[str, Input]
    extra_outputs: tuple[tuple[str, Span | None], ...] = ()


def read_call(source: Source) -> Call:
    """Return a call from its text. Raises NnefError, with line and column, for other texts."""
    text = Text.of(source)
    tree = syntax.parse(text, "call.lark", "start", WORDS)
    reader = Reader(text, {})
    values: dict[str, Value] = {}
    for part in tree.children:
        if isinstance(part, lark.Tree) and part.data == "assignment":
            _assign(part, reader)
        elif isinstance(part, lark.Tree):
            name, value = _argument(part, reader, len(values))
            if name in values:
                raise error(f"'{name}' is given twice", value.span, hint="remove one of them")
            values[name] = value
    expressions = values.get("exprss")
    if expressions is None or not isinstance(expressions.data, Text):
        span = expressions.span if expressions else text.span_of(tree)
        hint = 'as in: einstein_v2("output0[N] = input0[N] * 2", {"input0": …})'
        raise error("the first argument must be a string with expressions", span, hint=hint)
    problems = Problems()
    inputs = _inputs(values.get("input_dict"), problems)
    problems.check()
    return Call(expressions.data, inputs, tuple(_names(values.get("extra_outputs"))))


def call_of(
    expressions: str,
    input_dict: Mapping[str, Mapping[str, Any]],
    extra_outputs: Sequence[str],
    path: str,
) -> Call:
    """Return a call whose arguments are Python objects."""
    inputs: dict[str, Input] = {}
    for name, described in input_dict.items():
        unknown = next((key for key in described if key not in ("shape", "dtype")), None)
        if unknown is not None:
            raise error(f"input '{name}' has '{unknown}'", hint="give 'shape' and 'dtype'")
        shape, dtype = described.get("shape"), described.get("dtype")
        inputs[name] = Input(
            None if shape is None else checked_shape(shape, name, None),
            None if dtype is None else checked_dtype(str(dtype), None),
        )
    text = Text.of(Source(path, expressions))
    return Call(text, inputs, tuple((name, None) for name in extra_outputs))


def checked_shape(shape: Sequence[Any], name: str, span: Span | None) -> tuple[int, ...]:
    """Return a shape of positive integers. Raises NnefError for any other."""
    if len(shape) > MAX_RANK:
        message = f"input '{name}' has {len(shape)} dimensions, and the limit is {MAX_RANK}"
        raise error(message, span, hint="use fewer dimensions")
    for each in shape:
        is_integer = isinstance(each, (int, np.integer)) and not isinstance(each, bool)
        if not is_integer or not 0 < each <= MAX_DIMENSION:
            message = f"input '{name}' cannot have a dimension of {each}"
            hint = f"dimensions are integers from 1 to {MAX_DIMENSION}"
            raise error(message, span, hint=hint)
    return tuple(int(each) for each in shape)


def checked_dtype(name: str, span: Span | None) -> str:
    """Return a dtype that tensors may have. Raises NnefError for any other."""
    dtypes = [each for each in DTYPES if each not in FORMATS]
    if name in dtypes:
        return name
    hint = did_you_mean(name, dtypes) or f"one of {', '.join(dtypes)}"
    raise error(f"unknown dtype '{name}'", span, hint=hint)


def _assign(tree: lark.Tree[Any], reader: Reader) -> None:
    parts = [each for each in tree.children if each is not None]
    names = [str(each) for each in parts if isinstance(each, lark.Token)]
    values = [reader.value(each) for each in parts if isinstance(each, lark.Tree)]
    if len(values) == 1 and len(names) > 1 and values[0].kind == "list":
        values = list(values[0].data)  # type: ignore[arg-type]
    if len(names) != len(values):
        message = f"{len(values)} values for {len(names)} names"
        span = values[0].span if values else None
        raise error(message, span, hint="give each name one value")
    reader.names.update(zip(names, values, strict=True))


def _argument(tree: lark.Tree[Any], reader: Reader, position: int) -> tuple[str, Value]:
    keyword, inner = tree.children
    value = reader.value(inner)
    if keyword is None:
        if position >= len(_PARAMETERS):
            hint = f"the arguments are {', '.join(_PARAMETERS)}"
            raise error("there are too many arguments", value.span, hint=hint)
        return _PARAMETERS[position], value
    name = _ALIASES.get(str(keyword), str(keyword))
    if name not in _PARAMETERS:
        hint = did_you_mean(name, _PARAMETERS) or f"the arguments are {', '.join(_PARAMETERS)}"
        raise error(f"einstein_v2 has no argument '{name}'", value.span, hint=hint)
    return name, value


def _entries(value: Value, what: str) -> Iterator[tuple[str, Value, Value]]:
    if value.kind != "dict":
        raise error(f"{what} must be a dictionary", value.span, hint='as in: {"input0": {…}}')
    seen: set[str] = set()
    for key, item in value.data:  # type: ignore[union-attr, misc]
        if not isinstance(key.data, Text):
            raise error("a key must be a string", key.span, hint="put it in quotes")
        if key.data.text in seen:
            raise error(f"'{key.data.text}' is given twice", key.span, hint="remove one of them")
        seen.add(key.data.text)
        yield key.data.text, key, item


def _inputs(value: Value | None, problems: Problems) -> dict[str, Input]:
    """Return the inputs by name, without those that are wrong."""
    inputs: dict[str, Input] = {}
    if value is None or value.kind == "none":
        return inputs
    for name, key, described in _entries(value, "input_dict"):
        with problems.collected():
            inputs[name] = _input(name, key, described)
    return inputs


def _input(name: str, key: Value, described: Value) -> Input:
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    for field, position, item in _entries(described, f"the description of input '{name}'"):
        if field == "shape" and item.kind == "list":
            numbers = [each.data for each in item.data]  # type: ignore[union-attr]
            shape = checked_shape(numbers, name, item.span)
        elif field == "dtype" and isinstance(item.data, Text):
            dtype = checked_dtype(item.data.text, item.span)
        else:
            message = f"input '{name}' cannot have this '{field}'"
            hint = 'write {"dtype": "float32", "shape": [16, 4]}'
            raise error(message, position.span, hint=hint)
    return Input(shape, dtype, key.span)


def _names(value: Value | None) -> Iterator[tuple[str, Span | None]]:
    if value is None or value.kind == "none":
        return
    items = value.data if value.kind == "list" else (value,)
    for each in items:  # type: ignore[union-attr]
        if not isinstance(each, Value) or not isinstance(each.data, Text):
            raise error("extra_outputs lists names", value.span, hint='as in: ["output0"]')
        yield each.data.text, each.span
