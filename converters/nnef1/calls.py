"""The interface between reading NNEF 1 and its operators: one operation of the flat graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.converters.common.symbolic import Symbolic
from tvm_nnef.diagnostics import Span

Location: TypeAlias = Span
"""File, line and column, as everywhere in this project."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph, by its label."""

    label: str


Value: TypeAlias = "Tensor | Symbolic | float | int | str | bool | tuple[Value, ...] | None"
"""The value of an argument; arrays and tuples are both tuples, dynamic dimensions are symbolic."""


@dataclass(frozen=True)
class Call:
    """One operation of the flat graph, its arguments checked, defaults filled in.

    Parameters
    ----------
    operation
        A standard operation, or a fragment without a body.
    arguments
        Every parameter by name.
    results
        Every result by name: a Tensor or a tuple of them.
    item_type
        The <T> of a generic operation: "scalar", "integer", "logical", or None.
    chain
        The fragment invocations that led here, outermost first.
    location
        The invocation in the source.
    """

    operation: str
    arguments: Mapping[str, Value]
    results: Mapping[str, Value]
    item_type: str | None
    chain: tuple[str, ...]
    location: Location
