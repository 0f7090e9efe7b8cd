"""Whole models exported to NNEF 1: names, variables, state, quantization, packs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import tvm_nnef
from tvm_nnef.storage.tensor_file import read_tensor

DIGITS = Path(__file__).parents[3] / "docs" / "examples" / "digits"
Exported = Callable[..., tuple[str, tvm_nnef.Model]]


def test_the_text_of_a_model(exported: Exported, tmp_path: Path) -> None:
    """Written as section 3.2 has it; a bias is a row, as section 4.3.1 demands."""
    text = """import nn, math;
    graph Net {
        @input { picture: real[1, 2, 4, 4]; }
        @variable { w: real[3, 2, 3, 3]; b: real[3]; }
        @output { y: real; }
        @compose { c = nn.conv{padding=1, stride=2}(picture, w, b); r = nn.relu(c);
                   y = math.mul(r, 0.1); }
    }"""
    generator = np.random.default_rng(1)
    weight, bias = generator.normal(size=(3, 2, 3, 3)), generator.normal(size=3)
    variables = {"main.Net.w": weight.astype("f4"), "main.Net.b": bias.astype("f4")}
    image = generator.normal(size=(1, 2, 4, 4)).astype("f4")
    written, _ = exported(text, image, variables=variables)
    assert (
        written
        == """version 1.0;

graph Net(picture) -> (y)
{
    picture = external<scalar>(shape = [1, 2, 4, 4]);
    w = variable<scalar>(shape = [3, 2, 3, 3], label = 'w');
    b = variable<scalar>(shape = [1, 3], label = 'b');
    c = conv(picture, w, b, padding = [(1, 1), (1, 1)], stride = [2, 2]);
    r = relu(c);
    y = mul(r, 0.1);
}
"""
    )
    folder = tmp_path / "out.nnef1"
    stored = read_tensor((folder / "b.dat").read_bytes(), "b.dat")
    np.testing.assert_array_equal(stored.array, variables["main.Net.b"][None])
    assert not (folder / "graph.quant").exists()


def test_digits(tmp_path: Path) -> None:
    image = np.random.default_rng(0).uniform(size=(1, 1, 8, 8)).astype(np.float32)
    tvm_nnef.convert(DIGITS, tmp_path / "out.nnef1")
    (expected,) = tvm_nnef.evaluate(DIGITS, image)
    (found,) = tvm_nnef.evaluate(tmp_path / "out.nnef1", image)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    written = (tmp_path / "out.nnef1" / "graph.nnef").read_text()
    assert "graph Digits(image) -> (probabilities)" in written


def test_filters_are_stored_in_the_layout_of_nnef_1(exported: Exported) -> None:
    text = """import nn, math;
    graph G {
        @input { x: real[1, 5, 5, 2]; }
        @variable { w: real[3, 3, 2, 4]; s: real[4]; }
        @output { y: real; z: real; }
        @compose { c = nn.conv{data_format='NXC', filter_format='XCN'}(x, w);
                   y = math.add(c, s); z = math.neg(s); }
    }"""
    generator = np.random.default_rng(1)
    shapes = {"w": (3, 3, 2, 4), "s": (4,)}
    variables = {f"main.G.{k}": generator.normal(size=v).astype("f4") for k, v in shapes.items()}
    x = generator.normal(size=(1, 5, 5, 2)).astype("f4")
    written, _ = exported(text, x, variables=variables)
    assert "w = variable<scalar>(shape = [4, 2, 3, 3], label = 'w');" in written
    # Stored as the sum needs it, so that the other use has to change it back.
    assert "s = variable<scalar>(shape = [1, 1, 1, 4], label = 's');" in written
    assert "reshape(s, shape = [4])" in written


STATE = """import math;
graph G {
    @input { x: real[2]; }
    @variable { v: real[2]; }
    @output { before: real[2]; y: real[2]; }
    @compose { before = math.iden(v); y = math.add(v, x); }
    @update { v = y; }
}"""


def test_state(exported: Exported) -> None:
    """Section 4.8: the variable has the new value from the next run on."""
    x = np.array([10, 20], np.float32)
    variables = {"main.G.v": np.array([1, 2], np.float32)}
    written, back = exported(STATE, x, variables=variables)
    assert "v_updated = update(v, y);" in written
    run = tvm_nnef.build(back, progress=False)
    steps = [[np.asarray(each) for each in run(x)] for _ in range(2)]
    np.testing.assert_array_equal(steps, [[[1, 2], [11, 22]], [[11, 22], [21, 42]]])


def test_quantization(exported: Exported, tmp_path: Path) -> None:
    text = """import math, quant;
    graph G {
        @input { x: real[2, 3]; }
        @variable { w: real[3]; }
        @output { y: real; z: real; }
        @compose { a = math.mul(x, w); y = math.neg(a); z = math.exp(a); }
        @quantize {
            x: quant.zero_point_linear_quantize{zero_point=3, scale=0.25, bits=8, signed=false};
            w: quant.min_max_linear_quantize{min=-1.0, max=1.0, bits=4};
            a: quant.min_max_linear_quantize{min=-2.0, max=2.0, bits=8, symmetric=true};
            z: quant.min_max_linear_quantize{min=[0.0, 0.1, 0.2], max=[1.0, 2.0, 3.0], bits=8};
        }
    }"""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(2, 3)).astype("f4")
    variables = {"main.G.w": generator.normal(size=3).astype("f4")}
    written, _ = exported(text, x, variables=variables)
    lines = set((tmp_path / "out.nnef1" / "graph.quant").read_text().splitlines())
    assert lines == {
        '"x": zero_point_linear_quantize(zero_point = 3, scale = 0.25, bits = 8, signed = false,'
        " symmetric = false);",
        '"w": min_max_linear_quantize(min = -1.0, max = 1.0, bits = 4, signed = true,'
        " symmetric = false);",
        '"a": min_max_linear_quantize(min = -2.0, max = 2.0, bits = 8, signed = true,'
        " symmetric = true);",
    }
    assert "min_max_linear_quantize" in written, "limits of channels are operands"


def test_names(exported: Exported) -> None:
    """Items of packs are numbered, reserved words changed; outputs that are not results copied."""
    text = """import math, layout;
    graph G {
        @input { xs: real[2]..(2); shape_of: real[2]; }
        @constant { k: real[2] = [1.0, 2.0]; }
        @output { parts: real..(2); same: real; graph_: real; }
        @compose {
            parts..(2) = layout.split{axis=0, count=2}(shape_of);
            s = math.sum_n(xs); same = math.iden(k);
            graph_ = math.add(s, k);
        }
    }"""
    loaded = tvm_nnef.load_model(text)
    from tvm_nnef.converters.nnef1.export import exported as files

    written = files(tvm_nnef.compose(loaded), {}).graph
    assert "graph G(xs_1, xs_2, shape_of_) -> (parts_1, parts_2, same, graph_)" in written
    assert tvm_nnef.convert(written).graphs == ("G",)


def test_names_that_skriptnd_changes_come_back(tmp_path: Path) -> None:
    """Names of standard modules are changed when NNEF 1 is read."""
    text = """version 1.0;
    graph G(image) -> (nn) { image = external(shape = [2]); math = exp(image); nn = neg(math); }"""
    model = tvm_nnef.convert(text)
    tvm_nnef.convert(model, tmp_path / "out.nnef1")
    written = (tmp_path / "out.nnef1" / "graph.nnef").read_text()
    assert "graph G(image) -> (nn)" in written
    assert "math = exp(image);" in written


def test_constants_with_many_elements_or_without_literals_are_files(exported: Exported) -> None:
    text = """import math, layout;
    graph G {
        @input { x: real[]; }
        @output { y: real; z: real; }
        @compose {
            r = layout.range{first=0.0, last=500.0}(); y = math.add(x, r);
            z = math.min(x, inf);
        }
    }"""
    written, _ = exported(text, np.float32(2.5))
    assert written.count("variable<scalar>") == 2


def test_what_no_output_needs_is_left_out(exported: Exported, tmp_path: Path) -> None:
    text = """import math, quant, nn;
    graph G {
        @input { x: real[1, 2]; }
        @variable { w: real[3, 2]; }
        @output { y: real; }
        @compose { a = nn.linear(x, w); b = math.exp(a); y = math.neg(x); }
        @quantize { b: quant.min_max_linear_quantize{min=0.0, max=1.0, bits=8}; }
    }"""
    variables = {"main.G.w": np.zeros((3, 2), np.float32)}
    exported(text, np.ones((1, 2), np.float32), variables=variables)
    files = {each.name for each in (tmp_path / "out.nnef1").iterdir()}
    assert files == {"graph.nnef", ".tvm-nnef.json"}


def test_operators_of_the_model_are_expanded(exported: Exported) -> None:
    text = """import math;
    operator twice { @input { x: real[s..]; } @output { y: real[s..]; }
                     @compose { h = math.exp(x); y = math.add(h, h); } }
    graph G { @input { x: real[3]; } @output { b: real; }
              @compose { a = twice(x); b = twice(a); } }"""
    written, _ = exported(text, np.array([0.1, -1, 0.5], np.float32))
    assert written.count("exp(") == 2 and "a = add(h, h);" in written


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        tvm_nnef.convert(DIGITS, tmp_path / f"{name}.nnef1.tgz")
    first, second = ((tmp_path / f"{name}.nnef1.tgz").read_bytes() for name in ("a", "b"))
    assert first == second
    assert tvm_nnef.convert(tmp_path / "a.nnef1.tgz").graphs == ("Digits",)
