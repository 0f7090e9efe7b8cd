"""Module layout against NumPy: creating, viewing, joining, cutting, reordering, indexing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

RANDOM = np.random.default_rng(3)


def real(*shape: int) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def counted(*shape: int) -> Any:
    """Integers that identify every element's position."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


S = np.array(1.5, np.float32)
X = counted(2, 3, 4)
Y = counted(2, 1, 3, 1)
T = np.array([[True, False, True], [False, False, True]])

CREATION = {
    "constants": (
        {},
        [
            ("layout.constant{shape=[2, 3], value=1.5}()", np.full((2, 3), 1.5)),
            ("layout.constant{shape=[2, 3], value=[1, 2, 3, 4, 5, 6]}()", counted(2, 3) + 1),
            (
                "layout.constant{shape=[2, 2, 2], value=[0, 1, 2, 3, 4, 5, 6, 7]}()",
                counted(2, 2, 2),
            ),
            ("layout.constant{shape=[3], value=[true, false, true]}()", T[0]),
            ("layout.constant{shape=[], value=7}()", np.array(7)),
            ("layout.constant{shape=[1], value=[2.5]}()", np.array([2.5])),
            ("layout.constant{shape=[2], value=[4, 4]}()", np.array([4, 4])),
            ("layout.range{first=0, last=5}()", np.arange(5)),
            ("layout.range{first=1, last=8, stride=3}()", np.array([1, 4, 7])),
            ("layout.range{first=5, last=0, stride=-2}()", np.array([5, 3, 1])),
            ("layout.range{first=0.5, last=2.0, stride=0.5}()", np.array([0.5, 1.0, 1.5])),
            ("layout.range{first=-1.0, last=0.3, stride=0.5}()", np.array([-1.0, -0.5, 0.0])),
        ],
    ),
    "values and shapes": (
        {"s": S, "x": X, "v": real(5)},
        [
            ("layout.uniform{shape=[2, 3]}(s)", np.full((2, 3), 1.5)),
            ("layout.uniform{shape=[]}(s)", S),
            ("layout.uniform{shape=[2]}(3)", np.array([3, 3])),
            ("layout.shape(x)", np.array([2, 3, 4])),
            ("layout.shape(v)", np.array([5])),
            ("layout.shape(s)", np.zeros(0, np.int32)),
            ("layout.constant{shape=[2, 0], value=1.5}()", np.zeros((2, 0))),
        ],
    ),
}

VALUES = np.array([-2.75, -0.5, 0.0, 0.5, 2.75], np.float32)
WHOLE = np.array([-2, 0, 3], np.int32)

VIEWS = {
    "casts": (
        {"x": VALUES, "i": WHOLE, "t": T},
        [
            ("layout.cast<int>(x)", np.array([-2, 0, 0, 0, 2])),
            ("layout.cast<bool>(x)", np.array([True, True, False, True, True])),
            ("layout.cast<real>(i)", np.array([-2.0, 0.0, 3.0])),
            ("layout.cast<bool>(i)", np.array([True, False, True])),
            ("layout.cast<real>(t)", T.astype(np.float32)),
            ("layout.cast<int>(t)", T.astype(np.int32)),
            ("layout.cast<real>(x)", VALUES),
        ],
    ),
    "reshaping": (
        {"x": X, "y": Y, "one": np.array([3.5], np.float32)},
        [
            ("layout.reshape{shape=[4, 6]}(x)", X.reshape(4, 6)),
            ("layout.reshape{shape=[-1]}(x)", X.reshape(-1)),
            ("layout.reshape{shape=[3, -1, 2]}(x)", X.reshape(3, 4, 2)),
            ("layout.reshape{axis=1, shape=[2, 6]}(x)", X.reshape(2, 2, 6)),
            ("layout.reshape{axis=1, rank=1, shape=[3, 1]}(x)", X.reshape(2, 3, 1, 4)),
            ("layout.reshape{axis=-2, rank=2, shape=[6, -1]}(x)", X.reshape(2, 6, 2)),
            ("layout.reshape{axis=-1, rank=1, shape=[2, 2]}(x)", X.reshape(2, 3, 2, 2)),
            ("layout.reshape{axis=-3, rank=2, shape=[3, 2]}(x)", X.reshape(3, 2, 4)),
            ("layout.reshape{axis=1, rank=0, shape=[1]}(x)", X[:, None]),
            ("layout.reshape{rank=1, shape=[2]}(x)", X),
            ("layout.reshape{shape=[]}(one)", np.array(3.5)),
            ("layout.flatten(x)", X.reshape(24)),
            ("layout.flatten{axis=1}(x)", X.reshape(2, 12)),
            ("layout.flatten{axis=0, rank=2}(x)", X.reshape(6, 4)),
            ("layout.flatten{axis=-2}(x)", X.reshape(2, 12)),
            ("layout.flatten{axis=1, rank=0}(x)", X[:, None]),
            ("layout.flatten{axis=-4, rank=3}(y)", Y.reshape(6, 1)),
            ("layout.unflatten{axis=2, shape=[2, 2]}(x)", X.reshape(2, 3, 2, 2)),
            ("layout.unflatten{axis=-3, shape=[1, 2, 1]}(x)", X.reshape(1, 2, 1, 3, 4)),
            ("layout.unflatten{axis=0, shape=[]}(one)", np.array(3.5)),
        ],
    ),
    "dimensions of size 1": (
        {"y": Y, "s": S},
        [
            ("layout.squeeze{axes=[1]}(y)", Y[:, 0]),
            ("layout.squeeze{axes=[-1, 1]}(y)", Y[:, 0, :, 0]),
            ("layout.squeeze{axes=[]}(y)", Y),
            ("layout.unsqueeze{axes=[0]}(y)", Y[None]),
            ("layout.unsqueeze{axes=[-1, 2]}(y)", Y[:, :, None, :, :, None]),
            ("layout.unsqueeze{axes=[]}(y)", Y),
            ("layout.unsqueeze{axes=[0, 1]}(s)", S.reshape(1, 1)),
        ],
    ),
}

LEFT, RIGHT = counted(2, 1, 4), counted(2, 2, 4) + 100
SINGLE = counted(2, 1, 4) + 50

JOINING = {
    "concatenation": (
        {"x": X, "left": LEFT, "right": RIGHT},
        [
            ("layout.concat{axis=1}([left, x, right])", np.concatenate([LEFT, X, RIGHT], 1)),
            ("layout.concat{axis=-2}([x, left])", np.concatenate([X, LEFT], 1)),
            ("layout.concat{axis=0}([x, x])", np.concatenate([X, X], 0)),
            ("layout.concat{axis=-1}([x, x, x])", np.concatenate([X, X, X], 2)),
            ("layout.concat{axis=0}([x])", X),
        ],
    ),
    "splitting": (
        {"x": X},
        [
            ("layout.split{axis=2, count=2}(x)", np.split(X, 2, 2)),
            ("layout.split{axis=-2, count=3}(x)", np.split(X, 3, 1)),
            ("layout.split{axis=-1, sizes=[1, 3]}(x)", np.split(X, [1], 2)),
            ("layout.split{axis=1, sizes=[1, 1, 1]}(x)", np.split(X, 3, 1)),
            ("layout.split{axis=2, count=2, sizes=[3, 1]}(x)", np.split(X, [3], 2)),
            ("layout.unstack{axis=0}(x)", list(X)),
            ("layout.unstack{axis=-1}(x)", list(np.moveaxis(X, 2, 0))),
            ("layout.unstack{axis=1, squeeze=false}(x)", np.split(X, 3, 1)),
        ],
    ),
    "stacking": (
        {"x": X, "left": LEFT, "single": SINGLE, "s": S},
        [
            ("layout.stack{axis=0}([x, x])", np.stack([X, X])),
            ("layout.stack{axis=3}([x, x])", np.stack([X, X], 3)),
            # a negative axis counts in the inputs: -1 is before their last dimension
            ("layout.stack{axis=-1}([x, x])", np.stack([X, X], 2)),
            (
                "layout.stack{axis=1, squeeze=true}([left, single, left])",
                np.concatenate([LEFT, SINGLE, LEFT], 1),
            ),
            (
                "layout.stack{axis=-2, squeeze=true}([left, single])",
                np.concatenate([LEFT, SINGLE], 1),
            ),
            ("layout.stack{axis=0}([s, 2.5])", np.array([1.5, 2.5])),
        ],
    ),
}

V = counted(10)

EXPANDING = {
    "tiling and broadcasting": (
        {"x": X, "y": Y, "t": T},
        [
            ("layout.tile{repeats=[2, 1, 3]}(x)", np.tile(X, (2, 1, 3))),
            ("layout.tile{axes=[-2], repeats=[2]}(x)", np.tile(X, (1, 2, 1))),
            ("layout.tile{axes=[1, 0], repeats=[2, 3]}(t)", np.tile(T, (3, 2))),
            ("layout.tile{repeats=2}(t)", np.tile(T, (2, 2))),
            ("layout.broadcast{shape=[2, 5, 3, 4]}(y)", np.broadcast_to(Y, (2, 5, 3, 4))),
            ("layout.broadcast{axes=[-1, 1], shape=[2, 3]}(y)", np.tile(Y, (1, 3, 1, 2))),
        ],
    ),
    "slicing": (
        {"x": X, "v": V},
        [
            ("layout.slice{begin=[0, 1, 2], end=[1, 3, 4]}(x)", X[0:1, 1:3, 2:4]),
            ("layout.slice{axes=[1], begin=[1], end=[3]}(x)", X[:, 1:3]),
            ("layout.slice{axes=[-1, 0], begin=[-3, 1], end=[-1, 2]}(x)", X[1:2, :, -3:-1]),
            ("layout.slice{begin=1, end=9, stride=3}(v)", V[1:9:3]),
            ("layout.slice{begin=2, end=100}(v)", V[2:]),
            ("layout.slice{begin=8, end=2, stride=-2}(v)", V[8:2:-2]),
            ("layout.slice{begin=-1, end=0, stride=-4}(v)", V[:0:-4]),
            ("layout.slice{begin=-1, end=-11, stride=-1}(v)", V[::-1]),
            ("layout.slice{axes=[2], begin=3, end=-5, stride=-3}(x)", X[:, :, ::-3]),
        ],
    ),
    "padding": (
        {"x": X, "t": T, "s": np.array(9, np.int32)},
        [
            (
                "layout.pad{padding=[0, 1, 2, 0, 2, 1]}(x)",
                np.pad(X, [(0, 0), (1, 2), (2, 1)]),
            ),
            (
                "layout.pad{padding=[0, 1, 2, 0, 2, 1]}(x, s)",
                np.pad(X, [(0, 0), (1, 2), (2, 1)], constant_values=9),
            ),
            (
                "layout.pad{axes=[-1], padding=[1, 2]}(x, -1)",
                np.pad(X, [(0, 0), (0, 0), (1, 2)], constant_values=-1),
            ),
            ("layout.pad{padding=1}(t)", np.pad(T, 1)),
            (
                "layout.pad{axes=[1, 2], padding=[2, 3, 1, 2], method='REFLECT'}(x)",
                np.pad(X, [(0, 0), (2, 1), (3, 2)], mode="reflect"),
            ),
            (
                "layout.pad{axes=[2, 1], padding=[4, 1, 2, 3], method='SYMMETRIC'}(x)",
                np.pad(X, [(0, 0), (1, 3), (4, 2)], mode="symmetric"),
            ),
            (
                "layout.pad{padding=[0, 7, 1, 1, 5, 9], method='REPLICATE'}(x)",
                np.pad(X, [(0, 1), (7, 5), (1, 9)], mode="edge"),
            ),
        ],
    ),
}

IMAGE = counted(2, 4, 4, 6)  # batch or channels first, two spatial dimensions last
BATCH = counted(12, 2, 3, 2)
DEEP = counted(2, 12, 3, 2)


def cut_into_blocks(x: Any) -> list[Any]:
    """Blocks of the draft: the spatial dimensions 4 and 6 in 2 and 3 contiguous parts."""
    return [
        x[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        for row, column in itertools.product(range(2), range(3))
    ]


def joined_from_blocks(parts: list[Any]) -> Any:
    """The inverse, of 2 by 3 blocks."""
    return np.block([parts[:3], parts[3:]])


def pixels_to_depth(x: Any, blocks_first: bool) -> Any:
    """Every pixel of blocks of 2 by 3, as its own picture, in the order of the channels."""
    pictures = [x[:, :, row::2, column::3] for row in range(2) for column in range(3)]
    return np.stack(pictures, 1 if blocks_first else 2).reshape(2, 24, 2, 2)


def depth_to_pixels(x: Any, blocks_first: bool) -> Any:
    """The inverse, of 12 channels."""
    output = np.zeros((2, 2, 6, 6), x.dtype)
    for row, column, channel in itertools.product(range(2), range(3), range(2)):
        block = row * 3 + column
        depth = block * 2 + channel if blocks_first else channel * 6 + block
        output[:, channel, row::2, column::3] = x[:, depth]
    return output


def last(x: Any) -> Any:
    """Channels moved to the end."""
    return np.moveaxis(x, 1, -1)


REORDERING = {
    "transposition": (
        {"x": X, "y": Y},
        [
            ("layout.transpose(x)", X.T),
            ("layout.transpose{perm=[1, 0, 2]}(x)", X.transpose(1, 0, 2)),
            ("layout.transpose{perm=[2, 0, 1]}(x)", X.transpose(2, 0, 1)),
            ("layout.transpose{perm=[-1, 0, -2]}(x)", X.transpose(2, 0, 1)),
            ("layout.transpose{axis=1}(x)", X.transpose(0, 2, 1)),
            ("layout.transpose{axis=-2}(x)", X.transpose(0, 2, 1)),
            ("layout.transpose{axis=1, perm=[3, 1, 2]}(y)", Y.transpose(0, 3, 1, 2)),
            ("layout.transpose{axis=-3, perm=[-2, -1, 1]}(y)", Y.transpose(0, 2, 3, 1)),
        ],
    ),
    "blocks": (
        {"x": IMAGE, "b": BATCH, "d": DEEP, "xl": last(IMAGE).copy(), "dl": last(DEEP).copy()},
        [
            (
                "layout.space_to_batch{block_size=[2, 3]}(x)",
                np.concatenate(cut_into_blocks(IMAGE)),
            ),
            (
                "layout.batch_to_space{block_size=[2, 3]}(b)",
                joined_from_blocks(np.split(BATCH, 6)),
            ),
            ("layout.space_to_depth{block_size=[2, 3]}(x)", pixels_to_depth(IMAGE, True)),
            (
                "layout.space_to_depth{block_size=[2, 3], blocks_first=false}(x)",
                pixels_to_depth(IMAGE, False),
            ),
            (
                "layout.space_to_depth{block_size=[2, 3], data_format='NXC'}(xl)",
                last(pixels_to_depth(IMAGE, True)),
            ),
            (
                "layout.space_to_depth{block_size=[2, 3], data_format='NXC', "
                "blocks_first=false}(xl)",
                last(pixels_to_depth(IMAGE, False)),
            ),
            ("layout.depth_to_space{block_size=[2, 3]}(d)", depth_to_pixels(DEEP, True)),
            (
                "layout.depth_to_space{block_size=[2, 3], blocks_first=false}(d)",
                depth_to_pixels(DEEP, False),
            ),
            (
                "layout.depth_to_space{block_size=[2, 3], data_format='NXC'}(dl)",
                last(depth_to_pixels(DEEP, True)),
            ),
            (
                "layout.depth_to_space{block_size=[2, 3], data_format='NXC', "
                "blocks_first=false}(dl)",
                last(depth_to_pixels(DEEP, False)),
            ),
            (
                "layout.space_to_depth{block_size=2}(x)",
                np.stack([IMAGE[:, :, r::2, c::2] for r in range(2) for c in range(2)], 1).reshape(
                    2, 16, 2, 3
                ),
            ),
        ],
    ),
    "shuffling": (
        {"d": DEEP, "v": V},
        [
            (
                "layout.shuffle{axis=1, groups=3}(d)",
                DEEP[:, [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]],
            ),
            (
                "layout.shuffle{axis=-3, groups=4}(d)",
                DEEP[:, [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]],
            ),
            ("layout.shuffle{axis=0, groups=1}(v)", V),
        ],
    ),
}

FEW = np.array([[0, 3, 0], [-1, 0, 2]], np.int32)
INDEX = np.array([[2, 0], [1, 1]], np.int32)
PAIRS = np.array([[0, 2], [1, 1], [0, 0]], np.int32)
ROWS = np.array([[[1], [0]], [[2], [2]]], np.int32)
ALONG = np.array([[[0, 1, 2, 0]], [[2, 2, 1, 0]]], np.int32)
TWICE = np.array([[1], [3], [1]], np.int32)


def replaced(data: Any, positions: list[tuple[Any, Any]]) -> Any:
    """A copy of the data with elements replaced one after the other."""
    output = data.copy()
    for position, value in positions:
        output[position] = value
    return output


INDEXING = {
    "finding": (
        {"f": FEW},
        [("layout.nonzero(f)", np.array([[0, 1, 1], [1, 0, 2]]))],
    ),
    "gathering": (
        {"x": X, "i": INDEX, "p": PAIRS, "r": ROWS},
        [
            ("layout.gather{axis=0}(x, 1)", X[1]),
            ("layout.gather{axis=1}(x, i)", np.take(X, INDEX, 1)),
            ("layout.gather{axis=-1}(x, i)", np.take(X, INDEX, 2)),
            ("layout.gather_nd(x, p)", X[PAIRS[:, 0], PAIRS[:, 1]]),
            (
                "layout.gather_nd{batch_dims=1}(x, r)",
                np.stack([X[0][[1, 0]], X[1][[2, 2]]]),
            ),
        ],
    ),
    "scattering": (
        {
            "x": X,
            "v": V,
            "along": ALONG,
            "row": counted(2, 1, 4) - 100,
            "twice": TWICE,
            "three": np.array([-1, -2, -3], np.int32),
            "p": PAIRS,
            "slices": counted(3, 4) - 50,
            "r": ROWS,
            "batched": counted(2, 2, 4) - 70,
        },
        [
            (
                "layout.scatter{axis=1}(x, along, row)",
                replaced(
                    X,
                    [
                        ((b, ALONG[b, 0, c], c), b * 4 + c - 100)
                        for b, c in itertools.product(range(2), range(4))
                    ],
                ),
            ),
            (
                "layout.scatter{axis=-2}(x, along, row)",
                replaced(
                    X,
                    [
                        ((b, ALONG[b, 0, c], c), b * 4 + c - 100)
                        for b, c in itertools.product(range(2), range(4))
                    ],
                ),
            ),
            # element 1 is written twice; the last one counts
            ("layout.scatter_nd(v, twice, three)", replaced(V, [(3, -2), (1, -3)])),
            (
                "layout.scatter_nd(x, p, slices)",
                replaced(
                    X, [(tuple(pair), np.arange(4) + 4 * n - 50) for n, pair in enumerate(PAIRS)]
                ),
            ),
            (
                "layout.scatter_nd{batch_dims=1}(x, r, batched)",
                replaced(
                    X,
                    [
                        ((b, ROWS[b, n, 0]), np.arange(4) + 8 * b + 4 * n - 70)
                        for b, n in itertools.product(range(2), range(2))
                    ],
                ),
            ),
        ],
    ),
}

FAMILIES = CREATION | VIEWS | JOINING | EXPANDING | REORDERING | INDEXING


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    inputs, rows = FAMILIES[family]
    judge(inputs, rows, route)


def test_every_operator_is_judged(uncovered: Any) -> None:
    assert uncovered("layout", FAMILIES) == set()


REJECTIONS = [
    ("layout.constant{shape=[2, 2], value=[1, 2, 3]}()", "value"),
    ("layout.range{first=0, last=5, stride=0}()", "'stride' must not be zero"),
    ("layout.range{first=0, last=5, stride=-1}()", "a negative 'stride' needs"),
    ("layout.reshape{shape=[5, -1]}(x)", "24 elements cannot be divided evenly"),
    ("layout.reshape{shape=[-1, -1]}(x)", "only one item of 'shape' may be -1"),
    ("layout.reshape{shape=[4, 5]}(x)", "'shape'"),
    ("layout.reshape{axis=1, rank=3, shape=[12]}(x)", "'rank' must be between 0 and 2"),
    ("layout.constant{shape=[-2, 1], value=1}()", "'shape' must not be negative; shape = [-2, 1]"),
    ("layout.reshape{axis=9, shape=[1]}(x)", "'axis' is out of range for an input of rank 3"),
    ("layout.flatten{axis=9}(x)", "'axis' is out of range for an input of rank 3; axis = 9"),
    ("layout.flatten{axis=-4}(x)", "'axis' is out of range for an input of rank 3; axis = -4"),
    ("layout.concat{axis=3}([x, x])", "'axis' is out of range for inputs of rank 3; axis = 3"),
    ("layout.gather_nd{batch_dims=9}(x, x)", "expected rank 10 or more for batch_dims = 9"),
    ("layout.unflatten{axis=0, shape=[3]}(x)", "'shape' must have the volume 2"),
    ("layout.squeeze{axes=[0]}(x)", "the dimensions at 'axes' must be 1"),
    ("layout.unsqueeze{axes=[0, -5]}(x)", "'axes' must be distinct"),
    ("layout.unsqueeze{axes=[4]}(x)", "'axes' are out of range for an output of rank 4"),
    ("layout.broadcast{axes=[0], shape=[3]}(x)", "must be 1 or as 'shape' says"),
    ("layout.slice{axes=[0], begin=1, end=0}(x)", "'end' lies before 'begin'"),
    ("layout.slice{axes=[0], begin=0, end=1, stride=0}(x)", "'stride' must not be zero"),
    ("layout.pad{padding=[0, 3, 0, 0, 0, 0], method='REFLECT'}(x)", "must be less than"),
    ("layout.pad{padding=1, method='MIRROR'}(x)", "'method' must be one of"),
    ("layout.transpose{perm=[0, 0, 1]}(x)", "the items of 'perm' must be distinct"),
    ("layout.transpose{axis=1, perm=[0, 1]}(x)", "must be dimensions from 'axis' on"),
    ("layout.shuffle{axis=1, groups=2}(x)", "must be divisible by 'groups'"),
    ("layout.space_to_batch{block_size=[3]}(x)", "must be divisible by 'block_size'"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    rejected({"x": X}, invocation, words, 0)


SPLIT_REJECTIONS = [
    ("layout.split{axis=1}(x)", "sizes"),
    ("layout.split{axis=1, count=2}(x)", "the parts must add up to 3"),
    ("layout.split{axis=1, count=0}(x)", "'count' must be positive"),
    ("layout.split{axis=1, count=-1}(x)", "'count' must be positive; count = -1"),
    ("layout.split{axis=1, sizes=[4, -1]}(x)", "'sizes' must not be negative"),
    ("layout.split{axis=1, count=3, sizes=[2, 1]}(x)", "must equal 'count'"),
]


@pytest.mark.parametrize(("invocation", "words"), SPLIT_REJECTIONS)
def test_split_refuses(invocation: str, words: str, rejected: Any) -> None:
    rejected({"x": X}, invocation, words, [0, 0])
