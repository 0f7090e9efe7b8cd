"""``model.json``, the optional file next to ``main.sknd``: JSON text to :class:`Metadata` and back.

It has data that a user needs, and the computation does not; the format is described in
``docs/model-json.md``. Whether its names exist in the model, and whether labels fit an output, is
checked with the model.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from json.decoder import JSONDecoder
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias, TypeVar

from tvm_nnef.arrays.few_bits import FORMATS
from tvm_nnef.diagnostics import Diagnostic, NnefError, Source, Span, did_you_mean, error
from tvm_nnef.storage.container import decode_source

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_MAX_PROBLEMS = 20
"""Upper limit of the problems that are reported together; locating one takes linear time."""

LAYOUTS = ("NCHW", "NHWC", "CHW", "HWC", "NHW", "HW")
"""Orders of the dimensions of an image: batch, channels, height, width."""

STORED_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
    *FORMATS,
)
"""The dtypes that a tensor may be given."""


def _empty() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ImageInput:
    """The conversion of an image to an input: ``(pixel - mean) * scale`` in the order of
    ``layout``.

    Pixels count from 0 to 255, with ``invert`` from 255 to 0. ``scale`` and ``mean`` hold one
    number for all channels, or one for each.
    """

    layout: str
    scale: tuple[float, ...] = (1.0,)
    mean: tuple[float, ...] = (0.0,)
    invert: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    """The content of ``model.json``; all of it is optional.

    ``labels`` name the classes of the model's first output; ``inputs`` has the images by the name
    of their input; ``machine_types`` and ``source_names`` map a tensor's full name to its dtype,
    and to its name in the model from which it was converted; ``source_operations`` to the operation
    there that computes it. ``defaults`` are the full names of inputs that a call may omit, whose
    values are in files like those of variables; ``fixed_inputs`` the names of inputs of the source
    that the conversion made constants.
    """

    labels: tuple[str, ...] = ()
    inputs: Mapping[str, ImageInput] = field(default_factory=lambda: MappingProxyType({}))
    machine_types: Mapping[str, str] = field(default_factory=_empty)
    source_names: Mapping[str, str] = field(default_factory=_empty)
    source_operations: Mapping[str, str] = field(default_factory=_empty)
    defaults: tuple[str, ...] = ()
    fixed_inputs: tuple[str, ...] = ()
    source: Source | None = field(default=None, compare=False, repr=False)
    """The text that it was read from."""

    def span(self, *path: str | int) -> Span | None:
        """Return the span of the value that keys lead to, if the metadata was read from a text."""
        if self.source is None:
            return None
        return Span(self.source, *_locate(self.source.text, path))


def read_metadata(data: bytes, file: str) -> Metadata:
    """Read ``model.json``, named ``file`` in messages.

    Raises :class:`NnefError`, with line and column, for text that is not JSON, unknown or doubled
    keys, and values of another kind than the format asks for; all of them at once.
    """
    source = decode_source(data, file)
    return _metadata(_Location(source, _parse(source), ()))


def write_metadata(metadata: Metadata) -> bytes:
    """``model.json`` of the metadata, without what has its default; equal input, equal bytes."""
    content: dict[str, Json] = {}
    if metadata.labels:
        content["labels"] = list(metadata.labels)
    if metadata.inputs:
        content["inputs"] = {
            name: _image_json(metadata.inputs[name]) for name in sorted(metadata.inputs)
        }
    if metadata.machine_types:
        content["machine_types"] = dict(sorted(metadata.machine_types.items()))
    for key in ("source_names", "source_operations"):
        if names := getattr(metadata, key):
            content[key] = dict(sorted(names.items()))
    for key in ("defaults", "fixed_inputs"):
        if listed := getattr(metadata, key):
            content[key] = list(listed)
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _image_json(image: ImageInput) -> Json:
    default = ImageInput(image.layout)
    content: dict[str, Json] = {"layout": image.layout}
    if image.scale != default.scale:
        content["scale"] = _channels_json(image.scale)
    if image.mean != default.mean:
        content["mean"] = _channels_json(image.mean)
    if image.invert:
        content["invert"] = True
    return content


def _channels_json(values: tuple[float, ...]) -> Json:
    return values[0] if len(values) == 1 else list(values)


@dataclass(frozen=True, slots=True)
class _Location:
    """A value in the text, with the keys and indices that lead to it."""

    source: Source
    value: Json
    path: tuple[str | int, ...]

    def fail(self, expected: str, hint: str | None = None) -> NoReturn:
        got = json.dumps(self.value)
        got = got if len(got) <= 40 else f"{got[:40]}…"
        raise error(
            f"{self.title} must be {expected}; got {got}",
            Span(self.source, *_locate(self.source.text, self.path)),
            hint=hint or "the format is described in docs/model-json.md",
        )

    @property
    def title(self) -> str:
        return "'" + ".".join(map(str, self.path)) + "'" if self.path else "the file"

    def at(self, key: str | int, value: Json) -> _Location:
        return _Location(self.source, value, (*self.path, key))


def _metadata(location: _Location) -> Metadata:
    readers: Mapping[str, Callable[[_Location], object]] = {
        "labels": partial(_items, read=_text),
        "inputs": partial(_table, read=_image),
        "machine_types": partial(_table, read=_dtype),
        "source_names": partial(_table, read=_text),
        "source_operations": partial(_table, read=_text),
        "defaults": partial(_items, read=_text),
        "fixed_inputs": partial(_items, read=_text),
    }
    members = _known_members(location, tuple(readers))
    values = _each(members.items(), lambda key, member: readers[key](member))
    content: dict[str, Any] = dict(zip(members, values, strict=True))
    return Metadata(**content, source=location.source)


def _image(location: _Location) -> ImageInput:
    members = _known_members(location, ("layout", "scale", "mean", "invert"))
    if "layout" not in members:
        location.fail(f"an object with a 'layout', one of {', '.join(LAYOUTS)}")
    default = ImageInput("")
    scale, mean, invert = (members.get(key) for key in ("scale", "mean", "invert"))
    return ImageInput(
        layout=_choice(members["layout"], LAYOUTS, "an image layout"),
        scale=_channels(scale) if scale else default.scale,
        mean=_channels(mean) if mean else default.mean,
        invert=_flag(invert) if invert else default.invert,
    )


def _members(location: _Location) -> dict[str, _Location]:
    if not isinstance(location.value, dict):
        location.fail("an object in braces")
    members = {key: location.at(key, value) for key, value in location.value.items()}
    for key in members:
        _check_encodable(members[key], key)
    return members


def _known_members(location: _Location, known: tuple[str, ...]) -> dict[str, _Location]:
    members = _members(location)

    def check(key: str, member: _Location) -> None:
        if key not in known:
            raise error(
                f"unknown key {key!r}",
                Span(location.source, *_locate(location.source.text, member.path)),
                hint=did_you_mean(key, known) or f"known keys are {', '.join(known)}",
            )

    _each(members.items(), check)
    return members


def _each(
    items: Iterable[tuple[_Key, _Location]], read: Callable[[_Key, _Location], _Value]
) -> list[_Value]:
    """Return a function's results for all items; raise one error with the problems of all."""
    values: list[_Value] = []
    problems: list[Diagnostic] = []
    for key, item in items:
        try:
            values.append(read(key, item))
        except NnefError as problem:
            problems += problem.diagnostics
        if len(problems) >= _MAX_PROBLEMS:
            break
    if problems:
        raise NnefError(problems)
    return values


def _table(location: _Location, read: Callable[[_Location], _Value]) -> Mapping[str, _Value]:
    members = _members(location)
    values = _each(members.items(), lambda _, member: read(member))
    return MappingProxyType(dict(zip(members, values, strict=True)))


def _items(location: _Location, read: Callable[[_Location], _Value]) -> tuple[_Value, ...]:
    if not isinstance(location.value, list):
        location.fail("a list in brackets")
    items = ((index, location.at(index, value)) for index, value in enumerate(location.value))
    return tuple(_each(items, lambda _, item: read(item)))


def _text(location: _Location) -> str:
    if not isinstance(location.value, str):
        location.fail("a text in quotes")
    _check_encodable(location, location.value)
    return location.value


def _check_encodable(location: _Location, text: str) -> None:
    """Reject halves of surrogate pairs, which cannot be printed or written again."""
    try:
        text.encode()
    except UnicodeEncodeError:
        location.fail(
            "a text of Unicode characters", "correct the escape: '\\uD83D' needs its pair"
        )


def _flag(location: _Location) -> bool:
    if not isinstance(location.value, bool):
        location.fail("true or false")
    return location.value


def _dtype(location: _Location) -> str:
    return _choice(location, STORED_DTYPES, "a dtype")


def _choice(location: _Location, known: tuple[str, ...], kind: str) -> str:
    text = _text(location)
    if text not in known:
        location.fail(kind, did_you_mean(text, known) or f"one of {', '.join(known)}")
    return text


def _channels(location: _Location) -> tuple[float, ...]:
    if isinstance(location.value, list) and len(location.value) in (1, 3, 4):
        return _items(location, _number)
    if isinstance(location.value, list):
        location.fail("one number, or a list of 1, 3 or 4 numbers, one per channel")
    return (_number(location),)


def _number(location: _Location) -> float:
    value = location.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        location.fail("a number")
    # Both an integer and a literal such as 1e999 may be too large for a float.
    if abs(value) > 1e300 or not math.isfinite(value):
        location.fail("a number of usual size")
    return float(value)


def _parse(source: Source) -> Json:
    def unique(pairs: list[tuple[str, Json]]) -> Json:
        content: dict[str, Json] = {}
        for key, value in pairs:
            if key in content:
                raise _doubled(source, key)
            content[key] = value
        return content

    def constant(name: str) -> NoReturn:
        raise error(
            f"{name} is not a JSON number",
            _word(source, name),
            hint="write a finite number",
        )

    try:
        content: Json = json.loads(source.text, object_pairs_hook=unique, parse_constant=constant)
    except json.JSONDecodeError as cause:
        raise error(
            f"expected JSON: {cause.msg}",
            Span(source, cause.pos, cause.pos + 1),
            hint="write keys and strings in double quotes, and no comma before a closing bracket",
        ) from cause
    except (RecursionError, ValueError) as cause:
        raise error(
            f"expected JSON: {cause}", hint="the file is damaged", file=source.path
        ) from cause
    return content


def _doubled(source: Source, key: str) -> NnefError:
    return error(
        f"the key {key!r} is twice in the same object",
        _word(source, json.dumps(key, ensure_ascii=False)),
        hint="keep one of them",
    )


def _word(source: Source, word: str) -> Span | None:
    """Return the last position of a word in the text, if it is written so."""
    at = source.text.rfind(word)
    return Span(source, at, at + len(word)) if at >= 0 else None


_BLANK = re.compile(r"[ \t\r\n]*")


def _locate(text: str, path: tuple[str | int, ...]) -> tuple[int, int]:
    """Return start and end of the value that a path leads to, in a text that is known to be
    JSON.
    """
    decoder = JSONDecoder()

    def after(offset: int) -> int:
        match = _BLANK.match(text, offset)
        return match.end() if match else offset

    start = after(0)
    for step in path:
        offset, index = after(start + 1), 0
        while True:
            key: str | int = index
            if text[start] == "{":
                key, offset = decoder.raw_decode(text, offset)
                offset = after(after(offset) + 1)
            if key == step:
                start = offset
                break
            _, offset = decoder.raw_decode(text, offset)
            offset, index = after(after(offset) + 1), index + 1
    return start, decoder.raw_decode(text, start)[1]
