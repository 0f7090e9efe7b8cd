"""Defaults for sizes of inputs that neither the model nor the user specifies.

Input: declared and given shapes. Output: static shapes for all inputs. Commands that run a model
need some shape, and an example of the right size is easier to change than to invent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvm_nnef.converters.common.bounds import Bounds, bound_of_dimension
from tvm_nnef.converters.common.types import PartialSize, Type
from tvm_nnef.graph.size_estimates import BATCH, SAMPLES, estimate, word_of


class ChosenShapes(dict[str, "Sequence[int | str]"]):
    """The user's shapes of inputs, to which :meth:`complete` adds those of the other inputs.

    Attributes
    ----------
    chosen : dict
        The shapes that were added, by the name of the input.
    """

    def __init__(
        self,
        given: Mapping[str, Sequence[int | str]],
        in_order: Sequence[Sequence[int] | None] = (),
        other: int | None = None,
        lengths: Mapping[str, int] | None = None,
    ) -> None:
        """``in_order`` are shapes of inputs without a name in ``given``, in order, None if unknown.

        ``other`` is the size of dimensions that are not a batch, instead of what names suggest.
        :data:`SAMPLES` is that of the last one of tensors that are not images.
        ``lengths`` are numbers of elements of inputs, which lie along the last dimension.
        """
        super().__init__(given)
        self._in_order = in_order
        self._other = other
        self._lengths = {name: each for name, each in (lengths or {}).items() if each > 1}
        self.chosen: dict[str, tuple[int | str, ...]] = {}

    def complete(self, declared: Mapping[str, Type], bounds: Bounds = 0) -> None:
        """Add a shape for each input that has none, if its rank is known.

        Dimensions with a bound stay dynamic: their names are added.
        """
        rest = (name for name in declared if name not in self)
        for name, shape_in_order in zip(rest, self._in_order, strict=False):
            if shape_in_order is not None:
                self[name] = shape_in_order
        sizes = named_sizes(declared, self)
        alike: dict[int, tuple[int | str, ...]] = {}
        batch: int | str = BATCH
        for name, type_ in declared.items():
            if name in self or type_.shape is None or type_.static is not None:
                continue
            # Dimensions without a name are those of an earlier input of the same rank; else a
            # state, say, has the batch.
            like = alike.get(len(type_.shape), (batch,) * len(type_.shape) if alike else ())
            shape = self._completed(name, type_.shape, bounds, like, sizes)
            if name in self._lengths:
                shape = self._row(type_.shape, self._lengths[name])
            else:
                pairs = zip(type_.shape, shape, strict=True)
                if any(isinstance(made, int) and made != each for each, made in pairs):
                    self.chosen[name] = shape
            self[name] = shape
            if not alike and isinstance(shape[0], str) and _is_batch(shape[0], 0, len(shape)):
                batch = shape[0]
            alike.setdefault(len(shape), shape)
            sizes |= named_sizes({name: type_}, {name: shape})

    def _completed(
        self,
        name: str,
        shape: tuple[PartialSize, ...],
        bounds: Bounds,
        like: Sequence[int | str],
        known: Mapping[str, int],
    ) -> tuple[int | str, ...]:
        sizes: list[int | str] = []
        for axis, size in enumerate(shape):
            key = size if isinstance(size, str) else f"{name}_{axis}"
            if isinstance(size, int):
                sizes.append(size)
            elif bound_of_dimension(bounds, key, name, axis):
                sizes.append(key)
            elif isinstance(size, str):
                sizes.append(known.get(size) or self._size(size, axis, len(shape)))
            else:
                sizes.append(like[axis] if like else self._size("", axis, len(shape)))
        return tuple(sizes)

    def _row(self, shape: tuple[PartialSize, ...], length: int) -> tuple[int | str, ...]:
        """Return a shape with a number of elements: all of them in the last dynamic dimension.

        It is None if impossible.
        """
        dynamic = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
        fixed = math.prod(size for size in shape if isinstance(size, int))
        sizes = [size if isinstance(size, int) else BATCH for size in shape]
        sizes[dynamic[-1]] = max(length // max(fixed, 1), 1)
        return tuple(sizes)

    def _size(self, name: str, axis: int, rank: int) -> int:
        if _is_batch(name, axis, rank):
            return BATCH
        is_row = axis == rank - 1 and rank < 4
        other = self._other if is_row or self._other != SAMPLES else None
        return other or estimate(name)


def _is_batch(name: str, axis: int, rank: int) -> bool:
    return estimate(name) == BATCH or (axis == 0 and rank > 1 and word_of(name) is None)


def named_sizes(
    declared: Mapping[str, Type], shapes: Mapping[str, Sequence[int | str]]
) -> dict[str, int]:
    """Return the values of named dimensions that follow from the shapes given for some inputs."""
    return {
        name: size
        for key, known in declared.items()
        if key in shapes
        for name, size in zip(known.shape or (), shapes[key], strict=False)
        if isinstance(name, str) and isinstance(size, int)
    }
