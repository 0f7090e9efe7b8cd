"""The builder that collects the steps into which operator functions convert a node.

Input of each call: tensors and numbers. Output: a new tensor of known dtype and shape. Names are
assigned and text is written elsewhere.
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
"""Upper limit of the steps of a graph; unrolled loops can be of any length."""


class Builder:
    """A builder of the steps of one graph, branch or loop body.

    ``numbers`` distinguish data-dependent dimensions; bodies share those of the outer graph. In a
    format that ``stretches``, one of two dynamic dimensions that broadcast may be 1 in a call.
    Stretched tensors are cached, as a mask is used in every layer.
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
        """Call an operator.

        Return its single result, by default of the first tensor's dtype and shape.

        ``generics`` are the types to write explicitly. Attributes that are None are omitted, also
        those of ``more``.
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
        """Append an invocation of an operator with any results."""
        if len(self.steps) >= MAX_STEPS:
            reason = f"it becomes more than {MAX_STEPS} operations with those before it"
            raise Unconvertible(reason, "use smaller dimensions, or fewer steps")
        every = {**attributes, **(more or {})}
        present = {name: value for name, value in every.items() if value is not None}
        read = tuple(map(self._computed, arguments))
        self.steps.append(Call(operator, tuple(generics), present, read, tuple(results)))

    def _computed(self, argument: Argument) -> Argument:
        match argument:
            case Tensor():
                return self.computed(argument)
            case tuple() | list():
                return tuple(map(self.computed, argument))
        return argument

    def computed(self, argument: Tensor) -> Tensor:
        """Return a tensor with its elements computed from dimensions at run time; other tensors as
        they are.
        """
        if argument.sizes is None:
            return argument
        result = Tensor(argument.dtype, argument.shape, argument.source)
        attributes: dict[str, Attribute] = {
            "shape": list(argument.shape),
            "value": list(argument.sizes.reshape(-1)),
        }
        self.steps.append(Call("layout.constant", (), attributes, (), (result,)))
        return result

    def dimension(self, size: Size) -> Tensor:
        """Return a dimension as a tensor of rank 0."""
        if isinstance(size, int):
            return self.constant(size, "int64")
        return self.computed(Tensor("int64", (), sizes=array([size]).reshape(())))

    def constant(self, value: object, dtype: str | None = None, source: str = "") -> Tensor:
        """Return a tensor of known value."""
        array = np.asarray(value, None if dtype is None else np.dtype(dtype))
        return Tensor(str(array.dtype), array.shape, source, array)

    def _changed(self, original: Tensor, value: Array) -> Tensor:
        """Return a constant that is derived from another, and keeps its name."""
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
        """Call an operator of two arguments that broadcast, aligned from the right."""
        (left, right), shape = self.broadcastable(left, right)
        return self.call(operator, left, right, as_type=as_type, as_shape=shape, more=attributes)

    def select(self, condition: Tensor, then: Argument, otherwise: Argument) -> Tensor:
        """Return ``then`` where the condition holds, else ``otherwise``."""
        dtype = next(each.dtype for each in (then, otherwise) if isinstance(each, Tensor))
        operands, shape = self.broadcastable(condition, then, otherwise)
        return self.call("math.select", *operands, as_type=dtype, as_shape=shape)

    def broadcastable(self, *operands: Argument) -> tuple[list[Argument], Shape]:
        """Return operands that broadcast as SkriptND defines it, and the shape of the result.

        SkriptND stretches static dimensions only; a dynamic one that may be 1 in a call is
        stretched before, if the format demands that.
        """
        shape = self.broadcast(*(each.shape for each in operands if isinstance(each, Tensor)))
        return [
            self.stretched(each, shape) if isinstance(each, Tensor) else each for each in operands
        ], shape

    def broadcast(self, *shapes: Sequence[Size]) -> Shape:
        """Return the shape to which shapes broadcast, aligned from the right.

        Raises ValueError if none.
        """
        return broadcast(*shapes, stretched=self._stretches)

    def stretched(self, x: Tensor, shape: Shape) -> Tensor:
        """Return the tensor with its dynamic dimensions of size 1 stretched to a shape.

        Dimensions with an upper bound of 1 are always stretched; whether others are 1 is known at
        run time.
        """
        wanted = shape[len(shape) - x.rank :]
        x = self.expand(x, _replaced(x.shape, wanted, lambda own, _: largest(own) <= 1))
        if not self._stretches:
            return x
        target = _replaced(x.shape, wanted, may_stretch)
        if target == x.shape:
            return x
        key = (x, tuple(map(str, target)))
        if key not in self._stretched:
            self._stretched[key] = self.call("extra.stretch", x, as_shape=target, shape=target)
        return self._stretched[key]

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        """Return the elements in another dtype; real to int drops the fraction."""
        if x.dtype == dtype:
            return x
        if x.value is not None and x.size <= 1 and x.kind == kind(dtype):
            return self.constant(x.value, dtype)
        return self.call("layout.cast", x, as_type=dtype, generics=(kind(dtype),))

    def reshape(self, x: Tensor, shape: Sequence[Size]) -> Tensor:
        """Return the elements in row-major order in another shape, none of whose dimensions is
        -1.
        """
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
        """Return the tensor with its dimensions in another order."""
        if list(order) == list(range(x.rank)):
            return x
        if x.value is not None:
            return self._changed(x, np.transpose(x.value, order))
        shape = [x.shape[axis] for axis in order]
        return self.call("layout.transpose", x, as_shape=shape, perm=list(order))

    def unsqueeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return the tensor with inserted dimensions of size 1, at positions that count in the
        result.
        """
        rank = x.rank + len(axes)
        positions = sorted(axis % rank for axis in axes)
        sizes = iter(x.shape)
        shape = [1 if axis in positions else next(sizes) for axis in range(rank)]
        if x.value is not None:
            return self._changed(x, x.value.reshape(shape))
        return self.call("layout.unsqueeze", x, as_shape=shape, axes=positions) if positions else x

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return the tensor without some dimensions of size 1."""
        positions = sorted(axis % x.rank for axis in axes)
        shape = [size for axis, size in enumerate(x.shape) if axis not in positions]
        if x.value is not None:
            return self._changed(x, x.value.reshape(shape))
        return self.call("layout.squeeze", x, as_shape=shape, axes=positions) if positions else x

    def expand(self, x: Tensor, shape: Sequence[Size]) -> Tensor:
        """Return the tensor with dimensions of size 1 stretched, and missing leading ones added."""
        wanted = tuple(shape)
        return (
            x if x.shape == wanted else self.call("extra.expand", x, as_shape=wanted, shape=wanted)
        )

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Concatenate tensors along a dimension; empty ones are omitted."""
        axis %= parts[0].rank
        size = sum(part.shape[axis] for part in parts)
        shape = (*parts[0].shape[:axis], size, *parts[0].shape[axis + 1 :])
        nonempty = [part for part in parts if part.shape[axis]] or list(parts[:1])
        if len(nonempty) == 1:
            return nonempty[0]
        first = nonempty[0]
        return self.call(
            "layout.concat", tuple(nonempty), as_type=first.dtype, as_shape=shape, axis=axis
        )

    def slice(self, x: Tensor, axis: int, begin: Size, end: Size, stride: int = 1) -> Tensor:
        """Return every ``stride``-th element from ``begin`` up to ``end``, excluded; both in
        range.
        """
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
        """Return the first element (0) or the last one (-1) along a dynamic dimension, which has
        one.
        """
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return self.call("extra.one_slice", x, as_shape=shape, axis=axis, position=position)

    def full(self, value: Argument, shape: Shape, dtype: str) -> Tensor:
        """Return a tensor of equal elements."""
        scalar = value if isinstance(value, Tensor) else self.constant(value, dtype)
        return self.call("layout.uniform", scalar, as_type=dtype, as_shape=shape, shape=shape)

    def outputs(self, tensors: Sequence[Tensor], names: Sequence[str]) -> list[Tensor]:
        """Return tensors under the names of outputs; copy those without a step, or used twice."""
        named_tensors: list[Tensor] = []
        computed = {id(each) for step in self.steps for each in results(step)}
        for tensor, name in zip(tensors, names, strict=True):
            if id(tensor) not in computed or tensor in named_tensors or tensor.value is not None:
                texts = tensor.texts
                tensor = self.call("math.iden", tensor)
                tensor.texts = texts
            tensor.source = name
            named_tensors.append(tensor)
        return named_tensors


def _replaced(shape: Shape, others: Shape, where: Callable[[Size, Size], bool]) -> Shape:
    """Return a shape with its dynamic dimensions replaced by others if ``where`` holds for them."""
    pairs = zip(shape, others, strict=True)
    return tuple(b if isinstance(a, Symbolic) and where(a, b) else a for a, b in pairs)


def _known(sizes: Sequence[Size]) -> bool:
    return all(isinstance(each, int) for each in sizes)
