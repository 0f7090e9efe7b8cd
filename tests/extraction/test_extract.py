"""Parts of models: they compute what the whole model computes there, by the NumPy evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main

DIGITS = Path(__file__).resolve().parents[2] / "docs" / "examples" / "digits"

BLOCKS = """
import blocks, layout, math, nn;
operator twice { @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { y[i..] = 2.0 * x[i..], i < s; } }
public operator block {
    @attrib { slope: real = 0.25; }
    @input { x: real[n, c, h, w]; }
    @output { y: real[n, c, h, w]; }
    @variable { k: real[c, c, 3, 3]; }
    @compose {
        a = nn.conv{padding=1}(x, k);
        b = blocks.gate(a);
        r = nn.relu{alpha=slope}(b);
        t = twice(r);
        y = math.add(t, x);
    }
}
graph Net {
    @input { image: real[1, 2, 4, 4]; stop: bool[]; count: int[]; }
    @output { y: real[1, 2, 4, 4]; parts: real[1, 1, 4, 4]..(2); }
    @variable { scale: real[1, 2, 1, 1]; }
    @constant { table: real[1, 2] = [0.5, -1.5]; }
    @compose {
        one = b1: block(image);
        two = b2: block{slope=0.5}(one);
        c = math.mul(two, scale);
        row = layout.unsqueeze{axes=[2, 3]}(table);
        d = math.add(c, row);
        last = if stop then d else { m = math.mul(d, 0.5); n = inner: block(m); yield n; };
        turned = with v = last while math.lt(count, 3) do..(i -> 2) {
            w = math.neg(v); yield w;
        };
        parts..(2) = layout.split{axis=1, count=2}(turned);
        y = layout.concat{axis=1}(parts);
    }
}
"""
MODULE = """
import math, nn;
public operator gate { @input { x: real[s..]; } @output { y: real[s..]; }
    @compose { e = nn.sigmoid(x); y = math.mul(e, x); } }
"""
VARIABLES = {
    f"main.Net.{name}": np.random.default_rng(number).standard_normal(shape).astype("float32")
    for number, (name, shape) in enumerate(
        {
            "b1.k": (2, 2, 3, 3),
            "b2.k": (2, 2, 3, 3),
            "last.inner.k": (2, 2, 3, 3),
            "scale": (1, 2, 1, 1),
        }.items()
    )
}


@pytest.fixture
def model(tmp_path: Path) -> tvm_nnef.Model:
    (tmp_path / "main.sknd").write_text(BLOCKS)
    (tmp_path / "blocks.sknd").write_text(MODULE)
    found = tvm_nnef.load_model(tmp_path, variables=VARIABLES)
    assert isinstance(found, tvm_nnef.Model)
    return found


INPUTS = {
    "image": np.random.default_rng(7).standard_normal((1, 2, 4, 4)).astype("float32"),
    "stop": np.array(False),
    "count": np.array(1, np.int32),
}


def check(model: Any, begin: Sequence[str], end: Sequence[str], given: dict[str, Any]) -> Any:
    """A part, whose outputs are those of the whole model."""
    whole = tvm_nnef.evaluate(model, given, tensors=[*begin, *end])
    part = tvm_nnef.extract(model, begin, end)
    inputs = [whole[name] for name in begin]
    inputs += [given[name] for name in [*part.inputs][len(begin) :]]
    found = tvm_nnef.evaluate(part, *inputs)
    expected = [whole[name] for name in end] if end else list(whole)[: len(found)]
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return part


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ((), ("two",)),
        (("one",), ("d",)),
        (("b1.a",), ("c",)),
        (("b1.b.e",), ("b2.r",)),
        ((), ("b2.b.e", "one")),
        (("c",), ("last",)),
        (("last",), ("turned",)),
        (("d",), ()),
    ],
)
def test_a_part_computes_what_the_model_computes(
    model: tvm_nnef.Model, begin: Sequence[str], end: Sequence[str]
) -> None:
    names = [f"main.Net.{each}" for each in begin], [f"main.Net.{each}" for each in end]
    if not end:
        part = tvm_nnef.extract(model, *names)
        whole = tvm_nnef.evaluate(model, INPUTS, tensors=names[0])
        found = tvm_nnef.evaluate(part, whole[names[0][0]], INPUTS["stop"], INPUTS["count"])
        np.testing.assert_array_equal(found["y"], whole["y"])
        return
    check(model, *names, INPUTS)


def test_what_a_part_needs_goes_with_it(model: tvm_nnef.Model) -> None:
    part = tvm_nnef.extract(model, ["one"], ["two"])
    assert {*part.variables} == {"main.Net.b2.k"} and part.inputs.keys() == {"one"}
    assert {name for name, each in part.modules.items() if not each.is_standard} == {
        "main",
        "blocks",
    }
    assert {*part.modules["main"].definitions} == {"block", "twice", "Net"}
    opened = tvm_nnef.extract(model, ["b1.r"], ["one"])
    assert {*opened.modules["main"].definitions} == {"twice", "Net"} and not opened.variables
    assert [*opened.inputs] == ["b1_r", "image"] and "blocks" not in opened.modules


def test_a_part_of_a_part_and_a_saved_part(model: tvm_nnef.Model, tmp_path: Path) -> None:
    part = tvm_nnef.extract(model, ["one"], ["d"])
    tvm_nnef.save_model(part, tmp_path / "part.tgz")
    again = tvm_nnef.extract(tmp_path / "part.tgz", ["two"], ["c"])
    x = INPUTS["image"]
    np.testing.assert_array_equal(tvm_nnef.evaluate(again, x)["c"], x * VARIABLES["main.Net.scale"])


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        (["two"], ["one"], "'one' does not depend on 'two'"),
        (["onee"], [], "no tensor 'onee'"),
        (["one"], ["one"], "begin and end with 'one'"),
        ([], ["image"], "cannot end with the input 'image'"),
        (["scale"], ["c"], "cannot begin with the variable 'scale'"),
        (["last.m"], ["y"], "inside of a branch or a loop"),
        (["one", "y"], ["d"], "'d' does not depend on 'y'"),
    ],
)
def test_what_cannot_be_cut_is_an_error(
    model: tvm_nnef.Model, begin: list[str], end: list[str], message: str
) -> None:
    with pytest.raises(tvm_nnef.ModelError, match=message) as found:
        tvm_nnef.extract(model, begin, end)
    assert found.value.diagnostics[0].hint


def test_dtypes_and_dynamic_dimensions_are_kept() -> None:
    text = (
        "import linalg, math, layout, nn;\ngraph G { @input { x: real[n|8, 4]; w: real[4, 3]; }\n"
        "@output { z: real[n, 3]; }\n"
        "@compose { y = linalg.matmul(x, w); s = nn.softmax{axes=[1]}(y); "
        "z = layout.reshape{shape=[n, 3]}(s); } }\n"
    )
    model = tvm_nnef.load_model(text)
    part = tvm_nnef.extract(model, ["y"], ["z"], dtypes={"real": "float64"})
    x = np.random.default_rng(0).standard_normal((5, 3))
    found = tvm_nnef.evaluate(part, x)["z"]
    weights = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, weights / weights.sum(1, keepdims=True), rtol=1e-12)


def test_state_that_a_part_updates_is_kept() -> None:
    text = (
        "import math;\ngraph G { @input { x: real[2]; } @output { z: real[2]; }\n"
        "@variable { total: real[2]; } @compose { y = math.neg(x); t = math.add(y, total); "
        "z = math.abs(t); } @update { total = t; } }\n"
    )
    model = tvm_nnef.load_model(text, variables={"main.G.total": np.ones(2, np.float32)})
    kept = tvm_nnef.compose(tvm_nnef.extract(model, ["y"], ["t"]))
    assert [(one.name, new.name) for one, new in kept.updates] == [("main.G.total", "main.G.t")]
    assert tvm_nnef.compose(tvm_nnef.extract(model, ["t"], ["z"])).updates == ()


def test_names_of_the_source_are_accepted_and_kept() -> None:
    helper = pytest.importorskip("onnx.helper")
    numbers = pytest.importorskip("onnx.numpy_helper")
    w = np.random.default_rng(0).standard_normal((3, 3)).astype("float32")
    nodes, name = [], "x"
    for block in range(3):
        for operator, inputs in (("MatMul", ["w"]), ("Relu", []), ("Tanh", [])):
            result = f"/block{block}/{operator}_output_0"
            nodes.append(helper.make_node(operator, [name, *inputs], [result]))
            name = result
    port = [helper.make_tensor_value_info(each, 1, [2, 3]) for each in ("x", name)]
    graph = helper.make_graph(nodes, "g", port[:1], port[1:], [numbers.from_array(w, "w")])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    part = tvm_nnef.extract(source, ["/block1/Relu_output_0"], ["/block2/MatMul_output_0"])
    x = np.random.default_rng(1).standard_normal((2, 3)).astype("float32")
    found = tvm_nnef.evaluate(part, {"/block1/Relu_output_0": x})["/block2/MatMul_output_0"]
    np.testing.assert_allclose(found, np.tanh(x) @ w, rtol=1e-5)


def test_the_command_writes_a_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "part")
    given = ["--from", "conv1", "--to", "conv2", "-o", path]
    assert main(["extract", str(DIGITS), *given]) == 0
    shown = capsys.readouterr().out
    assert "inputs: conv1: real[1, 16, 8, 8]" in shown and "wrote " in shown
    image = tvm_nnef.load_image(DIGITS / "digit-7.png", DIGITS)
    whole = tvm_nnef.evaluate(DIGITS, image, tensors=["main.Digits.conv1", "main.Digits.conv2"])
    found = tvm_nnef.evaluate(path, whole["main.Digits.conv1"])["conv2"]
    np.testing.assert_array_equal(found, whole["main.Digits.conv2"])
    assert main(["extract", str(DIGITS), "--from", "conv2", "--to", "conv1", "-o", path]) == 1
    assert "hint: " in capsys.readouterr().err
