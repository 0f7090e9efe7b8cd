"""What other languages write as formulas gets the plans of the standard operators.

Compared are the strategies, tiles, orders of loops and tails of all kernels, at the same sizes.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.converters.antares import einstein_v2
from tvm_nnef.converters.tile import convert

Shapes = dict[str, tuple[int, ...]]

MATMUL: Shapes = {"a": (128, 256), "b": (256, 192)}
CONV: Shapes = {"a": (1, 32, 16, 16), "b": (64, 32, 3, 3)}
DEPTHWISE: Shapes = {"a": (1, 32, 16, 16), "b": (32, 1, 3, 3)}
GROUPED: Shapes = {"a": (1, 32, 16, 16), "b": (64, 8, 3, 3)}
FUSED: Shapes = {"a": (1, 32, 16, 16), "b": (64, 288)}
TABLE: Shapes = {"a": (64, 1024)}
CUBE: Shapes = {"a": (16, 64, 48)}
IMAGE: Shapes = {"a": (1, 32, 16, 16)}

STANDARD: dict[str, tuple[Shapes, str]] = {
    "matmul": (MATMUL, "linalg.matmul(a, b)"),
    "transposed": ({"a": (128, 256), "b": (192, 256)}, "linalg.matmul{transB=true}(a, b)"),
    "batch matmul": ({"a": (3, 64, 96), "b": (3, 96, 64)}, "linalg.matmul(a, b)"),
    "row": ({"a": (1, 256), "b": (256, 512)}, "linalg.matmul(a, b)"),
    "conv": (CONV, "nn.conv{padding=0}(a, b)"),
    "padded": (CONV, "nn.conv{padding=1}(a, b)"),
    "strided": (CONV, "nn.conv{padding=0, stride=2}(a, b)"),
    "strided, padded": (CONV, "nn.conv{padding=1, stride=2}(a, b)"),
    "dilated": (CONV, "nn.conv{padding=0, dilation=2}(a, b)"),
    "conv 1d": ({"a": (1, 32, 32), "b": (64, 32, 3)}, "nn.conv{padding=0}(a, b)"),
    "depthwise": (DEPTHWISE, "nn.conv{padding=0, groups=32}(a, b)"),
    "depthwise, padded": (DEPTHWISE, "nn.conv{padding=1, groups=32}(a, b)"),
    "grouped": (GROUPED, "nn.conv{padding=0, groups=4}(a, b)"),
    "fused": (FUSED, "nn.conv{padding=0}(a, c)"),
    "fused, padded": (FUSED, "nn.conv{padding=1}(a, c)"),
    "sum": (TABLE, "math.sum_reduce{axes=[1], squeeze=true}(a)"),
    "sum of columns": (TABLE, "math.sum_reduce{axes=[0], squeeze=true}(a)"),
    "sum of all": (TABLE, "math.sum_reduce{axes=[0, 1], squeeze=true}(a)"),
    "min": (TABLE, "math.min_reduce{axes=[1], squeeze=true}(a)"),
    "max of the middle": (CUBE, "math.max_reduce{axes=[1], squeeze=true}(a)"),
    "max of two": (CUBE, "math.max_reduce{axes=[1, 2], squeeze=true}(a)"),
    "max pool": (IMAGE, "nn.max_pool{size=[2, 2], stride=2, padding=0}(a)"),
    "avg pool": (IMAGE, "nn.avg_pool{size=[2, 2], stride=2, padding=0}(a)"),
}

CONV_OF = "y[N, F, H, W] +=! a[N, C, {}, {}] * b[F, C, I, J] where H in {}, W in {}"
DEPTHWISE_OF = "y[N, C, H, W] +=! a[N, C, {}, {}] * b[C, 0, I, J] where H in {}, W in {}"
PADDED = "a[N, C, H + I - 1, W + J - 1]"
SIXTEEN = "* b[F, C, I, J] where H in 16, W in 16"
BOUNDS = "H + I - 1 >= 0, H + I - 1 < 16, W + J - 1 >= 0, W + J - 1 < 16"
MOVED = "H + I >= 1, 17 > H + I, -W - J <= -1, W + J <= 16"
DIGITS = "y[N, F, H, W] +=! a[N, R // 9, {}, {}]"

ANTARES = [
    ("matmul", "y[N, M] +=! a[N, K] * b[K, M]"),
    ("transposed", "y[N, M] +=! a[N, K] * b[M, K]"),
    ("batch matmul", "y[B, N, M] +=! a[B, N, K] * b[B, K, M]"),
    ("row", "y[N, M] +=! a[N, K] * b[K, M]"),
    ("conv", CONV_OF.format("H + I", "W + J", 14, 14)),
    ("strided", CONV_OF.format("H * 2 + I", "2 * W + J", 7, 7)),
    ("dilated", CONV_OF.format("H + I * 2", "W + 2 * J", 12, 12)),
    ("conv 1d", "y[N, F, H] +=! a[N, C, H + I] * b[F, C, I] where H in 30"),
    ("padded", f"y[N, F, H, W] +=! {PADDED}.when([{BOUNDS}], 0.0) {SIXTEEN}"),
    ("padded", f"y[N, F, H, W] +=! {PADDED}.when([{MOVED}], const(0.0)) {SIXTEEN}"),
    (
        "padded",
        f"y[N, F, H, W] +=! {PADDED}.when([({BOUNDS.replace(', ', ') & (')})], 0.0) {SIXTEEN}",
    ),
    (
        "padded",
        f"y[N, F, H, W] +=! ({PADDED} * b[F, C, I, J]).when([{BOUNDS}], 0.0) "
        "where H in 16, W in 16",
    ),
    (
        "strided, padded",
        "y[N, F, H, W] +=! a[N, C, H * 2 + I - 1, W * 2 + J - 1].when([H * 2 + I - 1 >= 0, H * 2 + "
        "I - 1 < 16, W * 2 + J - 1 >= 0, W * 2 + J - 1 < 16], 0.0) * b[F, C, I, J] "
        "where H in 8, W in 8",
    ),
    ("depthwise", DEPTHWISE_OF.format("H + I", "W + J", 14, 14)),
    (
        "depthwise, padded",
        f"y[N, C, H, W] +=! {PADDED}.when([{BOUNDS}], 0.0) * b[C, 0, I, J] where H in 16, W in 16",
    ),
    (
        "grouped",
        "y[N, F, H, W] +=! a[N, F // 16 * 8 + C, H + I, W + J] * b[F, C, I, J] "
        "where H in 14, W in 14",
    ),
    (
        "fused",
        f"{DIGITS.format('H + R % 9 // 3', 'W + R % 9 % 3')} * b[F, R] where H in 14, W in 14",
    ),
    ("fused", f"{DIGITS.format('H + R / 3 % 3', 'W + R % 3')} * b[F, R] where H in 14, W in 14"),
    (
        "fused, padded",
        f"{DIGITS.format('H + R % 9 // 3 - 1', 'W + R % 9 % 3 - 1')}.when(["
        "H + R % 9 // 3 - 1 >= 0, H + R % 9 // 3 - 1 < 16, W + R % 9 % 3 >= 1, "
        "W + R % 9 % 3 - 1 < 16], 0.0) * b[F, R] where H in 16, W in 16",
    ),
    ("sum", "y[N] +=! a[N, C]"),
    ("sum of columns", "y[C] +=! a[N, C]"),
    ("sum of all", "y[] +=! a[N, C]"),
    ("min", "y[N] <=! a[N, C]"),
    ("max of the middle", "y[N, M] >=! a[N, C, M]"),
    ("max of two", "y[N] >=! a[N, C, M]"),
    ("max of two", "y[N] >=! a[N, R // 48, R % 48] where R in 3072"),
    (
        "max pool",
        "y[N, C, H, W] >=! a[N, C, H * 2 + I, W * 2 + J] where H in 8, W in 8, I in 2, J in 2",
    ),
    (
        "avg pool",
        "y[N, C, H, W] +=! a[N, C, H * 2 + I, W * 2 + J] / 4.0 "
        "where H in 8, W in 8, I in 2, J in 2",
    ),
]

# Dimensions of the operands, sizes of the result, and the statement.
CONV_DIMS = ("N, C, H, W", "F, C, P, Q")
TILE = [
    ("matmul", ("I, K", "K, J"), "I, J", "y(i, j) += a(i, k) * b(k, j);"),
    ("transposed", ("I, K", "J, K"), "I, J", "y(i, j) += a(i, k) * b(j, k);"),
    ("batch matmul", ("N, I, K", "N, K, J"), "N, I, J", "y(n, i, j) += a(n, i, k) * b(n, k, j);"),
    (
        "conv",
        CONV_DIMS,
        "N, F, H - P + 1, W - Q + 1",
        "y(n, f, h, w) += a(n, c, h + p, w + q) * b(f, c, p, q);",
    ),
    (
        "padded",
        CONV_DIMS,
        "N, F, H, W",
        "y(n, f, h, w) += a(n, c, h + p - P / 2, w + q - 1) * b(f, c, p, q);",
    ),
    (
        "strided",
        CONV_DIMS,
        "N, F, (H - P) / 2 + 1, (W - Q) / 2 + 1",
        "y(n, f, h, w) += a(n, c, 2 * h + p, 2 * w + q) * b(f, c, p, q);",
    ),
    (
        "strided, padded",
        CONV_DIMS,
        "N, F, H / 2, W / 2",
        "y(n, f, h, w) += a(n, c, 2 * h + p - 1, 2 * w + q - 1) * b(f, c, p, q);",
    ),
    (
        "dilated",
        CONV_DIMS,
        "N, F, H - 2 * (P - 1), W - 2 * (Q - 1)",
        "y(n, f, h, w) += a(n, c, h + 2 * p, w + 2 * q) * b(f, c, p, q);",
    ),
    (
        "depthwise",
        ("N, C, H, W", "C, O, P, Q"),
        "N, C, H - P + 1, W - Q + 1",
        "y(n, c, h, w) += a(n, c, h + p, w + q) * b(c, f, p, q);",
    ),
    (
        "depthwise, padded",
        ("N, C, H, W", "C, O, P, Q"),
        "N, C, H, W",
        "y(n, c, h, w) += a(n, c, h + p - 1, w + q - 1) * b(c, 0, p, q);",
    ),
    (
        "grouped",
        ("N, Z, H, W", "F, C, P, Q"),
        "N, F, H - P + 1, W - Q + 1",
        "y(n, 16 * g + f, h, w) += a(n, 8 * g + c, h + p, w + q) * b(16 * g + f, c, p, q); "
        "y.add_constraint(f < 16);",
    ),
    ("sum", ("I, K",), "I", "y(i) += a(i, k);"),
    ("sum of columns", ("I, K",), "K", "y(k) += a(i, k);"),
    ("sum of all", ("I, K",), "", "y() += a(i, k);"),
    ("min", ("I, K",), "I", "y(i) <= a(i, k);"),
    ("max of the middle", ("I, K, J",), "I, J", "y(i, j) >= a(i, k, j);"),
    ("max of two", ("I, K, J",), "I", "y(i) >= a(i, k, j);"),
    (
        "max pool",
        ("N, C, H, W",),
        "N, C, H / 2, W / 2",
        "y(n, c, h, w) >= a(n, c, 2 * h + p, 2 * w + q); "
        "y.add_constraint(p < 2); y.add_constraint(q < 2);",
    ),
]


def tile_text(dimensions: tuple[str, ...], sizes: str, statement: str) -> str:
    names = sorted({each for own in dimensions for each in own.split(", ")})
    bound = " ".join(f"{x}.bind_dims({own});" for x, own in zip("ab", dimensions, strict=False))
    parameters = ", ".join(f"const Tensor& {x}" for x, _ in zip("ab", dimensions, strict=False))
    return (
        f"Tensor f({parameters}) {{ TensorDim {', '.join(names)}; "
        f"TensorIndex i, j, k, n, c, h, w, f, p, q, g; {bound} "
        f"auto y = TensorOutput({sizes}); {statement} return y; }}"
    )


def standard(name: str) -> str:
    shapes, invocation = STANDARD[name]
    declared = " ".join(f"{each}: real{list(shape)};" for each, shape in shapes.items())
    view = "c = layout.reshape{axis=1, rank=1, shape=[32, 3, 3]}(b); " if shapes is FUSED else ""
    return (
        f"import linalg, layout, math, nn;\ngraph G {{ @input {{ {declared} }} "
        f"@output {{ y: real; }} @compose {{ {view}y = {invocation}; }} }}"
    )


def plans(model: Any) -> list[str]:
    """The plan of each kernel, without names of axes and buffers, and without other candidates."""
    module = run_phases(tvm_nnef.from_nnef(model), resolve("x86-64-v3"), "bind", "schedule")
    texts = (re.sub(r"\b[vT]_\w+|; .*(?=\)$)", "", each.plan) for each in schedules.report(module))
    return sorted(texts)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "text"), ANTARES, ids=range(len(ANTARES)))
def test_antares(name: str, text: str) -> None:
    inputs = {x: {"dtype": "float32", "shape": shape} for x, shape in STANDARD[name][0].items()}
    found = plans(einstein_v2(text, inputs))
    assert found == plans(standard(name))
    assert found


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "dimensions", "sizes", "statement"), TILE, ids=[each[0] for each in TILE]
)
def test_tile(name: str, dimensions: tuple[str, ...], sizes: str, statement: str) -> None:
    text = tile_text(dimensions, sizes, statement)
    assert plans(convert(text, input_shapes=STANDARD[name][0])) == plans(standard(name))


def test_a_softmax_of_statements_is_one_kernel() -> None:
    text = (
        "t[N] >=! a[N, C]; s[N] +=! (a[N, C] - t[N]).call(`exp`); "
        "y[N, C] = (a[N, C] - t[N]).call(`exp`) / s[N]"
    )
    (found,) = plans(einstein_v2(text, {"a": {"dtype": "float32", "shape": (32, 1024)}}))
    assert found.startswith("cpu.row_reduction: rows 32")
