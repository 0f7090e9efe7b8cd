"""Integer elements wrap around in compiled code, whatever is fused; NumPy is the judge."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tvm_nnef

LOW, HIGH = -(2**31), 2**31 - 1
VALUES = np.array([LOW, LOW + 1, -7, -1, 0, 1, 5, 2**30, HIGH - 1, HIGH])
A, B = (each.ravel().astype("int32") for each in np.meshgrid(VALUES, VALUES))
I = np.int32  # noqa: E741 - as in the formulas below

# What several operators compute, what one formula computes, and the same in NumPy.
CHAINS: dict[str, tuple[str, str, Callable[[], np.ndarray]]] = {
    "absolute": ("t = math.sub(a, b); q = math.abs(t);", "`abs`(a[i] - b[i])", lambda: abs(A - B)),
    "sign": ("t = math.sub(a, b); q = math.sign(t);", "`sign`(a[i] - b[i])",
             lambda: np.sign(A - B)),
    "positive": ("t = math.sub(a, b); c = math.gt(t, 0); q = math.select(c, 1, 0);",
                 "a[i] - b[i] > 0 ? 1 : 0", lambda: (A - B > 0).astype(I)),
    "successor": ("t = math.add(a, 1); c = math.gt(t, a); q = math.select(c, 1, 0);",
                  "a[i] + 1 > a[i] ? 1 : 0", lambda: (A + I(1) > A).astype(I)),
    "negated": ("t = math.neg(a); c = math.gt(t, 0); q = math.select(c, t, 5);",
                "-a[i] > 0 ? -a[i] : 5", lambda: np.where(-A > 0, -A, I(5))),
    "max": ("t = math.add(a, 5); q = math.max(t, a);", "a[i] + 5 >> a[i]",
            lambda: np.maximum(A + I(5), A)),
    "min": ("t = math.min(a, b); u = math.sub(t, a); q = math.abs(u);",
            "`abs`((a[i] << b[i]) - a[i])", lambda: abs(np.minimum(A, B) - A)),
    "quotient": ("t = math.mul(a, 4); q = math.div(t, 4);", "a[i] * 4 / 4",
                 lambda: A * I(4) // I(4)),
    "remainder": ("t = math.mul(a, 1000000); q = math.mod(t, 7);", "(a[i] * 1000000) % 7",
                  lambda: A * I(1000000) % I(7)),
    "large constants": (
        "t = math.add(a, 1073741824); u = math.add(t, 1073741824); c = math.lt(u, a);"
        " q = math.select(c, u, t);",
        "a[i] + 1073741824 + 1073741824 < a[i]"
        " ? a[i] + 1073741824 + 1073741824 : a[i] + 1073741824",
        lambda: np.where(A + I(LOW) < A, A + I(LOW), A + I(2**30)),
    ),
    "factors": ("t = math.mul(a, 65536); u = math.mul(t, 65537); q = math.add(u, 2147483647);",
                "a[i] * 65536 * 65537 + 2147483647",
                lambda: A * I(65536) * I(65537) + I(HIGH)),
}  # fmt: skip


def model(whole: bool) -> str:
    """All cases in one graph: chains of operators, or one formula each."""
    operators, lines = "", ""
    for number, (chain, formula, _) in enumerate(CHAINS.values()):
        if whole:
            operators += (
                f"operator f{number} {{ @input {{ a: int[n]; b: int[n]; }} @output {{ q: int[n]; }}"
                f" @lower {{ q[i] = {formula}, i < n; }} }}\n"
            )
            lines += f"q{number} = f{number}(a, b);\n"
            continue
        for name in "tucq":
            chain = chain.replace(f"{name} =", f"{name}{number} =")
            for end in ",)":
                chain = chain.replace(f"({name}{end}", f"({name}{number}{end}")
                chain = chain.replace(f" {name}{end}", f" {name}{number}{end}")
        lines += f"{chain}\n"
    outputs = "".join(f"q{number}: int[100]; " for number in range(len(CHAINS)))
    return (
        f"import math;\n{operators}graph g {{ @input {{ a: int[100]; b: int[100]; }}"
        f" @output {{ {outputs} }} @compose {{ {lines} }} }}"
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("whole", [False, True], ids=["chains", "formulas"])
@pytest.mark.parametrize("route", ["reference", "mapped", "formula"])
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_integer_elements_wrap_around(route: str, whole: bool) -> None:
    loaded = tvm_nnef.load_model(model(whole), dialect="draft")
    if route == "reference":
        found = tvm_nnef.evaluate(loaded, A, B)
    else:
        found = tvm_nnef.build(loaded, route=route, progress=False, cache=False)(A, B)
    for (name, (_, _, expected)), ours in zip(CHAINS.items(), found, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), expected(), err_msg=name)


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_integers_of_64_bits_wrap_around() -> None:
    text = """
        import math;
        graph g {
            @input { a: int[4]; }
            @output { q: int[4]; r: int[4]; }
            @compose {
                t = math.mul(a, 3); c = math.gt(t, a); q = math.select(c, t, 0);
                u = math.add(a, 4611686018427387904); v = math.add(u, 4611686018427387904);
                r = math.max(v, a);
            }
        }"""
    a = np.array([2**62, -(2**63), 2**63 - 1, -5])
    loaded = tvm_nnef.load_model(text, dialect="draft")
    types = {f"main.g.{name}": "int64" for name in ("a", "t", "q", "u", "v", "r")}
    q, r = tvm_nnef.build(loaded, dtypes=types, progress=False, cache=False)(a)
    low = np.int64(-(2**63))
    np.testing.assert_array_equal(np.asarray(q), np.where(a * 3 > a, a * 3, 0))
    np.testing.assert_array_equal(np.asarray(r), np.maximum(a + low, a))


CONDITIONS: dict[str, tuple[str, str, Callable[[np.ndarray], np.ndarray]]] = {
    "of a sum": ("int64", "q[i] += x[i,j], i < m, j < n | x[i,j] - x[i,0] > 0;",
                 lambda x: np.where(x - x[:, :1] > 0, x, 0).sum(1)),
    "on a product of narrow numbers": ("uint16", "q[i] = `sign`(x[i,0] * x[i,1]), i < m;",
                 lambda x: np.sign(np.prod(x[:, :2].astype(I), 1, dtype=I)).astype("uint16")),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("name", CONDITIONS)
def test_what_wrapped_around_is_compared(name: str) -> None:
    dtype, formula, expected = CONDITIONS[name]
    text = (
        "operator f { @input { x: int[m,n]; } @output { q: int[m]; }"
        f" @lower {{ {formula} }} }}"
        " graph g { @input { x: int[13,37]; } @output { q: int[13]; } @compose { q = f(x); } }"
    )
    limits = np.iinfo(dtype)
    generator = np.random.default_rng(0)
    x = generator.integers(limits.min, limits.max, (13, 37), dtype=dtype, endpoint=True)
    loaded = tvm_nnef.load_model(text, dialect="draft")
    (q,) = tvm_nnef.build(loaded, dtypes={"int": dtype}, progress=False, cache=False)(x)
    np.testing.assert_array_equal(np.asarray(q), expected(x))


@pytest.mark.slow
def test_bfloat16_scalars_that_are_read_twice() -> None:
    """Without axes, TVM took a bfloat16 value that has a name for an integer."""
    text = """
        import math;
        graph g {
            @input { x: real[]; }
            @output { y: real[]; }
            @compose {
                t = math.sqr(x); u = math.add(t, x); v = math.mul(u, u); y = math.sub(v, u);
            }
        }"""
    types = {f"main.g.{name}": "bfloat16" for name in ("x", "t", "u", "v", "y")}
    executable = tvm_nnef.build(text, dtypes=types, progress=False, cache=False)
    (y,) = executable(np.asarray(1.5, ml_dtypes.bfloat16))
    assert float(np.asarray(y)) == 10.3125  # All steps are exact in 8 bits.
