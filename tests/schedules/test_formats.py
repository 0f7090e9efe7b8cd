"""Formats that a user wrote change inside of a model, never at its edges."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef

pytestmark = pytest.mark.slow

TEXT = """import nn, math;
operator odd {
  @input { x: real[s..(4)]; }
  @output { y: real[s..]; }
  @lower { y[i..] = `sin`(x[i..]) < 0.5 ? x[i..] * x[i..] : `cos`(x[i..]), i < s; }
}
operator gate {
  @input { x: real[s..(4)]; }
  @output { y: real[s..]; }
  @lower { y[i..] = x[i..] * real(i[CHANNEL] % 2), i < s; }
}
graph G {
  @input { x: real[DATA]; }
  @output { y: real[~..]; }
  @variable { w: real[FIRST]; v: real[SECOND]; b: real[6]; }
  @compose {
    c = nn.conv{padding=[1,1,1,1], data_format='FORMAT', filter_format='FORMAT'}(x, w, b);
    r = nn.relu(c);
    o = OPERATOR(r);
    p = nn.max_pool{size=[3,3], stride=[2,2], padding=[1,1,1,1], axes=[AXES]}(o);
    y = nn.conv{padding=[1,1,1,1], data_format='FORMAT', filter_format='FORMAT'}(p, v, b);
  }
}
"""

FORMATS = {"NCX": (0, 1, 2, 3), "NXC": (0, 2, 3, 1), "XCN": (2, 3, 1, 0)}
"""The dimensions of a tensor in NCX, in the order of another format."""

EDGES = {"NCX": 2, "NXC": 0, "XCN": 2}
"""How many permutations there are: those of the input and of the output."""


def arrays():
    generator = np.random.default_rng(6)
    shapes = {"x": (2, 4, 10, 12), "w": (6, 4, 3, 3), "v": (6, 6, 3, 3)}
    return {name: generator.standard_normal(s).astype("float32") for name, s in shapes.items()}


def written(name, operator):
    """The model in a format, its weights, its input, and the order of the format."""
    order = FORMATS[name]
    moved = {key: np.ascontiguousarray(a.transpose(order)) for key, a in arrays().items()}
    axes = sorted(order.index(dimension) for dimension in (2, 3))
    words = {
        "FORMAT": name,
        "OPERATOR": operator,
        "CHANNEL": str(order.index(1)),
        "AXES": ",".join(map(str, axes)),
        "DATA": ",".join(map(str, moved["x"].shape)),
        "FIRST": ",".join(map(str, moved["w"].shape)),
        "SECOND": ",".join(map(str, moved["v"].shape)),
    }
    text = TEXT
    for word, value in words.items():
        text = text.replace(word, value)
    weights = {f"main.G.{key}": moved[key] for key in ("w", "v")}
    weights["main.G.b"] = np.linspace(-1, 1, 6, dtype="float32")
    return tvm_nnef.load_model(text, variables=weights), moved["x"], order


@pytest.mark.parametrize("route", ["mapped", pytest.param("formula", marks=pytest.mark.slow)])
@pytest.mark.parametrize("operator", ["nn.sigmoid", "odd", "gate"])
@pytest.mark.parametrize("name", FORMATS)
def test_formats_change_inside_and_not_at_the_edges(name, operator, route, tmp_path):
    plain, x, _ = written("NCX", operator)
    (expected,) = tvm_nnef.evaluate(plain, x)
    model, given, order = written(name, operator)
    executable = tvm_nnef.build(model, route=route, progress=False, dump_dir=tmp_path)
    (found,) = executable(given)
    np.testing.assert_allclose(found, expected.transpose(order), rtol=1e-4, atol=1e-4)
    lines = (tmp_path / "kernels.txt").read_text().splitlines()
    assert sum("transpose" in line for line in lines) == EDGES[name], lines
    assert all("fallback" not in line for line in lines)


def test_channels_alone_stay_last(tmp_path):
    weights = np.random.default_rng(1).standard_normal((16, 3, 3, 1)).astype("float32")
    model = tvm_nnef.load_model(
        """import nn; graph G { @input { x: real[1,9,11,16]; } @variable { w: real[16,3,3,1]; }
          @output { y: real[~..]; } @compose { y = nn.conv{padding=[1,1,1,1], groups=0,
            data_format='NXC', filter_format='NXC'}(x, w); } }""",
        variables={"main.G.w": weights},
    )
    x = np.random.default_rng(2).standard_normal((1, 9, 11, 16)).astype("float32")
    (expected,) = tvm_nnef.evaluate(model, x)
    (found,) = tvm_nnef.build(model, progress=False, dump_dir=tmp_path)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert (tmp_path / "kernels.txt").read_text().split() == ["cpu.register_tile", "conv"]
