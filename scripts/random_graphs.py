"""Random ONNX graphs: values with known sizes and ranges, to which operators are added one by one.

A dimension is a tuple with its size for each set of input sizes: one for a static graph, several
for a graph with dynamic dimensions, where it is static if all of them are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import onnx

Dim = tuple[int, ...]
T = TypeVar("T")

SIZES = (1, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 16, 17, 24, 31)
DYNAMIC = {"n": (5, 1, 8), "m": (4, 7, 3)}
"""Dynamic dimensions and their sizes in the runs of one compiled model."""
LARGEST = 6000
"""Elements that a value may have."""
WIDEST = 64.0
"""Values whose magnitude may be larger are squashed."""
_NUMBER = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7, "bool": 9}


class Declined(Exception):
    """An operator does not fit the values of the graph."""


@dataclass(frozen=True)
class Value:
    """A tensor of a graph: its sizes, the largest magnitude of its elements, and whether exact.

    Elements that are exact are multiples of ``2**-grain``, small enough that float32 never rounds.
    """

    name: str
    dtype: str
    dims: tuple[Dim, ...]
    scale: float = 1.0
    grain: int | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a static value."""
        return tuple(dim[0] for dim in self.dims)

    @property
    def exact(self) -> bool:
        """Whether no element was rounded."""
        return self.dtype != "float32" or self.grain is not None

    def like(self, **changes: Any) -> Value:
        """A value of the same kind without a name."""
        changes = {"name": "", **changes}
        if "dims" in changes:
            changes["dims"] = tuple(map(tuple, changes["dims"]))
        return replace(self, **changes)


def static(dim: Dim) -> bool:
    """Whether a dimension has the same size in all runs."""
    return len(set(dim)) == 1


def one(graph: Graph) -> Dim:
    """The dimension of size 1."""
    return graph.dim(1)


def broadcast(*values: Value) -> tuple[Dim, ...]:
    """The dimensions that values broadcast to; raises Declined if they do not."""
    rank = max(each.rank for each in values)
    count = max((len(dim) for each in values for dim in each.dims), default=1)
    ones = ((1,) * count,)
    padded = [ones * (rank - each.rank) + each.dims for each in values]
    dims: list[Dim] = []
    for column in zip(*padded, strict=True):
        found = {dim for dim in column if set(dim) != {1}}
        if len(found) > 1:
            raise Declined
        dims.append(found.pop() if found else ones[0])
    return tuple(dims)


@dataclass
class Graph:
    """A graph that grows."""

    random: np.random.Generator
    dynamic: bool
    opset: int
    nodes: list[Any] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    known: dict[str, Value] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    @property
    def runs(self) -> int:
        """Return the number of sets of input sizes."""
        return len(DYNAMIC["n"]) if self.dynamic else 1

    def chance(self, share: float) -> bool:
        """True in so many cases."""
        return bool(self.random.random() < share)

    def integer(self, low: int, high: int) -> int:
        """An integer from ``low`` up to ``high - 1``."""
        if high <= low:
            raise Declined
        return int(self.random.integers(low, high))

    def choice(self, items: Sequence[T]) -> T:
        """One of several."""
        if not items:
            raise Declined
        return items[int(self.random.integers(len(items)))]

    def size(self) -> int:
        """An awkward size, rarely 0."""
        return 0 if self.chance(0.01) else self.choice(SIZES)

    def dim(self, size: int) -> Dim:
        """A static dimension."""
        return (int(size),) * self.runs

    def product(self, dims: Sequence[Dim]) -> Dim:
        """The product of dimensions."""
        return tuple(math.prod(column) for column in zip(self.dim(1), *dims, strict=True))

    def with_dim(self, x: Value, axis: int, size: int) -> list[Dim]:
        """The dimensions of a value with a static one at an axis."""
        return [*x.dims[:axis], self.dim(size), *x.dims[axis + 1 :]]

    def axis(self, x: Value) -> int | None:
        """An axis, None for a scalar."""
        return self.integer(0, x.rank) if x.rank else None

    def axes(self, x: Value) -> list[int]:
        """Some axes, in order."""
        if not x.rank:
            raise Declined
        found = [axis for axis in range(x.rank) if self.chance(0.4)]
        return found or [self.integer(0, x.rank)]

    def value(
        self, dtype: str, dims: Sequence[Dim], scale: float = 1.0, grain: int | None = None
    ) -> Value:
        """The wanted result of a node."""
        return Value("", dtype, tuple(map(tuple, dims)), float(scale), grain)

    def constant(self, array: Any) -> Value:
        """A constant, as an initializer."""
        array = np.asarray(array)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        dims = tuple(map(self.dim, array.shape))
        scale = float(np.abs(array).max()) if array.size and array.dtype != bool else 1.0
        return Value(name, str(array.dtype), dims, scale)

    def weight(self, shape: Sequence[int]) -> Value:
        """A constant of quarters, which are exact in products."""
        array = self.random.integers(-4, 5, tuple(shape)).astype(np.float32) / 4
        return replace(self.constant(array), grain=2)

    def pick(self, dtype: str | None = None, rank: int = 0) -> Value:
        """A value; those that nothing reads yet, and new ones, are preferred."""
        found = [
            each for each in self.values
            if (dtype is None or each.dtype == dtype) and each.rank >= rank
        ]  # fmt: skip
        fresh = [each for each in found if each.name not in self.read]
        if fresh and self.chance(0.6):
            return self.choice(fresh[-4:])
        return self.choice(found[-12:] if self.chance(0.7) else found)

    def pick_exact(self, dtype: str | None = None) -> Value:
        """A value without rounding, of numbers."""
        wanted = ("float32", "int64") if dtype is None else (dtype,)
        return self.choice([each for each in self.values if each.exact and each.dtype in wanted])

    def pick_broadcast(self, dtype: str, x: Value, *, exact: bool = False) -> Value:
        """A value that broadcasts with another one, a constant if there is none."""
        found = []
        for each in self.values:
            if each.dtype == dtype and (each.exact or not exact):
                try:
                    broadcast(each, x)
                except Declined:
                    continue
                found.append(each)
        if found and self.chance(0.7):
            return self.choice(found)
        dims = x.dims[self.integer(0, x.rank + 1) :]
        shape = [dim[0] if static(dim) and self.chance(0.6) else 1 for dim in dims]
        if dtype == "float32":
            return self.weight(shape)
        high = 2 if dtype == "bool" else 9
        return self.constant(self.random.integers(0, high, shape).astype(dtype))

    def grain(self, x: Value, y: Value, scale: float) -> int | None:
        """The grain of products of two values, None if they may be rounded."""
        if x.grain is None or y.grain is None:
            return None
        return _fine(x.grain + y.grain, scale)

    def combined(self, x: Value, y: Value, product: bool) -> Value:
        """The sum or the product of two values."""
        scale = x.scale * y.scale if product else x.scale + y.scale
        if x.dtype != "float32":
            return self.value(x.dtype, broadcast(x, y), scale)
        if product:
            grain = self.grain(x, y, scale)
        else:
            grains = (x.grain, y.grain)
            grain = None if None in grains else _fine(max(each or 0 for each in grains), scale)
        return self.value("float32", broadcast(x, y), scale, grain)

    def add(
        self,
        operator: str,
        operands: Sequence[Value | None],
        results: Sequence[Value],
        **attributes: Any,
    ) -> list[Value]:
        """A node; values that have become too large for a sensible comparison are squashed."""
        for each in results:
            largest = max(self.product(each.dims))
            if largest > LARGEST or each.rank > 6:
                raise Declined
        names = ["" if each is None else each.name for each in operands]
        found = [replace(each, name=f"v{len(self.known) + position}")
                 for position, each in enumerate(results)]  # fmt: skip
        self.nodes.append(
            onnx.helper.make_node(operator, names, [each.name for each in found], **attributes)
        )
        self.read.update(names)
        for each in found:
            self.known[each.name] = each
            if each.grain is not None and _fine(each.grain, each.scale) is None:
                each = self.known[each.name] = replace(each, grain=None)
            self.values.append(each)
        return [self._squashed(each) for each in found]

    def _squashed(self, x: Value) -> Value:
        x = self.known[x.name]
        if x.dtype == "float32" and x.scale > WIDEST:
            self.forget(x)
            if x.grain is not None:
                ends = [self.constant(np.float32(each)) for each in (-8, 8)]
                return self.add("Clip", (x, *ends), [x.like(scale=8.0)])[0]
            factor = self.constant(np.float32(4 / x.scale))
            (x,) = self.add("Mul", (x, factor), [x.like(scale=4.0)])
        elif x.dtype == "int64" and x.scale > 1e4:
            self.forget(x)
            return self.add("Mod", (x, self.constant(np.int64(97))), [x.like(scale=97.0)])[0]
        return x

    def forget(self, x: Value) -> None:
        """Leaves a value out of later nodes and of the outputs."""
        self.values = [each for each in self.values if each.name != x.name]

    def input(self, dtype: str, dims: Sequence[Dim], exact: bool) -> None:
        """An input of the graph."""
        grain = 2 if exact and dtype == "float32" else None
        x = Value(f"x{len(self.inputs)}", dtype, tuple(dims), 8.0 if dtype == "int64" else 3, grain)
        self.inputs.append(x)
        self.values.append(x)
        self.known[x.name] = x

    def feeds(self, run: int) -> dict[str, np.ndarray]:
        """Values of the inputs for a set of sizes."""
        return {each.name: self._feed(each, [dim[run] for dim in each.dims])
                for each in self.inputs}  # fmt: skip

    def _feed(self, x: Value, shape: Sequence[int]) -> np.ndarray:
        if x.dtype == "bool":
            return np.asarray(self.random.random(shape) < 0.5)
        if x.dtype == "int64":
            return np.asarray(self.random.integers(-8, 9, shape))
        if x.grain is not None:
            return np.asarray(self.random.integers(-8, 9, shape) / 4, np.float32)
        return np.asarray(np.clip(self.random.standard_normal(shape), -3, 3), np.float32)

    def outputs(self) -> Iterator[Value]:
        """The values that nothing reads."""
        return (each for each in self.values
                if each.name not in self.read and each not in self.inputs)  # fmt: skip

    def proto(self) -> Any:
        """The model."""
        return model_of(self.nodes, self.inputs, list(self.outputs()), self.constants, self.opset)


def _fine(grain: int, scale: float) -> int | None:
    return grain if 2.0**grain * max(scale, 1) < 2**20 else None


def model_of(
    nodes: Sequence[Any],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    constants: dict[str, np.ndarray],
    opset: int,
) -> Any:
    """A ModelProto; equal dynamic dimensions have the same name."""
    names = {sizes: name for name, sizes in DYNAMIC.items()}

    def declared(value: Value) -> Any:
        shape = [dim[0] if static(dim) else names.setdefault(dim, f"d{len(names)}")
                 for dim in value.dims]  # fmt: skip
        return onnx.helper.make_tensor_value_info(value.name, _NUMBER[value.dtype], shape)

    read = {name for node in nodes for name in node.input}
    weights = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in constants.items()
        if name in read
    ]
    results = [onnx.helper.make_tensor_value_info(each.name, _NUMBER[each.dtype], None)
               for each in outputs]  # fmt: skip
    graph = onnx.helper.make_graph(list(nodes), "random", list(map(declared, inputs)), results,
                                   weights)  # fmt: skip
    imports = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
