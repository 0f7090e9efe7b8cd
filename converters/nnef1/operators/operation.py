"""The interface between a call of an NNEF 1 operation and its function: tensors and attributes by
name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Size, Symbolic
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.unconvertible import Unconvertible
from tvm_nnef.converters.nnef1 import calls
from tvm_nnef.converters.nnef1.calls import Call, Value

Converted: TypeAlias = "Tensor | Sequence[Tensor | Sequence[Tensor]]"
OperatorFunction: TypeAlias = "Callable[[Operation, Builder], Converted]"

DTYPES: Mapping[str, str] = {"scalar": "float32", "integer": "int32", "logical": "bool"}
"""The dtypes of NNEF 1's types, unless a tensor file has another one."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A call, and the tensors that are known before it, by label.

    ``updates`` collects the variables that operations update, with their new values.
    """

    call: Call
    scope: Mapping[str, Tensor] = field(repr=False)
    updates: list[tuple[Tensor, Tensor]] = field(default_factory=list, repr=False)

    def tensor(self, name: str) -> Tensor:
        """Return a tensor parameter; a number becomes a constant of rank 0."""
        return self._tensor(self.call.arguments[name])

    def tensors(self, name: str) -> list[Tensor]:
        """Return an array of tensors, all of one dtype."""
        return _of_one_dtype([self._tensor(each) for each in _items(self.call.arguments[name])])

    def operands(self, *names: str) -> list[Tensor]:
        """Return several tensor parameters; numbers among them get the dtype of the others."""
        return _of_one_dtype([self.tensor(name) for name in names])

    def is_number(self, name: str, value: float) -> bool:
        """Whether a tensor parameter is a given number."""
        argument = self.call.arguments[name]
        return not isinstance(argument, (calls.Tensor, tuple)) and argument == value

    def integer(self, name: str) -> int:
        """Return an integer parameter."""
        return _static(name, self.call.arguments[name])

    def integers(self, name: str) -> list[int]:
        """Return a parameter that is an array of integers."""
        return [_static(name, each) for each in _items(self.call.arguments[name])]

    def sizes(self, name: str) -> list[Size]:
        """Return an array of integers, some of which may be dynamic dimensions."""
        items = _items(self.call.arguments[name])
        return [each if isinstance(each, Symbolic) else _static(name, each) for each in items]

    def real(self, name: str) -> float:
        """Return a scalar parameter."""
        value = self.call.arguments[name]
        assert isinstance(value, (int, float)), name
        return float(value)

    def flag(self, name: str) -> bool:
        """Return a logical parameter."""
        return bool(self.call.arguments[name])

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """Return a string parameter; raise Unconvertible if it is not one of those allowed."""
        value = self.call.arguments[name]
        if value not in allowed:
            names = ", ".join(f"'{each}'" for each in allowed)
            raise Unconvertible(f"'{name}' is '{value}'", f"it must be one of {names}")
        assert isinstance(value, str)
        return value

    def pairs(self, name: str) -> list[tuple[int, int]]:
        """Return a parameter that is an array of pairs of integers."""
        pairs: list[tuple[int, int]] = []
        for item in _items(self.call.arguments[name]):
            match item:
                case (before, after):
                    pairs.append((_static(name, before), _static(name, after)))
                case _:
                    raise AssertionError(name)
        return pairs

    def axes(self, rank: int, name: str = "axes") -> list[int]:
        """Return distinct dimensions of a tensor of a rank, in the order given."""
        axes = self.integers(name)
        for axis in axes:
            in_range(name, axis, rank)
        if len(set(axes)) < len(axes):
            raise Unconvertible(f"'{name}' is {axes}", "name each dimension once")
        return axes

    def check_result_count(self, count: int) -> None:
        """Raise Unconvertible unless the array of results names ``count`` tensors.

        Operations check this before they create results, of which there may be billions.
        """
        (results,) = self.call.results.values()
        named = len(_items(results))
        if count != named:
            reason = f"it has {count} results, and {named} are named"
            raise Unconvertible(reason, f"name {count} results", mismatch=True)

    def axis(self, rank: int) -> int:
        """Return a dimension of a tensor of a rank."""
        return in_range("axis", self.integer("axis"), rank)

    def _tensor(self, value: Value) -> Tensor:
        if isinstance(value, calls.Tensor):
            return self.scope[value.label]
        if isinstance(value, Symbolic):
            _static("an operand", value)
        assert isinstance(value, (bool, int, float)), value
        kind = "bool" if isinstance(value, bool) else "float32"
        with np.errstate(over="ignore"):
            array = np.asarray(value, "int32" if type(value) is int else kind)
        return Tensor(str(array.dtype), (), value=array)


def _static(name: str, value: Value) -> int:
    """Return an integer. Raises Unconvertible for a dynamic dimension."""
    if isinstance(value, Symbolic):
        reason = f"'{name}' depends on the dimension {value}, which is known only at run time"
        raise Unconvertible(reason, "give the shapes of the inputs: convert(…, input_shapes={…})")
    assert isinstance(value, int), name
    return value


def in_range(name: str, axis: int, rank: int) -> int:
    """Return the axis, which must be a dimension of a tensor of a rank."""
    if not 0 <= axis < rank:
        reason = f"'{name}' names dimension {axis} of a tensor of rank {rank}"
        raise Unconvertible(reason, "dimensions count from 0", mismatch=True)
    return axis


def _items(value: Value) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else (value,)


def _of_one_dtype(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors, with constants of rank 0 in the dtype of the others."""
    real = (each for each in tensors if each.value is None or each.rank)
    like = next(real, None)
    if like is None:
        like = next((each for each in tensors if each.kind == "real"), tensors[0])
    return [
        each
        if each.dtype == like.dtype or each.value is None or each.rank
        else Tensor(like.dtype, (), value=each.value.astype(like.dtype))
        for each in tensors
    ]
