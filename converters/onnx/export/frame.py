"""A statement of a formula while it is written out: its loops, and values over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from tvm_nnef.converters.common.inexpressible import Inexpressible
from tvm_nnef.converters.onnx.export.context import Context
from tvm_nnef.converters.onnx.export.emitter import Emitter
from tvm_nnef.graph.formula import Constant, ScalarType, Statement
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic import dimensions
from tvm_nnef.symbolic.dimensions import Dimension

_LARGEST = 1 << 24
"""More elements than this are not held at once for what the formula computes one by one."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A value over the loops of a statement: its dimensions are the last ``rank`` of them.

    It has size 1 along loops that are not in ``loops``, and may be broadcast along them.
    """

    name: str
    rank: int
    loops: frozenset[str]


def single(name: str) -> Spread:
    """A value of rank 0."""
    return Spread(name, 0, frozenset())


def over(name: str, operands: Sequence[Spread]) -> Spread:
    """A value that was made of others, element by element."""
    loops = frozenset[str]().union(*(each.loops for each in operands))
    return Spread(name, max(each.rank for each in operands), loops)


@dataclass(slots=True)
class Frame:
    """A statement that is being written out; ``made`` are the results before it."""

    statement: Statement
    dtypes: Mapping[ScalarType, str]
    emitter: Emitter
    context: Context
    made: Mapping[Tensor, str]
    locals: dict[str, Spread] = field(default_factory=dict)

    @property
    def order(self) -> list[str]:
        """The names of the loops, outermost first."""
        return [loop.index.name for loop in self.statement.loops]

    def extent(self, name: str) -> Dimension:
        """Return the number of steps of a loop."""
        scalar = next(x.extent for x in self.statement.loops if x.index.name == name)
        if not isinstance(scalar, Constant) or isinstance(scalar.value, float):
            raise Inexpressible("a loop of its formula runs as often as data or other loops say")
        return scalar.value

    def extents(self, names: Sequence[str]) -> list[Dimension]:
        """Return the numbers of steps of several loops."""
        return [self.extent(name) for name in names]

    def value(self, tensor: Tensor) -> str:
        """A tensor that the statement reads, in the dtype in which it computes."""
        if tensor in self.made:
            return self.made[tensor]
        return self.context.converted(self.emitter, tensor, self.dtypes[tensor.type])

    def node(self, operator: str, *operands: Spread) -> Spread:
        """An element-wise node; its operands are aligned from the right."""
        return over(self.emitter.node(operator, *(each.name for each in operands)), operands)

    def along(self, name: str, loops: Sequence[str]) -> Spread:
        """A value whose dimensions are loops, in any order, as one over the loops."""
        order = self.order
        present = [each for each in order if each in loops]
        value = self.emitter.permute(name, [loops.index(each) for each in present])
        if not present:
            return single(value)
        reach = order[order.index(present[0]) :]
        gaps = [axis for axis, each in enumerate(reach) if each not in present]
        return Spread(self.emitter.unsqueeze(value, gaps), len(reach), frozenset(present))

    def compact(self, value: Spread, loops: Sequence[str]) -> str:
        """A value with the given loops as its dimensions, stretched along them."""
        emitter, reach = self.emitter, self.order[len(self.order) - value.rank :]
        absent = [axis for axis, each in enumerate(reach) if each not in value.loops]
        present = [each for each in reach if each in value.loops]
        name = emitter.squeeze(value.name, absent)
        wanted = [each for each in loops if each in value.loops]
        name = emitter.permute(name, [present.index(each) for each in wanted])
        name = emitter.unsqueeze(name, [n for n, each in enumerate(loops) if each not in wanted])
        return name if len(wanted) == len(loops) else emitter.expand(name, self.extents(loops))

    def check_size(self, loops: Sequence[str], each: int = 1) -> None:
        """Refuses what would need a tensor with too many elements, symbols at their bounds.

        There are ``each`` elements for each step of the loops.
        """
        bounds = self.context.bounds
        count = each * prod(dimensions.limits(size, bounds)[1] for size in self.extents(loops))
        if count > _LARGEST:
            raise Inexpressible(f"its formula would need a tensor of {count} elements on the way")
