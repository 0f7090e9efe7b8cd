"""State of a model: inputs whose value each call takes from the call before.

ONNX has no state. Who makes a model says how many of its last inputs are state, and with which
values; as many of its last outputs are their new values, in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import Array
from tvm_nnef.diagnostics import Diagnostic, NnefError

Tensors: TypeAlias = "Sequence[Tensor]"


@dataclass(frozen=True, slots=True)
class State:
    """A state: its name in the source, which may differ from that of the input; its first value."""

    name: str
    first: Array


def split(states: Sequence[State], tensors: Tensors) -> tuple[Tensors, Tensors]:
    """The inputs or the outputs that are not state, and those that are."""
    count = len(tensors) - len(states)
    return tensors[:count], tensors[count:]


def check_not_given(states: Sequence[State], inputs: Tensors, given: Collection[str]) -> None:
    """Raise NnefError for inputs that are state and whose shapes or dtypes the user specifies."""
    hint = "leave it out: a state keeps the shape and the dtype of its first value"
    found = [
        Diagnostic(f"'{each.source}' is not an input, but state of the model", hint=hint)
        for each in split(states, inputs)[1]
        if each.source in given
    ]
    if found:
        raise NnefError(found)


def updates(
    states: Sequence[State], inputs: Tensors, outputs: Tensors
) -> tuple[tuple[Tensor, Tensor], ...]:
    """The inputs that are state, which become variables, with their new values.

    Raises NnefError for new values of other shapes or dtypes.
    """
    found = tuple(zip(split(states, inputs)[1], split(states, outputs)[1], strict=True))
    wrong = []
    for state, (variable, new) in zip(states, found, strict=True):
        variable.source, variable.value, variable.is_state = state.name, state.first, True
        before = Tensor(str(state.first.dtype), state.first.shape)
        if (new.dtype, new.shape) != (before.dtype, before.shape):
            wrong.append(_changed(state.name, before, new))
    if wrong:
        raise NnefError(wrong)
    return found


def _changed(name: str, *tensors: Tensor) -> Diagnostic:
    before, after = (f"{each.dtype}[{', '.join(map(str, each.shape))}]" for each in tensors)
    message = f"a call changes the state '{name}' from {before} to {after}"
    hint = "keep its shape and its dtype; what grows can fill a buffer of its largest size"
    return Diagnostic(message, hint=hint, is_unsupported=True)
