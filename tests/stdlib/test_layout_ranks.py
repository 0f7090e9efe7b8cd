"""Module layout against NumPy at the edges: every rank and axis, sizes 0 and 1, every type."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(17)
SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3), (2, 1, 3), (2, 3, 1, 2), (2, 1, 3, 2, 2)]
EMPTY: list[tuple[int, ...]] = [(0,), (2, 0), (0, 3), (2, 0, 3), (1, 1, 0, 2), (0, 0, 1, 2, 0)]


def special(shape: tuple[int, ...]) -> Any:
    """Reals, infinities, zeros of both signs and numbers that are none."""
    values = np.array([1.5, -2.25, 0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    return RANDOM.choice(values, shape)


def whole(shape: tuple[int, ...]) -> Any:
    """Integers, the extreme ones among them."""
    limits = np.iinfo(np.int32)
    return RANDOM.choice(np.array([limits.min, limits.max, 0, -1, 7], np.int32), shape)


def truth(shape: tuple[int, ...]) -> Any:
    """Truth values."""
    return RANDOM.integers(0, 2, shape).astype(bool)


X = [special(shape) for shape in SHAPES]
Y = [special(shape) for shape in SHAPES]
NONE = [special(shape) for shape in EMPTY]
TYPES = [special((2, 1, 3)), whole((2, 1, 3)), truth((2, 1, 3))]
ALL = [*X, *NONE, *TYPES]

Case = tuple[str, dict[str, Any], list[Any], Any]


def axes_of(x: Any) -> list[int]:
    """Every axis, counted from both ends."""
    return list(range(-x.ndim, x.ndim))


def uniform() -> Iterator[Case]:
    for shape in [*SHAPES, *EMPTY]:
        yield "layout.constant", {"shape": list(shape), "value": 2.5}, [], np.full(shape, 2.5)
        value = list(range(int(np.prod(shape))))
        if value:
            yield (
                "layout.constant",
                {"shape": list(shape), "value": value},
                [],
                np.array(value, np.int32).reshape(shape),
            )
        for scalar in (special(()), whole(()), truth(())):
            expected = np.broadcast_to(scalar, shape)
            yield "layout.uniform", {"shape": list(shape)}, [scalar], expected
    for x in ALL:
        yield "layout.shape", {}, [x], np.array(x.shape, np.int32)
    infinite = [float("inf"), -float("inf"), -0.0, 1e-40]
    yield "layout.constant", {"shape": [4], "value": infinite}, [], np.array(infinite)
    # large enough to be computed
    yield "layout.constant", {"shape": [5000], "value": 3}, [], np.full(5000, 3)
    counted = list(range(5000))
    yield (
        "layout.constant",
        {"shape": [50, 100], "value": counted},
        [],
        np.arange(5000).reshape(50, 100),
    )


def ranges() -> Iterator[Case]:
    for first, last, stride in [(0, 0, 1), (3, 3, -1), (-4, 5, 3), (5, -4, -3), (2, 3, 7)]:
        attributes = {"first": first, "last": last, "stride": stride}
        yield "layout.range", attributes, [], np.arange(first, last, stride)
    for start, end, step in [(0.0, 0.0, 1.0), (1.0, -1.0, -0.5), (0.25, 1.0, 0.25)]:
        interval = {"first": start, "last": end, "stride": step}
        yield "layout.range", interval, [], np.arange(start, end, step)


def casts() -> Iterator[Case]:
    limits = np.iinfo(np.int32)
    reals = np.array(
        [0.0, -0.0, 0.99, -0.99, 2.5, -2.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 1e-40],
        np.float32,
    )
    truncated = [0, 0, 0, 0, 2, -2, limits.max, limits.min, limits.max, limits.min, 0, 0]
    integers = np.array([0, 1, -1, 16777217, limits.min, limits.max], np.int32)
    truths = np.array([True, False])
    yield "layout.cast<int>", {}, [reals], np.array(truncated, np.int32)
    yield "layout.cast<bool>", {}, [reals], reals != 0
    yield "layout.cast<real>", {}, [integers], integers.astype(np.float32)
    yield "layout.cast<bool>", {}, [integers], integers != 0
    yield "layout.cast<int>", {}, [truths], truths.astype(np.int32)
    yield "layout.cast<real>", {}, [truths], truths.astype(np.float32)
    for target, dtype in (("real", np.float32), ("int", np.int32), ("bool", np.bool_)):
        for x in (*map(truth, SHAPES), *NONE, *map(truth, EMPTY)):
            yield f"layout.cast<{target}>", {}, [x], x.astype(dtype)
    for x in ALL:
        kind = {"f": "real", "i": "int", "b": "bool"}[x.dtype.kind]
        yield f"layout.cast<{kind}>", {}, [x], x


def views() -> Iterator[Case]:
    for x in ALL:
        for axis in axes_of(x):
            start = axis % x.ndim
            for rank in range(x.ndim - start + 1):
                volume = int(np.prod(x.shape[start : start + rank]))
                merged = x.reshape(*x.shape[:start], volume, *x.shape[start + rank :])
                yield "layout.flatten", {"axis": axis, "rank": rank}, [x], merged
                if axis < 0 and volume > 0:
                    attributes = {"axis": axis, "rank": rank, "shape": [1, -1, 1]}
                    expected = x.reshape(*x.shape[:start], 1, volume, 1, *x.shape[start + rank :])
                    yield "layout.reshape", attributes, [x], expected
            extent = x.shape[start]
            shape = [1, extent, 1]
            expected = x.reshape(*x.shape[:start], *shape, *x.shape[start + 1 :])
            yield "layout.unflatten", {"axis": axis, "shape": shape}, [x], expected
            yield (
                "layout.reshape",
                {"axis": axis, "rank": 1, "shape": [extent, 1]},
                [x],
                x.reshape(*x.shape[: start + 1], 1, *x.shape[start + 1 :]),
            )
        singular = [axis for axis, extent in enumerate(x.shape) if extent == 1]
        for axes in (singular, [axis - x.ndim for axis in singular[::-1]], []):
            yield "layout.squeeze", {"axes": axes}, [x], np.squeeze(x, tuple(axes))
        for axes in ([0], [-1], [0, -1], [x.ndim + 1, 0], []):
            yield "layout.unsqueeze", {"axes": axes}, [x], np.expand_dims(x, tuple(axes))
    for x in NONE:
        yield "layout.reshape", {"shape": [0]}, [x], x.reshape(0)
        yield "layout.reshape", {"shape": [3, 0, 7]}, [x], x.reshape(3, 0, 7)


def joined() -> Iterator[Case]:
    for x in ALL:
        other = x.copy()
        for axis in axes_of(x):
            longer = np.concatenate([x, x], axis)
            pack = [x, longer, other]
            yield "layout.concat", {"axis": axis}, [pack], np.concatenate(pack, axis)
            yield "layout.concat", {"axis": axis}, [[longer]], longer
            yield "layout.stack", {"axis": axis}, [[x, other]], np.stack([x, x], axis % x.ndim)
            yield "layout.unstack", {"axis": axis}, [x], list(np.moveaxis(x, axis, 0))
            if x.shape[axis]:
                yield (
                    "layout.unstack",
                    {"axis": axis, "squeeze": False},
                    [x],
                    np.split(x, x.shape[axis], axis),
                )
            if x.shape[axis] == 1:
                attributes = {"axis": axis, "squeeze": True}
                expected = np.concatenate([x, other], axis)
                yield "layout.stack", attributes, [[x, other]], expected
        yield "layout.stack", {"axis": x.ndim}, [[x, other]], np.stack([x, other], x.ndim)
        yield "layout.stack", {"axis": 0}, [[x]], x[None]


def parted() -> Iterator[Case]:
    for x in ALL:
        for axis in axes_of(x):
            extent = x.shape[axis]
            if extent:
                parts = np.split(x, extent, axis)
                yield "layout.split", {"axis": axis, "count": extent}, [x], parts
            sizes = [0, extent // 2, extent - extent // 2, 0]
            expected = np.split(x, np.cumsum(sizes)[:-1], axis)
            yield "layout.split", {"axis": axis, "sizes": sizes}, [x], expected
            yield "layout.split", {"axis": axis, "count": 1}, [x], [x]
            yield "layout.split", {"axis": axis, "sizes": [extent]}, [x], [x]


def expanded() -> Iterator[Case]:
    for x in ALL:
        repeats = [axis % 3 + 1 for axis in range(x.ndim)]
        yield "layout.tile", {"repeats": repeats}, [x], np.tile(x, repeats)
        for axis in axes_of(x):
            counts = [1] * x.ndim
            counts[axis] = 2
            yield "layout.tile", {"axes": [axis], "repeats": [2]}, [x], np.tile(x, counts)
            extent = 4 if x.shape[axis] == 1 else x.shape[axis]
            if extent:
                shape = list(x.shape)
                shape[axis] = extent
                attributes = {"axes": [axis], "shape": [extent]}
                yield "layout.broadcast", attributes, [x], np.broadcast_to(x, shape)
        yield "layout.tile", {"axes": [], "repeats": []}, [x], x
        yield "layout.broadcast", {"axes": [], "shape": []}, [x], x


def sliced() -> Iterator[Case]:
    cuts = [(0, 1, 1), (0, 9, 1), (1, -1, 1), (-2, 9, 1), (0, 9, 2), (1, 9, 3), (-9, 0, -1)]
    for x in ALL:
        for axis in axes_of(x):
            for begin, end, stride in cuts:
                extent = x.shape[axis]
                first = begin + extent if begin < 0 else begin
                if stride > 0 and (first < 0 or first > extent):
                    continue
                part = [slice(None)] * x.ndim
                part[axis] = slice(begin, end, stride)
                if stride > 0 and end < 0 and end + extent < first:
                    continue
                if stride < 0:
                    # from the last element to the first
                    begin, end = -1, -extent - 1
                    part[axis] = slice(None, None, -1)
                attributes = {"axes": [axis], "begin": [begin], "end": [end], "stride": [stride]}
                yield "layout.slice", attributes, [x], x[tuple(part)]
        whole_of = {"begin": [0] * x.ndim, "end": list(x.shape), "stride": [2] * x.ndim}
        yield "layout.slice", whole_of, [x], x[(slice(None, None, 2),) * x.ndim]
        yield "layout.slice", {"axes": [], "begin": [], "end": []}, [x], x


MODES = {"REFLECT": "reflect", "REPLICATE": "edge", "SYMMETRIC": "symmetric"}


def padded() -> Iterator[Case]:
    for x in ALL:
        for widths in ([(0, 0)] * x.ndim, [(axis % 2, 1) for axis in range(x.ndim)]):
            padding = [before for before, _ in widths] + [after for _, after in widths]
            if not x.ndim:
                continue
            yield "layout.pad", {"padding": padding}, [x], np.pad(x, widths)
            value = np.array(5, x.dtype)
            yield (
                "layout.pad",
                {"padding": padding},
                [x, value],
                np.pad(x, widths, constant_values=value),
            )
        for method, mode in MODES.items():
            largest = {"REFLECT": [extent - 1 for extent in x.shape]}.get(method, x.shape)
            wide = [(max(extent, 0), max(extent // 2, 0)) for extent in largest]
            padding = [before for before, _ in wide] + [after for _, after in wide]
            expected = np.pad(x, wide, mode=mode) if x.ndim else x  # type: ignore[call-overload]
            yield "layout.pad", {"padding": padding, "method": method}, [x], expected
        for axis in axes_of(x):
            some = [(0, 0)] * x.ndim
            some[axis] = (2, 3)
            attributes: dict[str, Any] = {"axes": [axis], "padding": [2, 3]}
            yield "layout.pad", attributes, [x], np.pad(x, some)
            if x.shape[axis]:
                attributes = {**attributes, "method": "REPLICATE"}
                yield "layout.pad", attributes, [x], np.pad(x, some, mode="edge")


def permuted() -> Iterator[Case]:
    for x in ALL[1:]:
        yield "layout.transpose", {}, [x], x.T
        for axis in axes_of(x):
            start = axis % x.ndim
            front, rest = list(range(start)), list(range(start, x.ndim))
            yield "layout.transpose", {"axis": axis}, [x], x.transpose(front + rest[::-1])
            for order in itertools.islice(itertools.permutations(rest), 1, 6, 2):
                negative = [item - x.ndim for item in order]
                for perm in (list(order), negative):
                    attributes = {"axis": axis, "perm": perm}
                    yield "layout.transpose", attributes, [x], x.transpose(*front, *order)


def shuffled() -> Iterator[Case]:
    for x in ALL:
        for axis in axes_of(x):
            double = np.concatenate([x, x[::-1] if x.ndim else x], axis)
            extent = double.shape[axis]
            order = np.arange(extent).reshape(2, extent // 2).T.reshape(-1)
            expected = np.take(double, order, axis)
            yield "layout.shuffle", {"axis": axis, "groups": 2}, [double], expected
            yield "layout.shuffle", {"axis": axis, "groups": 1}, [x], x


INDEX_SHAPES: list[tuple[int, ...]] = [(), (1,), (4,), (2, 0), (2, 1, 2)]


def gathered() -> Iterator[Case]:
    for x in ALL:
        for axis in axes_of(x):
            for shape in INDEX_SHAPES:
                if x.shape[axis] or 0 in shape:
                    index = RANDOM.integers(0, max(x.shape[axis], 1), shape).astype(np.int32)
                    yield "layout.gather", {"axis": axis}, [x, index], np.take(x, index, axis)


def gathered_tuples() -> Iterator[Case]:
    for x in ALL:
        for batch in range(x.ndim + 1):
            for depth in range(x.ndim - batch + 1):
                inner = x.shape[batch : batch + depth]
                for middle in ((), (3,), (2, 1), (0,)):
                    if 0 in inner and 0 not in middle and 0 not in x.shape[:batch]:
                        continue
                    shape = (*x.shape[:batch], *middle, depth)
                    limits = np.maximum(np.array(inner, int), 1)
                    indices = RANDOM.integers(0, limits, shape).astype(np.int32)
                    result = np.zeros((*shape[:-1], *x.shape[batch + depth :]), x.dtype)
                    for position in np.ndindex(*shape[:-1]):
                        source = (*position[:batch], *indices[position])
                        result[position] = x[source]
                    yield "layout.gather_nd", {"batch_dims": batch}, [x, indices], result


def scattered() -> Iterator[Case]:
    for x in ALL:
        for axis in axes_of(x):
            for count in (0, 1, 5):
                if count and not x.shape[axis]:
                    continue
                shape = list(x.shape)
                shape[axis] = count
                indices = RANDOM.integers(0, max(x.shape[axis], 1), shape).astype(np.int32)
                updates = RANDOM.integers(0, 9, shape).astype(x.dtype)
                result = x.copy()
                for position in np.ndindex(*shape):
                    target = list(position)
                    target[axis] = indices[position]
                    result[tuple(target)] = updates[position]
                yield "layout.scatter", {"axis": axis}, [x, indices, updates], result


def scattered_slices() -> Iterator[Case]:
    for x in ALL:
        for batch in range(x.ndim + 1):
            for depth in range(x.ndim - batch + 1):
                inner = x.shape[batch : batch + depth]
                for middle in ((), (5,), (0,)):
                    if 0 in inner and 0 not in middle and 0 not in x.shape[:batch]:
                        continue
                    shape = (*x.shape[:batch], *middle, depth)
                    limits = np.maximum(np.array(inner, int), 1)
                    indices = RANDOM.integers(0, limits, shape).astype(np.int32)
                    extents = (*shape[:-1], *x.shape[batch + depth :])
                    updates = RANDOM.integers(0, 9, extents).astype(x.dtype)
                    result = x.copy()
                    for position in np.ndindex(*shape[:-1]):
                        target = (*position[:batch], *indices[position])
                        result[target] = updates[position]
                    operands = [x, indices, updates]
                    yield "layout.scatter_nd", {"batch_dims": batch}, operands, result


def nonzero() -> Iterator[Case]:
    for x in [*ALL, *map(whole, SHAPES), *map(truth, SHAPES)]:
        found = np.argwhere(x).T if x.ndim else np.zeros((0, int(bool(x))))
        yield "layout.nonzero", {}, [x], found.astype(np.int32)


FAMILIES: dict[str, list[Case]] = {
    family.__name__: list(family())
    for family in (
        uniform, ranges, casts, views, joined, parted, expanded, sliced, padded, permuted,
        shuffled, gathered, gathered_tuples, scattered, scattered_slices, nonzero,
    )
}  # fmt: skip

AT_ONCE = 160
"""So many cases are compiled as one graph."""


@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, agree: Any) -> None:
    """A part of the cases: the step is prime, so that it meets what recurs in turn."""
    cases = FAMILIES[family]
    agree(cases[:: 13 if len(cases) > AT_ONCE else 1])


@pytest.mark.slow
@pytest.mark.parametrize("family", [name for name in FAMILIES if len(FAMILIES[name]) > AT_ONCE])
def test_more_agree_with_numpy(family: str, agree: Any) -> None:
    cases = FAMILIES[family][1::3]
    for start in range(0, len(cases), AT_ONCE):
        agree(cases[start : start + AT_ONCE])
