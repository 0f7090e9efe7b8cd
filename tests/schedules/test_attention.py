"""Attention on CPUs in one kernel without scores in memory, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve

GROUPS, HEADS, DEPTH, ENTRIES = 2, 3, 20, 450

FORMULAS = """
import math; import layout; import linalg; import nn;

operator products {
    @attrib { count: int; }
    @input { q: real[b, g, h, n, d]; k: real[b, g, s, d]; }
    @output { y: real[b, g, h, n, count]; }
    @lower {
        y[bi, gi, hi, i, j] += q[bi, gi, hi, i, e] * k[bi, gi, j, e],
            bi < b, gi < g, hi < h, i < n, j < count, e < d;
    }
}

operator seen {
    @input { x: real[b, g, h, n, t]; before: int[b]; }
    @output { y: real[b, g, h, n, t]; }
    @lower {
        y[bi, gi, hi, i, j] = j <= before[bi,] + i ? x[bi, gi, hi, i, j] : -inf,
            bi < b, gi < g, hi < h, i < n, j < t;
    }
}

operator sums {
    @input { p: real[b, g, h, n, t]; v: real[b, g, s, d]; }
    @output { y: real[b, g, h, n, d]; }
    @lower {
        y[bi, gi, hi, i, e] += p[bi, gi, hi, i, j] * v[bi, gi, j, e],
            bi < b, gi < g, hi < h, i < n, e < d, j < t;
    }
}
"""

BODIES = {
    "": ("", "x = a;"),
    "added": ("m: real[1, 1, 1, n, t];", "x = math.add(a, m);"),
    "causal": ("m: int[b];", "x = seen(a, m);"),
}
"""A mask, and how scores are made, by the kind of mask."""


def text(batch: Any, rows: Any, keys: Any, kind: str) -> str:
    """The graph of attention over the first keys of a buffer, as many as ``like`` has elements."""
    mask, body = BODIES[kind]
    names = {"b": batch, "n": rows, "t": keys}
    declared = re.sub(r"\b[bnt]\b", lambda name: str(names[name[0]]), mask)
    return f"""{FORMULAS}
    operator attention {{
        @input {{
            q: real[b, g, h, n, d]; k: real[b, g, s, d]; v: real[b, g, s, d]; like: real[t]; {mask}
        }}
        @output {{ y: real[b, g, h, n, d]; }}
        @compose {{
            r = math.mul(q, 0.25); a = products{{count=t}}(r, k); {body}
            p = nn.softmax{{axes=[4]}}(x); y = sums(p, v);
        }}
    }}
    graph G {{
        @input {{
            q: real[{batch},{GROUPS},{HEADS},{rows},{DEPTH}];
            k: real[{batch},{GROUPS},{ENTRIES},{DEPTH}];
            v: real[{batch},{GROUPS},{ENTRIES},{DEPTH}];
            like: real[{keys}]; {declared}
        }}
        @output {{ y: real[~,~,~,~,~]; }}
        @compose {{ y = attention(q, k, v, like{", m" if mask else ""}); }}
    }}
    """


def values(batch: int, rows: int, keys: int, kind: str, real: Any = "float32") -> list[Any]:
    random = np.random.default_rng(rows + keys)
    q = random.standard_normal((batch, GROUPS, HEADS, rows, DEPTH)).astype(real)
    shape = batch, GROUPS, ENTRIES, DEPTH
    k, v = (random.standard_normal(shape).astype(real) for _ in range(2))
    given = [q, k, v, np.zeros(keys, real)]
    before = np.maximum(keys - rows - np.arange(batch), 0).astype("int32")
    if kind == "added":
        return [*given, random.standard_normal((1, 1, 1, rows, keys)).astype(real)]
    return [*given, *([before] if kind == "causal" else [])]


def attention(q: Any, k: Any, v: Any, like: Any, m: Any, kind: str) -> Any:
    """Attention in float64; values of unseen keys count 0 times."""
    k, v = (each[:, :, : len(like)] for each in (k, v))
    scores = q.astype("float64") @ k.astype("float64").swapaxes(-1, -2)[:, :, None] * 0.25
    rows, keys = scores.shape[-2:]
    if kind == "added":
        scores = scores + m
    elif kind == "causal":
        last = m[:, None] + np.arange(rows)
        seen = np.arange(keys) <= last[..., None]
        scores = np.where(seen[:, None, None], scores, -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        weights = powers / powers.sum(-1, keepdims=True)
        return weights @ v.astype("float64")[:, :, None]


def strategies_of(model: str, **options: Any) -> list[str | None]:
    module = run_phases(tvm_nnef.from_nnef(model, **options), resolve("native"), "bind", "schedule")
    return [each.strategy for each in schedules.report(module)]


def check(executable: Any, inputs: list[Any], kind: str, tolerance: float = 2e-5) -> None:
    (found,) = executable(*inputs)
    expected = attention(*inputs[:4], inputs[4] if kind else None, kind)
    np.testing.assert_allclose(np.asarray(found, "float64"), expected, tolerance, tolerance / 10)


@pytest.mark.parametrize(
    ("rows", "keys", "kind"),
    [
        (300, 300, "causal"),
        pytest.param(301, 310, "added", marks=pytest.mark.slow),
        pytest.param(260, 390, "", marks=pytest.mark.slow),
    ],
)
def test_static_sizes(rows: int, keys: int, kind: str) -> None:
    model = text(2, rows, keys, kind)
    assert strategies_of(model) == ["cpu.attention"]
    check(tvm_nnef.build(model, progress=False), values(2, rows, keys, kind), kind)


SIZES = [(1, 1, 1), (2, 5, 64), (1, 65, 65), (2, 301, 449), (1, 3, 7), (3, 300, 330), (1, 320, 320)]
"""Batches, rows and keys: few scores, and many, which exceed the second cache."""


@pytest.mark.parametrize("kind", ["causal", pytest.param("added", marks=pytest.mark.slow)])
def test_dynamic_sizes(kind: str) -> None:
    """Few rows, whose scores are stored, are computed by the same kernel."""
    model = text("b|3", "n|320", "t|450", kind)
    assert strategies_of(model) == ["cpu.attention"]
    executable = tvm_nnef.build(model, progress=False)
    for sizes in SIZES:
        check(executable, values(*sizes, kind), kind)
    (found,) = executable(*values(1, 20, 0, kind))
    np.testing.assert_array_equal(found, np.zeros((1, GROUPS, HEADS, 20, DEPTH)))
    assert executable(*values(1, 0, 9, kind))[0].shape == (1, GROUPS, HEADS, 0, DEPTH)


def test_numbers_that_are_not_finite() -> None:
    """They make NaN of the rows and columns of which they make NaN without fusion."""
    executable = tvm_nnef.build(text(1, 240, 400, "added"), progress=False)
    q, k, v, like, mask = values(1, 240, 400, "added")
    mask[..., 0, :] = -np.inf
    mask[..., 1, 177] = np.nan
    mask[..., 2, 140] = np.inf
    mask[..., 3, :130] = -np.inf
    mask[..., 4, 20:] = -np.inf
    mask[..., 5, 0] = 1e30
    check(executable, [q, k, v, like, mask], "added")
    v[..., 9, 0], v[..., 290, 1] = np.inf, np.nan
    check(executable, [q, k, v, like, mask], "added")


def test_values_of_keys_that_no_row_sees() -> None:
    """The tiles of these are not computed; 0 times a value that is not finite is NaN."""
    executable = tvm_nnef.build(text(1, 240, 400, "causal"), progress=False)
    q, k, v, like, _ = values(1, 240, 400, "causal")
    for before in (0, 100, -20, -400):
        inputs = [q, k, v.copy(), like, np.array([before], "int32")]
        check(executable, inputs, "causal")
        inputs[2][:, 0, 390, 3] = np.inf
        check(executable, inputs, "causal")


@pytest.mark.slow
@pytest.mark.parametrize("real", ["float16", "bfloat16"])
def test_half_precision(real: str) -> None:
    """Half precision in memory changes nothing but rounding."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = getattr(ml_dtypes, real, real)
    model = text(2, 240, 400, "added")
    executable = tvm_nnef.build(model, progress=False, dtypes={"real": real})
    check(executable, values(2, 240, 400, "added", kind), "added", 0.15)
