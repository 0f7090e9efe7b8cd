"""The standard library as Khronos's tools have it: stored models, and the draft's differences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.stdlib.library import tools_names

pytestmark = pytest.mark.sampled(3)

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"
MODELS = sorted(path.parent for path in CORPUS.glob("**/ref_nnef2/main.sknd"))
OVERLAY = Path(tvm_nnef.__file__).parent / "stdlib" / "tools"
HEAD = "# dialect: tools\n"

# models without stored tensors; they are composed only
UNJUDGED = {"linear_upsample_aligned"}


@pytest.mark.skipif(not MODELS, reason="the corpus lies beside a checkout of the project only")
@pytest.mark.parametrize("folder", MODELS, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}")
def test_model_gives_the_stored_outputs(folder: Path) -> None:
    name = folder.parent.name
    if name in UNJUDGED:
        tvm_nnef.compose(folder, dialect="tools")
        return
    with np.load(folder.parent / "io.npz") as stored:
        inputs = [stored[key] for key in stored.files if key.startswith("in:")]
        expected = [stored[key] for key in stored.files if key.startswith("out:")]
    model = tvm_nnef.load_model(folder, dialect="tools")
    results = tvm_nnef.evaluate(model, *inputs)
    actual = [
        item
        for result in results
        for item in (result if isinstance(result, (list, tuple)) else [result])
    ]
    assert len(actual) == len(expected)
    for value, wanted in zip(actual, expected, strict=True):
        assert value.shape == wanted.shape
        assert value.dtype.kind == wanted.dtype.kind
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


# --- what differs ---------------------------------------------------------------------------

RANDOM = np.random.default_rng(9)


def counted(*shape: int) -> Any:
    """Integers that identify every element's position."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


def to_batch(x: Any, block: tuple[int, ...], blocks_first: bool) -> Any:
    """space_to_batch of NCX data, one position in the block after the other."""
    size = int(np.prod(block))
    parts = [
        x[(slice(None), slice(None), *(slice(o, None, b) for o, b in zip(at, block, strict=True)))]
        for at in np.ndindex(*block)
    ]
    stacked = np.stack(parts, 0 if blocks_first else 1)
    return stacked.reshape(size * x.shape[0], *parts[0].shape[1:])


def nxc(x: Any) -> Any:
    """Channels first to channels last."""
    return np.moveaxis(x, 1, -1).copy()


def coordinates(x: Any, axes: tuple[int, ...], squeeze: bool, least: bool) -> Any:
    """Where the first least (or largest) element over the axes is, by brute force."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    output = np.zeros([*(x.shape[axis] for axis in kept), len(axes)], np.int32)
    for at in np.ndindex(*output.shape[:-1]):
        where: list[Any] = [slice(None)] * x.ndim
        for axis, i in zip(kept, at, strict=True):
            where[axis] = i
        part = x[tuple(where)]
        flat = part.argmin() if least else part.argmax()
        found = dict(zip(sorted(axes), np.unravel_index(flat, part.shape), strict=True))
        output[at] = [found[axis] for axis in axes]
    if squeeze:
        return output
    return output.reshape([1 if d in axes else n for d, n in enumerate(x.shape)] + [len(axes)])


X = counted(2, 3, 4, 6)
Y = counted(2, 1, 3, 1)
V = counted(10)
B, B3 = to_batch(X, (2, 3), True), to_batch(X, (2, 3), False)
Z = RANDOM.integers(0, 6, (3, 4, 5)).astype(np.float32)
N, M = np.array([-7, 7, -7, 7, -1], np.int32), np.array([2, -2, -2, 2, 3], np.int32)
P, ONE = counted(1, 1, 4, 6).astype(np.float32), np.ones((1, 1, 1, 1), np.float32)

FAMILIES: dict[str, tuple[dict[str, Any], list[tuple[str, Any]]]] = {
    "tensors": (
        {"y": Y, "v": V, "x": X},
        [
            ("layout.tensor{shape=[2, 3], value=[0, 1, 2, 3, 4, 5]}()", counted(2, 3)),
            ("layout.tensor{value=2.5}()", np.array(2.5)),
            ("layout.tensor<int>{shape=[2], value=7}()", np.array([7, 7])),
            # 1 keeps a dimension
            ("layout.broadcast{shape=[1, 5, 1, 4]}(y)", np.broadcast_to(Y, (2, 5, 3, 4))),
            ("layout.broadcast{axes=[-1, 0], shape=[2, 1]}(y)", np.tile(Y, (1, 1, 1, 2))),
            ("layout.slice{begin=1, end=9, stride=3}(v)", V[1:9:3]),
            ("layout.slice{begin=2, end=100}(v)", V[2:]),
            # end = -1 is the position before the first element
            ("layout.slice{begin=9, end=-1, stride=-1}(v)", V[::-1]),
            ("layout.slice{begin=8, end=-100, stride=-3}(v)", V[8::-3]),
            ("layout.slice{axes=[-1, 1], begin=[2, 0], end=[5, 2]}(x)", X[:, :2, :, 2:5]),
        ],
    ),
    "blocks": (
        {"x": X, "b": B, "b3": B3, "xl": nxc(X), "bl": nxc(B)},
        [
            ("layout.space_to_batch{block_size=[2, 3]}(x)", B),
            ("layout.space_to_batch{block_size=[2, 3], blocks_first=false}(x)", B3),
            ("layout.space_to_batch{block_size=[2, 3], data_format='NXC'}(xl)", nxc(B)),
            ("layout.batch_to_space{block_size=[2, 3]}(b)", X),
            ("layout.batch_to_space{block_size=[2, 3], blocks_first=false}(b3)", X),
            ("layout.batch_to_space{block_size=[2, 3], data_format='NXC'}(bl)", nxc(X)),
        ],
    ),
    "coordinates": (
        {"z": Z},
        [
            (
                f"math.arg{kind}_nd{{axes={list(axes)}, squeeze={str(squeeze).lower()}}}(z)",
                coordinates(Z, axes, squeeze, kind == "min"),
            )
            for kind in ("min", "max")
            for axes in ((0, 1, 2), (2, 0), (1,))
            for squeeze in (False, True)
        ],
    ),
    "rounding": (
        {"i": N, "j": M, "p": P, "w": ONE},
        [
            # toward zero, and the remainder with the sign of the dividend
            ("math.div(i, j)", np.array([-3, -3, 3, 3, 0])),
            ("math.mod(i, j)", np.array([-1, 1, -1, 1, -1])),
            # a total padding of -1 has nothing in front with UPPER, all with LOWER
            ("nn.conv{stride=2}(p, w)", P[:, :, ::2, ::2]),
            ("nn.conv{stride=2, padding_align='LOWER'}(p, w)", P[:, :, 1::2, 1::2]),
        ],
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    inputs, rows = FAMILIES[family]
    judge(inputs, rows, route, HEAD)


def test_the_draft_rounds_otherwise(judge: Any) -> None:
    """The same models without the line that names the dialect."""
    rows = [
        ("math.div(i, j)", np.array([-4, -4, 3, 3, -1])),
        ("math.mod(i, j)", np.array([1, -1, -1, 1, 2])),
        ("nn.conv{stride=2}(p, w)", P[:, :, 1::2, 1::2]),
        ("nn.conv{stride=2, padding_align='LOWER'}(p, w)", P[:, :, ::2, ::2]),
    ]
    judge({"i": N, "j": M, "p": P, "w": ONE}, rows, "reference")


REJECTIONS = [
    ("layout.slice{axes=[0], begin=-1, end=2}(x)", "'begin' must be a position of the input"),
    ("layout.slice{axes=[0], begin=2, end=2}(x)", "'begin' must be a position of the input"),
    ("layout.slice{axes=[1], begin=2, end=1}(x)", "'end' lies before 'begin'"),
    ("layout.broadcast{axes=[0], shape=[3]}(x)", "must be 1 or as 'shape' says"),
    ("layout.space_to_batch{block_size=[3, 2]}(x)", "must be divisible by 'block_size'"),
    ("layout.batch_to_space{block_size=[2, 2]}(x)", "must be divisible by the volume"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    rejected({"x": X}, invocation, words, 0, HEAD)


def test_every_operator_of_the_overlay_is_judged() -> None:
    defined = {
        f"{path.stem}.{name}"
        for path in OVERLAY.glob("*.sknd")
        for name in re.findall(r"^operator ([a-z]\w*)", path.read_text("utf-8"), re.MULTILINE)
    }
    invoked = {
        name
        for _, rows in FAMILIES.values()
        for invocation, _ in rows
        for name in re.findall(r"^\w+\.\w+", invocation)
    }
    assert defined - invoked == set()
    assert "layout.tensor" in tools_names() & defined


@pytest.mark.parametrize("path", sorted(OVERLAY.glob("*.sknd")), ids=lambda path: path.stem)
def test_text_shows_its_dialect(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert lines[0] == HEAD.strip()
    assert [line for line in lines if len(line) > 100 or line != line.rstrip()] == []
