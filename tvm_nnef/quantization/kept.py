"""Operators and weights that stay real because the user asks for it, by number or by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from tvm_nnef.diagnostics import did_you_mean, error
from tvm_nnef.model.model import Model

KeepFloat: TypeAlias = int | str | Sequence[str]
"""Number of operators, or weights, of the largest errors that stay real; or names of some."""


def names_of(model: Model, scope: str, name: str, operators: Iterable[str]) -> set[str]:
    """Return what a user may call an operation with a result, or a weight that operators read."""
    known = model.metadata
    _, _, node = known.source_operations.get(name, "").partition(" ")
    source = known.source_names.get(name, "")
    return {name, name.removeprefix(f"{scope}."), source, node, *operators} - {""}


def named(keep: KeepFloat, names: Mapping[str, set[str]], kind: str) -> frozenset[str]:
    """Return the keys that names choose among ``names``; none if ``keep`` is a number.

    A name also chooses all that is in the block, or in the layer of the source, of that name.
    Raises NnefError for a name that chooses nothing; ``kind`` says what names are of.
    """
    several = keep if isinstance(keep, Sequence) else []
    wanted = [keep] if isinstance(keep, str) else several
    found: set[str] = set()
    for name in wanted:
        inside = (f"{name}.", f"{name}/")
        chosen = {
            key
            for key, every in names.items()
            if any(each == name or each.startswith(inside) for each in every)
        }
        if not chosen:
            every = dict.fromkeys(each for key in names.values() for each in sorted(key))
            hint = (
                did_you_mean(name, every)
                or "the first column of the report has the names; try it without 'keep_float'"
            )
            raise error(f"there is no {kind} '{name}' that could be quantized", hint=hint)
        found |= chosen
    return frozenset(found)


def reasons(keep: KeepFloat, chosen: frozenset[str], errors: Mapping[str, float]) -> dict[str, str]:
    """Return the reason of each that stays real: those that were chosen, or the largest errors."""
    if isinstance(keep, Sequence):
        return dict.fromkeys(chosen, "as you asked")
    largest = sorted(errors, key=lambda name: -errors[name])[:keep]
    return dict.fromkeys(largest, "one of the largest errors")
