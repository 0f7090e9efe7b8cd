"""State of the walk over a Graph: the named values of ONNX that tensors become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from tvm_nnef.arrays.coded_arrays import format_of
from tvm_nnef.converters.onnx.export.emitter import Array, Emitter, Shared
from tvm_nnef.converters.onnx.types import NUMBER_OF
from tvm_nnef.diagnostics import Diagnostic
from tvm_nnef.graph.nodes import Check, Tensor
from tvm_nnef.reference.arithmetic import constant_array
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension

_LARGEST_FILLED = 1 << 16
"""A constant of equal elements that is larger is stretched by a node, not stored."""


@dataclass(slots=True)
class Context:
    """Dtypes, variables, and what is wrong so far; the same for all graphs of a model.

    ``ports`` are the names of the model's outputs that no value has yet, ``preferred`` other
    names for tensors than their own, ``state`` the variables that a run changes, ``bounds`` the
    largest values of symbols, ``facts`` pairs of dimensions that are equal where a run comes by.
    """

    types: Mapping[Tensor, str]
    variables: Mapping[Tensor, Array]
    state: frozenset[Tensor]
    bounds: Mapping[str, int]
    shared: Shared = field(default_factory=Shared)
    ports: dict[Tensor, str] = field(default_factory=dict)
    preferred: dict[Tensor, str] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    facts: frozenset[tuple[str, str]] = frozenset()

    def value(self, emitter: Emitter, tensor: Tensor) -> str:
        """The name of a tensor's value; constants and variables are added on first use."""
        if tensor not in emitter.values:
            emitter.values[tensor] = self._brought(emitter, tensor)
        return emitter.values[tensor]

    def same(self, left: Dimension, right: Dimension) -> bool:
        """Whether two dimensions are equal, by themselves or because a check says so."""
        if dimensions.equal(left, right):
            return True
        first, second = trees.text(left), trees.text(right)
        return (first, second) in self.facts or (second, first) in self.facts

    def learn(self, checks: Iterable[Check]) -> None:
        """Takes what checks say about two dimensions as a fact."""
        found = (trees.tree(check.condition) for check in checks)
        pairs = ((tree[1], tree[2]) for tree in found if isinstance(tree, list) and tree[0] == "eq")
        self.facts |= {(trees.text(left), trees.text(right)) for left, right in pairs}

    def known(self, tensor: Tensor) -> Array | None:
        """The array of a constant, or of a variable that no run changes."""
        if tensor.role == "variable" and tensor not in self.state:
            return self.variables[tensor]
        return _array(tensor, self.types[tensor]) if tensor.role == "constant" else None

    def converted(self, emitter: Emitter, tensor: Tensor, dtype: str) -> str:
        """The value of a tensor in a dtype; constants are converted here."""
        array = self.known(tensor) if tensor.role == "constant" else None
        if array is not None and array.size <= _LARGEST_FILLED and dtype != self.types[tensor]:
            return emitter.constant(array.astype(np.dtype(dtype)), dtype)
        return emitter.cast(self.value(emitter, tensor), self.types[tensor], dtype)

    def bind(self, emitter: Emitter, tensor: Tensor, name: str, dtype: str, start: int) -> None:
        """Make a value that of a tensor; rename it if nodes from ``start`` on computed it."""
        value = emitter.cast(name, dtype, self.types[tensor])
        if emitter.makes(value, start) and value not in emitter.bound:
            wanted = self.ports.pop(tensor, None)
            if wanted is None:
                wanted = self.shared.names.name(self.preferred.get(tensor, tensor.name))
            emitter.rename(value, wanted, start)
            value = wanted
        emitter.bound.add(value)
        emitter.values[tensor] = value
        emitter.define(value, tensor.shape)

    def new_value(self, emitter: Emitter, variable: Tensor) -> str:
        """Return the new value of a variable: the old one where nothing has updated it."""
        return emitter.updated.get(variable) or self.value(emitter, variable)

    def variable(self, tensor: Tensor) -> str:
        """The initializer of a variable, by its full name; its elements are kept apart."""
        if tensor.name not in self.shared.initializers:
            self.store(tensor.name, tensor, self.variables[tensor])
        return tensor.name

    def store(self, name: str, tensor: Tensor, array: Array) -> None:
        """Add an initializer for a tensor."""
        dtype = NUMBER_OF[self.types[tensor]]
        proto = onnx.TensorProto(name=name, data_type=dtype, dims=array.shape)
        self.shared.initializers[name] = proto
        self.shared.arrays[name] = _packed(array)

    def _brought(self, emitter: Emitter, tensor: Tensor) -> str:
        if tensor.role == "variable":
            return self.variable(tensor)
        array = _array(tensor, self.types[tensor])
        if array.size > _LARGEST_FILLED and not isinstance(tensor.value, tuple):
            return emitter.expand(emitter.constant(array.flat[0], self.types[tensor]), tensor.shape)
        return emitter.constant(array, self.types[tensor])


def _packed(array: Array) -> Array:
    """An array as ONNX has its elements: two of 4 bits in a byte."""
    few = format_of(array.dtype)
    if few is None or few.bits == 8:
        return array
    return np.frombuffer(onnx.numpy_helper.from_array(array).raw_data, np.uint8)


def _array(tensor: Tensor, name: str) -> Array:
    return constant_array(tensor.value, np.dtype(name), [int(size) for size in tensor.shape])


def value_info(name: str, dtype: str, shape: Sequence[Dimension]) -> onnx.ValueInfoProto:
    """The declaration of a value; dimensions known only at run time are names."""
    spelled = [size if isinstance(size, int) else trees.text(size) for size in shape]
    return onnx.helper.make_tensor_value_info(name, NUMBER_OF[dtype], spelled)
