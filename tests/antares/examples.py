"""The examples of the syntax page, on smaller tensors, with what NumPy computes for them."""

# ruff: noqa: E501 (the texts are those of the page)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Example:
    """A call as the page writes it, and the outputs that it must have."""

    name: str
    text: str
    expected: Callable[..., Any]


def _conv(x: Array, w: Array, padding: int = 0) -> Array:
    """NCHW and OIHW."""
    x = np.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    windows = sliding_window_view(x, w.shape[2:], axis=(2, 3))  # type: ignore[call-overload]
    return np.einsum("nchwij,fcij->nfhw", windows, w)  # type: ignore[no-any-return]


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)  # type: ignore[no-any-return]


def _scatter(data: Array, indices: Array, updates: Array) -> Array:
    result = data.copy()
    result[tuple(indices.T)] = updates
    return result


def _batch_norm(x: Array, mean: Array, variance: Array, scale: Array, bias: Array) -> Array:
    mean, variance, scale, bias = (each[:, None, None] for each in (mean, variance, scale, bias))
    return bias + scale * (x - mean) / np.sqrt(np.float32(1e-5) + variance)  # type: ignore[no-any-return]


def _conv_bias_relu(x: Array, w: Array, b: Array) -> Array:
    return np.maximum(_conv(x, w.transpose(3, 2, 0, 1)) + b[0, 0, 0, :, None, None], 0)


def _f32(**shapes: str) -> str:
    """The inputs of a call, all float32."""
    items = (f'"{name}": {{"dtype": "float32", "shape": [{s}]}}' for name, s in shapes.items())
    return f"{{{', '.join(items)}}}"


_SIZES = (
    "_N, _CI, _H, _W, _CO, _KH, _KW, _SH, _SW, _PH, _PW = 2, 6, 9, 9, 8, 3, 3, 1, 1, 1, 1; "
    "_HO, _WO = (_H - _KH + _PH * 2) // _SH + 1, (_W - _KW + _PW * 2) // _SW + 1; "
)
_WINOGRAD = (
    "_N, _CI, _H, _W, _CO = 2, 4, 8, 8, 6; _HO, _WO = _H - 2, _W - 2; "
    "_nH, _nW = (_HO + 1) // 2, (_WO + 1) // 2; _P = _N * _nH * _nW; "
)
_TRANSFORM_FILTER = (
    "transform_filter[EPS, NU, CI, CO] +=! ((input1[CO, CI, Rkh, Rkw] * helper4x3[EPS, Rkh] * "
    "helper4x3[NU, Rkw])); "
)
_INPUT_TILE = (
    "input_tile[C, B, EPS, NU] = input0[B // ({_nH} * {_nW}), C, B // {_nW} % {_nH} * 2 + EPS, "
    "B % {_nW} * 2 + NU] where C in {_CI}, B in {_P}, EPS in 4, NU in 4; "
)
_TRANSFORM_INPUT = (
    "transform_input[EPS, NU, C, B] +=! input_tile[C, B, K1, K2] * helper4x4[K1, EPS] * "
    "helper4x4[K2, NU] where EPS in 4, NU in 4, C in {_CI}, B in {_P}; "
    "batch_gemm[EPS, NU, K, B] +=! transform_filter[EPS, NU, CI, K] * transform_input[EPS, NU, CI, "
    "B] where EPS in 4, NU in 4, K in {_CO}, B in {_P}; "
)
_INVERSE = (
    "inverse[K, B, VH, VW] +=! batch_gemm[K1, K2, K, B] * helper4x2[K1, VH] * helper4x2[K2, VW] "
    "where K in {_CO}, B in {_P}, VH in 2, VW in 2; "
    "output0[N, K, H, W] = inverse[K, N * {_nH} * {_nW} + H // 2 * {_nW} + W // 2, H % 2, W % 2] "
    "where N in {_N}, K in {_CO}, H in {_HO}, W in {_WO}"
)
_HELPER4X3 = (
    "helper4x3[N, M] = const(1.0).when([N * 3 + M == 0, N * 3 + M == 11], const(0.0).when([N * 3 + "
    "M == 1, N * 3 + M == 2, N * 3 + M == 9, N * 3 + M == 10], const(-0.5).when([N * 3 + M == 4], "
    "0.5, merge_op=`any`), merge_op=`any`), merge_op=`any`) where N in 4, M in 3; "
)
_HELPER4X4 = (
    "helper4x4[N, M] = const(1.0).when([N * 4 + M == 0, N * 4 + M == 6, N * 4 + M == 9, N * 4 + M "
    "== 10, N * 4 + M == 15], const(-1.0).when([N * 4 + M == 5, N * 4 + M == 7, N * 4 + M == 8], "
    "0.0, merge_op=`any`), merge_op=`any`) where N in 4, M in 4; "
)
_HELPER4X2 = (
    "helper4x2[N, M] = const(0.0) .when([N * 2 + M == 1, N * 2 + M == 6], const(-1.0).when([N * 2 "
    "+ M == 3], 1.0, merge_op=`any`), merge_op=`any`) where N in 4, M in 2; "
)
HELPERS = (
    np.array([[1, 0], [1, -1], [1, 1], [0, 1]], np.float32),
    np.array([[1, 0, 0], [0.5, -0.5, 0.5], [0.5, 0.5, 0.5], [0, 0, 1]], np.float32),
    np.array([[1, 0, 0, 0], [0, -1, 1, -1], [-1, 1, 1, 0], [0, 0, 0, 1]], np.float32),
)
"""helper4x2, helper4x3, helper4x4, read off the conditions of the page."""


def _ein(expressions: str, inputs: str, further: str = "") -> str:
    return f'einstein_v2("{expressions}", input_dict={inputs}{further})'


_PADDED = (
    "[HO * {_SH} + KH - {_PH} >= 0, HO * {_SH} + KH - {_PH} < {_H}, "
    "WO * {_SW} + KW - {_PW} >= 0, WO * {_SW} + KW - {_PW} < {_W}]"
)
_KH = "((CKHKW % {_KW * _KH}) // {_KW})"
_KW = "((CKHKW % {_KW * _KH}) % {_KW})"
_FUSED_PADDED = _PADDED.replace(" KH ", f" {_KH} ").replace(" KW ", f" {_KW} ")
_CONV_SHAPES = _f32(input0="_N, _CI, _H, _W", input1="_CO, _CI, _KH, _KW")
_FUSED_SHAPES = _f32(input0="_N, _CI, _H, _W", input1="_CO, _CI * _KH * _KW")
_PAD = (
    "output0[N, C, HO, WO] = input0[N, C, -1 + HO, -1 + WO].when([-1 + HO >= 0, -1 + HO < 5, "
    "-1 + WO >= 0, -1 + WO < 5], 0.0) where HO in 7, WO in 7"
)

EXAMPLES = (
    Example(
        "Broadcast",
        _ein(
            "output0[N, F, HO, WO] = input0[N] where F in 32, HO in 2, WO in 2", _f32(input0="16")
        ),
        lambda x: np.broadcast_to(x[:, None, None, None], (16, 32, 2, 2)),
    ),
    Example(
        "BroadcastAll",
        _ein(
            "output0[N, F, HO, WO] = input0[0] where N in 8, F in 32, HO in 2, WO in 2",
            _f32(input0="1"),
        ),
        lambda x: np.broadcast_to(x, (8, 32, 2, 2)),
    ),
    Example(
        "MatMul",
        _ein(
            "output0[N, M] +=! input0[N, K] * input1[K, M]", _f32(input0="24, 32", input1="32, 16")
        ),
        lambda a, b: a @ b,
    ),
    Example(
        "MatMulBiasAdd",
        _ein(
            "output0[N, M] +=! input0[N, K] * input1[K, M] + input2[M] / K.val()",
            _f32(input0="24, 32", input1="32, 16", input2="16"),
        ),
        lambda a, b, c: a @ b + c,
    ),
    Example(
        "BatchMatMul",
        _ein(
            "output0[B, N, M] +=! input0[B, N, K] * input1[B, K, M]",
            _f32(input0="3, 24, 16", input1="3, 16, 16"),
        ),
        lambda a, b: a @ b,
    ),
    Example(
        "Elementwise",
        _ein("output0[N] = input0[N] + input1[N]", _f32(input0="8 * 16", input1="8 * 16")),
        lambda a, b: a + b,
    ),
    Example(
        "Scaler Compute",
        _ein("output0[] = input0[] + input1[]", _f32(input0="", input1="")),
        lambda a, b: a + b,
    ),
    Example(
        "Multiple Outputs",
        _ein(
            "output0[N] = input0[N] + input1[N]; output1[N] = input0[N] * 2; output2[N] = input1[N] "
            "+ output1[N];",
            _f32(input0="8 * 16", input1="8 * 16"),
            ', extra_outputs=["output0", "output1", "output2"]',
        ),
        lambda a, b: (a + b, a * 2, b + a * 2),
    ),
    Example(
        "Transpose",
        _ein("output0[N, C, H, W] = input0[N, H, W, C]", _f32(input0="2, 9, 9, 3")),
        lambda x: x.transpose(0, 3, 1, 2),
    ),
    Example(
        "Reshape",
        _ein(
            "output0[A, B, C] = input0[A, B, C / 64, C % 64] where C in 128",
            _f32(input0="3, 3, 2, 64"),
        ),
        lambda x: x.reshape(3, 3, 128),
    ),
    Example(
        "ReduceSum",
        _ein("output0[N] +=! input0[N, C]", _f32(input0="32, 64")),
        lambda x: x.sum(1),
    ),
    Example(
        "ReduceMin",
        _ein("output0[N] <=! input0[N, C]", _f32(input0="32, 64")),
        lambda x: x.min(1),
    ),
    Example(
        "Cast",
        'einstein_v2("output0[N] = N.cast(`float32`) where N in 1024", {})',
        lambda: np.arange(1024, dtype=np.float32),
    ),
    Example(
        "Condition Relu",
        _ein("output0[N, C] = input0[N, C].when([input0[N, C] > 0.0], 0.0)", _f32(input0="16, 12")),
        lambda x: np.maximum(x, 0),
    ),
    Example(
        "Condition Relu for dynamtic data type",
        _ein(
            "output0[N, C] = input0[N, C].when([input0[N, C] > const(0.0).cast(input0[N, C].dtype())"
            "], const(0.0).cast(input0[N, C].dtype()))",
            _f32(input0="16, 12"),
        ),
        lambda x: np.maximum(x, 0),
    ),
    Example(
        "`Range + Tanh` using External Function",
        'einstein_v2("output0[N] = N.cast(`float32`).call(`tanh`) where N in 1024", {})',
        lambda: np.tanh(np.arange(1024, dtype=np.float32)),
    ),
    Example(
        "ConvolutionNoPad",
        _ein(
            "output0[N, F, HO, WO] +=! input0[N, C, HO + KH, WO + KW] * input1[F, C, KH, KW] where "
            "HO in 7, WO in 7",
            _f32(input0="2, 6, 9, 9", input1="8, 6, 3, 3"),
        ),
        _conv,
    ),
    Example(
        "ConvolutionWithPad",
        f'{_SIZES}einstein_v2(f"output0[N, F, HO, WO] +=! input0[N, C, HO * {{_SH}} + KH - {{_PH}}, '
        f"WO * {{_SW}} + KW - {{_PW}}].when({_PADDED}, 0.0) * input1[F, C, KH, KW] where HO in "
        f'{{_HO}}, WO in {{_WO}}", {_CONV_SHAPES})',
        lambda x, w: _conv(x, w, 1),
    ),
    Example(
        "ConvolutionWithPad (Fused reduce axis)",
        f'{_SIZES}\\\n einstein_v2(f" \\\n output0[N, F, HO, WO] +=! input0[N, CKHKW // {{_KW * _KH}}'
        f", HO * {{_SH}} + {_KH} - {{_PH}}, WO * {{_SW}} + {_KW} - {{_PW}}].when("
        f"{_FUSED_PADDED}, 0.0) * input1[F, CKHKW] where HO in {{_HO}}, WO in {{_WO}} \\\n "
        f'", {_FUSED_SHAPES})',
        lambda x, w: _conv(x, w.reshape(8, 6, 3, 3), 1),
    ),
    Example(
        "ConvWinograd_3x3",
        f'{_WINOGRAD}einstein_v2(f"{_HELPER4X3}{_TRANSFORM_FILTER}{_INPUT_TILE}{_HELPER4X4}'
        f'{_TRANSFORM_INPUT}{_HELPER4X2}{_INVERSE}", '
        + _f32(input0="_N, _CI, _H, _W", input1="_CO, _CI, 3, 3")
        + ")",
        _conv,
    ),
    Example(
        "ConvWinograd_3x3 with external helper matrix",
        f'{_WINOGRAD}einstein_v2(f""" \\\n{_TRANSFORM_FILTER}\\\n{_INPUT_TILE}\\\n{_TRANSFORM_INPUT}'
        f'\\\n{_INVERSE} \\\n""", '
        + _f32(
            input0="_N, _CI, _H, _W",
            input1="_CO, _CI, 3, 3",
            helper4x2="4, 2",
            helper4x3="4, 3",
            helper4x4="4, 4",
        )
        + ")",
        lambda x, w, *_: _conv(x, w),
    ),
    Example(
        "DepthToSpace",
        _ein(
            "output0[N, H, C0, W, C1, C2] = input0[N, H, W, C0, C1, C2]",
            _f32(input0="1, 8, 8, 2, 2, 4"),
        ),
        lambda x: x.transpose(0, 1, 3, 2, 4, 5),
    ),
    Example(
        "DepthwiseConv",
        _ein(
            "output0[N, C, HO, WO] +=! input0[N, C, HO + KH, WO + KW] * input1[KH, KW, C, 0] where "
            "HO in 6, WO in 6",
            _f32(input0="2, 4, 8, 8", input1="3, 3, 4, 1"),
        ),
        lambda x, w: np.concatenate(
            [_conv(x[:, c : c + 1], w[None, None, :, :, c, 0]) for c in range(4)], 1
        ),
    ),
    Example(
        "Slice",
        _ein("output0[N, F] = input0[N, F, 2]", _f32(input0="1, 16, 32")),
        lambda x: x[:, :, 2],
    ),
    Example(
        "Concat",
        _ein(
            "output0[N, F] = input0[N, F].when([F < 128], input1[N, F - 128]) where F in 256",
            _f32(input0="4, 128", input1="4, 128"),
        ),
        lambda a, b: np.concatenate([a, b], 1),
    ),
    Example(
        "OneHot",
        'einstein_v2("output0[N, F] = const(1.0).when([input0[N] == F], const(0.0)) where F in 128"'
        ', input_dict={"input0": {"dtype": "int32", "shape": [4]}})',
        lambda x: np.eye(128, dtype=np.float32)[x],
    ),
    Example(
        "Take",
        'einstein_v2("output0[F, C] = input0[input1[F], C]", input_dict={"input0": {"dtype": "float'
        '32", "shape": [32, 24]}, "input1": {"dtype": "int32", "shape": [64]}})',
        lambda x, i: x[i],
    ),
    Example(
        "Gather",
        'einstein_v2("output0[N, F] = input0[input1[N, F]]", input_dict={"input0": {"dtype": "float'
        '32", "shape": [32]}, "input1": {"dtype": "int32", "shape": [4, 64]}})',
        lambda x, i: x[i],
    ),
    Example(
        "Pad",
        _ein(_PAD, _f32(input0="2, 3, 5, 5")),
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]),
    ),
    Example(
        "DivNoNan",
        _ein(
            "output0[N] = (input0[N] / input1[N]).when([input1[N] != 0], 0.0)",
            _f32(input0="32 * 4", input1="32 * 4"),
        ),
        lambda a, b: np.divide(a, b, out=np.zeros_like(a), where=b != 0),
    ),
    Example(
        "MaxPool",
        _ein(
            "output0[N, C, HO, WO] >=! input0[N, C, HO * 2 + KH, WO * 2 + KW] where HO in 6, WO in "
            "6, KW in 2, KH in 2",
            _f32(input0="2, 3, 12, 12"),
        ),
        lambda x: x.reshape(2, 3, 6, 2, 6, 2).max((3, 5)),
    ),
    Example(
        "AvgPool",
        _ein(
            "output0[NC, HO, WO] +=! input0[NC, HO * 3 + KH, WO * 3 + KW] / 9.0 where HO in 5, WO "
            "in 5, KW in 3, KH in 3",
            _f32(input0="8, 15, 15"),
        ),
        lambda x: x.reshape(8, 5, 3, 5, 3).mean((2, 4)),
    ),
    Example(
        "Tile",
        _ein(
            "output0[ON, OC] = input0[ON % 2, OC % 16] where ON in 10, OC in 48",
            _f32(input0="2, 16"),
        ),
        lambda x: np.tile(x, (5, 3)),
    ),
    Example(
        "Softmax",
        _ein(
            "temp0[N] >=! input0[N, C]; temp1[N] +=! (input0[N, C] - temp0[N]).call(`exp`); "
            "output0[N, C] = (input0[N, C] - temp0[N]).call(`exp`) / temp1[N]",
            _f32(input0="32, 64"),
        ),
        _softmax,
    ),
    Example(
        "BatchNorm Inference",
        _ein(
            "output0[N, C, H, W] = bias[C] + scale[C] * (input0[N, C, H, W] - mean[C]) / (1e-5 + "
            "variance[C]).call(`sqrt`)",
            _f32(input0="2, 8, 4, 4", mean="8", variance="8", scale="8", bias="8"),
        ),
        _batch_norm,
    ),
    Example(
        "Logical Bool Operation",
        'einstein_v2("output0[N, M] = input0[N, M] & ~input1[N, M]", { "input0": {"dtype": "int8", '
        '"shape": [24, 12]}, "input1": {"dtype": "int8", "shape": [24, 12]} })',
        lambda a, b: ((a != 0) & (b == 0)).astype(np.int8),
    ),
    Example(
        "Sigmoid",
        _ein("output0[N, M] = 1.0 / (1.0 + (-input0[N, M]).call(`exp`))", _f32(input0="24, 12")),
        lambda x: 1 / (1 + np.exp(-x)),
    ),
    Example(
        "AddMatMul Head Fusion",
        _ein(
            "temp0[K, N] = input0[N, K] + 100; output0[N, M] +=! temp0[K, N] * input1[K, M] where K "
            "in 10",
            _f32(input0="24, 16", input1="16, 12"),
        ),
        lambda a, b: (a[:, :10] + 100) @ b[:10],
    ),
    Example(
        "ConvBiasRelu Tail Fusion",
        _ein(
            "conv_out[N, F, HO, WO] +=! input0[N, C, HO + KH, WO + KW] * input1[KH, KW, C, F] where "
            "HO in 16, WO in 16; conv_bias[N, F, HO, WO] = conv_out[N, F, HO, WO] + input2[0, 0, 0, "
            "F]; output0[N, F, HO, WO] = conv_bias[N, F, HO, WO].when(conv_bias[N, F, HO, WO] > 0.0"
            ", 0.0)",
            _f32(input0="1, 16, 16, 16", input1="1, 1, 16, 16", input2="1, 1, 1, 16"),
        ),
        _conv_bias_relu,
    ),
    Example(
        "Scatter4D",
        '_B, _M = 2, 8; einstein_v2("data[indices[B, 0], indices[B, 1], indices[B, 2], indices[B, 3'
        '], M] =. updates[B, M]", input_dict={"data": {"dtype": "float32", "shape": [5, 6, 7, 8, '
        '_M]}, "indices": {"dtype": "int32", "shape": [_B, 4]}, "updates": {"dtype": "float32", '
        '"shape": [_B, _M]}})',
        _scatter,
    ),
)
