"""User-defined upper bounds of dynamic dimensions of inputs and data-dependent ones of results.

A bound is one number for all, or given by name: of a dimension, of an input, or of a result of an
operation. An input or a result may have a number for each dimension, None for a dimension without a
bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from tvm_nnef.diagnostics import Diagnostic, NnefError, did_you_mean

Bound: TypeAlias = "int | Sequence[int | None]"
Bounds: TypeAlias = "Mapping[str, Bound] | int"
"""Bounds by name, or one for all; the name ``""`` is the default for the others."""
_LISTED = 8
"""Upper limit of the names that a hint lists."""


def bound_of_dimension(bounds: Bounds, name: str, tensor: str, axis: int) -> int:
    """Return the bound of a dynamic dimension of an input; 0 if there is none."""
    if not isinstance(bounds, Mapping):
        return bounds
    return at_axis(bounds.get(name), 0) or at_axis(bounds.get(tensor), axis) or _others(bounds)


def bounds_of_results(bounds: Bounds, names: Iterable[str]) -> tuple[Bound, ...]:
    """Return the bounds of a node's results, 0 if there is none."""
    if not isinstance(bounds, Mapping):
        return (bounds,)
    return tuple(bounds.get(name) or _others(bounds) if name else 0 for name in names)


def at_axis(bound: Bound | None, axis: int) -> int:
    """Return the number of one dimension, 0 if there is none."""
    if bound is None or isinstance(bound, int):
        return bound or 0
    return (bound[axis] or 0) if axis < len(bound) else 0


def _others(bounds: Mapping[str, Bound]) -> int:
    return at_axis(bounds.get(""), 0)


def check_bounds(bounds: Bounds, names: Collection[str], dynamic: Collection[str]) -> None:
    """Raise NnefError for bounds that are not positive integers, or of unknown names.

    ``names`` are those that may have a bound; ``dynamic`` are the dynamic dimensions of inputs
    among them, which a hint lists.
    """
    if not isinstance(bounds, Mapping):
        if bounds < 0:
            raise NnefError([_wrong("bounds", bounds)])
        return
    problems = [
        _wrong(f"the bound of '{name}'", bound)
        for name, bound in bounds.items()
        if not _is_bound(bound)
    ]
    for name in (name for name in bounds if name and name not in names):
        hint = did_you_mean(name, names) or _hint(dynamic)
        problems.append(Diagnostic(f"no dimension or result is named '{name}'", hint=hint))
    if problems:
        raise NnefError(problems)


def _hint(dynamic: Iterable[str]) -> str:
    unique = list(dict.fromkeys(dynamic))
    if not unique:
        return "no input has a dynamic dimension; a result has a bound by its own name"
    listed = ", ".join(f"'{name}'" for name in unique[:_LISTED])
    more = f" and {len(unique) - _LISTED} more" if len(unique) > _LISTED else ""
    return f"dynamic dimensions of inputs are {listed}{more}; a result has a bound by its own name"


def _is_bound(bound: object) -> bool:
    if isinstance(bound, Sequence) and not isinstance(bound, str):
        return bool(bound) and all(each is None or _is_number(each) for each in bound)
    return _is_number(bound)


def _is_number(bound: object) -> bool:
    return isinstance(bound, int) and not isinstance(bound, bool) and bound > 0


def _wrong(what: str, bound: object) -> Diagnostic:
    hint = "give a whole number, 1 or more, or one for each dimension: {'y': (None, 16)}"
    return Diagnostic(f"{what} cannot be {bound!r}", hint=hint)
