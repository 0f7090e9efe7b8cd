"""``@quantize`` of models: integer kernels, with the codes of the evaluator."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import passes
from tvm_nnef.compilation.target import resolve
from tvm_nnef.measurement.kernel_report import KernelReport

OUTPUTS = 8
SCALES = ", ".join(f"{0.004 + 0.001 * number:.4g}" for number in range(OUTPUTS))
STEP = 0.04
TEXT = f"""
import layout, linalg, math, nn, quant;

graph Net {{
    @input {{ x: real[BATCH, 6, ROWS, 10]; }}
    @variable {{
        w: real[{OUTPUTS}, 6, 3, 3]; b: real[{OUTPUTS}]; v: real[{OUTPUTS}, {OUTPUTS}, 1, 1];
        m: real[{OUTPUTS}, 5];
        mean: real[{OUTPUTS}]; variance: real[{OUTPUTS}];
        shift: real[{OUTPUTS}]; factor: real[{OUTPUTS}];
    }}
    @output {{ y: real; z: real; }}
    @compose {{
        c = nn.conv{{padding=1}}(x, w, b);
        r = nn.relu(c);
        p = nn.max_pool{{size=2, stride=2, padding=0}}(r);
        d = nn.conv{{padding=0}}(p, v);
        n = nn.batch_norm(d, mean, variance, shift, factor);
        s = math.add(n, p);
        y = nn.relu(s);
        t = layout.transpose{{perm=[0, 2, 3, 1]}}(y);
        z = linalg.matmul(t, m);
    }}
    @quantize {{
        x: quant.zero_point_linear_quantize{{zero_point=120, scale=0.03, bits=8, signed=false}};
        w: quant.zero_point_linear_quantize{{
            zero_point=0, scale=[{SCALES}], bits=8, symmetric=true, channel_axis=0}};
        v: quant.zero_point_linear_quantize{{zero_point=0, scale=0.01, bits=8}};
        m: quant.min_max_linear_quantize{{min=-1.0, max=1.0, bits=8, symmetric=true}};
        r: quant.zero_point_linear_quantize{{zero_point=0, scale=0.02, bits=8, signed=false}};
        y: quant.zero_point_linear_quantize{{zero_point=-128, scale={STEP}, bits=8}};
    }}
}}
"""


def model(dynamic: bool) -> Any:
    random = np.random.default_rng(3)
    batch, rows = ("count|4", "h|16") if dynamic else ("2", "8")
    text = TEXT.replace("BATCH", batch).replace("ROWS", rows)
    shapes = {"w": (OUTPUTS, 6, 3, 3), "b": (OUTPUTS,), "v": (OUTPUTS, OUTPUTS, 1, 1),
              "m": (OUTPUTS, 5), "mean": (OUTPUTS,), "shift": (OUTPUTS,)}  # fmt: skip
    variables = {name: 0.3 * random.standard_normal(shape) for name, shape in shapes.items()}
    variables |= {name: random.uniform(0.5, 2, OUTPUTS) for name in ("variance", "factor")}
    arrays = {f"main.Net.{name}": array.astype("float32") for name, array in variables.items()}
    return tvm_nnef.load_model(text, variables=arrays)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_codes_are_those_of_the_evaluator(dynamic: bool, route: Any) -> None:
    net = model(dynamic)
    executable = tvm_nnef.build(net, route=route, progress=False)
    for batch, rows in ((1, 6), (3, 12)) if dynamic else ((2, 8),):
        x = np.random.default_rng(rows).normal(0, 1.5, (batch, 6, rows, 10)).astype("float32")
        expected, found = tvm_nnef.evaluate(net, x), executable(x)
        steps = np.abs(np.asarray(found[0]) - np.asarray(expected[0])) / STEP
        # A real that is within a rounding error of the middle of two codes gets either.
        assert steps.max() <= 1.01
        assert (steps > 0.01).mean() <= 0.005
        assert np.abs(np.asarray(found[1]) - np.asarray(expected[1])).max() <= 1.01 * STEP


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_contractions_are_those_of_integers(dynamic: bool, route: Any) -> None:
    mod = tvm_nnef.from_nnef(model(dynamic), route=route)
    for each in passes(resolve("x86-64-v3")):
        if each.phase in ("bind", "graph", "fuse"):
            mod = each.run(mod)
    names = " ".join(str(variable.name_hint) for variable in mod.functions)
    # The pooling of formulas is a kernel, which codes do not pass.
    assert len(re.findall("(?:conv|matmul)_int", names)) == (2 if route == "mapped" else 1)
    # The factor of the batch norm and the scales of codes are one constant.
    assert route == "formula" or "divide" not in names.replace("fused_divide_quantize", "")


def test_a_tensor_without_contractions_keeps_its_nans() -> None:
    text = """
import quant;
graph G {
    @input { x: real[4]; }
    @output { y: real[4]; }
    @compose { y = quant.zero_point_linear_quantize{zero_point=0, scale=0.5, bits=8}(x); }
}
"""
    x = np.array([np.nan, 0.26, -0.25, 1e9], np.float32)
    (found,) = tvm_nnef.build(text, progress=False)(x)
    np.testing.assert_array_equal(np.asarray(found), [np.nan, 0.5, -0.5, 63.5])


def test_the_report_says_why_a_kernel_computes_in_reals() -> None:
    text = """
import nn, quant;
graph Net {
    @input { x: real[1, 8, 6, 6]; }
    @variable { w: real[8, 8, 1, 1]; d: real[8, 1, 3, 3]; }
    @output { z: real; }
    @compose { y = nn.conv{padding=0}(x, w); z = nn.conv{padding=1, groups=8}(y, d); }
    @quantize {
        x: quant.zero_point_linear_quantize{zero_point=0, scale=0.02, bits=8};
        w: quant.zero_point_linear_quantize{zero_point=0, scale=0.02, bits=8};
        y: quant.zero_point_linear_quantize{zero_point=0, scale=0.02, bits=8};
    }
}
"""
    shapes = {"main.Net.w": (8, 8, 1, 1), "main.Net.d": (8, 1, 3, 3)}
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    reports: list[KernelReport] = []
    net = tvm_nnef.load_model(text, variables=arrays)
    tvm_nnef.build(net, "x86-64-v3", progress=False, verbose=reports.append, cache=False)
    found = {row.operations: row for row in reports[0].rows if row.notes or "to" in row.dtype}
    (real,) = (row for names, row in found.items() if "main.Net.z" in names)
    (whole,) = (row for names, row in found.items() if "main.Net.y" in names)
    assert (whole.dtype, whole.notes) == ("uint8 to int32", ())
    assert real.dtype == "float32"
    assert real.notes == ("main.Net.z: the channels of a group are not pairs",)
