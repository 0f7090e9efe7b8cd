"""The options of the Python calls: their types, and what is checked of them before the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tvm_nnef.diagnostics import (
    Diagnostic,
    NnefError,
    Note,
    UnsupportedError,
    did_you_mean,
    error,
)
from tvm_nnef.storage.container import Container, open_files

if TYPE_CHECKING:
    from tvm_nnef.semantics.program import Program


class ConversionOptions(TypedDict, total=False):
    """Options of models of other formats; each format has some of them. None is the default."""

    bounds: int | Mapping[str, int | tuple[int | None, ...]] | None
    converters: Any
    outline: bool | None
    replaceable: Sequence[str] | None
    state: Mapping[str, str] | None
    vendor: str | None
    function: str | None
    arguments: Any
    example_inputs: Any
    dynamic_shapes: Any
    output_names: Sequence[str] | None


class ConvertOptions(ConversionOptions, total=False):
    """Options of :func:`tvm_nnef.convert`."""

    input_shapes: Mapping[str, Any] | None
    dtypes: Mapping[str, Any] | None


class ReadOptions(ConversionOptions, total=False):
    """Options by which a model is read, besides its variables."""

    dialect: Literal["auto", "draft", "tools"]
    search_path: Sequence[str | os.PathLike[str]]
    format: str | None


class LoadOptions(ReadOptions, total=False):
    """Options of :func:`tvm_nnef.load_model`."""

    variables: Mapping[str, Any] | None


class ComposeOptions(ReadOptions, total=False):
    """Options of :func:`tvm_nnef.compose`, besides the variables."""

    graph: str | None
    attributes: Mapping[str, object] | None
    types: Mapping[str, str] | None
    input_shapes: Mapping[str, Any] | None
    dtypes: Mapping[str, Any] | None
    quantize: bool


class LowerOptions(ComposeOptions, total=False):
    """Options of :func:`tvm_nnef.from_nnef`, besides ``checked``."""

    variables: Mapping[str, Any] | None
    route: Literal["mapped", "formula"]
    keep_params_in_input: bool
    lowerings: Mapping[str, Callable[..., Any]] | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of a model: the options of :func:`tvm_nnef.load_model`."""

    dialect: str = "auto"
    search_path: Sequence[str | os.PathLike[str]] = ()
    variables: Mapping[str, Any] | None = None
    format: str | None = None
    conversion: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Composing:
    """The composition of a graph of a model: the options of :func:`tvm_nnef.compose` for that."""

    graph: str | None = None
    attributes: Mapping[str, object] | None = None
    types: Mapping[str, str] | None = None
    input_shapes: Mapping[str, Any] | None = None
    dtypes: Mapping[str, Any] | None = None
    quantize: bool = True


@dataclass(frozen=True, slots=True)
class Lowering:
    """The lowering of a composed graph: the options of :func:`tvm_nnef.from_nnef` for that."""

    route: Literal["mapped", "formula"] = "mapped"
    keep_params_in_input: bool = False
    lowerings: Mapping[str, Callable[..., Any]] | None = None
    checked: bool = False


_OF_A_CONVERSION = "leave it out; options of a conversion go with the model that is to be converted"
_IN_THE_TEXT = {
    "bounds": "leave it out; the text has bounds, in the types of inputs: real[t|8] (at most 8)",
}
"""By option of a conversion how the text of a model expresses it."""


def refuse_options(given: Mapping[str, Any]) -> None:
    """Raises NnefError for options that no model has, or only one that is converted."""
    for name in given:
        if name in ConvertOptions.__annotations__:
            hint = _IN_THE_TEXT.get(name, _OF_A_CONVERSION)
            raise error(f"a SkriptND model has no option '{name}'", hint=hint)
        known = LowerOptions.__annotations__
        hint = did_you_mean(name, known) or f"options are {', '.join(sorted(known))}"
        raise error(f"there is no option '{name}'", hint=hint)


_DEFAULTS: Mapping[str, Sequence[object]] = {
    "dialect": ("auto",),
    "search_path": ((), []),
    "format": (None,),
}
"""Values of options by which a model is read that ask for nothing, so they may always be given."""


def refuse_skriptnd_options(title: str, reading: Reading) -> None:
    """Raises NnefError for options of texts in SkriptND, given with a model of another format."""
    for name in ("dialect", "search_path"):
        if getattr(reading, name) not in _DEFAULTS[name]:
            hint = "leave it out; it is for texts in SkriptND"
            raise error(f"the conversion of {title} has no option '{name}'", hint=hint)


def refuse_for_loaded(reading: Reading) -> None:
    """Raises NnefError for options by which a model is read, given with one that was read."""
    refuse_options(reading.conversion)
    for name, defaults in _DEFAULTS.items():
        if getattr(reading, name) not in defaults:
            hint = "give it to load_model, which reads the model"
            raise error(f"a Model in memory has no option '{name}'", hint=hint)


def refuse_for_module(options: Mapping[str, Any]) -> None:
    """Raises NnefError for options of a model, given with a module that was made without them."""
    if options:
        names = ", ".join(f"'{name}'" for name in options)
        hint = "give them to from_nnef, which makes the module, or give the model itself"
        raise error(f"a tvm.IRModule cannot be built with {names}", hint=hint)


def refuse_for_graph(options: Mapping[str, Any]) -> None:
    """Raises NnefError for options of a model, given with a graph that is composed already."""
    if options:
        names = ", ".join(f"'{name}'" for name in options)
        hint = "give them to compose, which makes the graph, or give the model itself"
        raise error(f"a Graph cannot be evaluated with {names}", hint=hint)


_ROUTES = ("mapped", "formula")


def check_route(route: object) -> None:
    """Raises NnefError for what is not a route by which a model becomes a TVM module."""
    if route == "reference":
        hint = "tvm_nnef.evaluate(model, *inputs) and 'run --route reference' evaluate the model"
        message = "the route 'reference' executes a model with NumPy, and makes no TVM module"
        raise error(message, hint=hint, kind=UnsupportedError)
    if route not in _ROUTES:
        hint = did_you_mean(str(route), _ROUTES) or f"routes are {' and '.join(_ROUTES)}"
        raise error(f"unknown route '{route}'", hint=hint)


@contextmanager
def noting_empty(shapes: Mapping[str, Any] | None) -> Iterator[None]:
    """A block in which inputs get shapes; its errors name the shapes that have no elements."""
    try:
        yield
    except NnefError as problem:
        empty = [
            f"'{name}' ({', '.join(map(str, shape))})"
            for name, shape in (shapes or {}).items()
            if isinstance(shape, (tuple, list)) and 0 in shape
        ]
        if not empty:
            raise
        message = (
            f"a dimension of 0 was given for {', '.join(empty)}, which has no elements; write "
        )
        message += "1 or more for each dimension, as in --shape x=1,3,224,224"
        raise problem.with_note(Note(message)) from problem.__cause__


def check_lowerings(program: Program, lowerings: Mapping[str, object]) -> None:
    """Raises NnefError for names that are neither operators of the model nor standard ones."""
    if not lowerings:
        return
    from tvm_nnef.stdlib.library import operator_names

    known = {
        f"{module}.{name}"
        for module, checked in program.modules.items()
        for name in checked.definitions
    }
    known |= operator_names(program.dialect)
    unknown = [name for name in lowerings if name not in known]
    if unknown:
        hint = "names are qualified, such as 'nn.relu' or 'main.swish'"
        raise NnefError(
            Diagnostic(
                f"'lowerings' names an unknown operator '{name}'",
                hint=did_you_mean(name, known) or hint,
            )
            for name in unknown
        )


def search_folder(folder: str | os.PathLike[str]) -> Container:
    """The files of a folder in which modules are found. Raises NnefError if there is none."""
    try:
        if Path(folder).is_dir():
            return open_files(Path(folder))
    except (OSError, ValueError):
        pass
    hint = "search_path (--search-path) takes folders in which modules are found"
    raise error("there is no such folder", hint=hint, file=str(folder))
