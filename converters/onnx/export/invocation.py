"""The ONNX side of one invocation, which an exporting function gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.emitter import Array, Emitter
from tvm_nnef.graph.arguments import Arguments
from tvm_nnef.graph.formula import ScalarType
from tvm_nnef.graph.nodes import Operation, Tensor
from tvm_nnef.symbolic.dimensions import Dimension

Value: TypeAlias = "str | tuple[str, ...] | None"
"""The name of a value; of several for a pack; None for null."""

Exported: TypeAlias = "str | tuple[Value, ...] | None"
"""One value for a single result, a tuple aligned with the results, or None: declined."""


@dataclass(frozen=True, slots=True)
class Invocation(Arguments[str]):
    """An operation that is being exported, with its operands in ONNX.

    The operands have the dtypes in which the operation computes (``dtypes``), or, where it only
    moves elements, the one of the result; the results are expected in these too. Operands of
    another type than the results, such as positions, then keep their own, ``types``. ``known``
    gives the array of a tensor whose value does not change, else None.
    """

    emitter: Emitter
    operation: Operation
    operands: tuple[Value, ...]
    dtypes: Mapping[ScalarType, str]
    types: Mapping[Tensor, str]
    known: Callable[[Tensor], Array | None]

    def number(self, name: str) -> int:
        """An integer attribute."""
        self._require_known(name, self.attribute(name))
        return Arguments.number(self, name)

    def numbers(self, name: str) -> list[int]:
        """A pack of integers."""
        pack = self.attribute(name)
        assert isinstance(pack, tuple)
        self._require_known(name, *pack)
        return Arguments.numbers(self, name)

    def _require_known(self, name: str, *values: object) -> None:
        if not all(isinstance(value, int) for value in values):
            raise Inexpressible(f"its attribute '{name}' is known at run time only")

    def sizes(self, name: str) -> list[Dimension]:
        """A pack of integers, some of which may be dimensions known only at run time."""
        value = self.operation.attributes[name]
        assert isinstance(value, tuple)
        return list(value)

    def own_dtype(self, operand: int) -> str:
        """The dtype of an operand, for those that keep it."""
        return self.types[self.tensor(operand)]

    def positions(self, operand: int) -> str:
        """The value of an operand that holds positions, as int64."""
        return self.emitter.cast(self.value(operand), self.own_dtype(operand), "int64")

    @property
    def dtype(self) -> str:
        """The dtype in which the first result is expected."""
        first = self.operation.results[0]
        tensor = first if isinstance(first, Tensor) else (first or (None,))[0]
        assert tensor is not None
        return self.dtypes[tensor.type]

    def holds(self, *values: float | None) -> bool:
        """Whether attributes of ONNX, which are float32, hold numbers well enough."""
        if self.dtypes["real"] != "float64":
            return True
        return all(value is None or float(np.float32(value)) == value for value in values)

    def scalar(self, value: float) -> str:
        """A constant of rank 0 in the dtype of the result."""
        return self.emitter.constant(value, self.dtype)


ExportFunction: TypeAlias = Callable[[Invocation], Exported]
"""Exports an operation whole, or declines by returning None; raises Inexpressible."""
