"""Module rand: the same numbers on every route and in every run, distributed as they should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tvm_nnef

ROUTES = ("reference", "formula", "mapped")


def drawn(*invocations: str, types: Sequence[str] = (), route: Any = "reference") -> list[Any]:
    """The arrays that invocations give, one graph for all of them."""
    kinds = types or ["real"] * len(invocations)
    outputs = " ".join(f"y{n}: {kind};" for n, kind in enumerate(kinds))
    steps = "\n        ".join(f"y{n} = {text};" for n, text in enumerate(invocations))
    text = f"""import rand;
graph G {{
    @output {{ {outputs} }}
    @compose {{
        {steps}
    }}
}}
"""
    if route == "reference":
        return list(tvm_nnef.evaluate(text))
    module = tvm_nnef.from_nnef(text, route=route)
    return [np.asarray(each) for each in tvm_nnef.build(module, progress=False)()]


ROWS = {
    "rand.uniform{shape=[]}()": "real",
    "rand.uniform{shape=[4]}()": "real",
    "rand.uniform{shape=[3, 0]}()": "real",
    "rand.uniform{min=-2.0, max=5.0, shape=[2, 1, 3, 2, 2], seed=4294967295}()": "real",
    "rand.uniform{min=-3, max=4, shape=[20, 10], seed=9}()": "int",
    "rand.uniform{min=-1073741824, max=1073741823, shape=[99]}()": "int",
    "rand.normal{shape=[50, 3]}()": "real",
    "rand.normal{mean=-3.0, std=0.5, shape=[400], seed=70000}()": "real",
    "rand.normal{std=0.0, shape=[3]}()": "real",
    "rand.bernoulli{prob=0.3, shape=[30, 3]}()": "bool",
    "rand.bernoulli{prob=1.0, shape=[30]}()": "bool",
    "rand.bernoulli{prob=0.0, shape=[30]}()": "bool",
}
SHAPES = [(), (4,), (3, 0), (2, 1, 3, 2, 2), (20, 10), (99,), (50, 3), (400,), (3,), (30, 3),
          (30,), (30,)]  # fmt: skip


@pytest.mark.slow
def test_every_route_draws_the_same_numbers() -> None:
    found = {route: drawn(*ROWS, types=[*ROWS.values()], route=route) for route in ROUTES}
    for name, shape, *arrays in zip(ROWS, SHAPES, *found.values(), strict=True):
        assert {array.shape for array in arrays} == {shape}, name
        for array in arrays[1:]:
            if "normal" in name or "min=-2.0" in name:
                # logarithm, cosine, and min + (max - min) * u are rounded
                np.testing.assert_allclose(array, arrays[0], rtol=1e-5, atol=1e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(array, arrays[0], err_msg=name)


def test_numbers_never_change() -> None:
    """They are part of what a model means: a model with them must not change with a version."""
    reals, ints, truths = drawn(
        "rand.uniform{shape=[4]}()",
        "rand.uniform{min=0, max=1000, shape=[6], seed=1}()",
        "rand.bernoulli{prob=0.5, shape=[8], seed=2}()",
        types=["real", "int", "bool"],
    )
    expected = [bits(n, 0, 0) >> 8 for n in range(4)]
    np.testing.assert_array_equal(reals, np.array(expected) / 2**24)
    assert ints.tolist() == [(bits(n, 1, 0) >> 1) % 1000 for n in range(6)]
    assert truths.tolist() == [bits(n, 2, 3) < 2**31 for n in range(8)]


def bits(position: int, seed: int, stream: int) -> int:
    """32 bits of an element: the cipher of the module's comment, in plain words."""
    left, right = position % 2**16, position >> 16
    keys = [seed % 2**16, seed >> 16]
    multipliers = (29741, 31847, 28657, 32261, 30011, 27191)
    for turn, multiplier in enumerate(multipliers):
        key = (keys[turn % 2] + stream * 7919 + turn * 40503) % 2**16
        root = (right * multiplier + key) % 46337
        left, right = right, (left + root**2 % 65521) % 2**16
    return left << 16 | right


COUNT = 1 << 16


def test_uniform_numbers_are_uniform() -> None:
    for seed in (0, 1, 12345):
        (u,) = drawn(f"rand.uniform{{shape=[{COUNT}], seed={seed}}}()")
        assert u.min() >= 0 and u.max() < 1
        assert stats.kstest(u, "uniform").pvalue > 1e-3
        for lag in (1, 2, 256, 4096):
            pairs, _, _ = np.histogram2d(u[:-lag], u[lag:], bins=16, range=[[0, 1], [0, 1]])
            assert stats.chisquare(pairs.ravel()).pvalue > 1e-4, lag
    (ints,) = drawn(f"rand.uniform{{min=-2, max=5, shape=[{COUNT}], seed=8}}()", types=["int"])
    assert set(np.unique(ints)) == set(range(-2, 5))
    assert stats.chisquare(np.bincount(ints + 2)).pvalue > 1e-3


def test_seeds_and_operators_are_independent() -> None:
    first, second, far, normal, truth = drawn(
        *(f"rand.uniform{{shape=[{COUNT}], seed={seed}}}()" for seed in (0, 1, 65536)),
        f"rand.normal{{shape=[{COUNT}]}}()",
        f"rand.bernoulli{{prob=0.5, shape=[{COUNT}]}}()",
        types=["real", "real", "real", "real", "bool"],
    )
    flat = stats.norm.cdf(normal)
    for other in (second, far, flat):
        pairs, _, _ = np.histogram2d(first, other, bins=16, range=[[0, 1], [0, 1]])
        assert stats.chisquare(pairs.ravel()).pvalue > 1e-4
    assert abs(np.corrcoef(first, truth)[0, 1]) < 4 / np.sqrt(COUNT)


def test_normal_numbers_are_normal() -> None:
    (x,) = drawn(f"rand.normal{{mean=2.0, std=3.0, shape=[{COUNT}], seed=5}}()")
    assert stats.kstest((x - 2) / 3, "norm").pvalue > 1e-3
    assert abs(x.mean() - 2) < 4 * 3 / np.sqrt(COUNT)
    assert abs(stats.kurtosis(x)) < 0.1


@pytest.mark.parametrize("prob", [0.01, 0.5, 0.97])
def test_truth_values_have_their_probability(prob: float) -> None:
    (x,) = drawn(f"rand.bernoulli{{prob={prob}, shape=[{COUNT}]}}()", types=["bool"])
    assert abs(x.mean() - prob) < 4 * np.sqrt(prob * (1 - prob) / COUNT)


def test_every_operator_is_judged(uncovered: Any) -> None:
    invoked = [(name, None) for name in ROWS]
    assert uncovered("rand", {"rows": invoked}) == set()


REJECTIONS = [
    ("rand.uniform{shape=[-1]}()", "'shape' must not be negative", 0.0),
    ("rand.uniform{shape=[2], seed=-1}()", "'seed' must not be negative", 0.0),
    ("rand.uniform{min=1.0, max=1.0, shape=[2]}()", "'max' must be greater than 'min'", 0.0),
    ("rand.uniform{min=-2000000000, max=2000000000, shape=[2]}()", "too far apart", 0),
    ("rand.normal{std=-1.0, shape=[2]}()", "'std' must not be negative", 0.0),
    ("rand.bernoulli{prob=1.5, shape=[2]}()", "'prob' must lie between 0 and 1", True),
]


@pytest.mark.parametrize(("invocation", "words", "result"), REJECTIONS)
def test_refuses(invocation: str, words: str, result: Any, rejected: Any) -> None:
    rejected({"x": np.zeros(1, np.float32)}, invocation, words, result)


HALVES = ["rand.uniform{shape=[3, 5], min=-1.0}()", "rand.normal{shape=[64], std=2.0}()"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_those_numbers_rounded(dtype: str) -> None:
    body = " ".join(f"y{n} = {each};" for n, each in enumerate(HALVES))
    text = f"import rand;\ngraph G {{ @output {{ y0: real; y1: real; }} @compose {{ {body} }} }}\n"
    types = {"real": dtype}
    wide = tvm_nnef.evaluate(text)
    results = [tvm_nnef.evaluate(text, dtypes=types)]
    for route in ("formula", "mapped"):
        module = tvm_nnef.from_nnef(text, route=route, dtypes=types)
        results.append(tuple(tvm_nnef.build(module, progress=False)()))
    last = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    for result in results:
        for actual, expected in zip(result, wide, strict=True):
            np.testing.assert_allclose(np.float32(np.asarray(actual)), expected, rtol=last)
