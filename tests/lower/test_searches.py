"""Formulas that search for the index of a max or a min: which ones they are, and their results."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve

MODEL = """
operator formula {{
    @input {{ x: real[s, z]; w: real[z]; }}
    @output {{ {outputs} }}
    @lower {{ {lower} }}
}}
graph Main {{
    @input {{ x: real[9, 35]; w: real[35]; }}
    @output {{ {given} }}
    @compose {{ {names} = formula(x, w); }}
}}
"""
ROW, PAIR = "y: int[s];", "y: int[1]..(2);"
STEP = "y[i] = 0, i < s; y[i] := j, i < s, j < z |"

SEARCHES = {
    "largest": (ROW, f"{STEP} x[i, j] > x[i, y[i]];"),
    "least": (ROW, f"{STEP} x[i, j] < x[i, y[i]];"),
    "turned round": (ROW, f"{STEP} x[i, y[i]] < x[i, j];"),
    "of an expression": (ROW, f"{STEP} `abs`(x[i, j]) * w[j] > `abs`(x[i, y[i]]) * w[y[i]];"),
    "with a local": (
        ROW, "y[i] = 0, i < s; b = x[i, y[i]], y[i] := j, i < s, j < z | x[i, j] > b;"),
    "the other loop outside": (
        ROW, "y[i] = 0, i < s; y[i] := j, j < z, i < s | x[i, j] > x[i, y[i]];"),
    "of columns": (
        "y: int[z];", "y[j] = 0, j < z; y[j] := i, j < z, i < s | x[i, j] > x[y[j], j];"),
    "of windows": (
        "y: int[s, z - 4];",
        "y[i, j] = 0, i < s, j < z - 4; y[i, j] := k, i < s, j < z - 4, k < 5 "
        "| x[i, j + k] > x[i, j + y[i, j]];"),
    "of two dimensions": (PAIR, "y[0,] = 0; y[0,] := [i, j], i < s, j < z | x[i, j] > x[y[0,]..];"),
    "of two dimensions, the columns first": (
        PAIR, "y[0,] = 0; y[0,] := [i, j], j < z, i < s | x[i, j] > x[y[0,]..];"),
}  # fmt: skip
ORDERED = {
    "the last of equals": (ROW, f"{STEP} x[i, j] >= x[i, y[i]];"),
    "another beginning": (
        ROW, "y[i] = 1, i < s; y[i] := j, i < s, j < z | x[i, j] > x[i, y[i]];"),
    "another expression": (ROW, f"{STEP} x[i, j] > x[i, y[i]] + 1.0;"),
    "another row": (ROW, f"{STEP} x[i, j] > x[s - 1 - i, y[i]];"),
    "another output": (
        "y: int[s]; u: int[s];",
        f"{STEP} x[i, j] > x[i, y[i]]; u[i] = 0, i < s; u[i] := j, i < s, j < z "
        "| x[i, j] > x[i, u[i]] + w[y[i]];"),
    "another place": (
        ROW, "y[i] = 0, i < s; y[i] := z - 1 - j, i < s, j < z | x[i, j] > x[i, y[i]];"),
}  # fmt: skip


def text(outputs, lower):
    names = [part.split(":")[0].strip() for part in outputs.split(";")[:-1]]
    kind = "int[1]..(2)" if outputs == PAIR else "int[~..]"
    given = " ".join(f"{name}: {kind};" for name in names)
    return MODEL.format(
        outputs=outputs,
        lower=lower,
        given=given,
        names=names[0] + "..(2)" if outputs == PAIR else ", ".join(names),
    )


def awkward():
    generator = np.random.default_rng(0)
    x = generator.integers(-3, 4, (9, 35)).astype("float32")
    x[generator.random(x.shape) < 0.1] = np.nan
    x[1], x[2, 0], x[3, 5:], x[6, 2] = -np.inf, np.nan, np.inf, np.inf
    return x, generator.integers(0, 3, 35).astype("float32")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [*SEARCHES, *ORDERED])
def test_what_a_search_finds(name):
    model = text(*(SEARCHES | ORDERED)[name])
    module = tvm_nnef.from_nnef(model)
    ordered = any("_ordered" in variable.name_hint for variable in module.get_global_vars())
    assert ordered is (name in ORDERED)
    kernels = schedules.report(run_phases(module, resolve("native"), "graph", "schedule"))
    assert ordered or "cpu.fallback" not in {kernel.strategy for kernel in kernels}
    inputs = awkward()
    found = tvm_nnef.build(module, progress=False)(*inputs)
    for result, wanted in zip(found, tvm_nnef.evaluate(model, *inputs), strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.slow
def test_a_search_of_nothing_finds_the_first_position():
    """Where a run makes the searched dimension empty; -x is searched by another strategy than x."""
    texts = [
        (MODEL.split("graph")[0].format(outputs=outputs, lower=lower)
         .replace("operator formula", f"operator f{number}").replace("x: real", f"x: {kind}"))
        for number, (kind, outputs, lower) in enumerate([
            ("real", ROW, f"{STEP} x[i, j] > x[i, y[i]];"),
            ("int", ROW, f"{STEP} -x[i, j] > -x[i, y[i]];"),
            ("real", *SEARCHES["of two dimensions"]),
        ])
    ]  # fmt: skip
    model = "".join(texts) + (
        "graph Main { @input { x: real[~|9, ~|9]; n: int[~|9, ~|9]; w: real[~|9]; }\n"
        "@output { a: int[~..]; b: int[~..]; c: int[1]..(2); }\n"
        "@compose { a = f0(x, w); b = f1(n, w); c..(2) = f2(x, w); } }"
    )
    built = tvm_nnef.build(model, progress=False)
    for shape in [(3, 0), (0, 4), (3, 4)]:
        n = np.random.default_rng(0).integers(-9, 9, shape).astype("int32")
        inputs = n.astype("float32"), n, np.zeros(shape[1], "float32")
        for result, wanted in zip(built(*inputs), tvm_nnef.evaluate(model, *inputs), strict=True):
            np.testing.assert_array_equal(result, wanted)
