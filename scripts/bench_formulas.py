"""Speed of operators that a user writes as formulas beside the mapped ones of the same size.

Each pair is built and run in one process, in turns, on one thread; the best of many runs counts. A
ratio below 1 says that the formula is slower. Ends with status 1 where one is below ``LEAST``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LEAST = 0.9

FORMULAS = """
import nn;
import math;
import linalg;

operator row_softmax {
    @input { x: real[n, m]; }
    @output { y: real[n, m]; g: real[n]; s: real[n]; }
    @lower {
        g[i] >= x[i, j], i < n, j < m;
        s[i] += `exp`(x[i, j] - g[i]), i < n, j < m;
        y[i, j] = `exp`(x[i, j] - g[i]) / s[i], i < n, j < m;
    }
}

operator row_norm {
    @input { x: real[n, m]; }
    @output { y: real[n, m]; u: real[n]; v: real[n]; }
    @lower {
        u[i] += x[i, j] / real(m), i < n, j < m;
        v[i] += (x[i, j] - u[i]) * (x[i, j] - u[i]) / real(m), i < n, j < m;
        y[i, j] = (x[i, j] - u[i]) / `sqrt`(v[i] + 0.00001), i < n, j < m;
    }
}

operator exact_gelu {
    @input { x: real[n, m]; }
    @output { y: real[n, m]; }
    @lower { y[i, j] = 0.5 * x[i, j] * (1.0 + `erf`(x[i, j] / `sqrt`(2.0))), i < n, j < m; }
}

operator product {
    @input { x: real[n, k]; w: real[k, m]; }
    @output { y: real[n, m]; }
    @lower { y[i, j] += x[i, l] * w[l, j], i < n, j < m, l < k; }
}

operator windows {
    @input { x: real[n, c, h, w]; f: real[o, c, p, q]; }
    @output { y: real[n, o, h - p + 1, w - q + 1]; }
    @lower {
        y[b, z, i, j] += x[b, d, i + k, j + l] * f[z, d, k, l],
            b < n, z < o, i < h - p + 1, j < w - q + 1, d < c, k < p, l < q;
    }
}
"""


@dataclass(frozen=True)
class Pair:
    """A formula and the operator that it equals: inputs, output, and the two invocations."""

    inputs: str
    output: str
    formula: str
    mapped: str
    results: str = "y"


PAIRS = {
    "softmax": Pair("x: real[4608, 384];", "4608, 384", "row_softmax(x)",
                    "nn.softmax{axes=[1]}(x)", "y, g, s"),
    "normalisation": Pair("x: real[384, 768];", "384, 768", "row_norm(x)",
                          "nn.mean_variance_norm{axes=[1]}(x)", "y, u, v"),
    "gelu": Pair("x: real[384, 3072];", "384, 3072", "exact_gelu(x)", "nn.gelu(x)"),
    "matmul": Pair("x: real[384, 768]; w: real[768, 768];", "384, 768", "product(x, w)",
                   "linalg.matmul(x, w)"),
    "conv": Pair("x: real[1, 64, 56, 56]; f: real[64, 64, 3, 3];", "1, 64, 54, 54",
                 "windows(x, f)", "nn.conv{padding=[0, 0, 0, 0]}(x, f)"),
}  # fmt: skip


def built(pair: Pair, invocation: str, results: str) -> Callable[[], object]:
    """What runs one of the two."""
    import tvm_nnef

    graph = (
        f"graph Main {{ @input {{ {pair.inputs} }} @output {{ y: real[{pair.output}]; }}"
        f" @compose {{ {results} = {invocation}; }} }}"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "main.sknd"
        file.write_text(f"{FORMULAS}\n{graph}\n", encoding="utf-8")
        executable = tvm_nnef.build(file)
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(port.shape).astype("float32") for port in executable.inputs]
    return lambda: executable(*arrays)


def main() -> int:
    """Measure the pairs that were asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="*", help=f"of {', '.join(PAIRS)}; all without")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each pair runs")
    options = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = "1"
    from tvm_nnef.measurement.turns import timed_in_turns

    print(f"{'':16}{'formula us':>12}{'mapped us':>12}{'ratio':>8}")
    ratios = []
    for name in options.pairs or PAIRS:
        pair = PAIRS[name]
        calls = [built(pair, pair.formula, pair.results), built(pair, pair.mapped, "y")]
        formula, mapped = (
            times.minimum for times in timed_in_turns(calls, options.seconds, alone=True)
        )
        ratios.append(mapped / formula)
        print(f"{name:16}{1e6 * formula:12.1f}{1e6 * mapped:12.1f}{ratios[-1]:8.2f}", flush=True)
    return int(min(ratios) < LEAST)


if __name__ == "__main__":
    sys.exit(main())
