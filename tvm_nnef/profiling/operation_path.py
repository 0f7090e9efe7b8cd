"""The names of a Graph's operations in a lowered module and a compiled library.

Lowering writes the path of an operation, from the outermost composite to itself, into the spans of
its Relax calls; a build and a profile read it. Depends on neither Graph nor TVM.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class OperationName:
    """An operation by the full name of its first result, its operator, and its location.

    ``place`` is file, line and column of the invocation, ``source`` the operation of the model from
    which this one was converted; both are empty if unknown.
    """

    name: str
    operator: str
    place: str = ""
    source: str = ""


OperationPath: TypeAlias = "tuple[OperationName, ...]"
"""An operation, the last one, and the composites around it, the outermost first."""


def path_text(path: Sequence[OperationName]) -> str:
    """Return a path as text."""
    return json.dumps([[each.name, each.operator, each.place, each.source] for each in path])


def read_path(text: str) -> OperationPath:
    """Return the path in a text; empty if the text is something else."""
    try:
        items = json.loads(text)
        return tuple(OperationName(*map(str, each)) for each in items)
    except (ValueError, TypeError):
        return ()
