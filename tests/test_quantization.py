"""Models with weights of few bits: codes, errors, texts, and what is built of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.quantization.blocks import quantized

TEXT = """
# A model.
import linalg, layout, nn;

graph G {
    @input { i: int[5]; }
    @variable {
        e: real[100, 64];
        w: real[64, 96];
        v: real[128, 96]; bias: real[128];
        odd: real[40, 72];
        w_codes: real[72, 5];
    }
    @output { y: real[5, 128]; z: real[40, 5]; }
    @compose {
        x = layout.gather{axis=0}(e, i);
        h = linalg.matmul(x, w);
        y = nn.linear(h, v, bias);
        z = linalg.matmul(odd, w_codes);
    }
}
"""
SHAPES = {"e": (100, 64), "w": (64, 96), "v": (128, 96), "bias": (128,), "odd": (40, 72),
          "w_codes": (72, 5)}  # fmt: skip
INDICES = np.array([3, 99, 0, 41, 3], np.int32)


def model() -> Any:
    random = np.random.default_rng(0)
    arrays = {f"main.G.{name}": random.standard_normal(shape) for name, shape in SHAPES.items()}
    variables = {name: array.astype(np.float32) for name, array in arrays.items()}
    return tvm_nnef.load_model(TEXT, variables=variables)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
def test_codes_are_the_nearest_ones(bits: int, axis: int) -> None:
    random = np.random.default_rng(bits)
    array = random.standard_normal((64, 96)).astype(np.float32)
    array[:32, :32] = 0
    blocks = quantized(array, axis, bits, 32, "minmax")
    scales = np.repeat(blocks.scales, 32, axis)
    nearest = np.abs(array - blocks.reals())
    middle = 1 << bits - 1
    every = (np.arange(1 << bits) - middle)[:, None, None] * scales
    np.testing.assert_allclose(nearest, np.abs(array - every).min(0), atol=1e-6)
    assert not blocks.reals()[:32, :32].any()
    # The element farthest from 0 is exact.
    moved = np.moveaxis(array, axis, -1).reshape(-1, 32)
    errors = np.moveaxis(nearest, axis, -1).reshape(-1, 32)
    farthest = np.abs(moved).argmax(-1)
    assert errors[np.arange(len(moved)), farthest].max() < 1e-6


def test_the_least_error_is_less() -> None:
    array = np.random.default_rng(3).standard_normal((64, 96)).astype(np.float32)
    errors = [
        ((array - quantized(array, 1, 4, 32, method).reals()) ** 2).reshape(64, 3, 32).sum(-1)
        for method in ("minmax", "mse")
    ]
    assert (errors[1] <= errors[0] * (1 + 1e-6)).all()
    assert errors[1].sum() < 0.95 * errors[0].sum()


def test_bytes_have_codes_of_the_lowest_bits_first() -> None:
    array = np.arange(-8, 8, dtype=np.float32).reshape(1, 16)
    blocks = quantized(array, 1, 4, 16, "minmax")
    assert blocks.scales.tolist() == [[1]]
    assert blocks.packed.tolist() == [[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]]


def test_a_model_gets_codes_and_a_report() -> None:
    original = model()
    found = tvm_nnef.quantize(original, weights="int4", block=32)
    rows = {row.name: row for row in found.quantization_report.weights}
    assert {name: row.stays for name, row in rows.items() if row.stays} == {
        "main.G.odd": "blocks of 32 do not divide 72",
        "main.G.w_codes": "blocks of 32 do not divide 72",
    }
    assert rows["main.G.e"].operators == ("x",)
    before = original.variables["main.G.w"]
    graph = tvm_nnef.evaluate(found, INDICES, tensors=["w"])
    after = np.asarray(graph["w"])
    error = np.sqrt(((before - after) ** 2).sum() / (before**2).sum())
    assert rows["main.G.w"].error == pytest.approx(error, rel=1e-4)
    assert 0.05 < error < 0.15
    assert found.variables["main.G.w_codes2"].dtype == np.uint8
    assert found.variables["main.G.w_codes2"].shape == (64, 48)
    # What a product without codes computes stays as it is.
    expected = tvm_nnef.evaluate(original, INDICES)
    np.testing.assert_array_equal(np.asarray(graph["z"]), np.asarray(expected["z"]))


@pytest.mark.slow
def test_routes_agree_on_a_quantized_model() -> None:
    found = tvm_nnef.quantize(model(), weights="int4", block=32, method="mse")
    expected = tvm_nnef.evaluate(found, INDICES)
    built = tvm_nnef.build(found, verify=True, progress=False)
    for ours, theirs in zip(built(INDICES), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_weights_of_the_largest_errors_may_stay() -> None:
    found = tvm_nnef.quantize(model(), weights="int2", block=16, keep_float=1)
    first, *others = found.quantization_report.weights
    assert first.stays == "one of the largest errors"
    assert all(first.error >= each.error for each in others if each.error is not None)
    assert first.name in found.variables


PACKS = """
import nn;
graph G {
    @input { x: real[1, 64]; }
    @variable { w: real[64, 64]..(3); v: real[64, 64]..(2); odd: real[1, 64]..(2); }
    @output { y: real[1, 64]; rest: real[1, 1]..(2); }
    @compose {
        h = with a = x for m : w unroll nn.linear(a, m);
        z = nn.linear(h, v[0]);
        y = nn.linear(z, v[1]);
        rest..(2) = for m : odd unroll nn.linear(x, m);
    }
}
"""


def test_packs_of_weights_get_packs_of_codes() -> None:
    random = np.random.default_rng(4)
    shapes = {f"w:{n}": (64, 64) for n in (1, 2, 3)} | {f"v:{n}": (64, 64) for n in (1, 2)}
    shapes |= {f"odd:{n}": (1, 64) for n in (1, 2)}
    arrays = {
        f"main.G.{name}": random.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    arrays["main.G.odd:2"][0, 0] = np.inf
    found = tvm_nnef.quantize(
        tvm_nnef.load_model(PACKS, variables=arrays), weights="int8", block=64
    )
    stays = {row.name: row.stays for row in found.quantization_report.weights if row.stays}
    assert stays == {
        "main.G.odd:1": "other items of 'main.G.odd' stay real, or differ from it",
        "main.G.odd:2": "it has elements that are infinite or NaN",
    }
    assert found.variables["main.G.w_codes:3"].shape == (64, 64)
    x = random.standard_normal((1, 64)).astype(np.float32)
    y = x
    for name in ("w:1", "w:2", "w:3", "v:1", "v:2"):
        y = y @ quantized(arrays[f"main.G.{name}"], 1, 8, 64, "minmax").reals().T
    for outputs in (tvm_nnef.evaluate(found, x), tvm_nnef.build(found, progress=False)(x)):
        np.testing.assert_allclose(outputs["y"], y, rtol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "ranges that data show"),
        ({"weights": "int4", "block": 24}, "blocks of 24.*use 16, 32, 64, 128 or 256"),
        ({"weights": "int5"}, "int5.*int2.*int4.*int8"),
    ],
)
def test_what_cannot_be_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(tvm_nnef.NnefError, match=f"(?s){message}"):
        tvm_nnef.quantize(model(), **options)


def test_a_model_without_weights_is_an_error() -> None:
    text = "graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = x; } }"
    with pytest.raises(tvm_nnef.NnefError, match="there is no weight to quantize"):
        tvm_nnef.quantize(text + "\n", weights="int4")


def test_the_command_writes_a_model_that_is_the_same_when_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "model", tmp_path / "small.tgz"
    tvm_nnef.save_model(model(), source)
    arguments = ["quantize", str(source), str(target), "--weights", "int8", "--block", "64"]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [each["bytes_after"] for each in report["weights"] if each["name"] == "main.G.e"] == [
        100 * 64 + 100 * 4
    ]
    expected = tvm_nnef.quantize(source, weights="int8", block=64)
    found = tvm_nnef.load_model(target)
    outputs = (tvm_nnef.evaluate(each, INDICES)["y"] for each in (expected, found))
    np.testing.assert_array_equal(*map(np.asarray, outputs))
    text = found.program.modules["main"].source.text
    assert text.startswith("\n# A model.\nimport nbits;\nimport linalg")
    assert main(arguments) == 0
    assert "2 of 5 weights in 8 bits, blocks of 64" in capsys.readouterr().out
