"""Operators in Antares IR are scheduled as the standard operators that compute the same."""

from __future__ import annotations

from typing import Any

import pytest

import tvm_nnef

CASES = {
    "matmul": (
        "y[N, M] +=! a[N, K] * b[K, M]",
        {"a": (128, 256), "b": (256, 192)},
        "y = linalg.matmul(a, b);",
    ),
    "batch matmul": (
        "y[B, N, M] +=! a[B, N, K] * b[B, K, M]",
        {"a": (3, 64, 96), "b": (3, 96, 64)},
        "y = linalg.matmul(a, b);",
    ),
    "conv": (
        "y[N, F, H, W] +=! a[N, C, H + I, W + J] * b[F, C, I, J] where H in 14, W in 14",
        {"a": (1, 32, 16, 16), "b": (64, 32, 3, 3)},
        "y = nn.conv{padding=0}(a, b);",
    ),
    "conv with stride": (
        "y[N, F, H, W] +=! a[N, C, H * 2 + I, W * 2 + J] * b[F, C, I, J] where H in 7, W in 7",
        {"a": (1, 32, 16, 16), "b": (64, 32, 3, 3)},
        "y = nn.conv{padding=0, stride=2}(a, b);",
    ),
    "conv with padding": (
        "y[N, F, H, W] +=! a[N, C, H * 1 + I - 1, W * 1 + J - 1].when([H * 1 + I - 1 >= 0, H * 1 + "
        "I - 1 < 16, W * 1 + J - 1 >= 0, W * 1 + J - 1 < 16], 0.0) * b[F, C, I, J] where H in 16, "
        "W in 16",
        {"a": (1, 32, 16, 16), "b": (64, 32, 3, 3)},
        "y = nn.conv{padding=1}(a, b);",
    ),
    "conv with a fused axis": (
        "y[N, F, H, W] +=! a[N, R // 9, H + R % 9 // 3, W + R % 9 % 3] * b[F, R] where H in 14, W "
        "in 14",
        {"a": (1, 32, 16, 16), "b": (64, 288)},
        "c = layout.reshape{axis=1, rank=1, shape=[32, 3, 3]}(b); y = nn.conv{padding=0}(a, c);",
    ),
    "depthwise conv": (
        "y[N, C, H, W] +=! a[N, C, H + I, W + J] * b[C, 0, I, J] where H in 14, W in 14",
        {"a": (1, 32, 16, 16), "b": (32, 1, 3, 3)},
        "y = nn.conv{padding=0, groups=32}(a, b);",
    ),
    "sum": (
        "y[N] +=! a[N, C]",
        {"a": (64, 1024)},
        "y = math.sum_reduce{axes=[1], squeeze=true}(a);",
    ),
    "sum of columns": (
        "y[C] +=! a[N, C]",
        {"a": (512, 256)},
        "y = math.sum_reduce{axes=[0], squeeze=true}(a);",
    ),
    "min": (
        "y[N] <=! a[N, C]",
        {"a": (64, 1024)},
        "y = math.min_reduce{axes=[1], squeeze=true}(a);",
    ),
    "max pool": (
        "y[N, C, H, W] >=! a[N, C, H * 2 + I, W * 2 + J] where H in 8, W in 8, I in 2, J in 2",
        {"a": (1, 32, 16, 16)},
        "y = nn.max_pool{size=[2, 2], stride=2, padding=0}(a);",
    ),
}


def strategies(model: Any) -> list[str]:
    reports: list[Any] = []
    tvm_nnef.build(model, "x86-64-v3", threads=1, verbose=reports.append, progress=False)
    (report,) = reports
    return sorted(each["strategy"] for each in report.to_json()["kernels"])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_strategies_are_those_of_the_standard_operator(
    case: tuple[str, dict[str, tuple[int, ...]], str],
) -> None:
    expressions, shapes, invocation = case
    inputs = {name: {"dtype": "float32", "shape": shape} for name, shape in shapes.items()}
    from tvm_nnef.converters.antares import einstein_v2

    declared = " ".join(f"{name}: real{list(shape)};" for name, shape in shapes.items())
    standard = (
        f"import linalg, layout, math, nn;\ngraph G {{ @input {{ {declared} }} "
        f"@output {{ y: real; }} @compose {{ {invocation} }} }}"
    )
    assert strategies(einstein_v2(expressions, inputs)) == strategies(standard)
