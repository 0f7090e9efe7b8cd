"""Module layout against NumPy: blocks of every rank and format, the tools' operators, other types.

The judges of blocks take strided or contiguous parts of a tensor, one block after the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

RANDOM = np.random.default_rng(23)
TOOLS = "# dialect: tools\n"

Case = tuple[str, dict[str, Any], list[Any], Any]


def counted(*shape: int) -> Any:
    """Integers that identify every element's position."""
    return np.arange(math.prod(shape), dtype=np.int32).reshape(shape)


# spatial dimensions of the small tensor, and the blocks of the large one
BLOCKS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3,), (2,)),
    ((2, 3), (3, 2)),
    ((2, 1, 3), (1, 2, 2)),
    ((1, 1), (2, 3)),
    ((2, 3), (1, 1)),
    ((0, 2), (2, 3)),
    ((2, 2), (2, 2)),
]


ALL = (slice(None), slice(None))


def pixels(x: Any, block: Sequence[int]) -> list[Any]:
    """What each position in a block takes of the spatial dimensions, in row-major order."""
    starts = np.ndindex(*block)
    cuts = ([slice(n, None, b) for n, b in zip(start, block, strict=True)] for start in starts)
    return [x[ALL + tuple(cut)] for cut in cuts]


def parts(x: Any, small: Sequence[int], block: Sequence[int]) -> list[Any]:
    """The contiguous blocks of the draft's space_to_batch: ``block`` parts of ``small`` each."""
    starts = np.ndindex(*block)
    cuts = (
        [slice(n * s, n * s + s) for n, s in zip(start, small, strict=True)] for start in starts
    )
    return [x[ALL + tuple(cut)] for cut in cuts]


def last(x: Any) -> Any:
    """Channels moved to the end."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def large(small: Sequence[int], block: Sequence[int]) -> Any:
    return counted(2, 3, *(s * b for s, b in zip(small, block, strict=True)))


def batches() -> Iterator[Case]:
    for small, block in BLOCKS:
        x = large(small, block)
        y = np.concatenate(parts(x, small, block))
        yield "layout.space_to_batch", {"block_size": list(block)}, [x], y
        yield "layout.batch_to_space", {"block_size": list(block)}, [y], x


def depths(axis: int = 1, operators: Sequence[str] = ("space_to_depth", "depth_to_space")) -> Any:
    """Positions of blocks before, or after, the channels (or the batch, as the tools do)."""
    for (small, block), blocks_first in itertools.product(BLOCKS, (True, False)):
        x = large(small, block)
        y = np.stack(pixels(x, block), axis if blocks_first else axis + 1)
        extents = [2, 3, *small]
        extents[axis] *= math.prod(block)
        y = y.reshape(extents)
        attributes = {"block_size": list(block), "blocks_first": blocks_first}
        there, back = (f"layout.{operator}" for operator in operators)
        yield there, attributes, [x], y
        yield back, attributes, [y], x
        formats = {**attributes, "data_format": "NXC"}
        yield there, formats, [last(x)], last(y)
        yield back, formats, [last(y)], last(x)


@pytest.mark.slow
def test_blocks_agree_with_numpy(agree: Any) -> None:
    agree([*batches(), *depths()])


def of_the_tools() -> Iterator[Case]:
    yield from depths(0, ("space_to_batch", "batch_to_space"))
    for shape in ((), (3,), (2, 3), (0, 2), (1, 2, 1, 3)):
        x = counted(*shape)
        yield "layout.tensor", {"shape": list(shape), "value": 1.5}, [], np.full(shape, 1.5)
        if x.size:
            value = x.reshape(-1).tolist()
            yield "layout.tensor", {"shape": list(shape), "value": value}, [], x
        yield "layout.broadcast", {"shape": [1] * x.ndim}, [x], x
        stretched = [4 if extent == 1 else extent for extent in shape]
        if 0 not in shape:
            yield "layout.broadcast", {"shape": stretched}, [x], np.broadcast_to(x, stretched)
        for axis in range(-x.ndim, x.ndim):
            extent = x.shape[axis]
            for begin, end, stride in [(0, 9, 1), (0, 9, 2), (1, 2, 1), (extent - 1, -9, -1)]:
                if 0 <= begin < extent:
                    cut = slice(begin, end if stride > 0 else None, stride)
                    part = [slice(None)] * x.ndim
                    part[axis] = cut
                    attributes = {
                        "axes": [axis],
                        "begin": [begin],
                        "end": [end],
                        "stride": [stride],
                    }
                    yield "layout.slice", attributes, [x], x[tuple(part)]


@pytest.mark.slow
def test_operators_of_the_tools_agree_with_numpy(agree: Any) -> None:
    agree(list(of_the_tools()), head=TOOLS)


REAL = RANDOM.integers(-8, 9, (2, 3, 4)) / 4
WHOLE = RANDOM.integers(-100, 101, (2, 3, 4))
POSITIONS = np.array([[2, 0, 1], [1, 1, 2]], np.int32)

TYPES = [
    ("float16", "int64"),
    ("float64", "int8"),
    ("float32", "int16"),
    ("float32", "uint8"),
]


def moved() -> Iterator[Case]:
    for x in (REAL, WHOLE):
        value = np.array(7, x.dtype)
        yield "layout.concat", {"axis": 1}, [[x, x]], np.concatenate([x, x], 1)
        yield "layout.split", {"axis": 2, "sizes": [1, 3]}, [x], np.split(x, [1], 2)
        yield "layout.stack", {"axis": 0}, [[x, x]], np.stack([x, x])
        yield "layout.transpose", {}, [x], x.T
        yield "layout.reshape", {"shape": [4, 6]}, [x], x.reshape(4, 6)
        yield "layout.tile", {"repeats": [1, 2, 1]}, [x], np.tile(x, (1, 2, 1))
        yield "layout.slice", {"axes": [0], "begin": [1], "end": [2]}, [x], x[1:2]
        yield (
            "layout.pad",
            {"padding": [1, 0, 0, 0, 0, 1]},
            [x, value],
            np.pad(x, [(1, 0), (0, 0), (0, 1)], constant_values=7),
        )
        yield "layout.gather", {"axis": 1}, [x, POSITIONS], np.take(x, POSITIONS, 1)
        yield "layout.constant", {"shape": [2], "value": [1, 2]}, [], np.array([1, 2])
        yield "layout.shape", {}, [x], np.array([2, 3, 4])
        yield "layout.cast<real>", {}, [x], x.astype(np.float64)
        yield "layout.cast<bool>", {}, [x], x != 0
    yield "layout.cast<int>", {}, [np.array([1.75, 0.25, 99.5])], np.array([1, 0, 99])
    yield "layout.nonzero", {}, [REAL], np.argwhere(REAL).T


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("real", "int_"), TYPES)
def test_other_dtypes(real: str, int_: str, agree: Any) -> None:
    cases = list(moved())
    if int_ == "uint8":
        cases = [case for case in cases if not any(item is WHOLE for item in case[2])]
    agree(cases, dtypes={"real": real, "int": int_})
