"""The values that the tensors of a function have become, as Relax expressions.

Input: tensors of a Graph. Output: expressions in the dtype of the tensor or in another one.
Constants and variables become expressions at their first use. Does not know of operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from tvm import relax

from tvm_nnef.arrays.coded_arrays import rounded
from tvm_nnef.arrays.few_bits import FORMATS, computed, held
from tvm_nnef.graph.nodes import Graph, Tensor
from tvm_nnef.lower.defects import defect
from tvm_nnef.lower.few_bits import packed, unpacked
from tvm_nnef.profiling.provenance import Provenance
from tvm_nnef.tvm_support import compat
from tvm_nnef.tvm_support.compat import BlockBuilder, RelaxExpression

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class Values:
    """The value of each tensor so far.

    A tensor of few bits has its bytes for a value (``arrays.few_bits``): operators that move
    elements move these, all others get numbers. ``weights`` are the arrays of the variables that
    are not parameters; ``constants`` is shared by all functions of a module. ``updated`` are the
    new values of variables, which nothing reads before the run has ended (section 2.11).
    """

    builder: BlockBuilder
    machine_types: Mapping[Tensor, str]
    weights: Mapping[Tensor, Array]
    provenance: Provenance
    known: dict[Tensor, RelaxExpression] = field(default_factory=dict)
    updated: dict[Tensor, RelaxExpression] = field(default_factory=dict)
    constants: dict[Tensor, RelaxExpression] = field(default_factory=dict)

    def inside(
        self,
        known: Mapping[Tensor, RelaxExpression],
        updated: Mapping[Tensor, RelaxExpression] | None = None,
    ) -> Values:
        """Return the values of the given tensors only: in another function, or in one step."""
        return replace(self, known=dict(known), updated=dict(updated or {}))

    def new(self, variable: Tensor) -> RelaxExpression:
        """Return the new value of a variable; the old value if nothing has updated it."""
        found = self.updated.get(variable)
        return self.get(variable) if found is None else found

    def get(self, tensor: Tensor, dtype: str | None = None) -> RelaxExpression:
        """Return the value of a tensor, cast to a dtype if one is given."""
        found = self.known.get(tensor)
        if found is None:
            found = self._constant(tensor)
        return found if dtype is None else self.cast(found, self.machine_types[tensor], dtype)

    def cast(self, value: RelaxExpression, source: str, dtype: str) -> RelaxExpression:
        """Return a value of a tensor of one dtype as one of another."""
        if source == dtype:
            return value
        value = self._numbers(value, source)
        if dtype in FORMATS:
            return self.stored(value, dtype)
        if compat.shape_and_dtype(value)[1] == dtype:
            return value
        return self.builder.emit(relax.op.astype(value, dtype))

    def number(self, tensor: Tensor) -> RelaxExpression:
        """Return the value of a tensor in the dtype in which operators compute."""
        return self._numbers(self.get(tensor), self.machine_types[tensor])

    def stored(self, number: RelaxExpression, dtype: str) -> RelaxExpression:
        """Return the result of an operator as the value of a tensor of a dtype."""
        if dtype not in FORMATS:
            return number
        return self.provenance.emitted(self.builder, packed(self.builder, number, dtype))

    def outputs(self, graph: Graph, dtypes: Sequence[str]) -> list[RelaxExpression]:
        """Return the outputs of a graph that was run, one after the other, in the given dtypes."""
        return [
            self.get(each, dtype) for each, dtype in zip(graph.output_tensors, dtypes, strict=True)
        ]

    def _numbers(self, value: RelaxExpression, dtype: str) -> RelaxExpression:
        """Return a value of a tensor of a dtype in the dtype in which operators compute."""
        if held(dtype) == computed(dtype):
            return value
        return self.provenance.emitted(self.builder, unpacked(self.builder, value, dtype))

    def _constant(self, tensor: Tensor) -> RelaxExpression:
        if tensor not in self.constants:
            if tensor.role == "variable":
                array = self.weights[tensor]
            elif tensor.role == "constant":
                array = constant_array(tensor, self.machine_types[tensor])
            else:
                raise defect(f"nothing computes tensor '{tensor.name}'")
            self.constants[tensor] = compat.constant(array)
        return self.constants[tensor]


def constant_array(tensor: Tensor, dtype: str) -> Array:
    """Return the elements of a constant in a dtype."""
    if dtype in FORMATS:
        return rounded(constant_array(tensor, computed(dtype)), dtype)
    if isinstance(tensor.value, tuple):
        return np.array(tensor.value, dtype).reshape(tensor.shape)
    return np.full(tensor.shape, tensor.value, dtype)
