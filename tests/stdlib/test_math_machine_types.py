"""Operators in other dtypes than the default ones: halves are computed in float32 and
rounded once, ints wrap where they are stored, int64 and float64 keep all of their bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tvm_nnef

RANDOM = np.random.default_rng(4)
HALVES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def stored(x: Any, dtype: str) -> Any:
    """What a tensor of a dtype holds of numbers, in float64."""
    return np.float32(x).astype(HALVES[dtype]).astype(np.float64)


def reals(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def softmax(x: Any) -> Any:
    shifted = np.exp(x - x.max(1, keepdims=True))
    return shifted / shifted.sum(1, keepdims=True)


X, W, LARGE = reals(4, 512), reals(8, 512), reals(4, 512, low=100, high=400)
AXIS = {"axes": [1]}
HALF_CASES: list[tuple[str, dict[str, Any], list[Any], Callable[..., Any]]] = [
    ("math.add", {}, [X, 0.1], lambda x, y: x + y),
    ("math.mul", {}, [X, X], lambda x, y: x * y),
    ("math.exp", {}, [X], np.exp),
    ("math.tanh", {}, [X], np.tanh),
    ("math.min", {}, [X, 0.5], np.minimum),
    ("math.clamp", {}, [X, -1.0, 1.0], np.clip),
    ("math.max_reduce", AXIS, [X], lambda x: x.max(1, keepdims=True)),
    # ones add up to 256 in bfloat16, to 2048 in float16
    ("math.sum_reduce", {}, [np.ones((64, 64), np.float32)], lambda x: x.sum(keepdims=True)),
    ("math.mean_reduce", AXIS, [LARGE], lambda x: x.mean(1, keepdims=True)),
    ("math.lp_reduce", {**AXIS, "p": 2.0}, [LARGE],
     lambda x: np.sqrt((x * x).sum(1, keepdims=True))),
    ("math.moments", AXIS, [LARGE],
     lambda x: (x.mean(1, keepdims=True), x.var(1, keepdims=True))),
    ("linalg.matmul", {"transB": True}, [X, W], lambda x, w: x @ w.T),
    ("linalg.matvec", {}, [X, W[0]], lambda x, w: x @ w),
    ("linalg.dot", {}, [X[0], W[0]], lambda x, w: np.asarray(x @ w)),
    ("nn.softmax", AXIS, [X], softmax),
    # the squares are too large for float16
    ("nn.l2_norm", AXIS, [LARGE], lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
]  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", HALVES)
def test_halves_are_rounded_once(dtype: str, agree: Any) -> None:
    """One unit in the last place: a sum in float32 may lie on the other side of a middle."""

    def wanted(function: Callable[..., Any]) -> Callable[..., Any]:
        def rounded(*operands: Any) -> Any:
            found = function(*(stored(x, dtype) for x in operands))
            parts = found if isinstance(found, tuple) else (found,)
            arrays = tuple(np.float32(part) for part in parts)
            return arrays if isinstance(found, tuple) else arrays[0]

        return rounded

    cases = [(name, how, operands, wanted(f)) for name, how, operands, f in HALF_CASES]
    last = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    agree(cases, dtypes={"real": dtype}, tolerance=(last, 1e-7))


@pytest.mark.parametrize("route", ["reference", "formula", "mapped"])
@pytest.mark.parametrize("dtype", HALVES)
def test_narrowing_rounds_halves_to_even_and_keeps_what_is_special(route: Any, dtype: str) -> None:
    """The sum of a number and half of its last place, and numbers beyond the largest one."""
    one, last = 1.0, {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    x = np.array([one, one + last, np.inf, -np.inf, np.nan, 6e4, 3e38, 1e-7, -0.0], np.float32)
    y = np.array([last / 2, last / 2, 1, 1, 1, 6e4, 3e38, 0, 0], np.float32)
    text = "import math;\ngraph G { @input { x: real[9]; y: real[9]; } @output { z: real[9]; } "
    text += "@compose { z = math.add(x, y); } }\n"
    types = {"real": dtype, "main.G.x": "float32", "main.G.y": "float32", "main.G.z": dtype}
    if route == "reference":
        (found,) = tvm_nnef.evaluate(text, x, y, dtypes=types)
    else:
        module = tvm_nnef.from_nnef(text, route=route, dtypes=types)
        (found,) = tvm_nnef.build(module, progress=False)(x, y)
    with np.errstate(over="ignore"):
        wanted = (x + y).astype(HALVES[dtype])
    assert found.dtype == HALVES[dtype]
    np.testing.assert_array_equal(np.float32(found), np.float32(wanted))
    np.testing.assert_array_equal(found[:2], [one, one + 2 * last])


INTS = {
    "int8": [-128, -100, -1, 0, 3, 100, 127], "uint8": [0, 1, 5, 16, 100, 200, 255],
    "int16": [-32768, -300, -1, 0, 7, 300, 32767],
    "int64": [-(2**63), -(2**40), -3, 0, 5, 3**20, 2**62],
}  # fmt: skip


def wrapped(value: int, dtype: str) -> int:
    limits = np.iinfo(dtype)
    least, count = int(limits.min), int(limits.max) - int(limits.min) + 1
    return (value - least) % count + least


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", INTS)
def test_ints_wrap_where_they_are_stored(dtype: str, agree: Any) -> None:
    x, y = (side.ravel().copy() for side in np.meshgrid(np.array(INTS[dtype], dtype), INTS[dtype]))
    y = y.astype(dtype)

    def of(function: Callable[[int, int], int]) -> Any:
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        return np.array([wrapped(function(p, q), dtype) for p, q in pairs], dtype)

    cases: list[Any] = [
        ("math.add", {}, [x, y], of(lambda p, q: p + q)),
        ("math.sub", {}, [x, y], of(lambda p, q: p - q)),
        ("math.mul", {}, [x, y], of(lambda p, q: p * q)),
        ("math.div", {}, [x, y], of(lambda p, q: p // q if q else 0)),
        ("math.mod", {}, [x, y], of(lambda p, q: p % q if q else 0)),
        ("math.max", {}, [x, y], of(max)),
        ("math.neg", {}, [x], of(lambda p, _: -p)),
        ("math.pow", {}, [x, 3], of(lambda p, _: p**3)),
        ("math.lt", {}, [x, y], x < y),
        ("math.sum_reduce", {}, [x], np.array([wrapped(sum(x.tolist()), dtype)], dtype)),
        ("math.min_reduce", {}, [x], np.array([INTS[dtype][0]], dtype)),
        ("math.max_reduce", {}, [x[:0]], np.array([np.iinfo(dtype).min], dtype)),
    ]
    if dtype == "int64":
        exponents = np.array([0, 1, 2, 17, 40, 63, 71], dtype)
        bases = np.array([3, -7, 2, -(2**40) + 1, -1, 1, 0], dtype)
        both = zip(bases.tolist(), exponents.tolist(), strict=True)
        expected = [wrapped(p**q, dtype) for p, q in both]
        cases.append(("math.pow", {}, [bases, exponents], np.array(expected)))
    agree(cases, dtypes={"int": dtype})


FLOAT64: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "atanh": np.arctanh, "sin": np.sin,
    "tan": np.tan, "asinh": np.arcsinh, "sinh": np.sinh, "round": np.round,
}  # fmt: skip


def test_float64_keeps_its_bits(agree: Any) -> None:
    x = RANDOM.uniform(0.1, 0.9, (3, 5))
    cases: list[Any] = [(f"math.{name}", {}, [x], f(x)) for name, f in FLOAT64.items()]
    cases += [
        ("math.mean_reduce", {"axes": [1]}, [x], x.mean(1, keepdims=True)),
        ("math.mod", {}, [x, x[:1]], np.fmod(x, x[:1])),
        ("math.pow", {}, [x, x], x**x),
    ]
    agree(cases, dtypes={"real": "float64"}, tolerance=(1e-15, 0))
