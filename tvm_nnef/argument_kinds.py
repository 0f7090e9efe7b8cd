"""The kinds of the arguments of public functions, checked before the work by the name of each."""

from __future__ import annotations

import functools
import inspect
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tvm_nnef.diagnostics import InputError, error

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

_WITHOUT_KIND = frozenset({"path"})
"""Arguments of which None means that there is none, where their default is None."""


def with_checked_arguments(function: Function) -> Function:
    """The function, which raises InputError for an argument of a wrong kind."""
    parameters = inspect.signature(function).parameters
    positional = [
        name for name, each in parameters.items() if each.kind == each.POSITIONAL_OR_KEYWORD
    ]
    optional = {name for name, each in parameters.items() if each.default is None}

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name, value in (*zip(positional, args, strict=False), *kwargs.items()):
            if name in _KINDS and not (value is None and name in _WITHOUT_KIND & optional):
                _check(name, value)
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def _check(name: str, value: object) -> None:
    kinds, wanted = _KINDS[name]
    if not isinstance(value, kinds) or (isinstance(value, str) and str not in kinds):
        message = f"'{name}' cannot be {_shown(value)}"
        raise error(message, hint=f"give {wanted}", kind=InputError)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise error(f"'{name}' cannot have the name {key!r}", hint=f"give {wanted}",
                            kind=InputError)  # fmt: skip


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"of type {type(value).__name__}"
