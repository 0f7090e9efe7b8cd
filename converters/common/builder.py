"""Where operator functions put what they make of a node: steps, in order, and their tensors.

Tensors and numbers in, a new tensor of known dtype and shape out each call. Nothing is named
here, and no text is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from tvm_nnef.converters.common.steps import results
from tvm_nnef.converters.common.symbolic import (
    Shape,
    Size,
    Symbolic,
    array,
    largest,
    may_stretch,
    product,
)
from tvm_nnef.converters.common.tensors import Argument, Attribute, Call, Result, Step, Tensor
from tvm_nnef.converters.common.types import Array, broadcast, kind
from tvm_nnef.converters.common.unconvertible import Invalid, Unconvertible

Attributes: TypeAlias = "Mapping[str, Attribute | None]"
MAX_STEPS = 1 << 15
"""Operations that a graph may become; loops that are written out can be of any length."""


class Builder:
    """Collects the steps of one graph, branch or loop body.

    ``numbers`` make data-dependent dimensions distinct; bodies share those of the outer graph. In a
    format that ``stretches``, one of two dynamic dimensions that broadcast may be 1 in a call. What
    was stretched is remembered, as a mask is in every layer.
    """

    def __init__(self, outer: Builder | None = None, *, stretches: bool = False) -> None:
        self.steps: list[Step] = []
        self._stretches: bool = stretches if outer is None else outer._stretches
        self.numbers: Iterator[int] = itertools.count() if outer is None else outer.numbers
        self._stretched: dict[tuple[Tensor, tuple[str, ...]], Tensor] = {}

    def call(
        self,
        operator: str,
        *arguments: Argument,
        as_type: str | None = None,
        as_shape: Sequence[Size] | None = None,
        generics: Sequence[str] = (),
        more: Attributes | None = None,
        **attributes: Attribute | None,
    ) -> Tensor:
        """The single result of an operator; by default of the first tensor's dtype and shape.

        ``generics`` are the types to write out. Attributes, those of ``more`` included, that are
        None are left out.
        """
        like = next((each for each in arguments if isinstance(each, Tensor)), None)
        dtype = as_type if like is None else as_type or like.dtype
        shape = like.shape if as_shape is None and like is not None else as_shape
        assert dtype is not None and shape is not None, operator
        result = Tensor(dtype, tuple(shape))
        self.add(operator, arguments, (result,), generics, more, **attributes)
        return result

    def add(
        self,
        operator: str,
        arguments: Sequence[Argument],
        results: Sequence[Result],
        generics: Sequence[str] = (),
        more: Attributes | None = None,
        **attributes: Attribute | None,
    ) -> None:
        """An operator with any results."""
        if len(self.steps) >= MAX_STEPS:
            reason = f"it becomes more than {MAX_STEPS} operations with those before it"
            raise Unconvertible(reason, "use smaller dimensions, or fewer steps")
        every = {**attributes, **(more or {})}
        given = {name: value for name, value in every.items() if value is not None}
        read = tuple(map(self._computed, arguments))
        self.steps.append(Call(operator, tuple(generics), given, read, tuple(results)))

    def _computed(self, argument: Argument) -> Argument:
        match argument:
            case Tensor():
                return self.computed(argument)
            case tuple() | list():
                return tuple(map(self.computed, argument))
        return argument

    def computed(self, argument: Tensor) -> Tensor:
        """A tensor as a run has it, where only its dimensions are known; any other one as it is."""
        if argument.sizes is None:
            return argument
        result = Tensor(argument.dtype, argument.shape, argument.source)
        given: dict[str, Attribute] = {
            "shape": list(argument.shape),
            "value": list(argument.sizes.reshape(-1)),
        }
        self.steps.append(Call("layout.constant", (), given, (), (result,)))
        return result

    def dimension(self, size: Size) -> Tensor:
        """A dimension as a tensor of rank 0."""
        if isinstance(size, int):
            return self.constant(size, "int64")
        return self.computed(Tensor("int64", (), sizes=array([size]).reshape(())))

    def constant(self, value: object, dtype: str | None = None, source: str = "") -> Tensor:
        """A tensor of known value."""
        array = np.asarray(value, None if dtype is None else np.dtype(dtype))
        return Tensor(str(array.dtype), array.shape, source, array)

    def _changed(self, original: Tensor, value: Array) -> Tensor:
        """A constant that was made of another, and is called like it."""
        result = self.constant(value)
        result.hint = original.source or original.hint
        return result

    def binary(
        self,
        operator: str,
        left: Argument,
        right: Argument,
        as_type: str | None = None,
        **attributes: Attribute | None,
    ) -> Tensor:
        """An operator of two arguments that broadcast, aligned from the right."""
        (left, right), shape = self.broadcastable(left, right)
        return self.call(operator, left, right, as_type=as_type, as_shape=shape, more=attributes)

    def select(self, condition: Tensor, then: Argument, otherwise: Argument) -> Tensor:
        """``then`` where the condition holds, else ``otherwise``."""
        dtype = next(each.dtype for each in (then, otherwise) if isinstance(each, Tensor))
        operands, shape = self.broadcastable(condition, then, otherwise)
        return self.call("math.select", *operands, as_type=dtype, as_shape=shape)

    def broadcastable(self, *operands: Argument) -> tuple[list[Argument], Shape]:
        """Operands that broadcast as SkriptND defines it, and the shape of the result.

        There only a static dimension is stretched; one that may be 1 in a call is stretched before,
        if the format has that.
        """
        shape = self.broadcast(*(each.shape for each in operands if isinstance(each, Tensor)))
        return [
            self.stretched(each, shape) if isinstance(each, Tensor) else each for each in operands
        ], shape

    def broadcast(self, *shapes: Sequence[Size]) -> Shape:
        """The shape that several broadcast to, aligned from the right; ValueError if none."""
        return broadcast(*shapes, stretched=self._stretches)

    def stretched(self, x: Tensor, shape: Shape) -> Tensor:
        """The tensor with its dynamic dimensions that are 1 as large as those of a shape.

        One that is at most 1 always is. Whether others are 1 is known in a run.
        """
        wanted = shape[len(shape) - x.rank :]
        x = self.expand(x, _replaced(x.shape, wanted, lambda own, _: largest(own) <= 1))
        if not self._stretches:
            return x
        found = _replaced(x.shape, wanted, may_stretch)
        if found == x.shape:
            return x
        key = (x, tuple(map(str, found)))
        if key not in self._stretched:
            self._stretched[key] = self.call("extra.stretch", x, as_shape=found, shape=found)
        return self._stretched[key]

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """The elements in another dtype; real to int drops the fraction."""
        if x.dtype == dtype:
            return x
        if x.value is not None and x.size <= 1 and x.kind == kind(dtype):
            return self.constant(x.value, dtype)
        return self.call("layout.cast", x, as_type=dtype, generics=(kind(dtype),))

    def reshape(self, x: Tensor, shape: Sequence[Size]) -> Tensor:
        """The elements in row-major order in another shape, none of whose dimensions is -1."""
        wanted = tuple(shape)
        if x.shape == wanted:
            return x
        if x.value is not None and _known(wanted):
            return self._changed(x, x.value.reshape(wanted))
        if _known(x.shape) and _known(wanted) and product(x.shape) != product(wanted):
            reason = f"{list(x.shape)} cannot be reshaped to {list(wanted)}"
            raise Invalid(reason, "correct the model, or its input shapes", mismatch=True)
        if not wanted:
            return self.call("layout.squeeze", x, as_shape=(), axes=list(range(x.rank)))
        if not x.rank:
            return self.call("layout.unsqueeze", x, as_shape=wanted, axes=list(range(len(wanted))))
        return self.call("layout.reshape", x, as_shape=wanted, shape=wanted)

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """The dimensions in another order."""
        if list(order) == list(range(x.rank)):
            return x
        if x.value is not None:
            return self._changed(x, np.transpose(x.value, order))
        shape = [x.shape[axis] for axis in order]
        return self.call("layout.transpose", x, as_shape=shape, perm=list(order))

    def unsqueeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Dimensions of size 1 put in, at positions that count in the result."""
        rank = x.rank + len(axes)
        positions = sorted(axis % rank for axis in axes)
        sizes = iter(x.shape)
        shape = [1 if axis in positions else next(sizes) for axis in range(rank)]
        if x.value is not None:
            return self._changed(x, x.value.reshape(shape))
        return self.call("layout.unsqueeze", x, as_shape=shape, axes=positions) if positions else x

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Dimensions of size 1 taken away."""
        positions = sorted(axis % x.rank for axis in axes)
        shape = [size for axis, size in enumerate(x.shape) if axis not in positions]
        if x.value is not None:
            return self._changed(x, x.value.reshape(shape))
        return self.call("layout.squeeze", x, as_shape=shape, axes=positions) if positions else x

    def expand(self, x: Tensor, shape: Sequence[Size]) -> Tensor:
        """Dimensions of size 1 stretched, new ones put in front."""
        wanted = tuple(shape)
        return (
            x if x.shape == wanted else self.call("extra.expand", x, as_shape=wanted, shape=wanted)
        )

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Tensors concatenated along a dimension; empty ones are left out."""
        axis %= parts[0].rank
        size = sum(part.shape[axis] for part in parts)
        shape = (*parts[0].shape[:axis], size, *parts[0].shape[axis + 1 :])
        kept = [part for part in parts if part.shape[axis]] or list(parts[:1])
        if len(kept) == 1:
            return kept[0]
        first = kept[0]
        return self.call(
            "layout.concat", tuple(kept), as_type=first.dtype, as_shape=shape, axis=axis
        )

    def slice(self, x: Tensor, axis: int, begin: Size, end: Size, stride: int = 1) -> Tensor:
        """Every ``stride``-th element from ``begin`` on, ``end`` left out; both in range."""
        axis %= x.rank
        if isinstance(begin, int) and isinstance(end, int):
            count: Size = max(0, -((begin - end) // stride))
        else:
            count = end - begin if stride == 1 else -((begin - end) // stride)
        if stride == 1 and begin == 0 and count == x.shape[axis]:
            return x
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        if x.value is not None and _known((begin, count)):
            positions = [int(begin) + stride * position for position in range(int(count))]
            return self._changed(x, np.take(x.value, positions, axis))
        if stride < 0 and end == -1:
            end -= x.shape[axis]
        return self.call(
            "layout.slice", x, as_shape=shape,
            axes=[axis], begin=[begin], end=[end], stride=None if stride == 1 else [stride],
        )  # fmt: skip

    def one_slice(self, x: Tensor, axis: int, position: Size) -> Tensor:
        """The first element (0) or the last one (-1) along a dynamic dimension, which has one."""
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return self.call("extra.one_slice", x, as_shape=shape, axis=axis, position=position)

    def full(self, value: Argument, shape: Shape, dtype: str) -> Tensor:
        """A tensor of equal elements."""
        scalar = value if isinstance(value, Tensor) else self.constant(value, dtype)
        return self.call("layout.uniform", scalar, as_type=dtype, as_shape=shape, shape=shape)

    def outputs(self, tensors: Sequence[Tensor], names: Sequence[str]) -> list[Tensor]:
        """Tensors under the names of outputs: copies of those that no step makes, or used twice."""
        found: list[Tensor] = []
        made = {id(each) for step in self.steps for each in results(step)}
        for tensor, name in zip(tensors, names, strict=True):
            if id(tensor) not in made or tensor in found or tensor.value is not None:
                texts = tensor.texts
                tensor = self.call("math.iden", tensor)
                tensor.texts = texts
            tensor.source = name
            found.append(tensor)
        return found


def _replaced(shape: Shape, others: Shape, where: Callable[[Size, Size], bool]) -> Shape:
    """A shape with other dimensions instead of the dynamic ones for which something holds."""
    pairs = zip(shape, others, strict=True)
    return tuple(b if isinstance(a, Symbolic) and where(a, b) else a for a, b in pairs)


def _known(sizes: Sequence[Size]) -> bool:
    return all(isinstance(each, int) for each in sizes)
