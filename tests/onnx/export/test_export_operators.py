"""Every operator of the standard library, exported and run by ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

pytestmark = pytest.mark.sampled(3)

RANDOM = np.random.default_rng(5)


def real(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)


X = real(2, 3, 4)
IMAGE = real(1, 4, 7, 6)
INPUTS: dict[str, Any] = {
    "x": X,
    "z": np.array([-2.5, -0.5, 0.49999997, 0.5, 1.5, 2.5, 1e9, -0.0], np.float32),
    "u": RANDOM.uniform(0.05, 0.95, (2, 3, 4)).astype(np.float32),
    "v": real(3),
    "s": np.float32(1.25),
    "i": np.array([[-7, 7, -8], [0, 5, -(2**31)]], np.int32),
    "j": np.array([[2, -2, 0], [0, 5, -1]], np.int32),
    "k": RANDOM.integers(-3, 4, (2, 3, 4)).astype(np.int32),
    "b": RANDOM.random((2, 3, 4)) < 0.5,
    "c": np.array([True, False, True]),
    "m": real(4, 5),
    "n": real(5, 3),
    "q": real(3),
    "f": IMAGE,
    "g": real(1, 5, 4, 4),
    "w": real(6, 2, 3, 2),
    "e": real(6),
    "d": real(4, 3, 3, 2),
    "h": real(4),
    "p": np.abs(real(4)) + 0.1,
    "l": real(2, 6, 5),
    "o": np.array([[1, 0], [2, 1]], np.int32),
    "r": real(1, 3, 4, 2) * 0.7,
    "t": real(2, 2),
    "a": real(2, 4, 3),
    "W": real(8, 3),
    "R": real(8, 2),
    "B": real(8),
    "H": real(4, 2),
    "C": real(4, 2),
    "N": np.array([0, 2, 1, 9], np.int32),
    "S": real(2, 4, 3),
    "T": np.array([[0.4, 0.2, 0.9, 0.3], [0.1, 0.8, 0.7, 0.6]], np.float32)[None],
    "X": np.array([[[0, 0, 2, 2], [1, 1, 3, 3], [0, 0, 2, 2.5], [5, 5, 6, 6]]], np.float32),
}

BINARY = ["add", "sub", "mul", "div", "mod", "min", "max", "lt", "gt", "le", "ge", "eq", "ne"]
UNARY = [
    "iden",
    "neg",
    "rcp",
    "sqr",
    "rsqr",
    "exp",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "atan",
    "asinh",
    "abs",
    "sign",
]
POSITIVE = ["sqrt", "rsqrt", "log", "log2", "asin", "acos", "atanh"]
COMPARISONS = frozenset(["lt", "gt", "le", "ge", "eq", "ne"])


def kind(name: str, type: str) -> str:
    return "bool" if name in COMPARISONS else type


FAMILIES: dict[str, list[str]] = {
    "unary": [
        *(f"real math.{name}(x)" for name in UNARY),
        *(f"real math.{name}(u)" for name in POSITIVE),
        "real math.acosh(p1)", "real math.round(z)", "real math.floor(z)", "real math.ceil(z)",
        "bool math.not(b)", "int math.neg(i)", "int math.abs(k)", "int math.sign(k)",
        "int math.sqr(i)",
    ],
    "binary": [
        *(f"{kind(name, 'real')} math.{name}{{rhs_align=1}}(x, v)" for name in BINARY),
        *(f"{kind(name, 'int')} math.{name}(i, j)" for name in BINARY),
        *(f"bool math.{name}{{rhs_align=1}}(b, c)" for name in ("and", "or", "xor", "eq", "ne")),
        "real math.pow(u, x)", "int math.pow(k, 3)",
        "int math.pow(2, k)", "int math.pow(-6, o)", "int math.div(k, 2)", "int math.mod(k, -3)",
        "real math.add{lhs_align=0}(v, m3)", "real math.sub(s, x)",
    ],
    "several operands": [
        "real math.select{cond_align=1}(b1, x, s)", "bool math.select(b, b, false)",
        "int math.select(b, k, 7)", "real math.clamp(x, -0.5, 0.5)", "int math.clamp(k, 2, -1)",
        "real math.clamp{min_align=1, max_align=1}(x, v, q)",
        "real math.axpb{a_align=1, b_align=1}(v, x, q)", "real math.axpby(s, x, 2.0, x)",
    ],
    "packs": [
        *(f"real math.{name}_n([x, u])" for name in ("sum", "prod", "min", "max")),
        *(f"int math.{name}_n([i, j])" for name in ("sum", "prod", "min", "max")),
        "int math.argmin_n([x, u])", "int math.argmax_n([k, k])", "real math.sum_n([x])",
        "bool math.any_n([b, b])", "bool math.all_n([b, b])",
        "real..(2) misc.mesh_grid([v, p])",
    ],
    "reductions": [
        *(f"real math.{name}_reduce{{axes=[0, -1]}}(x)" for name in
          ("sum", "prod", "min", "max", "mean")),
        *(f"int math.{name}_reduce{{axes=[1], squeeze=true}}(k)" for name in
          ("sum", "prod", "min", "max")),
        "real math.lp_reduce{axes=[1], p=2.0, squeeze=true}(x)",
        "real math.lp_reduce{axes=[1], p=3.0}(x)", "real math.sum_reduce{axes=[]}(x)",
        "bool math.any_reduce{axes=[1]}(b)", "bool math.all_reduce{axes=[0], squeeze=true}(b)",
        "int math.argmin{axis=-1}(x)", "int math.argmax{axis=0, squeeze=true}(x)",
        "int..(2) math.argmin_nd{axes=[2, 0]}(x)", "int..(3) math.argmax_nd{squeeze=true}(x)",
        "real, real math.moments{axes=[0, 2], squeeze=true}(x)",
        "real math.cumsum{axis=1, exclusive=true}(x)", "real math.cumsum{axis=2, reverse=true}(x)",
    ],
    "making": [
        "real layout.constant{shape=[2, 3], value=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}()",
        "int layout.constant{shape=[2, 3], value=7}()", "real layout.uniform{shape=[2, 2]}(s)",
        "int layout.range{first=3, last=-4, stride=-2}()",
        "real layout.range{first=0.1, last=1.0, stride=0.25}()", "int layout.shape(x)",
        "int layout.cast<int>(z)", "real layout.cast<real>(k)", "bool layout.cast<bool>(k)",
        "real layout.cast<real>(b)",
        "real rand.uniform{shape=[2, 5], seed=3}()", "real rand.normal{shape=[7]}()",
        "bool rand.bernoulli{shape=[9], prob=0.3}()",
        "int rand.uniform<int>{min=-3, max=9, shape=[6]}()",
    ],
    "viewing": [
        "real layout.reshape{axis=1, rank=1, shape=[1, -1]}(x)", "int layout.flatten(k)",
        "real layout.unflatten{axis=-1, shape=[2, 2]}(x)", "real layout.squeeze{axes=[0]}(f)",
        "real layout.unsqueeze{axes=[0, -1]}(x)", "real layout.transpose{axis=1}(f)",
        "bool layout.transpose{perm=[2, 0, 1]}(b)", "real layout.tile{axes=[-1], repeats=[2]}(x)",
        "real layout.broadcast{axes=[0], shape=[3]}(f)", "real layout.shuffle{axis=1, groups=2}(f)",
        "real layout.space_to_depth{block_size=[2, 2]}(g)",
        "real layout.space_to_depth{block_size=[2, 2], blocks_first=false}(g)",
        "real layout.depth_to_space{block_size=[2, 2]}(f)",
        "real layout.depth_to_space{block_size=[2, 2], blocks_first=false}(f)",
        "real layout.space_to_batch{block_size=[2, 2]}(g)",
        "real layout.batch_to_space{block_size=[2]}(x)",
    ],
    "joining": [
        "real layout.concat{axis=1}([x, u])", "real..(2) layout.split{axis=2, sizes=[1, 3]}(x)",
        "int layout.stack{axis=-1}([k, k])", "real layout.stack{axis=3}([x, u])",
        "real layout.stack{axis=0, squeeze=true}([f, f])", "real..(3) layout.unstack{axis=1}(x)",
        "real..(2) layout.unstack{axis=0, squeeze=false}(x)",
        "real layout.slice{axes=[1, 2], begin=[1, -1], end=[3, -5], stride=[1, -2]}(x)",
        *(f"real layout.pad{{padding=[0, 1, 2, 0, 1, 1], method='{method}'}}(x)" for method in
          ("CONSTANT", "REFLECT", "REPLICATE", "SYMMETRIC")),
        "real layout.pad{axes=[0], padding=[1, 2]}(x, s)", "bool layout.pad{padding=[1, 1]}(c)",
    ],
    "indexing": [
        "real layout.gather{axis=1}(x, o)", "real layout.gather_nd(a2, o)",
        "real layout.gather_nd{batch_dims=1}(x, o)", "int layout.nonzero(k)",
        "int layout.nonzero(x)", "real layout.scatter{axis=0}(t3, o, t)",
        "real layout.scatter_nd(a2, o, t4)", "real layout.scatter_nd{batch_dims=1}(a, o, s2)",
        "real, int algo.top_k{k=3, axis=2}(x)", "real, int algo.top_k{k=9, largest=false}(v)",
        "int algo.nonmax_suppress{iou_threshold=0.4}(X, T)",
        "int algo.nonmax_suppress{iou_threshold=0.4, score_threshold=0.35,"
        " max_outputs_per_class=2, box_format='CENTER'}(X, T)",
    ],
    "products": [
        "real nn.linear(n, m4, e4)", "real nn.linear(n, m4)", "real linalg.matmul(m, n)",
        "real linalg.matmul{transA=true}(m, h4)", "real linalg.matmul{transB=true}(a, x1, t4b)",
        "real linalg.dot(v, q, s)", "real linalg.matvec(m, e5)",
        "real linalg.matvec{transA=true}(m, h, e5)",
        "real linalg.outer(x, t)",
    ],
    "convolution": [
        "real nn.conv{groups=2, padding=[1, 0, 2, 1], stride=[2, 1]}(f, w, e)",
        "real nn.conv{groups=2, stride=2, padding_align='LOWER', ceil_mode=true}(f, w)",
        "real nn.conv{groups=2, dilation=[2, 1], data_format='NXC', filter_format='XCN'}"
        "(f1, w1, e)",
        "real nn.conv{groups=0, padding=[-1, 0, 1, -2]}(f, d1)",
        "real nn.conv{groups=2, stride=[2, 3]}(f, w)", "real nn.conv(f4, w4)",
        "real nn.deconv{stride=2, padding=[1, 0, 0, 1]}(f, d)",
        "real nn.deconv{stride=[2, 3], padding=1, output_size=[14, 15]}(f, d, v)",
        "real nn.deconv{stride=2, dilation=[1, 2], groups=2}(f, d, e)",
        "real nn.deconv{stride=[4, 6]}(f, d)",
        "real nn.deconv{stride=[4, 6], padding_align='LOWER'}(f, d)",
        "real nn.deconv{padding=[-1, 0, 0, -2], data_format='XCN', filter_format='CXN'}(f2, d2, v)",
    ],
    "pooling": [
        *(f"real nn.{name}_pool{{size=[3, 2], stride=2, padding=[1, 0, 1, 1]{more}}}(f)"
          for name, more in (("max", ""), ("sum", ""), ("avg", ""), ("rms", ""), ("lp", ", p=3.0"),
                             ("avg", ", ignore_border=false"))),
        *(f"real nn.{name}_pool{{axes=[3, 1], size=[3, 2], stride=2, ceil_mode=true}}(f)"
          for name in ("max", "avg")),
        "real nn.max_pool{axes=[2], size=[2], padding=[3, 2], dilation=[2]}(f)",
        "real nn.avg_pool{axes=[1, 2, 3], size=[2, 3, 1], stride=[1, 1, 2], padding=0}(f)",
        "real nn.sum_pool{axes=[2], size=[2], padding=[3, -2]}(f)",
        "real nn.max_pool{axes=[0, 1, 2, 3], size=[1, 1, 2, 2]}(f)",
        "real nn.max_pool{axes=[0, 1, 2, 3], size=2}(f)",
        # the padding that the operator chooses is negative and odd
        "real nn.max_pool{axes=[2, 3], size=1, stride=[2, 4]}(f)",
        "real nn.max_pool{axes=[2, 3], size=1, stride=[2, 4], padding_align='LOWER'}(f)",
    ],
    "activations": [
        *(f"real nn.{name}(x)" for name in
          ["relu", "elu", "selu", "gelu", "silu", "sigmoid", "softplus", "erf",
           "thresholded_relu"]),
        "real nn.relu{alpha=0.1}(x)", "real nn.relu{max=0.5}(x)",
        "real nn.relu{alpha=0.1, max=0.5}(x)",
        "real nn.prelu(x, v)", "real nn.prelu{axis=-1}(x, h)", "real nn.elu{alpha=0.7}(x)",
        "real nn.gelu{approximate='TANH'}(x)", "real nn.gelu{approximate='SIGMOID'}(x)",
        "real nn.thresholded_relu{theta=0.3}(x)",
    ],
    "normalization": [
        "real nn.softmax(x)", "real nn.softmax{axes=[0, 2]}(x)",
        "real nn.batch_norm(f, h, p, h, p)", "real nn.batch_norm{epsilon=0.1}(f, h, p, ~, p)",
        "real nn.batch_norm{channel_axis=-1}(x, h, p)", "real nn.mean_variance_norm(f, h, p)",
        "real nn.mean_variance_norm{axes=[1]}(f)", "real nn.l1_norm{axes=[1], bias=0.5}(x)",
        "real nn.l2_norm{axes=[1, 2], epsilon=9.0}(x)",
        *(f"real nn.local_response_norm{{axes=[{axis}], size=[{size}], alpha=0.3, bias=2.0}}(f)"
          for axis, size in ((1, 3), (1, 2), (3, 3))),
        "real quant.zero_point_linear_quantize{zero_point=[3], scale=[0.1], bits=4}(x1c)",
        "real quant.zero_point_linear_quantize{zero_point=[3, 0, -1], scale=[0.1, 0.2, 0.3],"
        " bits=8, signed=false}(x)",
        "real quant.min_max_linear_quantize{min=[-1.0, -2.0, -0.5], max=[1.0, 1.5, 0.5],"
        " bits=5}(x)",
    ],
    "resizing": [
        "real image.nearest_downsample{axes=[3], factor=[2]}(f)",
        "real image.nearest_upsample{axes=[2, 3], factor=[2, 3]}(f)",
        "real image.area_downsample{axes=[1, 3], factor=[2, 3]}(f)",
        *(f"real image.linear_upsample{{axes=[2, 3], factor=[2, 3], symmetric={symmetric},"
          f" replicate_border={replicate}}}(f)"
          for symmetric in ("true", "false") for replicate in ("true", "false")),
        *(f"real image.nearest_resize{{axes=[2, 3], size=[{size}, 12], coordinate_transform="
          f"'{transform}', rounding_method='{method}'}}(f)"
          for size in (3, 14) for transform in ("SYMMETRIC", "ASYMMETRIC", "ALIGNED")
          for method in ("FLOOR", "CEIL", "ROUND_PREFER_FLOOR", "ROUND_PREFER_CEIL")),
        *(f"real image.{mode}_resize{{axes=[2, 3], size=[{size}, 9], antialias={smooth},"
          f" coordinate_transform='{transform}'}}(f)"
          for mode in ("linear", "cubic") for size in (3, 10) for smooth in ("true", "false")
          for transform in ("SYMMETRIC", "ASYMMETRIC", "ALIGNED")),
        "real image.cubic_resize{axes=[1, 2, 3], size=[3, 9, 9], coeff_a=-0.5}(f)",
        "real image.linear_resize{axes=[1], size=[9]}(x)",
        "real image.resize{axes=[2, 3], size=[5, 8], mode='CUBIC'}(f)",
        "real image.rescale{axes=[2, 3], factor=[1.5, 0.6], mode='LINEAR'}(f)",
        *(f"real image.grid_sample{{mode='{mode}', padding='{padding}', aligned={aligned}}}(f, r)"
          for mode in ("NEAREST", "LINEAR", "CUBIC")
          for padding in ("ZEROS", "REPLICATE", "REFLECT")
          for aligned in ("true", "false")),
        "real image.grid_sample(l, r1)", "real image.grid_sample{mode='CUBIC'}(f3, r3)",
        "real image.max_roi_pool{output_size=[2, 3]}(f, I, K)",
        "real image.avg_roi_pool{output_size=[3, 2]}(f, I, K)",
    ],
    "recurrence": [
        "real, real, real nn.lstm(S, W, R, B, H, C)",
        "real, real, real nn.lstm(S, W, R, B, H, C, N)",
        "real, real, real nn.lstm_loop(S, W, R, B, H, C, 1)",
        "real, real nn.lstm_step(H, C, S1, W, R, B)",
    ],
}  # fmt: skip

EXTRA: dict[str, Any] = {
    "p1": INPUTS["p"] + 1,
    "m3": real(3, 4),
    "b1": INPUTS["b"][0, :, :1],
    "t3": real(3, 2),
    "t4": real(2, 3),
    "s2": real(2),
    "a2": real(3, 4, 3),
    "m4": real(6, 3),
    "e4": real(6),
    "h4": real(4, 2),
    "x1": real(1, 5, 3),
    "t4b": real(4, 5),
    "e5": real(5),
    "f1": np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)),
    "w1": np.ascontiguousarray(INPUTS["w"].transpose(2, 3, 1, 0)),
    "d1": real(8, 1, 3, 2),
    "f2": np.ascontiguousarray(IMAGE.transpose(2, 3, 1, 0)),
    "d2": np.ascontiguousarray(INPUTS["d"].transpose(1, 2, 3, 0)),
    "x1c": real(2, 1, 4),
    "r1": real(2, 4, 1) * 0.7,
    "S1": real(4, 3),
    "I": np.array([[0, 0, 5, 4], [2, 1, 7, 6]], np.float32),
    "K": np.array([0, 0], np.int32),
    "f3": real(1, 1, 2, 3, 4),
    "r3": real(1, 2, 2, 2, 3),
    "F4": np.zeros((1, 40, 8, 8, 8, 8), np.float32),
    "W4": np.zeros((40, 40, 3, 3, 3, 3), np.float32),
    "f4": real(1, 1, 3, 3, 3, 3),
    "w4": real(1, 1, 2, 2, 2, 2),
}
EVERYTHING = {**INPUTS, **EXTRA}
REFUSED = {
    "powers by exponents of the run": (
        "int math.pow(i, j)",
        "a power of ints is exact, and ONNX's is not",
    ),
    "a formula with too many steps": (
        "real nn.conv(F4, W4)",
        "ONNX Runtime has no convolution over 4 dimensions",
    ),
}
WITH_VARIABLES = frozenset({"layer.linear", "layer.conv", "layer.deconv", "layer.batch_norm"})
TYPES = {"f": "real", "i": "int", "b": "bool"}


def model(rows: list[str]) -> tuple[str, list[Any]]:
    """A graph with a component for each row, and its inputs."""
    outputs, components = [], []
    for number, row in enumerate(rows):
        types, call = re.fullmatch(
            r"((?:\w+(?:\.\.\(\d\))?, )*\w+(?:\.\.\(\d\))?) (.*)", row
        ).groups()  # type: ignore[union-attr]
        names = []
        for position, each in enumerate(types.split(", ")):
            type_, dots, count = each.partition("..")
            outputs.append(f"y{number}_{position}: {type_}{dots}{count};")
            names.append(f"y{number}_{position}{dots}{count}")
        components.append(f"{', '.join(names)} = {call};")
    text = " ".join(components)
    used = [name for name in EVERYTHING if re.search(rf"[(\[ ]{name}[,)\]]", text)]
    inputs = " ".join(
        f"{name}: {TYPES[np.asarray(EVERYTHING[name]).dtype.kind]}"
        f"[{', '.join(map(str, np.shape(EVERYTHING[name])))}];"
        for name in used
    )
    block = f"@input {{ {inputs} }}" if used else ""
    modules = ", ".join(sorted(set(re.findall(r"= (\w+)\.", text))))
    body = "\n".join(components)
    return (
        f"import {modules};\ngraph G {{ {block} @output {{ {' '.join(outputs)} }} @compose {{\n"
        f"{body}\n}} }}",
        [EVERYTHING[name] for name in used],
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_onnx_runtime_agrees(family: str, exported: Callable[..., Any]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    version = tuple(map(int, runtime.__version__.split(".")[:2]))
    if family == "pooling" and version < (1, 24):
        pytest.skip("ONNX Runtime 1.23 divides windows at the edge by another count than 1.31")
    text, inputs = model(FAMILIES[family])
    exported(text, *inputs)


@pytest.mark.parametrize(
    "dtypes", [("float64", "int64"), ("float16", "int8"), ("float32", "uint8")]
)
def test_other_dtypes_are_computed_as_they_say(
    dtypes: tuple[str, str], exported: Callable[..., Any]
) -> None:
    rows = [
        "real math.add(x, u)", "real math.div{rhs_align=1}(x, v)", "real nn.softmax(x)",
        "real nn.relu(x)", "real math.mean_reduce(x)", "real linalg.matmul(m, n)",
        "real layout.concat{axis=0}([x, u])", "real layout.pad{padding=[1, 1]}(v)",
        "int math.mul(k, k)", "int math.sub(k, 100)", "int layout.cast<int>(x)",
        "int math.argmax{axis=0}(x)", "int layout.transpose(k)", "real layout.cast<real>(k)",
        "int layout.range{first=0, last=5}()", "int layout.nonzero(b)",
    ]  # fmt: skip
    text, inputs = model(rows)
    types = {"real": dtypes[0], "int": dtypes[1]}
    names = {"f": dtypes[0], "i": dtypes[1], "b": "bool"}
    given = [np.abs(each) if each.dtype.kind == "i" else each for each in inputs]
    exported(text, *(each.astype(names[each.dtype.kind]) for each in given), dtypes=types)


DIRECT = {
    "real nn.conv{groups=2, padding=[1, 0, 2, 1], stride=[2, 1]}(f, w, e)": ["Conv"],
    "real nn.conv{groups=2, data_format='NXC', filter_format='XCN'}(f1, w1, e)": [
        "Transpose", "Transpose", "Conv", "Transpose"],
    "real nn.deconv{stride=2, padding=[1, 0, 0, 1]}(f, d)": ["ConvTranspose"],
    "real nn.max_pool{size=[3, 2], stride=2, padding=[1, 0, 1, 1]}(f)": ["MaxPool"],
    "real nn.avg_pool{size=[3, 2], padding=[1, 0, 1, 1]}(f)": ["AveragePool"],
    "real nn.batch_norm(f, h, p, h, p)": ["BatchNormalization"],
    "real nn.mean_variance_norm(f, h, p)": ["InstanceNormalization"],
    "real nn.local_response_norm{axes=[1], size=[3]}(f)": ["LRN"],
    "real nn.softmax(x)": ["Softmax"], "real nn.gelu(x)": ["Gelu"],
    "real nn.relu{max=6.0}(x)": ["Clip"], "real math.add(x, u)": ["Add"],
    "real linalg.matmul{transA=true}(m, h4)": ["Gemm"], "real nn.linear(n, m4, e4)": ["Gemm"],
    "real math.mean_reduce{axes=[1]}(x)": ["ReduceMean"],
    "real layout.pad{padding=[0, 1, 2, 0, 1, 1], method='REFLECT'}(x)": ["Pad"],
    "real image.resize{axes=[2, 3], size=[14, 12]}(f)": ["Resize"],
    "real image.linear_upsample{axes=[2, 3], factor=[2, 3]}(f)": ["Resize"],
    "real image.grid_sample(f, r)": ["GridSample"],
    "real nn.max_pool{axes=[2, 3], size=1, stride=[2, 4]}(f)": ["Slice", "MaxPool"],
    "real nn.deconv{stride=[4, 6]}(f, d)": ["ConvTranspose", "Pad"],
    "real layout.space_to_depth{block_size=[2, 2]}(g)": ["SpaceToDepth"],
}  # fmt: skip


@pytest.mark.parametrize("row", DIRECT)
def test_what_onnx_has_a_name_for_is_that_node(row: str) -> None:
    pytest.importorskip("onnx")
    from tvm_nnef.converters.onnx.export import export

    text, _ = model([row])
    proto = export(tvm_nnef.compose(text), {})
    assert [node.op_type for node in proto.graph.node] == DIRECT[row]


@pytest.mark.parametrize("name", REFUSED)
def test_what_onnx_cannot_say_is_refused(name: str) -> None:
    pytest.importorskip("onnx")
    from tvm_nnef.converters.onnx.export import export

    row, words = REFUSED[name]
    text, _ = model([row])
    with pytest.raises(NnefError, match=f"cannot be exported to ONNX: .*{words}"):
        export(tvm_nnef.compose(text), {})


def test_every_operator_is_exported() -> None:
    folder = Path(tvm_nnef.__file__).parent / "stdlib"
    defined = {
        f"{path.stem}.{name}"
        for path in folder.glob("*.sknd")
        for name in re.findall(r"^operator ([a-z]\w*)", path.read_text("utf-8"), re.MULTILINE)
    }
    rows = " ".join(row for family in FAMILIES.values() for row in family)
    exported = set(re.findall(r"\b([a-z]+\.[a-z]\w*)", rows))
    assert defined - exported == WITH_VARIABLES


OWN_MODULE = """{text}
operator is_nan {{ @input {{ x: real[s..]; }} @output {{ y: bool[s..]; }}
    @lower {{ y[i..] = x[i..] > 0.0, i < s; }} }}
"""


@pytest.mark.parametrize("changed", [False, True])
def test_a_module_that_is_called_as_one_of_the_converters(
    changed: bool, exported: Callable[..., Any], tmp_path: Path
) -> None:
    """The definition decides whether an operator is the converters' `extra.round_even`."""
    from tvm_nnef.converters.common.operator_modules import EXTRA, module_texts

    original = module_texts([EXTRA], ["extra.round_even"])["extra"]
    text = original.replace("@output", "# a comment\n        @output")
    if changed:
        text = original.replace("y[i..] =", "y[i..] = 100.0 +")
        assert text != original
    (tmp_path / "extra.sknd").write_text(OWN_MODULE.format(text=text), "utf-8")
    (tmp_path / "main.sknd").write_text(
        "import extra; graph G { @input { x: real[8]; } @output { y: real[8]; z: bool[8]; } "
        "@compose { y = extra.round_even(x); z = extra.is_nan(x); } }",
        "utf-8",
    )
    proto = exported(tmp_path, INPUTS["z"])
    made = {node.op_type for node in proto.graph.node}
    assert ("Round" in made) != changed
    assert "IsNaN" not in made
