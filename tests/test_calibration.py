"""Models quantized by calibration: ranges, codes, errors, and what is built of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.quantization.blocks import quantized_bias, quantized_by_output
from tvm_nnef.quantization.ranges import Codes, Observed, codes_of

TEXT = """
# A model.
import layout, linalg, math, nn;

public operator block {
    @input { x: real[b, 8, h, w]; filter: real[8, 8, 3, 3]; }
    @output { y: real[b, 8, h, w]; }
    @compose {
        c = nn.conv{padding=1}(x, filter);
        s = math.add(c, x);
        y = nn.relu(s);
    }
}

graph G {
    @input { x: real[b|4, 4, 6, 6]; }
    @variable {
        first: real[8, 4, 1, 1]; shift: real[8];
        second: real[8, 8, 3, 3];
        depthwise: real[8, 1, 3, 3];
        matrix: real[72, 5];
    }
    @output { y: real[b, 5]; }
    @compose {
        a = nn.conv{padding=0}(x, first, shift);
        r = nn.relu(a);
        s = block(r, second);
        p = nn.max_pool{size=2, stride=2, padding=0}(s);
        f = layout.flatten{axis=1}(p);
        y = linalg.matmul(f, matrix);
        unused = nn.conv{padding=1, groups=8}(r, depthwise);
    }
}
"""
SHAPES = {"first": (8, 4, 1, 1), "shift": (8,), "second": (8, 8, 3, 3), "depthwise": (8, 1, 3, 3),
          "matrix": (72, 5)}  # fmt: skip


def model() -> Any:
    random = np.random.default_rng(0)
    arrays = {f"main.G.{name}": 0.2 * random.standard_normal(s) for name, s in SHAPES.items()}
    variables = {name: array.astype(np.float32) for name, array in arrays.items()}
    return tvm_nnef.load_model(TEXT, variables=variables)


def data(count: int = 6) -> list[Any]:
    random = np.random.default_rng(1)
    return [random.standard_normal((2, 4, 6, 6)).astype(np.float32) for _ in range(count)]


@pytest.fixture(scope="module")
def quantized() -> Any:
    return tvm_nnef.quantize(model(), data(), progress=False)


def test_operators_get_codes_and_errors(quantized: Any) -> None:
    report = quantized.quantization_report
    rows = {row.name: row for row in report.operators}
    assert {name: row.input for name, row in rows.items()} == {
        "a": "x", "s.c": "r", "y": "s.y", "unused": "r",
    }  # fmt: skip
    assert {name for name, row in rows.items() if row.stays} == {"unused"}
    assert report.samples == 6
    inputs = np.stack(data())
    assert rows["a"].range == pytest.approx((inputs.min(), inputs.max()))
    # The error of the first convolution, by NumPy.
    scale, zero = np.ptp(inputs) / 255, np.round(-inputs.min() / (np.ptp(inputs) / 255))
    rounded = (np.clip(np.round(inputs / scale) + zero, 0, 255) - zero) * scale
    weight = model().variables["main.G.first"][:, :, 0, 0]
    steps = np.abs(weight).max(1, keepdims=True) / 127
    bias = model().variables["main.G.shift"][:, None, None]
    exact = np.einsum("oi,nbihw->nbohw", weight, inputs) + bias
    found = np.einsum("oi,nbihw->nbohw", np.round(weight / steps) * steps, rounded) + bias
    error = np.sqrt(((found - exact) ** 2).sum() / (exact**2).sum())
    assert rows["a"].error == pytest.approx(error, rel=0.02)


def test_the_text_has_quantizers_and_codes(quantized: Any) -> None:
    text = quantized.program.modules["main"].source.text
    assert "s.y: quant.zero_point_linear_quantize{zero_point=0, scale=" in text
    assert text.count("zero_point_linear_quantize") == 3
    assert quantized.variables["main.G.second_codes"].dtype == np.uint8
    assert quantized.variables["main.G.second_codes"].min() >= 1
    assert quantized.variables["main.G.second_scales"].shape == (8, 1, 1, 1)
    assert quantized.variables["main.G.shift_codes"].dtype == np.int32
    assert "main.G.depthwise" in quantized.variables


def test_results_are_close_to_those_of_reals(quantized: Any) -> None:
    (x,) = data(1)
    exact, found = (np.asarray(tvm_nnef.evaluate(each, x)[0]) for each in (model(), quantized))
    assert np.sqrt(((exact - found) ** 2).mean() / (exact**2).mean()) < 0.03
    assert (exact != found).any()


@pytest.mark.slow
@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_routes_agree_on_a_quantized_model(quantized: Any, route: Any) -> None:
    built = tvm_nnef.build(quantized, route=route, progress=False)
    for x in (data(1)[0], data(1)[0][:1]):
        expected = np.asarray(tvm_nnef.evaluate(quantized, x)[0])
        np.testing.assert_allclose(np.asarray(built(x)[0]), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_the_largest_errors_may_stay(quantized: Any) -> None:
    worst = quantized.quantization_report.operators[0].name
    found = tvm_nnef.quantize(model(), data(), activations="int8", keep_float=1, progress=False)
    rows = {row.name: row for row in found.quantization_report.operators}
    assert [name for name, row in rows.items() if row.stays] == [worst, "unused"]
    assert "signed=true" in found.program.modules["main"].source.text


@pytest.mark.parametrize(
    "names, kept",
    [(["a"], {"a"}), ("main.G.a", {"a"}), (["s", "y"], {"s.c", "y"}),
     pytest.param(["nn.conv"], {"a", "s.c"}, marks=pytest.mark.slow)],
)  # fmt: skip
def test_named_operators_stay_real(names: Any, kept: set[str]) -> None:
    found = tvm_nnef.quantize(model(), data(2), keep_float=names, progress=False)
    rows = {row.name: row.stays for row in found.quantization_report.operators}
    assert {name for name, stays in rows.items() if stays == "as you asked"} == kept
    assert {name for name, stays in rows.items() if not stays} == {"a", "s.c", "y"} - kept


def test_an_unknown_name_is_an_error_before_anything_is_computed() -> None:
    with pytest.raises(tvm_nnef.NnefError, match="there is no operator") as found:
        tvm_nnef.quantize(model(), data(1), keep_float=["s.d"], progress=False)
    assert "did you mean 's.c'?" in str(found.value)


def test_operators_are_named_as_in_onnx(tmp_path: Any) -> None:
    onnx = pytest.importorskip("onnx")
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["h"], name="/layer.0/MatMul"),
        onnx.helper.make_node("MatMul", ["h", "v"], ["y"], name="/layer.1/out/MatMul"),
    ]
    ports = [
        onnx.helper.make_tensor_value_info(each, onnx.TensorProto.FLOAT, [1, 64]) for each in "xy"
    ]
    random = np.random.default_rng(0)
    arrays = {each: random.standard_normal((64, 64)).astype("float32") for each in "wv"}
    weights = [onnx.numpy_helper.from_array(array, each) for each, array in arrays.items()]
    path = tmp_path / "model.onnx"
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph(nodes, "G", *[[p] for p in ports], weights)),
        path,
    )
    inputs = [random.standard_normal((1, 64)).astype("float32")]
    for name, kept in (("/layer.1", {"y"}), ("/layer.0/MatMul", {"h"}), ("y", {"y"})):
        found = tvm_nnef.quantize(path, inputs, keep_float=[name], progress=False)
        rows = found.quantization_report.operators
        assert {row.name for row in rows if row.stays} == kept
    found = tvm_nnef.quantize(path, weights="int4", keep_float=["v"])
    assert {row.name for row in found.quantization_report.rows if row.stays} == {"main.G.v"}


def test_inputs_may_have_several_names_and_shapes() -> None:
    text = """
import linalg, math;
graph G {
    @input { x: real[n|4, 16]; z: real[n, 16]; }
    @variable { w: real[16, 3]; }
    @output { y: real[n, 3]; }
    @compose { s = math.mul(x, z); y = linalg.matmul(s, w); }
}
"""
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((size, 16)).astype("float32") for size in (1, 1, 2, 2)]
    net = tvm_nnef.load_model(text, variables={"main.G.w": np.ones((16, 3), np.float32)})
    items = [{"z": arrays[0], "x": arrays[1]}, (arrays[2], arrays[3])]
    (row,) = tvm_nnef.quantize(net, items, progress=False).quantization_report.operators
    products = np.concatenate([arrays[0] * arrays[1], arrays[2] * arrays[3]])
    assert row.range == pytest.approx((products.min(), products.max()))


NAN = np.full((2, 4, 6, 6), np.nan, np.float32)


@pytest.mark.parametrize(
    ("items", "options", "message"),
    [
        ([], {}, "no inputs for the calibration"),
        ([np.zeros((2, 3, 6, 6))], {}, "input 1 of the calibration"),
        ([NAN], {}, "'main.G.x' has elements that are infinite or NaN"),
        (data(1), {"weights": "int4"}, "int8, not 'int4'"),
        (data(1), {"block": 32}, "not for a block"),
        (data(1), {"method": "percentile", "percentile": 0.1}, "'percentile' is 0.1"),
        (None, {"weights": "int8", "method": "entropy"}, "is for activations"),
        (None, {"activations": "int8"}, "ranges that data show"),
    ],
)
def test_what_cannot_be_is_an_error(items: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(tvm_nnef.NnefError, match=message):
        tvm_nnef.quantize(model(), items, progress=False, **options)


def test_a_model_without_contractions_is_an_error() -> None:
    text = "graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = x; } }"
    with pytest.raises(tvm_nnef.NnefError, match="there is no operator to quantize"):
        tvm_nnef.quantize(text + "\n", [np.zeros(3)], progress=False)


def test_ranges_by_each_method() -> None:
    random = np.random.default_rng(2)
    arrays = [random.standard_normal(20000) * scale for scale in (1, 1, 3, 1)]
    arrays[1][0] = 200.0
    observed = Observed(True)
    for array in arrays:
        observed.add(array)
    every = np.concatenate(arrays)
    assert observed.counts.sum() == every.size
    found = {
        method: codes_of(observed, "uint8", method, 99.9)
        for method in ("minmax", "percentile", "mse", "entropy")
    }
    whole = found["minmax"]
    assert whole.scale == pytest.approx(np.ptp(every) / 255)
    low, high = np.percentile(every, [0.05, 99.95])
    assert found["percentile"].scale == pytest.approx((high - low) / 255, rel=0.05)
    losses = {name: ((codes.reals(every) - every) ** 2).sum() for name, codes in found.items()}
    assert losses["mse"] == min(losses.values())
    assert found["entropy"].scale < whole.scale / 2
    around = codes_of(observed, "int8", "minmax", 99.9)
    assert (around.zero, around.low, around.high) == (0, -128, 127)


def test_codes_round_halves_away_from_zero() -> None:
    codes = Codes(0.5, 3, 0, 255)
    np.testing.assert_array_equal(
        codes.reals(np.array([0.25, -0.25, -9, 1e9])), [0.5, -0.5, -1.5, 126]
    )


@pytest.mark.parametrize("outputs", [0, 1])
def test_weights_have_a_scale_for_each_output(outputs: int) -> None:
    array = np.random.default_rng(4).standard_normal((6, 5)).astype(np.float32)
    blocks = quantized_by_output(array, outputs, "minmax")
    scales = np.abs(array).max(1 - outputs, keepdims=True) / 127
    np.testing.assert_allclose(blocks.scales, scales)
    np.testing.assert_allclose(blocks.reals(), np.round(array / scales) * scales, rtol=1e-5)


def test_biases_are_exact_to_half_a_step() -> None:
    array, scales = np.array([0.3, -1e6, 0], np.float32), np.array([1e-4, 1e-9, 0], np.float32)
    blocks = quantized_bias(array, scales)
    assert blocks.packed.dtype == np.int32
    np.testing.assert_allclose(blocks.reals(), array, rtol=1e-7, atol=5e-5)


@pytest.mark.slow
def test_the_command_reads_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target, folder = tmp_path / "model", tmp_path / "int8", tmp_path / "data"
    tvm_nnef.save_model(model(), source)
    folder.mkdir()
    arguments = ["quantize", str(source), str(target), "--data", str(folder), "--json", "--quiet"]
    assert main(arguments) == 1
    assert "the folder has no files" in capsys.readouterr().err
    for number, array in enumerate(data(2)):
        np.save(folder / f"{number}.npy", array)
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["samples"] == 2
    assert {row["name"] for row in report["operators"]} == {"a", "s.c", "y", "unused"}
    (x,) = data(1)
    expected = tvm_nnef.evaluate(tvm_nnef.quantize(source, data(2), progress=False), x)[0]
    np.testing.assert_array_equal(*map(np.asarray, (tvm_nnef.evaluate(target, x)[0], expected)))
