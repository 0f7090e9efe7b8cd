"""Names in a lowered module: what an author called something in, a TVM identifier out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tvm_nnef.graph.nodes import Port, Tensor
from tvm_nnef.tvm_support.function_attributes import (
    EQUAL_SIZES,
    INITIAL_STATE,
    LIFTED,
    METADATA,
    PREPARED,
)

MAIN = "main"
"""The name of the function that runs a model."""

_RESERVED = frozenset({MAIN, EQUAL_SIZES, INITIAL_STATE, LIFTED, PREPARED, METADATA})
"""The functions of a library that callers find by name. TVM gives a function another name if a
variable, a kernel or a private function has that name."""


@dataclass
class Names:
    """Gives out identifiers, each only once."""

    taken: set[str] = field(default_factory=set)

    def unique(self, name: str) -> str:
        """``name`` as an identifier, with a number after it where it was given out before."""
        base = identifier(name)
        candidate, number = base, 0
        while candidate in self.taken:
            number += 1
            candidate = f"{base}_{number}"
        self.taken.add(candidate)
        return candidate


def identifier(name: str) -> str:
    """``name`` as an identifier of TVM that no public function of a library has."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "value"
    if cleaned in _RESERVED:
        return f"{cleaned}_"
    return f"_{cleaned}" if cleaned[0].isdigit() else cleaned


def port_items(port: Port) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a port by name: itself, or the items ``name_0``, ``name_1`` of a pack."""
    match port.operand:
        case None:
            return
        case Tensor():
            yield port.name, port.operand
        case items:
            for number, item in enumerate(items):
                yield f"{port.name}_{number}", item
