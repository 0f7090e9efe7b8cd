"""Multiply-adds, parameters and memory: against numbers by hand, and those that are published."""

from __future__ import annotations

from typing import Any

import pytest

import tvm_nnef
from tvm_nnef.display.counts import multiply_adds, total_multiply_adds
from tvm_nnef.display.rows import Totals, rows_of, totals_of
from tvm_nnef.graph.nodes import Graph
from tvm_nnef.symbolic.trees import evaluate


def composed(body: str, operators: str = "", **options: Any) -> Graph:
    text = f"import layout, linalg, math, nn;\n{operators}\ngraph G {{ {body} }}\n"
    return tvm_nnef.compose(text, **options)


def totals(graph: Graph) -> Totals:
    return totals_of(graph, rows_of(graph))


def one(inputs: str, call: str, output: str, operators: str = "") -> int:
    """The multiply-adds of a graph with one invocation."""
    graph = composed(
        f"@input {{ {inputs} }} @output {{ y: {output}; }} @compose {{ y = {call}; }}", operators
    )
    count = total_multiply_adds(graph)
    assert isinstance(count, int)
    return count


OWN = """
operator triangle { @input { x: real[n]; } @output { y: real[n]; }
  @lower { y[i] = 0.0, i < n; y[i] += x[i] * x[j], i < n, j < i; } }
operator bilinear { @input { x: real[n]; w: real[m,n,n]; } @output { y: real[m]; }
  @lower { y[k] = 0.0, k < m; y[k] += x[i] * w[k,i,j] * x[j], k < m, i < n, j < n; } }
operator two_sums { @input { x: real[n]; } @output { y: real[n]; }
  @lower { y[i] = 0.0, i < n; y[i] += x[i] * x[j] - x[j] * 2.0 + x[j] * x[j], i < n, j < n; } }
operator scattered { @input { x: real[n]; w: real[m]; } @output { y: real[n + m - 1]; }
  @lower { y[i] = 0.0, i < n + m - 1; y[i] += x[|i - j|] * w[j], i < n + m - 1, j < m; } }
"""

BY_HAND: dict[str, tuple[tuple[str, ...], int]] = {
    "convolution": (
        ("x: real[2,3,9,9]; w: real[8,3,3,3];", "nn.conv{padding=1}(x, w)", "real[2,8,9,9]"),
        2 * 8 * 9 * 9 * 3 * 3 * 3,
    ),
    "strides and groups": (
        ("x: real[1,8,9,9]; w: real[8,1,3,3];",
         "nn.conv{padding=0, stride=2, groups=8}(x, w)", "real[1,8,4,4]"),
        8 * 4 * 4 * 3 * 3,
    ),
    "deconvolution": (
        ("x: real[1,4,5,5]; w: real[4,6,3,3];", "nn.deconv{padding=0}(x, w)", "real[1,6,7,7]"),
        4 * 5 * 5 * 6 * 3 * 3,
    ),
    "deconvolution with strides": (
        ("x: real[1,4,5,5]; w: real[4,3,3,3];",
         "nn.deconv{padding=1, stride=2, groups=2, dilation=2}(x, w)", "real[1,6,11,11]"),
        4 * 5 * 5 * 3 * 3 * 3,
    ),
    "deconvolution by hand": (
        ("x: real[5]; w: real[3];", "scattered(x, w)", "real[7]", OWN), 5 * 3,
    ),
    "matrices": (
        ("a: real[5,7,11]; b: real[5,11,13];", "linalg.matmul(a, b)", "real[5,7,13]"),
        5 * 7 * 11 * 13,
    ),
    "linear layer": (("x: real[3,10]; w: real[4,10];", "nn.linear(x, w)", "real[3,4]"), 120),
    "pooling": (("x: real[1,2,8,8];", "nn.avg_pool{size=2, stride=2, axes=[2,3], padding=0}(x)",
                 "real[1,2,4,4]"), 0),
    "elementwise": (("x: real[64];", "math.mul(x, x)", "real[64]"), 0),
    "an own operator": (("x: real[6]; w: real[5,6,6];", "bilinear(x, w)", "real[5]", OWN), 180),
    "a triangle": (("x: real[10];", "triangle(x)", "real[10]", OWN), 45),
    "products in one sum": (("x: real[10];", "two_sums(x)", "real[10]", OWN), 200),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_multiply_adds_by_hand(case: str) -> None:
    arguments, expected = BY_HAND[case]
    assert one(*arguments) == expected


def alexnet() -> str:
    """AlexNet as torchvision has it, from "One weird trick" (arXiv:1404.5997)."""
    layers = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1),
              (256, 256, 3, 1, 1)]  # fmt: skip
    variables, lines, x = [], [], "image"
    for n, (inner, outer, size, stride, padding) in enumerate(layers):
        variables.append(f"k{n}: real[{outer},{inner},{size},{size}]; b{n}: real[{outer}];")
        lines.append(f"c{n} = nn.conv{{stride={stride}, padding={padding}}}({x}, k{n}, b{n});")
        lines.append(f"r{n} = nn.relu(c{n});")
        x = f"r{n}"
        if n in (0, 1, 4):
            lines.append(f"p{n} = nn.max_pool{{axes=[2,3], size=3, stride=2, padding=0}}({x});")
            x = f"p{n}"
    lines.append(f"flat = layout.flatten{{axis=1, rank=3}}({x});")
    x = "flat"
    for n, (inner, outer) in enumerate([(9216, 4096), (4096, 4096), (4096, 1000)]):
        variables.append(f"w{n}: real[{outer},{inner}]; v{n}: real[{outer}];")
        lines.append(f"l{n} = nn.linear({x}, w{n}, v{n});")
        x = f"l{n}"
    return (
        "@input { image: real[1,3,224,224]; } @output { l2: real[1,1000]; } "
        f"@variable {{ {' '.join(variables)} }} @compose {{ {' '.join(lines)} }}"
    )


def test_alexnet_has_the_published_numbers() -> None:
    """https://pytorch.org/vision/stable/models.html: 61,100,840 parameters, 0.71 GFLOPS."""
    found = totals(composed(alexnet()))
    assert found.parameters == 61_100_840
    assert found.multiply_adds == 714_188_480
    assert found.parameter_bytes == 4 * 61_100_840


class ResNet50:
    """ResNet-50 v1.5 (arXiv:1512.03385, with the stride at the 3 x 3), as torchvision has it."""

    def __init__(self) -> None:
        self.variables: list[str] = []
        self.lines: list[str] = []
        x = self.convolution("image", 3, 64, 7, 2)
        self.lines.append(f"p = nn.max_pool{{axes=[2,3], size=3, stride=2, padding=1}}({x});")
        x, inner = "p", 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                x, inner = self.block(x, inner, 64 << stage, stride, first=not block)
        self.lines.append(f"m = math.mean_reduce{{axes=[2,3], squeeze=true}}({x});")
        self.variables.append("fw: real[1000,2048]; fb: real[1000];")
        self.lines.append("y = nn.linear(m, fw, fb);")

    def convolution(self, x: str, inner: int, outer: int, size: int, stride: int = 1) -> str:
        n = len(self.variables)
        self.variables.append(f"k{n}: real[{outer},{inner},{size},{size}];")
        self.variables.append(f"scale{n}: real[{outer}]; offset{n}: real[{outer}];")
        self.lines.append(f"c{n} = nn.conv{{stride={stride}, padding={size // 2}}}({x}, k{n});")
        self.lines.append(f"u{n} = layout.unsqueeze{{axes=[0,2,3]}}(scale{n});")
        self.lines.append(f"s{n} = math.mul(c{n}, u{n});")
        self.lines.append(f"v{n} = layout.unsqueeze{{axes=[0,2,3]}}(offset{n});")
        self.lines.append(f"r{n} = math.add(s{n}, v{n});")
        return f"r{n}"

    def block(self, x: str, inner: int, width: int, stride: int, first: bool) -> tuple[str, int]:
        y = self.convolution(x, inner, width, 1)
        y = self.convolution(y, width, width, 3, stride)
        y = self.convolution(y, width, 4 * width, 1)
        skip = self.convolution(x, inner, 4 * width, 1, stride) if first else x
        n = len(self.lines)
        self.lines.append(f"a{n} = math.add({y}, {skip});")
        return f"a{n}", 4 * width

    def graph(self) -> Graph:
        return composed(
            "@input { image: real[1,3,224,224]; } @output { y: real[1,1000]; } "
            f"@variable {{ {' '.join(self.variables)} }} @compose {{ {' '.join(self.lines)} }}"
        )


@pytest.mark.slow
def test_resnet_50_has_the_published_numbers() -> None:
    """https://pytorch.org/vision/stable/models.html: 25,557,032 parameters, 4.09 GFLOPS."""
    found = totals(ResNet50().graph())
    assert found.parameters == 25_557_032
    assert found.multiply_adds == 4_089_184_256


def test_dynamic_dimensions_stay_in_the_count() -> None:
    graph = composed(
        "@input { x: real[n|16,8]; w: real[4,8]; } @output { y: real[~,4]; } "
        "@compose { y = nn.linear(x, w); }"
    )
    found = totals(graph)
    assert found.multiply_adds is not None
    assert evaluate(found.multiply_adds, {"n": 3}) == 3 * 4 * 8
    assert found.peak_bytes == 4 * (16 * 8 + 4 * 8 + 16 * 4), "at the bound"


def test_branches_count_as_the_larger_one() -> None:
    graph = composed(
        "@input { c: bool[]; x: real[2,8]; w: real[8,8]; } @output { y: real[2,8]; } "
        "@compose { y = if c then nn.linear(x, w) "
        "else { t = nn.linear(x, w); u = nn.linear(t, w); yield u; }; }"
    )
    assert total_multiply_adds(graph) == 2 * 2 * 8 * 8


def test_loops_count_every_step() -> None:
    body = "@input {{ x: real[2,8]; w: real[8,8]; {0} }} @output {{ y: real[2,8]; }} @compose {{ y = with a = x do..({1}) nn.linear(a, w); }}"  # noqa: E501
    assert total_multiply_adds(composed(body.format("", "5"))) == 5 * 2 * 8 * 8
    counted = composed(body.format("n: int[];", "n"))
    assert [multiply_adds(node) for node in counted.operations] == [None]


def test_peak_memory_is_that_of_the_largest_step() -> None:
    """While ``b`` is computed, ``x``, ``a`` and ``b`` exist; ``a`` is free afterwards."""
    graph = composed(
        "@input { x: real[10]; } @output { y: real[10]; } @compose {"
        " a = layout.tile{repeats=[100]}(x); b = math.sum_reduce{axes=[0], squeeze=false}(a);"
        " y = math.add(x, b); }"
    )
    assert totals(graph).peak_bytes == 4 * (10 + 1000 + 1)


def test_peak_memory_counts_the_results_of_a_composite_once() -> None:
    block = (
        "public operator block { @input { x: real[n]; } @output { y: real[n]; } "
        "@compose { a = nn.relu(x); y = nn.sigmoid(a); } }"
    )
    graph = composed(
        "@input { x: real[10]; } @output { y: real[10]; } "
        "@compose { b = block(x); y = math.neg(b); }",
        block,
    )
    assert totals(graph).peak_bytes == 4 * 2 * 10


def test_a_tensor_that_several_operations_read_is_alive_until_the_last_one() -> None:
    lines = " ".join(f"a{n + 1} = nn.relu(a{n});" for n in range(5))
    body = "@input { a0: real[10]; } @output { y: real[10]; } @compose { %s y = math.add(a5, a0); }"
    assert totals(composed(body % lines)).peak_bytes == 4 * 3 * 10
