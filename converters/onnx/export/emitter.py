"""Where export puts ONNX nodes: an Emitter for the graph, and one for each body inside it.

Operator names, inputs and attributes in, the names of new values out. What a node means, and
whether it is the right one, is the caller's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.common.names import UniqueNames
from tvm_nnef.converters.onnx.types import NUMBER_OF
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic import dimensions, trees
from tvm_nnef.symbolic.dimensions import Dimension
from tvm_nnef.symbolic.trees import Tree

Array: TypeAlias = "NDArray[np.generic]"
AttributeValue: TypeAlias = "int | float | str | Sequence[int] | onnx.GraphProto | None"

Memory: TypeAlias = "tuple[dict[Tensor, str], dict[str, tuple[str, int]], dict[str, str]]"

_ARITHMETIC: Mapping[str, str] = {"add": "Add", "sub": "Sub", "mul": "Mul", "floormod": "Mod"}
_MIN_MAX: Mapping[str, str] = {"min": "Min", "max": "Max"}
_CONDITIONS: Mapping[str, str] = {
    "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal",
    "and": "And", "or": "Or",
}  # fmt: skip
_FUNCTIONS: Mapping[str, str] = {**_ARITHMETIC, **_MIN_MAX, **_CONDITIONS}


@dataclass(slots=True)
class Shared:
    """State that all graphs of a model share: names, and constants as initializers.

    ``arrays`` are the elements of initializers that have none themselves.
    """

    names: UniqueNames = field(default_factory=UniqueNames)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    constants: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)


class Emitter:
    """Collects the nodes of one graph; ``values`` has the name of every tensor that it knows.

    An inner graph begins with what the outer one knows, and keeps its own to itself. ``bound`` has
    the values that are already some tensor's, ``updated`` the new values of variables; ``hint`` is
    the beginning of the names of new values.
    """

    def __init__(self, shared: Shared, outer: Emitter | None = None) -> None:
        self.shared = shared
        self.nodes: list[onnx.NodeProto] = []
        self.values: dict[Tensor, str] = {} if outer is None else dict(outer.values)
        self.updated: dict[Tensor, str] = {} if outer is None else dict(outer.updated)
        self.symbols: dict[str, tuple[str, int]] = {} if outer is None else dict(outer.symbols)
        self._sizes: dict[str, str] = {} if outer is None else dict(outer._sizes)
        self.bound: set[str] = set()
        self.hint: str = "value" if outer is None else outer.hint

    def node(self, operator: str, *inputs: str, **attributes: AttributeValue) -> str:
        """The only output of a new node; attributes that are None are left out."""
        return self.nodes_of(operator, inputs, 1, **attributes)[0]

    def nodes_of(
        self, operator: str, inputs: Sequence[str], count: int, **attributes: AttributeValue
    ) -> list[str]:
        """The outputs of a new node that has several."""
        outputs = [self.shared.names.name(f"{self.hint}/{operator}") for _ in range(count)]
        self.nodes.append(onnx.helper.make_node(operator, inputs, outputs, **attributes))
        return outputs

    def constant(self, value: ArrayLike, dtype: str, name: str = "constant") -> str:
        """An initializer; equal ones are one."""
        array: Array = np.asarray(value).astype(np.dtype(dtype))
        key = (dtype, array.shape, array.tobytes())
        if key not in self.shared.constants:
            given = self.shared.names.name(name)
            self.shared.initializers[given] = onnx.numpy_helper.from_array(array, given)
            self.shared.constants[key] = given
        return self.shared.constants[key]

    def integers(self, values: Sequence[int]) -> str:
        """A constant vector of int64, as axes, shapes and the like are given."""
        return self.constant(np.array(values, np.int64), "int64", "integers")

    def cast(self, name: str, source: str, target: str) -> str:
        """A value of one dtype in another."""
        if source == target:
            return name
        # What is too large becomes infinite or NaN, as in the model.
        saturate = 0 if target.startswith("float8") else None
        return self.node("Cast", name, to=NUMBER_OF[target], saturate=saturate)

    def permute(self, name: str, order: Sequence[int]) -> str:
        """The dimensions in another order."""
        if list(order) == list(range(len(order))):
            return name
        return self.node("Transpose", name, perm=list(order))

    def reshape(self, name: str, before: Sequence[Dimension], after: Sequence[Dimension]) -> str:
        """The elements of a value of shape ``before`` in row-major order in shape ``after``."""
        same = len(before) == len(after)
        if same and all(dimensions.equal(*pair) for pair in zip(before, after, strict=True)):
            return name
        static = [size for size in after if isinstance(size, int)]
        if len(static) == len(after) - 1 and 0 not in static:
            inferred = [size if isinstance(size, int) else -1 for size in after]
            return self.node("Reshape", name, self.integers(inferred))
        zero = 1 if 0 in static or len(static) < len(after) else None
        return self.node("Reshape", name, self.shape(after), allowzero=zero)

    def unsqueeze(self, name: str, axes: Sequence[int]) -> str:
        """Dimensions of size 1 put in, at positions that count in the result."""
        return self.node("Unsqueeze", name, self.integers(axes)) if axes else name

    def squeeze(self, name: str, axes: Sequence[int]) -> str:
        """Dimensions of size 1 taken away."""
        return self.node("Squeeze", name, self.integers(axes)) if axes else name

    def slice(
        self, name: str, axes: Sequence[int], begins: Sequence[int], ends: Sequence[int]
    ) -> str:
        """The elements between positions that count as ONNX's do."""
        given = (self.integers(begins), self.integers(ends), self.integers(axes))
        return self.node("Slice", name, *given)

    def pad(self, name: str, before: Sequence[int], after: Sequence[int], value: str) -> str:
        """A constant around a value; counts are for all dimensions.

        With axes given, ONNX Runtime leaves the node alone: it would move the padding into a
        pooling that follows, where it may be too wide.
        """
        axes = [axis for axis, pair in enumerate(zip(before, after, strict=True)) if any(pair)]
        counts = [counts[axis] for counts in (before, after) for axis in axes]
        return self.node("Pad", name, self.integers(counts), value, self.integers(axes))

    def expand(self, name: str, shape: Sequence[Dimension]) -> str:
        """A value broadcast to a shape."""
        return self.node("Expand", name, self.shape(shape))

    def shape(self, shape: Sequence[Dimension]) -> str:
        """Dimensions as a vector of int64: a constant, or computed from the shapes of values."""
        if all(isinstance(size, int) for size in shape):
            return self.constant(np.array(shape, np.int64), "int64", "shape")
        parts = [self.unsqueeze(self.dimension(size), [0]) for size in shape]
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def dimension(self, size: Dimension) -> str:
        """A dimension as an int64 of rank 0."""
        return self._tree(trees.tree(size))

    def rename(self, old: str, new: str, start: int) -> None:
        """Gives a value of the nodes from number ``start`` on another name."""
        for node in self.nodes[start:]:
            for names in (node.input, node.output):
                for position, name in enumerate(names):
                    if name == old:
                        names[position] = new

    def memory(self) -> Memory:
        """Return the current state, for :meth:`recall`."""
        return dict(self.values), dict(self.symbols), dict(self._sizes)

    def recall(self, memory: Memory) -> None:
        """Knows what was known then, and nothing else."""
        self.values, self.symbols, self._sizes = memory

    def makes(self, name: str, start: int = 0) -> bool:
        """Whether a node from number ``start`` on makes a value."""
        return any(name in node.output for node in self.nodes[start:])

    def emitted(self, operator: str, start: int) -> bool:
        """Whether there is an operator among the nodes from number ``start`` on."""
        return any(node.op_type == operator for node in self.nodes[start:])

    def define(self, name: str, shape: Sequence[Dimension]) -> None:
        """Records the shape of a value; the symbols in it can be read off the value."""
        for axis, size in enumerate(shape):
            tree = trees.tree(size)
            if isinstance(tree, str):
                self.symbols.setdefault(tree, (name, axis))

    def _tree(self, tree: Tree) -> str:
        if isinstance(tree, (bool, int)):
            return self.constant(tree, "bool" if isinstance(tree, bool) else "int64", "size")
        key = repr(tree)
        if key not in self._sizes:
            self._sizes[key] = self._computed(tree)
        return self._sizes[key]

    def _computed(self, tree: Tree) -> str:
        match tree:
            case str() as symbol if symbol in self.symbols:
                name, axis = self.symbols[symbol]
                whole = self.node("Shape", name, start=axis, end=axis + 1)
                return self.squeeze(whole, [0])
            case ["not", operand]:
                return self.node("Not", self._tree(operand))
            case ["select", *parts]:
                return self.node("Where", *map(self._tree, parts))
            case ["floordiv", left, right]:
                # ONNX's quotient is truncated; that of a multiple is exact
                first, second = self._tree(left), self._tree(right)
                rest = self.node("Mod", first, second)
                return self.node("Div", self.node("Sub", first, rest), second)
            case ["ne", left, right]:
                return self.node("Not", self._tree(["eq", left, right]))
            case [str() as function, left, right] if function in _FUNCTIONS:
                return self.node(_FUNCTIONS[function], self._tree(left), self._tree(right))
        raise Inexpressible(f"the dimension {trees.text(tree)} cannot be computed from shapes")
