"""The kinds of the arguments of public functions, checked before the work by the name of each."""

from __future__ import annotations

import functools
import inspect
import numbers
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tvm_nnef.diagnostics import Diagnostic, NnefError

Function = TypeVar("Function", bound=Callable[..., Any])

_NOTHING = type(None)
_PATH = (str, os.PathLike), "a path"
_OPTIONAL_PATH = (str, os.PathLike, _NOTHING), "a path"
_NAME = (str, _NOTHING), "a name, as text"
_NUMBER = (numbers.Real, _NOTHING), "a number such as 1e-4"
_COUNT = (numbers.Integral,), "a whole number"
_NAMES = (Sequence, set), "a list of names"

_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "attributes": ((Mapping, _NOTHING), "a value for each name: {'batch': 2}"),
    "types": ((Mapping, _NOTHING), "a type for each name: {'T': 'int'}"),
    "input_shapes": ((Mapping, _NOTHING), "a shape for each input: {'x': (1, 3)}"),
    "dtypes": ((Mapping, _NOTHING), "a dtype for each name: {'x': 'float32'}"),
    "lowerings": ((Mapping, _NOTHING), "a function for each operator: {'nn.relu': function}"),
    "graph": _NAME,
    "format": _NAME,
    "dialect": ((str,), "'auto', 'draft' or 'tools'"),
    "search_path": ((Sequence,), "a list of folders"),
    "database": _OPTIONAL_PATH,
    "dump_dir": _OPTIONAL_PATH,
    "path": _PATH,
    "tensors": _NAMES,
    "routes": ((Sequence, _NOTHING), "two names of routes"),
    "rtol": _NUMBER,
    "atol": _NUMBER,
    "seed": _COUNT,
    "repeat": _COUNT,
    "warmup": _COUNT,
    "quantize": ((bool,), "True or False"),
}
"""By the name of an argument its kinds, and what to give."""


def with_checked_arguments(function: Function) -> Function:
    """The function, which raises NnefError for arguments of a wrong kind."""
    parameters = inspect.signature(function).parameters
    positional = [
        name for name, each in parameters.items() if each.kind == each.POSITIONAL_OR_KEYWORD
    ]
    optional = {name for name, each in parameters.items() if each.default is None}

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(positional, args, strict=False)) | kwargs
        absent = {name for name, value in given.items() if value is None} & optional
        wrong = wrong_arguments({n: value for n, value in given.items() if n not in absent})
        if wrong:
            raise NnefError(wrong)
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def wrong_arguments(given: Mapping[str, object]) -> list[Diagnostic]:
    """What is wrong with the kinds of arguments, by name."""
    return [
        Diagnostic(problem, hint=f"give {_KINDS[name][1]}")
        for name, value in given.items()
        if name in _KINDS
        for problem in _problems(name, value)
    ]


def _problems(name: str, value: object) -> Iterator[str]:
    kinds, _ = _KINDS[name]
    if not isinstance(value, kinds) or (isinstance(value, str) and str not in kinds):
        text = repr(value)
        shown = text if len(text) <= 40 else f"of type {type(value).__name__}"
        yield f"'{name}' cannot be {shown}"
    elif isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                yield f"'{name}' cannot have the name {key!r}"
