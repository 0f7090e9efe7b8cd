"""The kinds of the arguments of public functions, checked by name before the work."""

from __future__ import annotations

import functools
import inspect
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tvm_nnef.diagnostics import Diagnostic, NnefError
from tvm_nnef.support.requirements import missing_package

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Kind:
    """The values that an argument may have: an instance of ``types`` with keys or items of
    ``inner``.

    ``wanted`` describes them in a hint. Text is a sequence only if ``types`` names it.
    """

    wanted: str
    types: tuple[type, ...]
    inner: tuple[type, ...] = (object,)
    least: int | None = None


_NOTHING = type(None)
_PATHS = (str, os.PathLike)
_FLAG = _Kind("True or False", (bool,))
_PATH = _Kind("a path", _PATHS)
_NAME = _Kind("a name, as text", (str, _NOTHING))
_NUMBER = _Kind("a number such as 1e-4", (numbers.Real, _NOTHING))
_COUNT = _Kind("a whole number, 0 or more", (numbers.Integral,), least=0)
_REPORT = _Kind("True, False or a function that gets the report", (bool, Callable))  # type: ignore[arg-type]


def _by_name(wanted: str) -> _Kind:
    """Return the kind of a mapping from names to values."""
    return _Kind(wanted, (Mapping, _NOTHING), (str,))


_SHAPES = _by_name("a shape for each input: {'x': (1, 3)}")

_KINDS: Mapping[str, _Kind] = {
    "attributes": _by_name("a value for each name: {'batch': 2}"),
    "types": _by_name("a type for each name: {'T': 'int'}"),
    "input_shapes": _SHAPES,
    "shape_dict": _SHAPES,
    "dtypes": _by_name("a dtype for each name: {'x': 'float32'}"),
    "dtype_dict": _Kind(
        "a dtype, or one for each name: {'x': 'float32'}", (str, Mapping, _NOTHING), (str,)
    ),
    "variables": _by_name("an array for each full name: {'main.Net.weight': array}"),
    "lowerings": _by_name("a function for each operator: {'nn.relu': function}"),
    "bounds": _Kind(
        "the largest size of all dynamic dimensions, or of each: {'batch': 16}",
        (numbers.Integral, Mapping, _NOTHING),
        (str,),
    ),
    "converters": _Kind("a function for each operator: {'Relu': function}", (Iterable, _NOTHING)),
    "replaceable": _Kind("a list of names of initializers", (Sequence, set, _NOTHING), (str,)),
    "state": _by_name("an output for each input: {'past_key_values': 'present'}"),
    "graph": _NAME,
    "input": _NAME,
    "format": _NAME,
    "vendor": _NAME,
    "function": _NAME,
    "dialect": _Kind("'auto', 'draft' or 'tools'", (str,)),
    "search_path": _Kind("a list of folders", (Sequence,), _PATHS),
    "database": _PATH,
    "dump_dir": _PATH,
    "path": _PATH,
    "tensors": _Kind("a list of names", (Sequence,), (str,)),
    "data": _Kind("a list with the inputs of each call", (Iterable, _NOTHING)),
    "weights": _NAME,
    "activations": _NAME,
    "method": _Kind("the name of a method", (str,)),
    "percentile": _Kind("a number such as 99.99", (numbers.Real,)),
    "block": _Kind("a whole number such as 32", (numbers.Integral, _NOTHING)),
    "keep_float": _Kind(
        "a whole number, 0 or more, or a list of names",
        (numbers.Integral, Sequence, str),
        (str,),
        least=0,
    ),
    "route": _Kind("'mapped' or 'formula'", (str,)),
    "routes": _Kind("two names of routes", (Sequence, _NOTHING), (str,)),
    "rtol": _NUMBER,
    "atol": _NUMBER,
    "seed": _COUNT,
    "repeat": _COUNT,
    "warmup": _COUNT,
    "verbose": _REPORT,
    "timings": _REPORT,
    "progress": _REPORT,
    "quantize": _FLAG,
    "outline": _Kind("True or False", (bool, _NOTHING)),
    "keep_params_in_input": _FLAG,
    "overwrite": _FLAG,
    "chained": _FLAG,
    "verify": _FLAG,
    "checked": _FLAG,
    "cuda_graphs": _FLAG,
    "int8_activations": _FLAG,
    "cache": _FLAG,
}
"""The kind of each argument, by its name."""


def with_checked_arguments(function: Function, *, named_inputs: bool = False) -> Function:
    """Return the function with a check that raises NnefError for arguments of a wrong kind.

    A package that the function needs and that is not installed is an NnefError too.

    An option among ``**options`` that is None counts as omitted if it may be. ``named_inputs``
    means that the function has inputs there, and no options.
    """
    parameters = inspect.signature(function).parameters
    positional = [
        name for name, each in parameters.items() if each.kind == each.POSITIONAL_OR_KEYWORD
    ]
    optional = {name for name, each in parameters.items() if each.default is None}

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not named_inputs:
            kwargs = {**given_options(kwargs), **{n: kwargs[n] for n in parameters if n in kwargs}}
        arguments = dict(zip(positional, args, strict=False)) | kwargs
        absent = {name for name in optional if arguments.get(name) is None}
        names = parameters if named_inputs else arguments
        wrong = wrong_arguments(
            {n: arguments[n] for n in names if n in arguments and n not in absent}
        )
        if wrong:
            raise NnefError(wrong)
        try:
            return function(*args, **kwargs)
        except ModuleNotFoundError as cause:
            if (missing := missing_package(cause, f"'{function.__name__}'")) is None:
                raise
            raise missing from cause

    return checked  # type: ignore[return-value]


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without those that are None and may be omitted."""
    return {
        name: value
        for name, value in options.items()
        if value is not None or (name in _KINDS and _NOTHING not in _KINDS[name].types)
    }


def wrong_arguments(given: Mapping[str, object]) -> list[Diagnostic]:
    """Return the errors in the kinds of arguments, by name."""
    return [
        Diagnostic(problem, hint=f"give {_KINDS[name].wanted}")
        for name, value in given.items()
        if name in _KINDS
        for problem in _problems(name, value, _KINDS[name])
    ]


def _problems(name: str, value: Any, kind: _Kind) -> Iterator[str]:
    is_text = isinstance(value, (str, bytes))
    count = int(value) if isinstance(value, numbers.Integral) else None
    if not isinstance(value, kind.types) or (is_text and str not in kind.types):
        yield f"'{name}' cannot be {_shown(value)}"
    elif count is not None and kind.least is not None and count < kind.least:
        yield f"'{name}' cannot be {value}"
    elif isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, kind.inner):
                yield f"'{name}' cannot have the name {_shown(key)}"
    elif isinstance(value, Sequence) and not is_text:
        for item in value:
            if not isinstance(item, kind.inner):
                yield f"'{name}' cannot have the item {_shown(item)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"of type {type(value).__name__}"
