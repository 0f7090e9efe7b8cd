"""Transposed convolutions that a user writes as a formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve

INDICES = "b < 2, z < 4, i < 10, j < 12, d < 3, k < 4, l < 4"
WHOLE = "(i + 1 - k) % 2 == 0 && (j + 1 - l) % 2 == 0"
PLAIN = (
    "y[b, z, i, j] += x[b, d, |(i + 1 - k) / 2|, |(j + 1 - l) / 2|] * f[d, z, k, l], "
    f"{INDICES} | {WHOLE};"
)
GROUPED = (
    "y[b, z, i, j] += x[b, z / 2 * 2 + d, |(i + 1 - k) / 2|, |(j + 1 - l) / 2|] "
    "* f[z / 2 * 2 + d, z % 2, k, l], b < 2, z < 4, i < 10, j < 12, d < 2, k < 4, l < 4 "
    f"| {WHOLE};"
)
LAST = (
    "y[b, i, j, z] += f[k, l, z, d] * x[b, |(i + 1 - k) / 2|, |(j + 1 - l) / 2|, d], "
    f"{INDICES} | {WHOLE};"
)
NCX, NXC = "2, 3, 5, 6", "2, 4, 10, 12"
DECOMPOSED = {
    "plain": (PLAIN, NCX, "3, 4, 4, 4", NXC),
    "with an addend": ("y[b, z, i, j] = f[0, z, 1, 1], b < 2, z < 4, i < 10, j < 12; " + PLAIN,
                       NCX, "3, 4, 4, 4", NXC),
    "groups": (GROUPED, "2, 4, 5, 6", "4, 2, 4, 4", NXC),
    "channels last": (LAST, "2, 5, 6, 3", "4, 4, 4, 3", "2, 10, 12, 4"),
}  # fmt: skip
OTHERS = {
    "another remainder": PLAIN.replace("- k) % 2 == 0", "- k) % 2 == 1"),
    "another offset": PLAIN.replace("(i + 1 - k) % 2", "(i + 2 - k) % 2"),
    "another divisor": PLAIN.replace("(j + 1 - l) / 2", "(j + 1 - l) / 3"),
    "one more condition": PLAIN.replace(WHOLE, f"{WHOLE} && i < 7"),
    "rising taps": PLAIN.replace("i + 1 - k", "i - 3 + k"),
    "part of the weights": PLAIN.replace("k < 4", "k < 3"),
    "part of the channels": PLAIN.replace("d < 3", "d < 2"),
}


def text(formula: str, data: str, weights: str, result: str) -> str:
    operands = f"x: real[{data}]; f: real[{weights}];"
    return (
        f"operator up {{ @input {{ {operands} }} @output {{ y: real[{result}]; }} "
        f"@lower {{ {formula} }} }}\n"
        f"graph Main {{ @input {{ {operands} }} @output {{ y: real[{result}]; }} "
        "@compose { y = up(x, f); } }\n"
    )


def agrees(source: str, arrays: Any) -> None:
    expected = tvm_nnef.evaluate(source, *arrays)[0]
    found = np.asarray(tvm_nnef.build(source)(*arrays)[0])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def operands(source: str) -> list[np.ndarray]:
    random, graph = np.random.default_rng(5), tvm_nnef.compose(source)
    shapes = [port.operand.shape for port in graph.inputs]
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", DECOMPOSED)
def test_formula_is_decomposed(name: str) -> None:
    source = text(*DECOMPOSED[name])
    agrees(source, operands(source))
    mod = run_phases(tvm_nnef.from_nnef(source), resolve("native"), "graph", "schedule")
    strategies = {kernel.strategy for kernel in schedules.report(mod)}
    assert "cpu.register_tile" in strategies
    assert "cpu.fallback" not in strategies


@pytest.mark.parametrize("name", OTHERS)
def test_other_formulas_keep_their_numbers(name: str) -> None:
    source = text(OTHERS[name], NCX, "3, 4, 4, 4", NXC)
    agrees(source, operands(source))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [2, 3, 5])
def test_missing_taps_are_not_multiplied(size: int) -> None:
    """Infinite data and weights reach only those elements of which they are terms."""
    formula = PLAIN.replace("k < 4, l < 4", f"k < {size}, l < {size}")
    source = text(formula, NCX, f"3, 4, {size}, {size}", NXC)
    x, f = operands(source)
    x[0, 0, 2, 2], x[0, 1, 3, 1], f[0, 1, 0, 0] = np.inf, np.nan, np.inf
    with np.errstate(invalid="ignore"):
        expected = tvm_nnef.evaluate(source, x, f)[0]
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()
    found = np.asarray(tvm_nnef.build(source)(x, f)[0])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
