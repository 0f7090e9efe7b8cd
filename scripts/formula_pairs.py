"""Operators as a user writes them in SkriptND, each beside the standard one that does the same.

A table for ``bench_formulas.py``; nothing is run here. Weights are variables, as in a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Pair:
    """A formula and the standard components that it equals.

    ``operands`` and ``results`` declare the shapes in the words of ``formula``; the first result
    counts. ``inputs`` and ``weights`` are sizes, in the order of ``operands``.
    """

    operands: str
    results: str
    formula: str
    mapped: str
    inputs: Mapping[str, Shape]
    weights: Mapping[str, Shape]

    def text(self, components: str | None = None) -> str:
        """A model whose graph is the formula, or other components."""
        declared = ", ".join(part.split(":")[0].strip() for part in self.results.split(";")[:-1])
        given = ", ".join([*self.inputs, *self.weights])
        line = components or f"{declared} = formula({given});"
        return (
            "import nn, math, linalg, layout;\n"
            f"operator formula {{\n    @input {{ {_typed(self.operands)} }}\n"
            f"    @output {{ {_typed(self.results)} }}\n    @lower {{{self.formula}}}\n}}\n"
            f"graph Main {{\n    @input {{ {_sized(self.inputs)} }}\n"
            f"    @variable {{ {_sized(self.weights)} }}\n"
            f"    @output {{ y: real[~..]; }}\n    @compose {{ {line} }}\n}}\n"
        )


def _typed(declarations: str) -> str:
    return declarations.replace("[", "real[")


def _sized(shapes: Mapping[str, Shape]) -> str:
    return " ".join(f"{n}: real[{', '.join(map(str, s))}];" for n, s in shapes.items())


CHANNELS_FIRST = "x: [n, c, h, w]; f: [o, c, p, q];"
VALID = "y: [n, o, h - p + 1, w - q + 1];"
SAME = "y: [n, o, h, w];"
AROUND = "b < n, z < o, i < h, j < w, d < c, k < p, l < q"
DEPTHWISE = "x: [n, c, h, w]; f: [c, 1, p, q];"
MATRICES = "x: [n, k]; w: [k, m];"
IMAGE = {"x": (1, 64, 56, 56)}
FILTER = {"f": (64, 64, 3, 3)}

PAIRS: dict[str, Pair] = {
    "softmax": Pair(
        "x: [n, m];", "y: [n, m]; g: [n]; s: [n];",
        """
        g[i,] >= x[i, j], i < n, j < m;
        s[i,] += `exp`(x[i, j] - g[i,]), i < n, j < m;
        y[i, j] = `exp`(x[i, j] - g[i,]) / s[i,], i < n, j < m;""",
        "y = nn.softmax{axes=[1]}(x);", {"x": (4608, 384)}, {},
    ),
    "normalisation": Pair(
        "x: [n, m];", "y: [n, m]; u: [n]; v: [n];",
        """
        u[i,] += x[i, j] / real(m), i < n, j < m;
        v[i,] += (x[i, j] - u[i,]) * (x[i, j] - u[i,]) / real(m), i < n, j < m;
        y[i, j] = (x[i, j] - u[i,]) / `sqrt`(v[i,] + 0.00001), i < n, j < m;""",
        "y = nn.mean_variance_norm{axes=[1]}(x);", {"x": (384, 768)}, {},
    ),
    "gelu": Pair(
        "x: [n, m];", "y: [n, m];",
        "y[i, j] = 0.5 * x[i, j] * (1.0 + `erf`(x[i, j] / `sqrt`(2.0))), i < n, j < m;",
        "y = nn.gelu(x);", {"x": (384, 3072)}, {},
    ),
    "matmul": Pair(
        MATRICES, "y: [n, m];", "y[i, j] += x[i, l] * w[l, j], i < n, j < m, l < k;",
        "y = linalg.matmul(x, w);", {"x": (384, 768)}, {"w": (768, 768)},
    ),
    "matmul of inputs": Pair(
        MATRICES, "y: [n, m];", "y[i, j] += x[i, l] * w[l, j], i < n, j < m, l < k;",
        "y = linalg.matmul(x, w);", {"x": (384, 768), "w": (768, 768)}, {},
    ),
    "matmul x^T": Pair(
        "x: [k, n]; w: [k, m];", "y: [n, m];",
        "y[i, j] += x[l, i] * w[l, j], i < n, j < m, l < k;",
        "y = linalg.matmul{transA=true}(x, w);", {"x": (384, 256)}, {"w": (384, 512)},
    ),
    "matmul w^T": Pair(
        "x: [n, k]; w: [m, k];", "y: [n, m];",
        "y[i, j] += x[i, l] * w[j, l], i < n, j < m, l < k;",
        "y = linalg.matmul{transB=true}(x, w);", {"x": (256, 384), "w": (512, 384)}, {},
    ),
    "matmul of primes": Pair(
        MATRICES, "y: [n, m];", "y[i, j] += x[i, l] * w[l, j], i < n, j < m, l < k;",
        "y = linalg.matmul(x, w);", {"x": (127, 251)}, {"w": (251, 131)},
    ),
    "matmul, small": Pair(
        MATRICES, "y: [n, m];", "y[i, j] += x[i, l] * w[l, j], i < n, j < m, l < k;",
        "y = linalg.matmul(x, w);", {"x": (7, 19)}, {"w": (19, 5)},
    ),
    "matmul, bias, relu": Pair(
        "x: [n, k]; w: [k, m]; b: [m];", "y: [n, m]; s: [n, m];",
        """
        s[i, j] = b[j,], i < n, j < m;
        s[i, j] += x[i, l] * w[l, j], i < n, j < m, l < k;
        y[i, j] = s[i, j] >> 0.0, i < n, j < m;""",
        "p = linalg.matmul(x, w); s = math.add{rhs_align=1}(p, b); y = nn.relu(s);",
        {"x": (384, 768)}, {"w": (768, 768), "b": (768,)},
    ),
    "batched matmul": Pair(
        "x: [b, n, k]; w: [b, k, m];", "y: [b, n, m];",
        "y[a, i, j] += x[a, i, l] * w[a, l, j], a < b, i < n, j < m, l < k;",
        "y = linalg.matmul(x, w);", {"x": (12, 128, 64), "w": (12, 64, 128)}, {},
    ),
    "gram matrix": Pair(
        "x: [n, k];", "y: [n, n];", "y[i, j] += x[i, l] * x[j, l], i < n, j < n, l < k;",
        "y = linalg.matmul{transB=true}(x, x);", {"x": (256, 512)}, {},
    ),
    "matrix, vector": Pair(
        "x: [k]; w: [n, k];", "y: [n];", "y[i,] += w[i, l] * x[l,], i < n, l < k;",
        "y = linalg.matvec(w, x);", {"x": (1024,)}, {"w": (1024, 1024)},
    ),
    "vector, matrix": Pair(
        "x: [k]; w: [k, n];", "y: [n];", "y[i,] += x[l,] * w[l, i], i < n, l < k;",
        "y = linalg.matvec{transA=true}(w, x);", {"x": (1024,)}, {"w": (1024, 1024)},
    ),
    "dot": Pair(
        "x: [n]; w: [n];", "y: [];", "y[] += x[i,] * w[i,], i < n;",
        "y = linalg.dot(x, w);", {"x": (65536,), "w": (65536,)}, {},
    ),
    "sum over two axes": Pair(
        "x: [n, k, l]; w: [l, m, k];", "y: [n, m];",
        "y[i, j] += x[i, u, v] * w[v, j, u], i < n, j < m, u < k, v < l;",
        "a = layout.reshape{shape=[128, 1024]}(x); t = layout.transpose{perm=[2, 0, 1]}(w); "
        "b = layout.reshape{shape=[1024, 96]}(t); y = linalg.matmul(a, b);",
        {"x": (128, 32, 32)}, {"w": (32, 96, 32)},
    ),
    "heads": Pair(
        "x: [n, h, k]; w: [m, h, k];", "y: [h, n, m];",
        "y[a, i, j] += x[i, a, l] * w[j, a, l], a < h, i < n, j < m, l < k;",
        "a = layout.transpose{perm=[1, 0, 2]}(x); b = layout.transpose{perm=[1, 0, 2]}(w); "
        "y = linalg.matmul{transB=true}(a, b);",
        {"x": (128, 12, 64), "w": (128, 12, 64)}, {},
    ),
    "conv": Pair(
        CHANNELS_FIRST, VALID,
        "y[b, z, i, j] += x[b, d, i + k, j + l] * f[z, d, k, l], "
        "b < n, z < o, i < h - p + 1, j < w - q + 1, d < c, k < p, l < q;",
        "y = nn.conv{padding=[0, 0, 0, 0]}(x, f);", IMAGE, FILTER,
    ),
    "conv of inputs": Pair(
        CHANNELS_FIRST, VALID,
        "y[b, z, i, j] += x[b, d, i + k, j + l] * f[z, d, k, l], "
        "b < n, z < o, i < h - p + 1, j < w - q + 1, d < c, k < p, l < q;",
        "y = nn.conv{padding=[0, 0, 0, 0]}(x, f);", {**IMAGE, **FILTER}, {},
    ),
    "conv, guards": Pair(
        CHANNELS_FIRST, SAME,
        f"y[b, z, i, j] += x[b, d, |i + k - 1|, |j + l - 1|] * f[z, d, k, l], {AROUND};",
        "y = nn.conv{padding=[1, 1, 1, 1]}(x, f);", IMAGE, FILTER,
    ),
    "conv, guards, inputs": Pair(
        CHANNELS_FIRST, SAME,
        f"y[b, z, i, j] += x[b, d, |i + k - 1|, |j + l - 1|] * f[z, d, k, l], {AROUND};",
        "y = nn.conv{padding=[1, 1, 1, 1]}(x, f);", {**IMAGE, **FILTER}, {},
    ),
    "conv, bias, relu": Pair(
        f"{CHANNELS_FIRST} a: [o];", f"{SAME} s: [n, o, h, w];",
        f"""
        s[b, z, i, j] = a[z,], b < n, z < o, i < h, j < w;
        s[b, z, i, j] += x[b, d, |i + k - 1|, |j + l - 1|] * f[z, d, k, l], {AROUND};
        y[b, z, i, j] = s[b, z, i, j] >> 0.0, b < n, z < o, i < h, j < w;""",
        "s = nn.conv{padding=[1, 1, 1, 1]}(x, f, a); y = nn.relu(s);",
        IMAGE, {**FILTER, "a": (64,)},
    ),
    "conv of primes": Pair(
        CHANNELS_FIRST, SAME,
        f"y[b, z, i, j] += x[b, d, |i + k - 1|, |j + l - 1|] * f[z, d, k, l], {AROUND};",
        "y = nn.conv{padding=[1, 1, 1, 1]}(x, f);", {"x": (1, 13, 31, 37)}, {"f": (17, 13, 3, 3)},
    ),
    "conv 1x1": Pair(
        CHANNELS_FIRST, VALID,
        "y[b, z, i, j] += x[b, d, i, j] * f[z, d, 0, 0], b < n, z < o, i < h, j < w, d < c;",
        "y = nn.conv{padding=[0, 0, 0, 0]}(x, f);", IMAGE, {"f": (128, 64, 1, 1)},
    ),
    "conv, stride 2": Pair(
        CHANNELS_FIRST, "y: [n, o, h / 2, w / 2];",
        "y[b, z, i, j] += x[b, d, |2 * i + k - 1|, |2 * j + l - 1|] * f[z, d, k, l], "
        "b < n, z < o, i < h / 2, j < w / 2, d < c, k < p, l < q;",
        "y = nn.conv{padding=[1, 1, 1, 1], stride=[2, 2]}(x, f);", IMAGE, FILTER,
    ),
    "conv, dilation 2": Pair(
        CHANNELS_FIRST, SAME,
        f"y[b, z, i, j] += x[b, d, |i + 2 * k - 2|, |j + 2 * l - 2|] * f[z, d, k, l], {AROUND};",
        "y = nn.conv{padding=[2, 2, 2, 2], dilation=[2, 2]}(x, f);", IMAGE, FILTER,
    ),
    "conv 1-D": Pair(
        "x: [n, c, h]; f: [o, c, p];", "y: [n, o, h - p + 1];",
        "y[b, z, i] += x[b, d, i + k] * f[z, d, k], "
        "b < n, z < o, i < h - p + 1, d < c, k < p;",
        "y = nn.conv{padding=[0, 0]}(x, f);", {"x": (1, 64, 1024)}, {"f": (96, 64, 5)},
    ),
    "conv 3-D": Pair(
        "x: [n, c, g, h, w]; f: [o, c, r, p, q];",
        "y: [n, o, g - r + 1, h - p + 1, w - q + 1];",
        "y[b, z, e, i, j] += x[b, d, e + m, i + k, j + l] * f[z, d, m, k, l], "
        "b < n, z < o, e < g - r + 1, i < h - p + 1, j < w - q + 1, d < c, m < r, k < p, l < q;",
        "y = nn.conv{padding=[0, 0, 0, 0, 0, 0]}(x, f);",
        {"x": (1, 16, 12, 20, 20)}, {"f": (32, 16, 3, 3, 3)},
    ),
    "conv NXC": Pair(
        "x: [n, h, w, c]; f: [o, p, q, c];", "y: [n, h, w, o];",
        f"y[b, i, j, z] += x[b, |i + k - 1|, |j + l - 1|, d] * f[z, k, l, d], {AROUND};",
        "y = nn.conv{padding=[1, 1, 1, 1], data_format='NXC', filter_format='NXC'}(x, f);",
        {"x": (1, 56, 56, 64)}, {"f": (64, 3, 3, 64)},
    ),
    "conv NXC of inputs": Pair(
        "x: [n, h, w, c]; f: [o, p, q, c];", "y: [n, h, w, o];",
        f"y[b, i, j, z] += x[b, |i + k - 1|, |j + l - 1|, d] * f[z, k, l, d], {AROUND};",
        "y = nn.conv{padding=[1, 1, 1, 1], data_format='NXC', filter_format='NXC'}(x, f);",
        {"x": (1, 56, 56, 64), "f": (64, 3, 3, 64)}, {},
    ),
    "conv XCN": Pair(
        "x: [h, w, c, n]; f: [p, q, c, o];", "y: [h, w, o, n];",
        f"y[i, j, z, b] += x[|i + k - 1|, |j + l - 1|, d, b] * f[k, l, d, z], {AROUND};",
        "y = nn.conv{padding=[1, 1, 1, 1], data_format='XCN', filter_format='XCN'}(x, f);",
        {"x": (28, 28, 64, 4)}, {"f": (3, 3, 64, 64)},
    ),
    "depthwise": Pair(
        DEPTHWISE, "y: [n, c, h, w];",
        "y[b, d, i, j] += x[b, d, |i + k - 1|, |j + l - 1|] * f[d, 0, k, l], "
        "b < n, d < c, i < h, j < w, k < p, l < q;",
        "y = nn.conv{padding=[1, 1, 1, 1], groups=0}(x, f);", IMAGE, {"f": (64, 1, 3, 3)},
    ),
    "depthwise of inputs": Pair(
        DEPTHWISE, "y: [n, c, h, w];",
        "y[b, d, i, j] += x[b, d, |i + k - 1|, |j + l - 1|] * f[d, 0, k, l], "
        "b < n, d < c, i < h, j < w, k < p, l < q;",
        "y = nn.conv{padding=[1, 1, 1, 1], groups=0}(x, f);", {**IMAGE, "f": (64, 1, 3, 3)}, {},
    ),
    "depth multiplier": Pair(
        "x: [n, c, h, w]; f: [o, 1, p, q];", SAME,
        "y[b, z, i, j] += x[b, z / 2, |i + k - 1|, |j + l - 1|] * f[z, 0, k, l], "
        "b < n, z < o, i < h, j < w, k < p, l < q;",
        "y = nn.conv{padding=[1, 1, 1, 1], groups=32}(x, f);",
        {"x": (1, 32, 56, 56)}, {"f": (64, 1, 3, 3)},
    ),
    "grouped": Pair(
        "x: [n, c, h, w]; f: [o, e, p, q];", SAME,
        "y[b, z, i, j] += x[b, z / 16 * 16 + d, |i + k - 1|, |j + l - 1|] * f[z, d, k, l], "
        "b < n, z < o, i < h, j < w, d < e, k < p, l < q;",
        "y = nn.conv{padding=[1, 1, 1, 1], groups=4}(x, f);", IMAGE, {"f": (64, 16, 3, 3)},
    ),
    "grouped of inputs": Pair(
        "x: [n, c, h, w]; f: [o, e, p, q];", SAME,
        "y[b, z, i, j] += x[b, z / 16 * 16 + d, |i + k - 1|, |j + l - 1|] * f[z, d, k, l], "
        "b < n, z < o, i < h, j < w, d < e, k < p, l < q;",
        "y = nn.conv{padding=[1, 1, 1, 1], groups=4}(x, f);", {**IMAGE, "f": (64, 16, 3, 3)}, {},
    ),
    "grouped, by group": Pair(
        "x: [n, g, c, h, w]; f: [g, o, c, p, q];", "y: [n, g, o, h, w];",
        "y[b, a, z, i, j] += x[b, a, d, |i + k - 1|, |j + l - 1|] * f[a, z, d, k, l], "
        "b < n, a < g, z < o, i < h, j < w, d < c, k < p, l < q;",
        "a = layout.reshape{shape=[1, 64, 56, 56]}(x); "
        "b = layout.reshape{shape=[64, 16, 3, 3]}(f); "
        "s = nn.conv{padding=[1, 1, 1, 1], groups=4}(a, b); "
        "y = layout.reshape{shape=[1, 4, 16, 56, 56]}(s);",
        {"x": (1, 4, 16, 56, 56)}, {"f": (4, 16, 16, 3, 3)},
    ),
    "deconv": Pair(
        "x: [n, c, h, w]; f: [c, o, p, q];", "y: [n, o, 2 * h, 2 * w];",
        "y[b, z, i, j] += x[b, d, |(i + 1 - k) / 2|, |(j + 1 - l) / 2|] * f[d, z, k, l], "
        "b < n, z < o, i < 2 * h, j < 2 * w, d < c, k < p, l < q "
        "| (i + 1 - k) % 2 == 0 && (j + 1 - l) % 2 == 0;",
        "y = nn.deconv{padding=[1, 1, 1, 1], stride=[2, 2]}(x, f);",
        {"x": (1, 64, 28, 28)}, {"f": (64, 32, 4, 4)},
    ),
    "max pool": Pair(
        "x: [n, c, h, w];", "y: [n, c, h / 2, w / 2];",
        "y[b, d, i, j] >= x[b, d, |2 * i + k - 1|, |2 * j + l - 1|], "
        "b < n, d < c, i < h / 2, j < w / 2, k < 3, l < 3;",
        "y = nn.max_pool{size=[3, 3], stride=[2, 2], padding=[1, 1, 1, 1]}(x);",
        {"x": (1, 64, 112, 112)}, {},
    ),
    "average pool": Pair(
        "x: [n, c, h, w];", "y: [n, c, h / 2, w / 2];",
        "y[b, d, i, j] += x[b, d, 2 * i + k, 2 * j + l] / 4.0, "
        "b < n, d < c, i < h / 2, j < w / 2, k < 2, l < 2;",
        "y = nn.avg_pool{size=[2, 2], stride=[2, 2], padding=[0, 0, 0, 0]}(x);",
        {"x": (1, 64, 112, 112)}, {},
    ),
    "global mean": Pair(
        "x: [n, c, h, w];", "y: [n, c]; s: [n, c];",
        """
        s[b, d] += x[b, d, i, j], b < n, d < c, i < h, j < w;
        y[b, d] = s[b, d] / real(h * w), b < n, d < c;""",
        "y = math.mean_reduce{axes=[2, 3], squeeze=true}(x);", {"x": (1, 512, 14, 14)}, {},
    ),
}  # fmt: skip
