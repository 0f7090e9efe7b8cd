"""Write the table of operations of ``docs/nnef1.md``: what each becomes, by converting examples.

Exit status 1 with ``--check`` where the page is not what would be written.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tvm_nnef.converters.nnef1 import convert
from tvm_nnef.converters.nnef1.fragments import standard

PAGE = Path(__file__).resolve().parents[1] / "docs" / "nnef1.md"
BEGIN = "<!-- Written by scripts/write_nnef1.py from here on; do not edit. -->\n"

TENSORS: Mapping[str, tuple[str, list[int]]] = {
    "x": ("scalar", [2, 3, 8, 8]), "y": ("scalar", [2, 3, 8, 8]), "s": ("scalar", [2]),
    "c": ("scalar", [1, 3]), "w": ("scalar", [4, 3, 3, 3]), "v": ("scalar", [3, 4, 3, 3]),
    "p": ("scalar", [3, 1, 3, 3]), "q": ("scalar", [4, 3, 1, 1]), "r": ("scalar", [3, 4, 1, 1]),
    "u": ("scalar", [4, 1, 3, 3]), "b": ("scalar", [1, 4]), "m": ("scalar", [5, 4]),
    "n": ("scalar", [7, 4]), "k": ("scalar", [1, 7]), "t": ("logical", [2, 3, 8, 8]),
    "f": ("logical", [2, 3, 8, 8]), "i": ("integer", [2, 3, 4, 4]), "z": ("scalar", [2, 3, 4, 4]),
    "d": ("scalar", [2, 1]),
    "rois": ("scalar", [5, 4]), "batch_index": ("integer", [5, 1]),
}  # fmt: skip
"""The tensors of the examples: item types and shapes."""

PARAMETERS = "cwvpqrubnks"
"""Those that are constants."""

SIZE = "size = [1, 1, 2, 2], stride = [1, 1, 2, 2]"
WIDE = "size = [1, 1, 3, 3]"
UNARY = (
    "copy", "neg", "rcp", "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin",
    "acos", "atan", "asinh", "acosh", "atanh", "abs", "sign", "floor", "ceil", "round", "sqr",
    "sqrt", "rsqr", "rsqrt", "log2", "sigmoid", "relu", "gelu", "silu", "softplus", "elu",
    "selu", "softmax",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "pow", "min", "max", "lt", "gt", "le", "ge", "eq", "ne")
REDUCTIONS = ("sum", "max", "min", "mean", "argmax", "argmin")

EXAMPLES: tuple[str, ...] = (
    *(f"{name}(x)" for name in UNARY),
    *(f"{name}(x, c)" for name in BINARY),
    "not(t)", "and(t, f)", "or(t, f)", "select(t, x, y)", "clamp(x, 0.0, 6.0)", "clamp(x, c, y)",
    "cast<integer>(x)", "add_n([x, y])", "add_n([x, y, x])", "copy_n(x, times = 2)",
    "leaky_relu(x, alpha = 0.1)", "leaky_relu(x, alpha = 2.0)", "prelu(x, c)", "prelu(x, s)",
    "conv(x, w, b)", "conv(x, w, 1.0)", "conv(x, w, b, border = 'replicate')",
    "deconv(x, v, b)", "deconv(x, v, b, border = 'replicate')",
    "separable_conv(x, p, q)", "separable_deconv(x, u, r)",
    f"box(x, {WIDE})", f"box(x, {WIDE}, normalize = true)", f"box(x, {WIDE}, border = 'reflect')",
    f"debox(x, {SIZE})", f"debox(x, {SIZE}, normalize = true)",
    f"max_pool(x, {WIDE})", f"max_pool(x, {WIDE}, border = 'ignore')",
    f"max_pool_with_index(x, {SIZE})", f"argmax_pool(x, {SIZE})",
    f"avg_pool(x, {WIDE})", f"avg_pool(x, {WIDE}, border = 'replicate')", f"rms_pool(x, {WIDE})",
    f"sample(x, i, {SIZE})", f"desample(z, i, {SIZE})",
    "nearest_downsample(x, factor = [2, 2])", "area_downsample(x, factor = [2, 2])",
    "nearest_upsample(x, factor = [2, 2])", "multilinear_upsample(x, factor = [2, 2])",
    "multilinear_upsample(x, factor = [2, 2], method = 'aligned')",
    "multilinear_upsample(x, factor = [2, 2], border = 'reflect')",
    *(f"{name}_reduce(x, axes = [1])" for name in REDUCTIONS),
    "sum_reduce(x, axes = [1], normalize = true)", "argmax_reduce(x, axes = [2, 3])",
    "any_reduce(t, axes = [1])", "all_reduce(t, axes = [1])", "moments(x, axes = [2, 3])",
    "constant(shape = [1, 2], value = [1.0, 2.0])", "reshape(x, shape = [0, -1])",
    "squeeze(d, axes = [1])", "unsqueeze(d, axes = [1])", "transpose(x, axes = [0, 2, 3, 1])",
    "split(x, axis = 2, ratios = [1, 1])", "concat([x, y], axis = 1)", "stack([x, y], axis = 1)",
    "unstack(x, axis = 0)", "slice(x, axes = [2], begin = [1], end = [5])",
    "pad(x, padding = [(0, 0), (0, 0), (1, 1), (1, 1)])",
    "pad(x, padding = [(0, 0), (0, 0), (1, -1), (0, 0)])",
    "tile(x, repeats = [1, 1, 2, 2])", "gather(x, i, axis = 1)",
    *(f"{kind}_roi_pool(x, rois, batch_index, output_size = [2, 2])" for kind in ("avg", "max")),
    "roi_resample(x, rois, batch_index, output_size = [2, 2])",
    *(
        f"{kind}_roi_align(x, rois, batch_index, output_size = [2, 2], sampling_rate = [2, 2])"
        for kind in ("avg", "max")
    ),
    "matmul(m, n, transposeB = true)", "linear(m, n, k)", "linear(m, n, 1.0)",
    f"local_response_normalization(x, {WIDE})", f"local_mean_normalization(x, {WIDE})",
    f"local_variance_normalization(x, {WIDE}, epsilon = 0.1)",
    f"local_contrast_normalization(x, {WIDE}, epsilon = 0.1)",
    "l1_normalization(x, axes = [1])", "l2_normalization(x, axes = [1])",
    "batch_normalization(x, c, c, c, c, epsilon = 0.001)",
    "batch_normalization(x, s, s, s, s, epsilon = 0.001)",
    "linear_quantize(x, 0.0, 1.0, bits = 8)", "linear_quantize(x, 0.0, c, bits = 8)",
    "min_max_linear_quantize(x, 0.0, 1.0, bits = 8, signed = true, symmetric = true)",
    "zero_point_linear_quantize(x, zero_point = 0, scale = 0.1, bits = 8, signed = true, "
    "symmetric = true)",
    "logarithmic_quantize(x, 1.0, bits = 4)",
)  # fmt: skip
OUTSIDE = ("external", "variable", "update")
"""Operations that are parts of a graph, not operators."""


def _results(call: str) -> str:
    """The left side of an example."""
    name = re.split(r"[<(]", call)[0]
    results = standard()[name].results
    if name in ("split", "unstack", "copy_n"):
        return "[o1, o2]"
    return "o1" if len(results) == 1 else "o1, o2"


def _operators(call: str) -> list[str]:
    """The operators that an example becomes, each once."""
    names = re.findall(r"\b\w+\b(?! =)", call.partition("(")[2])
    used = [name for name in TENSORS if name in names] or ["x"]
    tensors = (_tensor(name, *TENSORS[name]) for name in used)
    inputs = [name for name in used if name not in PARAMETERS] or ["x"]
    if not set(inputs) <= set(used):
        tensors = (*tensors, _tensor("x", *TENSORS["x"]))
    target = _results(call)
    graph = f"graph G({', '.join(inputs)}) -> ({target.strip('[]')})"
    body = "\n".join((*tensors, f"{target} = {call};"))
    model = convert(f"version 1.0;\n{graph} {{\n{body}\n}}\n", outline=False)
    text = model.program.modules["main"].source.text
    return list(dict.fromkeys(re.findall(r"= (\w+\.\w+)", text)))


def _tensor(name: str, item_type: str, shape: list[int]) -> str:
    if name in PARAMETERS:
        return f"{name} = constant(shape = {shape}, value = [0.5]);"
    return f"{name} = external<{item_type}>(shape = {shape});"


def _rows() -> Iterator[str]:
    yield "| NNEF 1 | SkriptND |"
    yield "|---|---|"
    for call in EXAMPLES:
        operators = ", ".join(f"`{each}`" for each in _operators(call))
        yield f"| `{call}` | {'a variable' if call.startswith('constant') else operators} |"


def missing() -> set[str]:
    """The standard operations that no example has."""
    found = {re.split(r"[<(]", call)[0] for call in EXAMPLES}
    return set(standard()) - found - set(OUTSIDE)


def main() -> int:
    """Write the page, or compare it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true", help="write nothing")
    options = arguments.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    text = page.partition(BEGIN)[0] + BEGIN + "\n" + "\n".join(_rows()) + "\n"
    if missing():
        print(f"no examples of {', '.join(sorted(missing()))}", file=sys.stderr)
        return 1
    if options.check:
        return int(page != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
