"""Operators that the draft has for reals only, of ints: products, pooling, positions, sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

RANDOM = np.random.default_rng(31)
LEAST, MOST = -(2**31), 2**31 - 1
LIMITS = np.array([[-2, MOST, 0, 5], [MOST, LEAST, LEAST, MOST]], np.int32)


def whole(*shape: int) -> Any:
    return RANDOM.integers(-50, 50, shape).astype(np.int32)


def windows(x: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))


def bordered(x: Any, value: int) -> Any:
    return np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=value)


def convolved(x: Any, w: Any, *bias: Any) -> Any:
    return np.einsum("bchwij,ocij->bohw", windows(x), w) + sum(b[:, None, None] for b in bias)


def scattered(x: Any, w: Any) -> Any:
    """Transposed convolution without padding."""
    back = np.zeros((1, 3, x.shape[2] + 1, x.shape[3] + 1), np.int64)
    for i, j in np.ndindex(2, 2):
        part = np.einsum("bnhw,nc->bchw", x, w[:, :, i, j])
        back[:, :, i : i + x.shape[2], j : j + x.shape[3]] += part
    return back


def first(x: Any, k: int, largest: bool) -> tuple[Any, Any]:
    keys = -x.astype(np.int64) if largest else x
    positions = np.argsort(keys, 1, kind="stable")[:, :k]
    return np.take_along_axis(x, positions, 1), positions


A, B, IMAGE, FILTER = whole(3, 5), whole(5, 4), whole(2, 3, 6, 6), whole(4, 3, 3, 3)
NONE: dict[str, Any] = {"padding": [0] * 4}
ONE: dict[str, Any] = {"padding": [1] * 4}
DROPPED: dict[str, Any] = {"axis": 1, "squeeze": True}
CASES: dict[str, list[Any]] = {
    "products": [
        ("linalg.dot", {}, [whole(9), whole(9)], lambda x, y: x @ y),
        ("linalg.dot", {}, [whole(9), whole(9), 7], lambda x, y, b: x @ y + b),
        ("linalg.dot", {}, [whole(0), whole(0)], 0),
        ("linalg.matvec", {}, [A, whole(5), whole(3)], lambda x, y, b: x @ y + b),
        ("linalg.matvec", {"transA": True}, [A, whole(3)], lambda x, y: x.T @ y),
        ("linalg.matmul", {}, [A, B], A @ B),
        ("linalg.matmul", {}, [A, B, whole(3, 4)], lambda x, y, c: x @ y + c),
        ("linalg.matmul", {"transB": True}, [whole(2, 1, 3, 5), whole(4, 2, 5)],
         lambda x, y: x @ np.swapaxes(y, 1, 2)),
        ("linalg.outer", {}, [whole(3), whole(2)], np.multiply.outer),
        ("nn.linear", {}, [A, whole(4, 5), whole(4)], lambda x, w, b: x @ w.T + b),
        ("nn.conv", NONE, [IMAGE, FILTER, whole(4)], convolved),
        ("nn.conv", ONE, [IMAGE, FILTER], lambda x, w: convolved(bordered(x, 0), w)),
        ("nn.deconv", NONE, [whole(1, 2, 3, 3), whole(2, 3, 2, 2)], scattered),
    ],
    "pooling": [
        ("nn.max_pool", {**NONE, "size": [3, 3]}, [IMAGE], lambda x: windows(x).max((-1, -2))),
        ("nn.max_pool", {**ONE, "size": [3, 3]}, [IMAGE],
         lambda x: windows(bordered(x, LEAST)).max((-1, -2))),
        ("nn.max_pool", {"axes": [1], "size": [2], "padding": [3, 0]}, [LIMITS],
         [[LEAST, LEAST, -2, MOST, MOST, 5], [LEAST, LEAST, MOST, MOST, LEAST, MOST]]),
        ("nn.sum_pool", {**ONE, "size": [3, 3]}, [IMAGE],
         lambda x: windows(bordered(x, 0)).sum((-1, -2))),
        ("nn.prelu", {}, [IMAGE, whole(3)], lambda x, a: np.where(x < 0, a[:, None, None] * x, x)),
    ],
    "positions": [
        ("math.argmin", DROPPED, [LIMITS], LIMITS.argmin(1)),
        ("math.argmax", DROPPED, [LIMITS], LIMITS.argmax(1)),
        ("math.argmax", {"axis": 1}, [np.full((2, 3), LEAST, np.int32)], np.zeros((2, 1))),
        ("math.argmin", {"axis": -1}, [np.full((2, 3), MOST, np.int32)], np.zeros((2, 1))),
        ("math.cumsum", {"axis": 1}, [A], np.cumsum(A, 1)),
        ("math.cumsum", {"axis": 0, "exclusive": True, "reverse": True}, [A],
         np.cumsum(A[::-1], 0)[::-1] - A),
        *(
            ("algo.top_k", {"k": k, "axis": 1, "largest": largest}, [x], first(x, k, largest))
            for x in (LIMITS, whole(2, 90))
            for k in (2, 40)
            for largest in (True, False)
        ),
    ],
    "resampling": [
        ("image.nearest_upsample", {"factor": [2, 3]}, [A], A.repeat(2, 0).repeat(3, 1)),
        ("image.nearest_downsample", {"factor": [1, 5]}, [A], A[:, ::5]),
        ("image.nearest_resize", {"size": [6, 10]}, [A], A.repeat(2, 0).repeat(2, 1)),
        ("image.nearest_resize", {"size": [6, 10]}, [A > 0], (A > 0).repeat(2, 0).repeat(2, 1)),
    ],
}  # fmt: skip


def of_ints(case: Any) -> Any:
    """A case whose result is of ints, or of truth values."""
    name, attributes, operands, expected = case
    found = expected(*operands) if callable(expected) else expected
    parts = found if isinstance(found, tuple) else (found,)
    kinds = [np.bool_ if np.asarray(part).dtype == bool else np.int32 for part in parts]
    arrays = tuple(np.asarray(part).astype(kind) for part, kind in zip(parts, kinds, strict=True))
    return name, attributes, operands, arrays if isinstance(found, tuple) else arrays[0]


@pytest.mark.slow
@pytest.mark.parametrize("family", CASES)
def test_ints_are_taken(family: str, agree: Any) -> None:
    agree([of_ints(case) for case in CASES[family]])


def test_grids_of_ints_and_truth_values(agree: Any) -> None:
    axes = [[whole(3), whole(2)], [np.array([True, False]), np.array([False])]]
    agree([("misc.mesh_grid", {}, [each], [*np.meshgrid(*each, indexing="ij")]) for each in axes])


HUGE = np.array([0, 1, 5, 2**63 - 1, 2**63, 2**63 + 7, 2**64 - 1, 2**64 - 2], np.uint64)
OTHER = np.array([3, 2**64 - 1, 2**63, 2, 2**63 + 1, 7, 2**64 - 1, 0], np.uint64)
ROWS = np.stack([HUGE, OTHER])
DIVISOR = np.maximum(OTHER, np.uint64(1))
UNSIGNED: list[Any] = [
    ("math.add", {}, [HUGE, OTHER], HUGE + OTHER),
    ("math.sub", {}, [HUGE, OTHER], HUGE - OTHER),
    ("math.mul", {}, [HUGE, OTHER], HUGE * OTHER),
    ("math.div", {}, [HUGE, OTHER], np.where(OTHER > 0, HUGE // DIVISOR, OTHER)),
    ("math.mod", {}, [HUGE, OTHER], np.where(OTHER > 0, HUGE % DIVISOR, OTHER)),
    ("math.pow", {}, [HUGE, 3], HUGE**3),
    ("math.pow", {}, [HUGE, OTHER],
     np.array([pow(int(x), int(y), 2**64) for x, y in zip(HUGE, OTHER, strict=True)], np.uint64)),
    ("math.neg", {}, [HUGE], np.uint64(0) - HUGE),
    *((f"math.{name}", {}, [HUGE], function(HUGE))
        for name, function in {"abs": np.abs, "sign": np.sign, "sqr": np.square}.items()),
    *((f"math.{name}", {}, [HUGE, OTHER], function(HUGE, OTHER)) for name, function in {
        "min": np.minimum, "max": np.maximum, "lt": np.less, "gt": np.greater, "le": np.less_equal,
        "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    }.items()),
    ("math.clamp", {}, [HUGE, 5, OTHER[5:6] << np.uint64(61)],
     np.clip(HUGE, 5, 7 << 61)),
    ("math.min_reduce", {}, [HUGE[4:]], HUGE[4:5]),
    ("math.max_reduce", {"axes": [0]}, [ROWS], ROWS.max(0, keepdims=True)),
    ("math.max_reduce", {}, [HUGE[:0]], np.zeros(1, np.uint64)),
    ("math.min_reduce", {}, [HUGE[:0]], np.array([2**64 - 1], np.uint64)),
    ("math.sum_reduce", {}, [HUGE], HUGE.sum(keepdims=True)),
    ("math.min_n", {}, [[HUGE, OTHER]], np.minimum(HUGE, OTHER)),
    ("math.argmax_n", {}, [[HUGE, OTHER]], np.uint64(OTHER > HUGE)),
    ("math.argmax", {"axis": 1, "squeeze": True}, [ROWS], np.uint64(ROWS.argmax(1))),
    ("math.argmin", {"axis": 0, "squeeze": True}, [ROWS], np.uint64(ROWS.argmin(0))),
    ("math.cumsum", {"axis": 0}, [HUGE], np.cumsum(HUGE)),
    ("nn.max_pool", {"axes": [0], "size": [2], "padding": [0, 0]}, [HUGE],
     np.maximum(HUGE[1:], HUGE[:-1])),
    ("algo.top_k", {"k": 2, "axis": 0}, [HUGE], (HUGE[6:], np.uint64([6, 7]))),
    ("layout.cast<real>", {}, [HUGE], np.float32(HUGE)),
    ("layout.cast<bool>", {}, [HUGE], HUGE > 0),
    ("layout.gather", {"axis": 0}, [HUGE, np.uint64([7, 4])], HUGE[[7, 4]]),
]  # fmt: skip


@pytest.mark.slow
def test_ints_without_a_sign_are_greater_than_those_with_one(agree: Any) -> None:
    agree(UNSIGNED, dtypes={"int": "uint64"})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_ints_of_other_sizes_wrap_where_they_are_stored(dtype: str, agree: Any) -> None:
    image = RANDOM.integers(0, 100, (1, 2, 5, 5)).astype(dtype)
    filters = RANDOM.integers(0, 100, (3, 2, 3, 3)).astype(dtype)
    x, y = (RANDOM.integers(0, 100, shape).astype(dtype) for shape in ((3, 4), (4, 5)))
    wide = np.int64
    cases: list[Any] = [
        ("nn.conv", NONE, [image, filters], convolved(wide(image), wide(filters)).astype(dtype)),
        ("nn.max_pool", {**ONE, "size": [3, 3]}, [image],
         windows(bordered(image, np.iinfo(dtype).min)).max((-1, -2))),
        ("linalg.matmul", {}, [x, y], (wide(x) @ wide(y)).astype(dtype)),
        ("math.cumsum", {"axis": 1}, [x], np.cumsum(wide(x), 1).astype(dtype)),
        ("math.argmax", DROPPED, [x], x.argmax(1).astype(dtype)),
        ("algo.top_k", {"k": 3, "axis": 1}, [x], tuple(p.astype(dtype) for p in first(x, 3, True))),
    ]  # fmt: skip
    agree(cases, dtypes={"int": dtype})
