"""Elements of tensors at positions from loops and data, all of them at once.

Dimensions whose positions have a loop in common are gathered together, each other one by itself; a
dimension that one loop goes through is there already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tvm_nnef.converters.onnx.export.frame import Frame, Spread, single
from tvm_nnef.graph.formula import Constant, Index, Scalar, Subscript
from tvm_nnef.graph.nodes import Tensor
from tvm_nnef.symbolic.dimensions import Dimension

Evaluate: TypeAlias = Callable[[Scalar, Frame], Spread]


@dataclass(frozen=True, slots=True)
class _Position:
    """The positions along a dimension of a tensor, and the loops that decide them."""

    axis: int
    index: Spread


def read(
    tensor: Tensor, subscripts: Sequence[Subscript], frame: Frame, evaluate: Evaluate
) -> Spread:
    """The elements that a statement reads of a tensor in its steps.

    Where a guard holds a step back, the element is any one of the tensor.
    """
    plain = _plain(tensor, subscripts, frame)
    positions = [
        _Position(axis, _position(subscript, tensor.shape[axis], frame, evaluate))
        for axis, subscript in enumerate(subscripts)
        if plain[axis] is None
    ]
    used = {loop for position in positions for loop in position.index.loops}
    doubled = {loop for loop in plain if loop is not None and loop in used}
    for axis, loop in enumerate(plain):
        if loop in doubled:
            positions.append(_Position(axis, _wide(evaluate(subscripts[axis].index, frame), frame)))
    labels: list[str | int] = [
        axis if loop is None or loop in doubled else loop for axis, loop in enumerate(plain)
    ]
    value = frame.value(tensor)
    for group in _groups(positions):
        value, labels = _gathered(value, labels, group, frame)
    loops = [str(each) for each in labels]
    if positions:
        frame.check_size(loops)
    return frame.along(value, loops)


def _plain(tensor: Tensor, subscripts: Sequence[Subscript], frame: Frame) -> list[str | None]:
    """The loop that goes through each dimension, None if another position is read."""
    found: list[str | None] = []
    for subscript, size in zip(subscripts, tensor.shape, strict=True):
        match subscript:
            case Subscript(Index(name), below=None) if name not in found and frame.context.same(
                frame.extent(name), size
            ):
                found.append(name)
            case _:
                found.append(None)
    return found


def _position(subscript: Subscript, length: Dimension, frame: Frame, evaluate: Evaluate) -> Spread:
    """A position within [0, size), remapped where the subscript says so, else clipped."""
    if subscript.index == Constant("int", 0):
        return single(frame.emitter.constant(0, "int64"))
    emitter, dtype = frame.emitter, frame.dtypes["int"]
    index = evaluate(subscript.index, frame)
    zero = single(emitter.constant(0, dtype))
    size = single(emitter.cast(emitter.dimension(length), "int64", dtype))
    last = frame.node("Sub", size, single(emitter.constant(1, dtype)))
    if subscript.below is not None and subscript.above is not None:
        below = evaluate(subscript.below, frame)
        above = evaluate(subscript.above, frame)
        high = frame.node("Where", frame.node("GreaterOrEqual", index, size), above, index)
        index = frame.node("Where", frame.node("Less", index, zero), below, high)
    return _wide(frame.node("Max", frame.node("Min", index, last), zero), frame)


def _wide(index: Spread, frame: Frame) -> Spread:
    name = frame.emitter.cast(index.name, frame.dtypes["int"], "int64")
    return Spread(name, index.rank, index.loops)


def _groups(positions: Sequence[_Position]) -> list[list[_Position]]:
    """Positions that share loops, together."""
    groups: list[list[_Position]] = []
    for position in positions:
        near = [g for g in groups if any(position.index.loops & each.index.loops for each in g)]
        groups = [group for group in groups if group not in near]
        groups.append([*(each for group in near for each in group), position])
    return groups


def _gathered(
    value: str, labels: Sequence[str | int], group: Sequence[_Position], frame: Frame
) -> tuple[str, list[str | int]]:
    """A value with dimensions of the tensor replaced by the loops that decide their positions."""
    emitter = frame.emitter
    decided = {loop for position in group for loop in position.index.loops}
    loops = [loop for loop in frame.order if loop in decided]
    taken = [labels.index(position.axis) for position in group]
    rest = [label for number, label in enumerate(labels) if number not in taken]
    if len(group) == 1:
        index = frame.compact(group[0].index, loops)
        made = emitter.node("Gather", value, index, axis=taken[0])
        return made, [*labels[: taken[0]], *loops, *labels[taken[0] + 1 :]]
    order = [*taken, *(number for number in range(len(labels)) if number not in taken)]
    indices = [
        emitter.unsqueeze(frame.compact(position.index, loops), [len(loops)]) for position in group
    ]
    index = emitter.node("Concat", *indices, axis=len(loops))
    frame.check_size(loops, len(group))
    made = emitter.node("GatherND", emitter.permute(value, order), index)
    return made, [*loops, *rest]
