"""Arithmetic on indices: 64 bits on every route; on elements of int tensors it is that of those."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

pytestmark = pytest.mark.sampled(3)

N = 100_000
X = np.arange(N, dtype="float32")
K = np.array([3, 100_000, -70_000, 2**31 - 1], "int32")
STEP = np.arange(N, dtype="int64")
J = np.arange(4, dtype="int64")
WRAPPED = (K.astype("int64") * 100_000).astype("int32")
LOCALS = "v0 = k[j] * 3, " + "".join(
    f"v{n + 1} = v{n} + (v{n} > {n} ? v{n} - {n} : v{n} + 1), " for n in range(7)
)


def chained(k: Any) -> Any:
    """The last of ``LOCALS``, in int32."""
    v = k * np.int32(3)
    for n in range(7):
        v = v + np.where(v > n, v - np.int32(n), v + np.int32(1))
    return v


CASES = {
    # index arithmetic, as a subscript, a value, a real, in a condition and in a local
    "y[i,] = x[(i * 100000) % 99991,], i < n": ("real", STEP * 100_000 % 99_991),
    "y[i,] = (i * 100000) % 99991, i < n": ("int", STEP * 100_000 % 99_991),
    "y[i,] = (i * i) % 99989, i < n": ("int", STEP * STEP % 99_989),
    "y[i,] = x[(i * 100000) / 100000,], i < n": ("real", STEP),
    "y[i,] = real(i * i * i), i < n": ("real", (STEP**3).astype("float32")),
    "y[i,] = i * 100000 > 2147483647, i < n": ("bool", STEP * 100_000 > 2**31 - 1),
    "y[i,] = 1, i < n | i * 100000 - 2147483648 < 0": ("int", STEP * 100_000 < 2**31),
    # TVM adds 7 to the -3 below, which int32 does not hold
    "y[j,] = (2147483646 + (j - 3)) % 7, j < m": ("int", (2_147_483_643 + J) % 7),
    "v = i * n, y[i,] = v / n, i < n": ("int", STEP),
    "y[i,] = (i > 5 ? i * n : i) / n, i < n": ("int", np.where(STEP > 5, STEP, 0)),
    # what is stored is converted, as the dtype says
    "y[i,] = i * 100000, i < n": ("int", (STEP * 100_000).astype("int32")),
    "y[] += i * 100000, i < n": ("int", (STEP * 100_000).sum().astype("int32")),
    "v = (i + 65537) % 99991, y[i,] = (v * 100000 + n % 7) / 2, i < n": (
        "int",
        (((STEP + 65537) % 99_991 * 100_000 + N % 7) // 2).astype("int32"),
    ),
    # with elements of tensors
    "y[j,] = x[(k[j] * 100000) % 7,], j < m": ("real", WRAPPED % 7),
    "y[j,] = (k[j] * 100000) % 7, j < m": ("int", WRAPPED % 7),
    "y[j,] = k[j] * 100000 > 0, j < m": ("bool", WRAPPED > 0),
    "y[j,] = real(k[j] * 100000), j < m": ("real", WRAPPED.astype("float32")),
    "y[j,] = (k[j] + j) / 2, j < m": ("int", (K + J) // 2),
    "y[j,] = (k[j] + 3) / 2, j < m": ("int", (K + np.int32(3)) // 2),
    "y[j,] = real(k[j] * 3 + j), j < m": (
        "real",
        ((K * np.int32(3)).astype("int64") + J).astype("float32"),
    ),
    "v = k[j] + k[j], y[j,] = v + j > 0, j < m": ("bool", (K + K).astype("int64") + J > 0),
    "y[j,] = real(j - (j > 0 ? k[j] * 3 : j)), j < m": (
        "real",
        (J - np.where(J > 0, K * np.int32(3), 0)).astype("float32"),
    ),
    # with locals that have names, as there are many
    f"{LOCALS}y[j,] = real(v7 * 3 + j), j < m": (
        "real",
        ((chained(K) * np.int32(3)).astype("int64") + J).astype("float32"),
    ),
    # with numbers that int32 does not hold
    "y[j,] = k[j] + 46341 * 100000, j < m": (
        "int",
        (K.astype("int64") + 46341 * 100_000).astype("int32"),
    ),
    "y[] = 46341 * 100000; y[] += i, i < 3": ("int", np.int64(46341 * 100_000 + 3).astype("int32")),
}


def model() -> str:
    """A model with an operator and an output for each case."""
    dims = ["" if "y[]" in case else "m" if "y[j" in case else "n" for case in CASES]
    operators = "\n".join(
        f"operator f{c} {{ @input {{ x: real[n]; k: int[m]; }} @output {{ y: {kind}[{dim}]; }} "
        f"@lower {{ {case}; }} }}"
        for c, (dim, (case, (kind, _))) in enumerate(zip(dims, CASES.items(), strict=True))
    )
    outputs = " ".join(f"y{c}: {kind}[~..];" for c, (kind, _) in enumerate(CASES.values()))
    lines = " ".join(f"y{c} = f{c}(x, k);" for c in range(len(CASES)))
    return (
        f"{operators}\ngraph G {{ @input {{ x: real[{N}]; k: int[4]; }} @output {{ {outputs} }} "
        f"@compose {{ {lines} }} }}\n"
    )


@pytest.fixture(scope="module", params=["evaluator", "mapped", "formula"])
def found(request: pytest.FixtureRequest) -> tuple[Any, ...]:
    """The outputs of a route."""
    with np.errstate(over="ignore"):
        if request.param == "evaluator":
            return tvm_nnef.evaluate(model(), X, K, dialect="draft")
        built = tvm_nnef.build(model(), route=request.param, progress=False, dialect="draft")
        return built(X, K)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_every_route_gives(found: tuple[Any, ...], number: int) -> None:
    _, expected = [*CASES.values()][number]
    np.testing.assert_array_equal(found[number], expected)


@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_dynamic_dimensions_are_64_bits_wide(route: str) -> None:
    text = (
        "operator f { @input { x: real[n]; } @output { y: real[]; z: int[n]; }\n"
        "@lower { y[] = real(n * n); z[i,] = (i * n + i) / n, i < n; } }\n"
        "graph G { @input { x: real[~|100000]; } @output { y: real[]; z: int[~..]; }\n"
        "@compose { y, z = f(x); } }\n"
    )
    expected = (np.float32(N) ** 2, (STEP * N + STEP) // N)
    for given in (
        tvm_nnef.evaluate(text, X),
        tvm_nnef.build(text, route=route, progress=False)(X),
    ):
        for ours, theirs in zip(given, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_indices_beyond_64_bits_stay_in_bounds() -> None:
    """The factors are such that TVM could cancel them; the product is beyond 64 bits."""
    text = (
        "operator f { @input { x: real[n]; } @output { y: real[n]; }\n"
        "@lower { y[i,] = x[|(i * 4611686018427387904) / 1152921504606846976|,], i < n; } }\n"
        "graph G { @input { x: real[8]; } @output { y: real[8]; } @compose { y = f(x); } }\n"
    )
    given = tvm_nnef.build(text, progress=False)(X[:8] + 1)[0]
    assert set(given.tolist()) <= {0.0, *(X[:8] + 1).tolist()}


NESTED = "i"
for _level in range(4):
    NESTED = f"(({NESTED}) / 2 == {_level} % n ? ({NESTED}) - 1 : ({NESTED}) + {_level})"


def nested(i: np.ndarray, n: int) -> np.ndarray:
    for level in range(4):
        i = np.where(i // 2 == level % n, i - 1, i + level)
    return i


@pytest.mark.slow
def test_choices_nested_in_conditions_build() -> None:
    """Each is in the condition and both arms of the next: written out, these would not build."""
    n = 12
    model = f"""
    operator f {{ @input {{ x: real[n]; }} @output {{ y: real[n]; }}
      @lower {{ y[i,] = x[|{NESTED} <> 0 : n - 1|,], i < n; }} }}
    graph G {{ @input {{ x: real[n|20]; }} @output {{ y: real[~..]; }} @compose {{ y = f(x); }} }}
    """
    x = np.arange(n, dtype="float32")
    (found,) = tvm_nnef.build(model, route="formula", progress=False)(x)
    np.testing.assert_array_equal(found, np.clip(nested(np.arange(n), n), 0, n - 1))


def test_divisions_nested_in_the_divisors_of_an_index_build() -> None:
    model = """
    operator f { @input { x: real[n]; } @output { y: int[n]; }
      @lower { v = (1 / (i + 1)) * 3, y[|(i % v) - v * 2|,] = i + int(v <= i), i < n; } }
    graph G { @input { x: real[8]; } @output { y: int[8]; } @compose { y = f(x); } }
    """
    (found,) = tvm_nnef.build(model, route="formula", progress=False)(np.zeros(8, "float32"))
    # v is 3 for i = 0, and 0 for all others, whose remainder is 0 then.
    np.testing.assert_array_equal(found, [8, 0, 0, 0, 0, 0, 0, 0])


def test_a_quotient_that_falls_with_an_index_rounds_down() -> None:
    """The guarded windows of a sum read at (1 - k) / 2: at 0 for k of 0 and 1, outside for 2."""
    model = """
    operator f { @input { x: real[c,h,n,1]; } @output { y: real[n,1,1,5]; }
      @lower { y[n_,a,b,j] += x[c_,3 * j + r,n_,|(b + 1 - k) / 2|],
        n_ < n, a < 1, b < 1, j < 5, c_ < c, k < 3, r < 3; } }
    graph G { @input { x: real[13,15,2,1]; } @output { y: real[~..]; } @compose { y = f(x); } }
    """
    x = np.random.default_rng(3).integers(-3, 4, (13, 15, 2, 1)).astype("float32")
    (found,) = tvm_nnef.build(model, route="formula", progress=False)(x)
    expected = 2 * x.sum(axis=0).reshape(5, 3, 2).sum(axis=1).T.reshape(2, 1, 1, 5)
    np.testing.assert_array_equal(found, expected)


DIVIDING = """operator f {{ @input {{ x: real[n,n]; }} @output {{ y: int[]; }}
    @lower {{ y[] = int({condition}); }} }}
graph G {{ @input {{ x: real[d|20, d|20]; }} @output {{ y: int[]; }} @compose {{ y = f(x); }} }}
"""


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x[0, 3 % n] < 0.0 || n > 0", 1),
        ("x[0, 3 % n] < 0.0 && n == 0", 0),
        ("n < 1 && x[0, 3 / n - 1] < 0.0", 0),
        ("x[0, 7 / n - 2] > 0.0 || n * 2 > 1", 1),
        ("x[1, 3 % (n * n) % 2] > 0.0 || n == 0", 0),
    ],
)
def test_conditions_that_would_make_a_divisor_zero(condition: str, expected: int) -> None:
    text = DIVIDING.format(condition=condition)
    x = np.array([[-1.0, 1.0], [2.0, -2.0]], "float32")
    model = tvm_nnef.load_model(text)
    (found,) = tvm_nnef.build(model, progress=False)(x)
    (evaluated,) = tvm_nnef.evaluate(tvm_nnef.compose(model), x)
    assert (int(found), int(evaluated)) == (expected, expected)


def test_a_multiple_of_a_dimension_that_int32_does_not_hold() -> None:
    text = """operator f { @input { x: real[n,m]; } @output { y: bool[n]; }
        @lower { y[i,] = i >= m * 100000 * 100000, i < n; } }
    graph G { @input { x: real[d|20, e|20]; } @output { y: bool[d|20]; } @compose { y = f(x); } }
    """
    (found,) = tvm_nnef.build(text, progress=False)(np.zeros((2, 3), "float32"))
    np.testing.assert_array_equal(found, [False, False])
