"""A node of an ONNX graph as operator functions read it: attributes, inputs, opset, results.

Reading checks what is there; a node that cannot be converted is rejected with a
reason and a hint, and the conversion goes on to report the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from tvm_nnef.converters.common.bounds import Bound, at_axis
from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.symbolic import Shape, Size, room
from tvm_nnef.converters.common.tensors import Tensor
from tvm_nnef.converters.common.types import Array, Type
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible
from tvm_nnef.converters.onnx.types import DTYPE_OF, NUMBER_OF, type_name
from tvm_nnef.converters.onnx.values import Items, Stacked, Value

DEFAULT_BOUND = 1024
"""Upper limit of a data-dependent dimension, unless it is known, or the user gives another."""

Converted: TypeAlias = "Tensor | Sequence[Value | None]"
OperatorFunction: TypeAlias = "Callable[[Node, Builder], Converted]"


@dataclass(frozen=True, slots=True)
class Node:
    """A node with its inputs converted; ``None`` stands for an input that is left out.

    ``outputs`` says what is known of each result, ``wanted`` whether somebody reads it. ``version``
    is the opset of the node's domain. ``subgraph`` converts a graph that is an attribute: it takes
    the graph, tensors instead of its inputs, and the builder of the steps, and gives its outputs.
    ``accepts`` says whether results of these types suit what comes after the node.
    ``bounds`` is what the user specifies for the data-dependent dimensions of each result.
    ``sequences`` are the inputs that are sequences, by position. ``memory`` has what functions kept
    of nodes, by the names of their results: a node inside a loop may be converted several times.
    """

    proto: onnx.NodeProto = field(repr=False)
    version: int
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Type | None, ...]
    wanted: tuple[bool, ...]
    attributes: Mapping[str, Any] = field(repr=False)
    subgraph: Callable[[onnx.GraphProto, Sequence[Value], Builder], list[Value]] = field(repr=False)
    accepts: Callable[[Sequence[Type]], bool] = field(repr=False, default=lambda _: True)
    bounds: Sequence[Bound] = ()
    sequences: Mapping[int, Items | Stacked] = field(default_factory=dict)
    memory: MutableMapping[tuple[str, ...], object] = field(default_factory=dict, repr=False)

    @property
    def operator(self) -> str:
        """The name of the operator, without its domain."""
        return str(self.proto.op_type)

    def input(self, position: int) -> Tensor:
        """An input that must be there."""
        found = self.optional(position)
        if found is None:
            raise Unconvertible(f"input {position} is missing", "the model is not valid ONNX")
        return found

    def optional(self, position: int) -> Tensor | None:
        """An input, or None if it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def present(self) -> tuple[Tensor, ...]:
        """The inputs that are there."""
        return tuple(each for each in self.inputs if each is not None)

    def wants(self, position: int) -> bool:
        """Whether somebody may read a result."""
        return position < len(self.wanted) and self.wanted[position]

    def shape(self, position: int = 0) -> Shape:
        """The shape of a result, which must be known from the model itself."""
        found = self.known_shape(position)
        if found is None:
            raise Unconvertible(
                f"the shape of result {position} is decided by data",
                "declare the output's shape in the ONNX model (value_info), or freeze the inputs "
                "that decide on it to initializers",
            )
        return found

    def known_shape(self, position: int = 0) -> Shape | None:
        """The shape of a result, None if it is known only at run time."""
        expected = self.outputs[position] if position < len(self.outputs) else None
        return None if expected is None else expected.static

    def rank(self, position: int = 0) -> int | None:
        """The rank of a result, None if it is not known."""
        expected = self.outputs[position] if position < len(self.outputs) else None
        return None if expected is None or expected.shape is None else len(expected.shape)

    def bound(self, axis: int = 0, position: int = 0, most: Size | None = None) -> Size:
        """The bound of a data-dependent dimension of a result.

        Without one that the user gives it is ``most``, if it is known that the dimension is not
        larger.
        """
        default = DEFAULT_BOUND if most is None else room(most)
        return self.given_bound(axis, position) or default

    def given_bound(self, axis: int, position: int) -> int:
        """The bound that the user gives for a dimension of a result, 0 if there is none.

        A result of which the user says nothing has the bound of the first one that has any.
        """
        own = at_axis(self.bounds[position], axis) if position < len(self.bounds) else 0
        given = (own, *(at_axis(each, axis) for each in self.bounds))
        return next(filter(None, given), 0)

    def dtype(self, position: int = 0) -> str:
        """The dtype of a result, as the model declares it or ONNX infers it."""
        wanted = {self.integer(name) for name in ("to", "dtype", "output_dtype")} - {0}
        for number in wanted - set(DTYPE_OF):
            raise Unconvertible(
                f"it gives elements of type {type_name(number)}, which cannot be converted",
                f"types that can be: {', '.join(sorted(NUMBER_OF))}",
            )
        expected = self.outputs[position] if position < len(self.outputs) else None
        if expected is None or expected.dtype is None:
            return self.input(0).dtype
        return expected.dtype

    def value(self, position: int) -> Array | None:
        """The value of an input, None if it is left out or known at run time only."""
        found = self.optional(position)
        return None if found is None else found.value

    def required_value(self, position: int, name: str) -> Array:
        """The value of an input that must be known before a run."""
        found = self.value(position)
        if found is None:
            raise Unconvertible(
                f"'{name}' (input {position}) arrives at run time",
                f"freeze '{name}' to an initializer of the model",
            )
        return found

    def sizes(self, position: int) -> list[Size] | None:
        """The elements of an input that holds a shape: numbers or symbolic sizes.

        None if it is left out or data-dependent.
        """
        found = self.optional(position)
        if found is None:
            return None
        if found.sizes is not None:
            return list(found.sizes.reshape(-1))
        return None if found.value is None else [int(each) for each in found.value.reshape(-1)]

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.attributes

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute of type int."""
        return int(self.attributes.get(name, default))

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute of type int that means yes or no."""
        return bool(self.attributes.get(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """An attribute of type float, as the shortest decimal that is the same float32."""
        return float(str(np.float32(self.attributes.get(name, default))))

    def text(self, name: str, default: str = "") -> str:
        """An attribute of type string."""
        found = self.attributes.get(name, default)
        return found.decode() if isinstance(found, bytes) else str(found)

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int] | None:
        """An attribute of type ints."""
        found = self.attributes.get(name, default)
        return None if found is None else [int(item) for item in found]

    def reals(self, name: str) -> list[float] | None:
        """An attribute of type floats."""
        found = self.attributes.get(name)
        return None if found is None else [float(str(np.float32(item))) for item in found]

    def texts(self, name: str) -> list[str] | None:
        """An attribute of type strings."""
        found = self.attributes.get(name)
        return None if found is None else [each.decode() for each in found]

    def axis(self, rank: int, default: int = 0, name: str = "axis") -> int:
        """An axis, counted from the front."""
        axis = self.integer(name, default)
        if not -rank <= axis < max(rank, 1):
            raise Invalid(f"'{name}' is {axis}, the rank {rank}")
        return axis % rank if rank else 0


def converted_values(converted: object, function: object) -> list[Value | None]:
    """Return the results of an operator function as a list. Raises Unconvertible for others."""
    found = [converted] if isinstance(converted, Tensor) else converted
    kinds = (Tensor, tuple, Stacked, type(None))
    if isinstance(found, Sequence) and all(isinstance(each, kinds) for each in found):
        return list(found)
    name = getattr(function, "__qualname__", repr(function))
    shown = (
        ", ".join(sorted({type(each).__name__ for each in found}))
        if isinstance(found, (list, tuple))
        else type(found).__name__
    )
    reason = f"its converter '{name}' gives {shown} instead of a tensor, or a list of tensors"
    raise Unconvertible(reason, "return what the builder gave")


def attributes_of(proto: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node by name; strings stay bytes."""
    return {each.name: helper.get_attribute_value(each) for each in proto.attribute}
