"""The state of an export: the values of tensors, and the diagnostics so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.nnef1.export.emitter import TYPES, Array, Emitter, Variable
from tvm_nnef.converters.nnef1.export.invocation import static
from tvm_nnef.converters.nnef1.export.values import Value
from tvm_nnef.diagnostics import Diagnostic
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.reference.arithmetic import constant_array


@dataclass(slots=True)
class Context:
    """The values of tensors, and properties of tensors.

    ``types`` are the dtypes of tensors, ``arrays`` the values of variables, ``labels`` their
    labels, ``state`` the variables that a run changes, ``readers`` the number of readers of each
    tensor. ``names`` are the tensors that give values their names, ``quantizers`` lines of
    ``graph.quant``. ``codes`` are integers that are exported as scalars, with their largest
    magnitude, ``whole`` the reals that are whole numbers. ``computed`` are tensors that the export
    has evaluated.
    """

    types: Mapping[Tensor, str]
    arrays: Mapping[Tensor, Array]
    labels: Mapping[Tensor, str]
    state: frozenset[Tensor]
    readers: Mapping[Tensor, int]
    emitter: Emitter = field(default_factory=Emitter)
    values: dict[Tensor, Value] = field(default_factory=dict)
    names: dict[Value, Tensor] = field(default_factory=dict)
    quantizers: dict[Value, str] = field(default_factory=dict)
    codes: dict[Tensor, int] = field(default_factory=dict)
    whole: set[Tensor] = field(default_factory=set)
    computed: dict[Tensor, Array] = field(default_factory=dict)
    updates: list[tuple[Tensor, Value]] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)

    def value(self, tensor: Tensor) -> Value:
        """Return the value of a tensor.

        That of a constant or variable is created when it is first read.
        """
        if tensor not in self.values:
            self.check(tensor)
            if tensor.role == "variable":
                value = self.emitter.constant(self.arrays[tensor], self.labels[tensor], fixed=True)
                self.emitter.variables[value].is_state = tensor in self.state
            else:
                array = self.array(tensor)
                assert array is not None, tensor.name
                value = self.emitter.constant(array)
            self.values[tensor] = value
        return self.values[tensor]

    def array(self, tensor: Tensor) -> Array | None:
        """Return the elements of a constant, a variable, or an evaluated tensor.

        It is None if not known.
        """
        if tensor in self.computed:
            return self.computed[tensor]
        if tensor.role == "variable":
            return self.arrays[tensor]
        if tensor.value is None:
            return None
        return constant_array(tensor.value, np.dtype(self.types[tensor]), static(tensor.shape))

    def check(self, tensor: Tensor) -> str:
        """Check that NNEF 1 has the shape and dtype of a tensor; raise Inexpressible if not."""
        static(tensor.shape)
        dtype = self.types[tensor]
        if dtype not in TYPES:
            hint = f"use {'float32' if dtype.startswith('float') else 'int32'}"
            raise Inexpressible(f"NNEF 1 has no dtype {dtype}, which it has", hint)
        return TYPES[dtype]

    def bind(self, tensor: Tensor, value: Value) -> None:
        """Bind a tensor to a value, which gets the tensor's name."""
        self.values[tensor] = value
        if value.literal is None:
            self.names.setdefault(value, tensor)

    def variable(self, value: Value) -> Variable | None:
        """Return the variable that a value refers to."""
        return self.emitter.variables.get(value)
