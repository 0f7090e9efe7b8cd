"""Module math at the edges of its numbers, against NumPy in float64 and Python's integers.

Infinities, NaN, signed zeros, large and tiny reals; integers that overflow, and every sign of
dividend and divisor. Functions of reals are held to 3 units in the last place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import tvm_nnef

NAN, INF = float("nan"), float("inf")
# 4 units in the last place of 1, 2 of a number just below 2
PRECISE = (3.6e-7, 1e-44)

SPECIAL = np.array(
    [0.0, -0.0, INF, -INF, NAN, 1e-40, -1e-40, 1e-30, -1e-30, 1e-10, -1e-10, 1e-3, -1e-3, 0.1, 0.5,
     -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, -2.5, 0.49999997, -0.49999997, 8388607.5, -8388607.5,
     16777216.0, 20.0, -20.0, 88.0, -88.0, -103.0, 104.0, -104.0, 1e4, -1e4, 3e38, -3e38],
    np.float32,
)  # fmt: skip
DENSE = np.concatenate([np.linspace(-12, 12, 2001), np.geomspace(1e-6, 1e6, 500)])
REALS = np.concatenate([SPECIAL, DENSE.astype(np.float32)])
INTS = np.array(
    [0, 1, -1, 2, -2, 3, -3, 7, -7, 31, 32, 64, 46341, -46341, 65536, 2**31 - 1, -(2**31)], np.int32
)


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of float32 arrays that is computed in float64 and rounded once."""

    def rounded(*operands: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(function(*(np.float64(x) for x in operands))).astype(np.float32)

    return rounded


def half_away(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


UNARY: dict[str, Callable[..., Any]] = {
    "iden": np.positive, "neg": np.negative, "rcp": np.reciprocal, "sqr": np.square,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "log": np.log,
    "log2": np.log2, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "abs": np.abs, "sign": np.sign, "floor": np.floor,
    "ceil": np.ceil, "round": half_away,
}  # fmt: skip


IN_VECTORS = frozenset({"exp", "log", "log2"})
"""Functions that compiled take what is below the normal numbers for 0, or for the least of them."""


def normal(function: Callable[..., Any]) -> Any:
    """The numbers that are not subnormal, and whose values are not."""
    least = np.finfo(np.float32).tiny
    with np.errstate(all="ignore"):
        sizes = np.abs(REALS), np.abs(function(np.float64(REALS)))
    return REALS[np.logical_and.reduce([(size == 0) | ~(size < least) for size in sizes])]


@pytest.mark.slow
def test_functions_of_one_real(agree: Any) -> None:
    cases: list[Any] = [
        (f"math.{name}", {}, [normal(f) if name in IN_VECTORS else REALS], in_float64(f))
        for name, f in UNARY.items()
    ]
    moderate = np.clip(REALS, -1e15, 1e15)
    cases += [
        ("math.rsqr", {}, [moderate], in_float64(lambda x: 1 / (x * x))),
        ("nn.erf", {}, [REALS], in_float64(special.erf)),
    ]
    agree(cases, tolerance=PRECISE)


def pairs(values: Any) -> list[Any]:
    """Each value with each."""
    return [np.ascontiguousarray(side.ravel()) for side in np.meshgrid(values, values)]


BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.fmod,
    "pow": np.power, "min": np.minimum, "max": np.maximum, "lt": np.less, "gt": np.greater,
    "le": np.less_equal, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
COMPARISONS = ("lt", "gt", "le", "ge", "eq", "ne")


@pytest.mark.slow
def test_functions_of_two_reals(agree: Any) -> None:
    x, y = pairs(SPECIAL)
    cases: list[Any] = [
        (f"math.{name}", {}, [x, y], f if name in COMPARISONS else in_float64(f))
        for name, f in BINARY.items()
    ]
    for zero in (0.0, -0.0):
        for name in ("div", "mul", "add", "mod"):
            wanted = in_float64(BINARY[name])(SPECIAL, zero)
            cases.append((f"math.{name}", {}, [SPECIAL, zero], wanted))
    # with a constant, on either side, a minimum and a maximum are lowered in another way
    for name in ("min", "max"):
        for number in (0.0, 6.0, -1.5, INF, -INF):
            wanted = BINARY[name](SPECIAL, np.float32(number))
            cases += [
                (f"math.{name}", {}, [SPECIAL, number], wanted),
                (f"math.{name}", {}, [number, SPECIAL], wanted),
            ]
    for exponent in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0):
        wanted = in_float64(np.power)(SPECIAL, np.full(SPECIAL.size, exponent))
        cases.append(("math.pow", {}, [SPECIAL, exponent], wanted))
    agree(cases, tolerance=PRECISE)


@pytest.mark.slow
def test_comparisons_of_different_types(agree: Any) -> None:
    """Truth values are 0 and 1, and an integer is compared with a real as a real."""
    values: dict[str, Any] = {
        "real": np.array([-1.0, 0.0, 0.5, 1.0, 2.0, INF, -INF, np.nan], np.float32),
        "int": np.array([-1, 0, 1, 2, 5], np.int32),
        "bool": np.array([False, True]),
    }
    cases: list[Any] = []
    for name in COMPARISONS:
        for left, right in itertools.permutations(values, 2):
            if "bool" in (left, right) and name not in ("eq", "ne"):
                continue
            x, y = (side.ravel() for side in np.meshgrid(values[left], values[right]))
            cases.append((f"math.{name}", {}, [x, y], BINARY[name](x, y)))
    cases += [
        ("math.eq", {}, [values["bool"], 1], values["bool"]),
        ("math.ne", {}, [values["real"], True], values["real"] != 1),
        ("math.eq", {}, [2.0, values["int"]], values["int"] == 2),
        ("math.eq", {}, [values["int"][:, None], values["bool"][None]],
         values["int"][:, None] == values["bool"][None]),
    ]  # fmt: skip
    agree(cases)


@pytest.mark.slow
def test_select_clamp_and_packs_of_reals(agree: Any) -> None:
    x, y = pairs(SPECIAL)
    z = np.roll(SPECIAL, 5)
    clipped = np.where(np.less(x, y), y, np.where(np.greater(x, y), y, x))
    cases: list[Any] = [
        ("math.select", {}, [x > y, x, y], np.where(x > y, x, y)),
        ("math.select", {}, [x > y, x, -0.0], np.where(x > y, x, np.float32(0))),
        ("math.clamp", {}, [x, y, y], clipped),
        ("math.clamp", {}, [SPECIAL, 0.0, 6.0], np.clip(SPECIAL, 0, 6)),
        ("math.clamp", {}, [SPECIAL, -INF, 1.0], np.minimum(SPECIAL, np.float32(1))),
        ("math.min_n", {}, [[SPECIAL, z]], np.minimum(SPECIAL, z)),
        ("math.max_n", {}, [[SPECIAL, z]], np.maximum(SPECIAL, z)),
        ("math.sum_n", {}, [[SPECIAL, z]], in_float64(np.add)(SPECIAL, z)),
        ("math.prod_n", {}, [[SPECIAL, z]], in_float64(np.multiply)(SPECIAL, z)),
    ]
    triples = [np.ascontiguousarray(side.ravel()) for side in np.meshgrid(*[SPECIAL[:7]] * 3)]
    cases += [
        (
            f"math.{name}",
            {},
            [triples],
            np.array([scanned(row, better) for row in zip(*triples, strict=True)]),
        )
        for name, better in (("argmin_n", np.less), ("argmax_n", np.greater))
    ]
    # the second one only where it is less, or greater, which neither is beside NaN
    cases += [
        ("math.argmin_n", {}, [[SPECIAL, z]], (z < SPECIAL).astype(np.int32)),
        ("math.argmax_n", {}, [[SPECIAL, z]], (z > SPECIAL).astype(np.int32)),
    ]
    agree(cases, tolerance=PRECISE)


def scanned(row: Any, better: Callable[[float, float], bool]) -> int:
    """The position of the best number, found as the draft's argmin and argmax find it."""
    best = 0
    for position, value in enumerate(row):
        best = position if better(value, row[best]) else best
    return best


def wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def power(x: int, y: int) -> int:
    """Exact, modulo 2^32; truncated toward zero where y is negative."""
    return pow(x, y, 2**32) if y >= 0 else 0 if abs(x) != 1 else x ** (-y)


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def of_ints(function: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    """A function of exact integers, wrapped around; 0 where it divides by 0."""

    def result(x: Any, y: Any) -> Any:
        found = []
        for left, right in zip(x.tolist(), y.tolist(), strict=True):
            try:
                found.append(wrapped(function(left, right)))
            except ZeroDivisionError:
                found.append(0)
        return np.array(found, np.int32)

    return result


INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "pow": power,
    "min": min, "max": max,
}  # fmt: skip
DIVISIONS = {
    "": (lambda x, y: x // y, lambda x, y: x % y),
    "# dialect: tools\n": (truncated, lambda x, y: x - y * truncated(x, y)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("head", DIVISIONS, ids=["draft", "tools"])
def test_functions_of_ints(head: str, agree: Any) -> None:
    x, y = pairs(INTS)
    divide, modulus = DIVISIONS[head]
    functions = {**INTEGER, "div": divide, "mod": modulus}
    cases: list[Any] = [(f"math.{n}", {}, [x, y], of_ints(f)) for n, f in functions.items()]
    cases += [(f"math.{name}", {}, [x, y], BINARY[name]) for name in COMPARISONS]
    cases += [
        (f"math.{name}", {}, [INTS, number], of_ints(functions[name])(INTS, np.full(17, number)))
        for name in ("div", "mod", "pow")
        for number in (-3, -2, -1, 0, 1, 2, 3, 7, 17, 33, 2**30 + 5)
    ]
    cases += [
        (f"math.{name}", {}, [INTS], of_ints(function)(INTS, INTS))
        for name, function in {
            "neg": lambda x, _: -x,
            "abs": lambda x, _: abs(x),
            "sqr": lambda x, _: x * x,
            "sign": lambda x, _: (x > 0) - (x < 0),
        }.items()
    ]
    with np.errstate(over="ignore"):
        cases += [
            ("math.sum_reduce", {"squeeze": True}, [x], lambda x: x.sum(dtype=np.int32)),
            ("math.prod_reduce", {"squeeze": True}, [INTS[1:4]], INTS[1:4].prod(dtype=np.int32)),
            ("math.sum_n", {}, [[INTS, INTS, INTS]], of_ints(lambda x, y: 3 * x)(INTS, INTS)),
            ("math.prod_n", {}, [[INTS, INTS]], of_ints(lambda x, y: x * y)(INTS, INTS)),
        ]
        agree(cases, head=head)


SIGNS = [
    ("math.neg(x)", -SPECIAL),
    ("math.round(x)", half_away(SPECIAL)),
    ("math.ceil(x)", np.ceil(SPECIAL)),
    ("math.floor(x)", np.floor(SPECIAL)),
    ("math.tanh(x)", np.tanh(SPECIAL)),
    ("math.atanh(x)", SPECIAL),
    ("math.sqrt(x)", in_float64(np.sqrt)(SPECIAL)),
    ("math.mul(x, -1.0)", SPECIAL * np.float32(-1)),
    ("math.mod(x, 1.0)", in_float64(np.fmod)(SPECIAL, 1)),
    ("math.select(true, x, 1.0)", SPECIAL),
]


@pytest.mark.parametrize("route", ["reference", "formula", "mapped"])
def test_zeros_keep_their_sign(route: Any) -> None:
    outputs = "".join(f"y{k}: real[{SPECIAL.size}]; " for k in range(len(SIGNS)))
    lines = "".join(f"y{k} = {invocation};\n" for k, (invocation, _) in enumerate(SIGNS))
    text = f"""import math;
graph G {{
    @input {{ x: real[{SPECIAL.size}]; }}
    @output {{ {outputs} }}
    @compose {{ {lines} }}
}}
"""
    if route == "reference":
        found = tvm_nnef.evaluate(text, SPECIAL)
    else:
        found = tvm_nnef.build(tvm_nnef.from_nnef(text, route=route), progress=False)(SPECIAL)
    for (invocation, wanted), actual in zip(SIGNS, found, strict=True):
        zero = actual == 0
        np.testing.assert_array_equal(
            np.signbit(actual[zero]), np.signbit(wanted[zero]), err_msg=invocation
        )
