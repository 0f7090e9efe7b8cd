"""Tracing of Python functions: they are called once, with tensors instead of arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tvm_nnef.converters.common.detection import PYTHON_FUNCTIONS, without_partial
from tvm_nnef.converters.tile.locations import Mistake, line_of, raised_at
from tvm_nnef.converters.tile.tracing import Tensor, Trace
from tvm_nnef.diagnostics import NnefError, Span, did_you_mean, error


def is_function(source: object) -> bool:
    """Whether a source is a function of the user, perhaps with some arguments bound."""
    return isinstance(without_partial(source), PYTHON_FUNCTIONS)


def trace_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Trace:
    """Trace a function.

    Parameters that ``arguments`` names get these values, those with a default keep it; the others
    are the input tensors. Raises NnefError at the line of the mistake.
    """
    position = _location(function)
    values = _arguments(function, arguments, position)
    inputs = tuple(each for each in values.values() if type(each) is Tensor)
    try:
        result = function(**values)
    except Mistake as mistake:
        raise mistake.at(raised_at(mistake.__traceback__) or position) from None
    except (NnefError, KeyboardInterrupt):
        raise
    except Exception as cause:
        message = f"the function raised {type(cause).__name__}: {cause}"
        hint = (
            "a traced function may use sizes and tensors of tvm_nnef.converters.tile only; "
            "give numbers by arguments={…}"
        )
        raise error(message, raised_at(cause.__traceback__) or position, hint=hint) from cause
    outputs = result if isinstance(result, (tuple, list)) else (result,)
    if not outputs or not all(isinstance(each, Tensor) for each in outputs):
        kind = "None" if result is None else f"a {type(result).__name__}"
        message = f"the function returns {kind}, not a tensor"
        raise error(message, position, hint="end it with: return O")
    return Trace(name_of(function), inputs, tuple(outputs), position)


def name_of(function: Any) -> str:
    """Return the name of a function; that of a lambda is invented."""
    name = str(getattr(without_partial(function), "__name__", ""))
    return name if name.isidentifier() else "function"


def file_of(function: Any) -> str:
    """Return the file that defines a function."""
    return str(without_partial(function).__code__.co_filename)


def _arguments(
    function: Callable[..., Any], arguments: Mapping[str, Any], position: Span | None
) -> dict[str, Any]:
    """Return a value for each parameter without a default."""
    parameters = inspect.signature(function).parameters
    for name in arguments:
        if name not in parameters:
            hint = did_you_mean(name, parameters) or f"parameters are {', '.join(parameters)}"
            raise error(f"the function has no parameter '{name}'", position, hint=hint)
    values: dict[str, Any] = {}
    for name, each in parameters.items():
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            message = (
                f"parameter '{name}' does not say how many tensors there are, or how to pass it"
            )
            raise error(message, position, hint="give each tensor an ordinary parameter")
        if name in arguments:
            values[name] = arguments[name]
        elif each.default is each.empty:
            values[name] = Tensor(name)
    return values


def _location(function: Any) -> Span | None:
    code = without_partial(function).__code__
    return line_of(code.co_filename, code.co_firstlineno)
