"""Every operator that can be exported to NNEF 1, read back and compared, some with NumPy."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.arguments.random_inputs import random_inputs

pytestmark = pytest.mark.sampled(3)

SCRIPT = Path(__file__).parents[3] / "scripts" / "write_nnef1.py"
Exported = Callable[..., tuple[str, tvm_nnef.Model]]


def _page() -> Any:
    spec = importlib.util.spec_from_file_location("write_nnef1", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))  # it imports its neighbours
        spec.loader.exec_module(module)
    return module


PAGE = _page()


def test_every_operator_has_an_example() -> None:
    assert not PAGE.missing()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("row", PAGE.EXPORTED)
def test_the_exported_operator_computes_the_same(row: str, exported: Exported) -> None:
    text = PAGE.exported_model(row)
    inputs = random_inputs(tvm_nnef.compose(text), 3)
    scale = 2.0 if "acosh" in row else 0.0
    exported(text, *(each + np.float32(scale) if scale else each for each in inputs))


MORE = (
    "math.add{lhs_align=0}(c, q)", "math.sub(s, x)", "math.select{cond_align=1}(g, x, s)",
    "math.clamp{min_align=1, max_align=1}(x, c, p)", "math.axpb{a_align=1, b_align=1}(c, x, p)",
    "math.axpby(s, x, 2.0, x)", "math.mul{rhs_align=-2}(x, e)", "math.sum_reduce{axes=[]}(x)",
    "math.mean_reduce{axes=[0, -1], squeeze=true}(x)", "math.lp_reduce{axes=[1], p=3.0}(x)",
    "real, real math.moments{axes=[0, 2], squeeze=true}(x)",
    "int math.argmax{axis=0, squeeze=true}(x)",
    "nn.relu{alpha=0.1, max=0.5}(x)", "nn.prelu{axis=-1}(x, h)", "nn.prelu{axis=0}(x, e)",
    "nn.conv{groups=0, padding=[-1, 0, 1, -2]}(z, d1)", "nn.conv{stride=2, ceil_mode=true}(z, w)",
    "nn.conv{stride=[2, 3], padding_align='LOWER'}(z, w)",
    "nn.conv{dilation=[2, 1], data_format='XCN', filter_format='CXN', padding=2}(z2, w2, e6)",
    "nn.deconv{stride=[2, 3], padding=1, output_size=[14, 15]}(z, d, c)",
    "nn.deconv{stride=2, dilation=[1, 2], groups=2}(z, d)", "nn.deconv{stride=[4, 6]}(z, d)",
    "nn.deconv{groups=0}(z, d1)",
    "nn.deconv{padding=[-1, 0, 0, -2], data_format='XCN', filter_format='CXN'}(z2, d2, c)",
    "nn.max_pool{axes=[3, 1], size=[3, 2], stride=2, ceil_mode=true}(z)",
    "nn.avg_pool{axes=[3, 1], size=[3, 2], stride=2, ceil_mode=true}(z)",
    "nn.avg_pool{size=[3, 2], stride=3, padding=[1, 0, 2, 1], ceil_mode=true,"
    " ignore_border=false}(z)",
    "nn.max_pool{axes=[2], size=[2], padding=[1, 1], dilation=[2]}(z)",
    "nn.sum_pool{axes=[2], size=[2], padding=[3, -2]}(z)",
    "nn.max_pool{axes=[2, 3], size=1, stride=[2, 4], padding_align='LOWER'}(z)",
    "nn.batch_norm{channel_axis=-1}(x, h, u, h, u)", "nn.batch_norm(z, h, u, ~, u)",
    "nn.mean_variance_norm{axes=[1]}(z)", "nn.l1_norm{axes=[1], bias=0.5}(x)",
    "nn.l2_norm{axes=[1, 2], epsilon=9.0}(x)", "nn.softmax{axes=[0, 2]}(x)",
    "nn.local_response_norm{axes=[3], size=[2], alpha=0.3, bias=2.0}(z)",
    "layout.reshape{axis=1, rank=1, shape=[1, -1]}(x)", "layout.unsqueeze{axes=[0, -1]}(x)",
    "layout.transpose{axis=1}(z)", "bool layout.transpose{perm=[2, 0, 1]}(t)",
    "layout.stack{axis=-1}([x, x])", "layout.stack{axis=0, squeeze=true}([z, z])",
    "layout.concat{axis=-1}([x, x])", "real..(2) layout.split{axis=2, sizes=[1, 3]}(x)",
    "real..(2) layout.unstack{axis=0, squeeze=false}(x)", "layout.pad{padding=[1, 1]}(c)",
    "layout.slice{axes=[1, 2], begin=[1, -1], end=[3, -5], stride=[1, -2]}(x)",
    "layout.slice{axes=[2], begin=[0], end=[4], stride=[2]}(x)",
    "layout.pad{padding=[0, 1, 2, 0, 1, 1], method='SYMMETRIC'}(x)",
    "layout.pad{axes=[0], padding=[1, 2], method='REPLICATE'}(x)",
    "layout.gather{axis=1}(x, o)", "int layout.gather{axis=0}(o, i)",
    "layout.space_to_batch{block_size=[1, 2]}(z)", "layout.batch_to_space{block_size=[2]}(x)",
    "layout.depth_to_space{block_size=[2, 2]}(z)", "layout.cast<real>(t)", "layout.cast<real>(o)",
    "bool layout.cast<bool>(o)", "layout.range{first=0.1, last=1.0, stride=0.25}()",
    "int layout.constant{shape=[2, 3], value=7}()", "layout.uniform{shape=[30, 30]}(s)",
    "layout.constant{shape=[40, 4], value=0.1}()",
    "image.nearest_upsample{axes=[0, 1], factor=[2, 3]}(x)",
    "image.area_downsample{axes=[1, 3], factor=[2, 3]}(z)",
    "image.linear_upsample{axes=[0, 2], factor=[2, 3], symmetric=false}(x)",
    "image.linear_upsample{axes=[2, 3], factor=[2, 3], replicate_border=false}(z)",
    "image.linear_resize{axes=[1], size=[9]}(x)",
    "image.nearest_resize{axes=[2, 3], size=[14, 12], coordinate_transform='ASYMMETRIC',"
    " rounding_method='FLOOR'}(z)",
    "image.nearest_resize{axes=[3], size=[3], coordinate_transform='ASYMMETRIC'}(z)",
    "linalg.matmul{transB=true}(x, m, b4)", "linalg.matmul{transA=true}(m, m)",
    "linalg.matvec{transA=true}(m, p5, h)", "linalg.dot(c, p, s)", "nn.linear(m, m)",
    "quant.zero_point_linear_quantize{zero_point=[3, 0, -1], scale=[0.1, 0.2, 0.3], bits=8,"
    " signed=false}(x)",
    "quant.min_max_linear_quantize{min=[-1.0, -2.0, -0.5], max=[1.0, 1.5, 0.5], bits=5,"
    " symmetric=true}(x)",
)  # fmt: skip
"""Attributes beyond those of the page."""

OPERANDS = {
    "x": "real[2, 3, 4]", "z": "real[1, 4, 7, 6]", "c": "real[3]", "p": "real[3]", "s": "real[]",
    "q": "real[3, 4]", "g": "bool[3, 1]", "h": "real[4]", "u": "real[4]", "e": "real[2]",
    "t": "bool[2, 3, 4]", "o": "int[2, 2]", "i": "int[3]", "m": "real[5, 4]", "p5": "real[5]",
    "b4": "real[3, 5]", "w": "real[6, 4, 3, 2]", "d": "real[4, 3, 3, 2]", "d1": "real[4, 1, 3, 2]",
    "z2": "real[7, 6, 4, 1]", "w2": "real[4, 3, 2, 6]", "d2": "real[3, 3, 2, 4]", "e6": "real[6]",
}  # fmt: skip


def _model(row: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(PAGE, "OPERANDS", OPERANDS)
    text: str = PAGE.exported_model(row)
    return text


def _inputs(text: str) -> list[np.ndarray]:
    """Numbers of both signs, variances without, indices that are in range."""
    generator = np.random.default_rng(4)
    found = []
    for port in tvm_nnef.compose(text).inputs:
        operand: Any = port.operand
        real = generator.normal(size=operand.shape).astype(np.float32)
        real = np.abs(real) + np.float32(0.1) if port.name == "u" else real
        whole = generator.integers(0, 2, operand.shape).astype(np.int32)
        found.append({"real": real, "int": whole, "bool": whole > 0}[operand.type])
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", MORE)
def test_attributes(row: str, exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _model(row, monkeypatch)
    exported(text, *_inputs(text))


X = np.array([[-2.5, -0.5, 0.49999997], [0.5, 1.5, 2.5]], np.float32)
Y = np.arange(10, dtype=np.float32)
JUDGED: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "math.round(a)": (X, np.array([[-3, -1, 0], [1, 2, 3]], np.float32)),
    "math.clamp(a, 1.0, -1.0)": (X, np.where(X < 1, 1, np.minimum(X, -1))),
    "math.add{rhs_align=0}(a, [1.0, 2.0])": (X, X + np.array([[1], [2]], np.float32)),
    "nn.relu{alpha=0.5, max=1.0}(a)": (X, np.maximum(np.minimum(X, 1), X / 2)),
    "layout.slice{axes=[0], begin=[1], end=[10], stride=[4]}(a)": (Y, Y[1:10:4]),
    "layout.slice{axes=[0], begin=[9], end=[-11], stride=[-2]}(a)": (Y, Y[::-2]),
    "layout.broadcast{axes=[0], shape=[4]}(a)": (X[:1], np.repeat(X[:1], 4, 0)),
    "image.nearest_upsample{axes=[0], factor=[3]}(a)": (Y, np.repeat(Y, 3)),
    "layout.transpose(a)": (X, X.T),
    "math.lp_reduce{axes=[1], p=2.0}(a)": (X, np.linalg.norm(X, axis=1, keepdims=True)),
    "quant.zero_point_linear_quantize{zero_point=0, scale=1.0, bits=8}(a)": (
        X, np.array([[-3, -1, 0], [1, 2, 3]], np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("call", JUDGED)
def test_numpy_agrees(call: str, exported: Exported) -> None:
    data, expected = JUDGED[call]
    constants = re.findall(r"\[[\d., ]+\]\)", call)
    variable = "@constant { k: real[2] = [1.0, 2.0]; }" if constants else ""
    call = call.replace("[1.0, 2.0])", "k)")
    text = f"""import math, nn, layout, image, quant;
    graph G {{ @input {{ a: real[{", ".join(map(str, data.shape))}]; }} @output {{ y: real; }}
    {variable} @compose {{ y = {call}; }} }}"""
    _, back = exported(text, data)
    (found,) = tvm_nnef.evaluate(back, data)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


OWN = (
    "round(x)", "prelu(x, a)", "max_pool_with_index(x, size = [1, 1, 2, 2], stride = [1, 1, 2, 2])",
    "debox(z, size = [1, 1, 2, 2], stride = [1, 1, 2, 2])",
    "logarithmic_quantize(x, 1.0, bits = 4)",
    "zero_point_linear_quantize(x, zero_point = 3, scale = 0.1, bits = 4, signed = false,"
    " symmetric = false)",
    "zero_point_linear_quantize(x, zero_point = -1, scale = 0.1, bits = 4, signed = true,"
    " symmetric = true)",
    "roi_resample(x, rois, batch_index, output_size = [3, 3], method = 'aligned')",
    "sample(x, i, size = [1, 1, 2, 2], stride = [1, 1, 2, 2])",
    "desample(z, i, size = [1, 1, 2, 2], stride = [1, 1, 2, 2])",
)  # fmt: skip


@pytest.mark.parametrize("call", OWN)
def test_formulas_of_the_converter_become_operations_again(call: str, exported: Exported) -> None:
    results = "o1, o2" if call.startswith("max_pool_with") else "o1"
    text = f"""version 1.0;
    graph G(x, z, a, i, rois, batch_index) -> ({results}) {{
        x = external(shape = [1, 2, 4, 6]); z = external(shape = [1, 2, 2, 3]);
        a = external(shape = [1]); i = external<integer>(shape = [1, 2, 2, 3]);
        rois = external(shape = [2, 4]); batch_index = external<integer>(shape = [2, 1]);
        {results} = {call}; }}"""
    generator = np.random.default_rng(2)
    inputs = [
        generator.normal(size=(1, 2, 4, 6)), generator.normal(size=(1, 2, 2, 3)), np.ones(1),
        generator.integers(0, 4, (1, 2, 2, 3)), np.array([[0, 0, 3, 3], [1, 1, 2, 4]]),
        np.zeros((2, 1)),
    ]  # fmt: skip
    kinds = ["f4", "f4", "f4", "i4", "f4", "i4"]
    given = [each.astype(kind) for each, kind in zip(inputs, kinds, strict=True)]
    written, _ = exported(tvm_nnef.convert(text), *given)
    if not call.startswith(("max_pool_with", "logarithmic")):
        operation = call.partition("(")[0]
        assert len(re.findall(rf"= {operation}\(", written)) == 1


def test_a_module_that_is_called_as_the_converters(exported: Exported, tmp_path: Path) -> None:
    """The definition decides whether an operator is the converter's `nnef1.round`."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "nnef1.sknd").write_text(
        "import math; operator round { @input { x: real[s..]; } @output { y: real[s..]; } "
        "@compose { y = math.exp(x); } }",
        "utf-8",
    )
    (folder / "main.sknd").write_text(
        "import nnef1; graph G { @input { x: real[2]; } @output { y: real[2]; } "
        "@compose { y = nnef1.round(x); } }",
        "utf-8",
    )
    text, _ = exported(folder, np.array([0.25, 1.75], np.float32))
    assert "exp(" in text
    assert "round(" not in text
