"""Write the tables of ``docs/nnef1.md``: what operations become, by converting examples.

The first one is of NNEF 1 operations and SkriptND, the second one of SkriptND operators and NNEF 1.

Exit status 1 with ``--check`` where the page is not what would be written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping

from generated_page import DOCS, with_end, write

import tvm_nnef
from tvm_nnef.converters.nnef1 import convert
from tvm_nnef.converters.nnef1.export import exported
from tvm_nnef.converters.nnef1.export.registry import LIBRARIES, table
from tvm_nnef.converters.nnef1.fragments import standard

PAGE = DOCS / "nnef1.md"
SCRIPT = "write_nnef1.py"

EXPORT_TITLE = "## Operators that can be exported"

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


OPERANDS: Mapping[str, str] = {
    "x": "real[2, 3, 8, 8]", "y": "real[2, 3, 8, 8]", "c": "real[3]", "p": "real[3]",
    "s": "real[]", "w": "real[4, 3, 3, 3]", "v": "real[3, 4, 3, 3]", "b": "real[4]",
    "m": "real[5, 4]", "n": "real[7, 4]", "k": "real[7]", "t": "bool[2, 3, 8, 8]",
    "f": "bool[2, 3, 8, 8]", "i": "int[4]", "d": "real[2, 1]", "l": "real[4]",
    "q": "real[3, 3, 8, 4]", "rois": "real[5, 4]", "index": "int[5]",
}  # fmt: skip
"""The operands of the exported examples."""

ACTIVATIONS = (
    "sigmoid", "silu", "softplus", "relu", "elu", "selu", "thresholded_relu", "softmax",
)  # fmt: skip
WINDOW = "size=[3, 3], padding=1"
EXPORTED: tuple[str, ...] = (
    *(
        f"math.{name}(x)"
        for name in (
            "iden", "neg", "rcp", "exp", "log", "log2", "sin", "cos", "tan", "sinh", "cosh",
            "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "abs", "sign", "floor",
            "ceil", "round", "sqr", "sqrt", "rsqr", "rsqrt",
        )
    ),
    *(f"math.{name}{{rhs_align=1}}(x, c)" for name in ("add", "sub", "mul", "div", "pow")),
    *(f"math.{name}{{rhs_align=1}}(x, c)" for name in ("min", "max")),
    *(f"bool math.{name}(x, y)" for name in ("lt", "gt", "le", "ge", "eq", "ne")),
    "bool math.not(t)", "bool math.and(t, f)", "bool math.or(t, f)", "bool math.xor(t, f)",
    "math.select(t, x, y)", "math.clamp(x, 0.0, 6.0)", "math.clamp(x, s, y)",
    "math.axpb(s, x, y)", "math.axpby(s, x, s, y)",
    *(f"math.{name}_n([x, y])" for name in ("sum", "prod", "min", "max")),
    "bool math.any_n([t, f])", "bool math.all_n([t, f])",
    *(f"math.{name}_reduce{{axes=[1]}}(x)" for name in ("sum", "min", "max", "mean")),
    "bool math.any_reduce{axes=[1]}(t)", "bool math.all_reduce{axes=[1], squeeze=true}(t)",
    "math.lp_reduce{axes=[1], p=2.0}(x)", "int math.argmin{axis=1}(x)",
    "int math.argmax{axis=1}(x)", "real, real math.moments{axes=[2, 3]}(x)",
    *(f"nn.{name}(x)" for name in ACTIVATIONS),
    "nn.relu{alpha=0.1}(x)", "nn.relu{max=6.0}(x)", "nn.prelu(x, c)",
    "nn.gelu{approximate='SIGMOID'}(x)", "nn.gelu{approximate='TANH'}(x)",
    "nn.conv(x, w, b)", "nn.conv{data_format='NXC', filter_format='XCN', padding=1}(x, q)",
    "nn.deconv{padding=1}(x, v, b)", "nn.linear(m, n, k)", "linalg.matmul{transB=true}(m, n)",
    "linalg.dot(c, p)", "linalg.matvec(m, l)", "linalg.outer(c, p)",
    *(f"nn.{name}_pool{{{WINDOW}}}(x)" for name in ("max", "sum", "avg", "rms")),
    f"nn.avg_pool{{{WINDOW}, ignore_border=false}}(x)", f"nn.lp_pool{{{WINDOW}, p=2.0}}(x)",
    "nn.batch_norm(x, c, p)", "nn.local_response_norm{size=[3]}(x)", "nn.l1_norm{axes=[1]}(x)",
    "nn.l2_norm{axes=[1]}(x)", "nn.mean_variance_norm(x)",
    "layout.constant{shape=[2], value=[1.0, 2.0]}()", "layout.uniform{shape=[2, 3]}(s)",
    "int layout.range{first=0, last=4}()", "int layout.shape(x)", "int layout.cast<int>(x)",
    "layout.reshape{shape=[6, 64]}(x)", "layout.flatten{axis=1}(x)",
    "layout.unflatten{axis=2, shape=[2, 4]}(x)", "layout.squeeze{axes=[1]}(d)",
    "layout.unsqueeze{axes=[1]}(d)", "layout.transpose{perm=[0, 2, 3, 1]}(x)",
    "layout.concat{axis=1}([x, y])", "layout.stack{axis=1}([x, y])",
    "real..(2) layout.split{axis=2, count=2}(x)", "real..(2) layout.unstack{axis=0}(x)",
    "layout.tile{axes=[2], repeats=[2]}(x)", "layout.broadcast{axes=[1], shape=[4]}(d)",
    "layout.slice{axes=[2], begin=[1], end=[5]}(x)",
    "layout.slice{axes=[2], begin=[0], end=[8], stride=[3]}(x)",
    "layout.pad{axes=[2], padding=[1, 1], method='REFLECT'}(x)", "layout.gather{axis=3}(x, i)",
    "layout.shuffle{axis=2, groups=2}(x)", "layout.space_to_depth{block_size=[2, 2]}(x)",
    *(
        f"image.{name}{{axes=[2, 3], factor=[2, 2]}}(x)"
        for name in ("nearest_downsample", "area_downsample", "nearest_upsample", "linear_upsample")
    ),
    "image.linear_resize{axes=[2], size=[16], coordinate_transform='ALIGNED'}(x)",
    "image.nearest_resize{axes=[2], size=[16]}(x)",
    "image.avg_roi_pool{output_size=[2, 2]}(x, rois, index)",
    "image.max_roi_pool{output_size=[2, 2]}(x, rois, index)",
    "quant.min_max_linear_quantize{min=0.0, max=1.0, bits=8}(x)",
    "quant.zero_point_linear_quantize{zero_point=0, scale=0.1, bits=8}(x)",
)  # fmt: skip
"""Invocations of operators, after their types if they are not one real tensor."""


def exported_model(row: str) -> str:
    """A SkriptND model of an invocation."""
    call = _call(row)
    types = (row.removesuffix(call).strip() or "real").split(", ")
    used = [name for name in OPERANDS if re.search(rf"[(\[ ]{name}[,)\]]", call)]
    inputs = "".join(f"{name}: {OPERANDS[name]}; " for name in used) or "unused: real[1]; "
    outputs = "".join(f"o{number}: {type_}; " for number, type_ in enumerate(types))
    names = [f"o{number}{type_[4:]}" for number, type_ in enumerate(types)]
    targets = ", ".join(name if ".." in name else f"o{n}" for n, name in enumerate(names))
    blocks = f"@input {{ {inputs}}} @output {{ {outputs}}} @compose {{ {targets} = {call}; }}"
    return f"import {call.partition('.')[0]};\ngraph G {{ {blocks} }}\n"


def _call(row: str) -> str:
    """An exported example without its types."""
    found = re.search(r"\w+\.\w+[{<(].*", row)
    assert found is not None, row
    return found[0]


def _operations(row: str) -> list[str]:
    """The operations that an invocation becomes, each once."""
    text = exported(tvm_nnef.compose(exported_model(row)), {}).graph
    names = re.findall(r"= (\w+)(?:<\w+>)?\(", text.partition("{")[2])
    return [name for name in dict.fromkeys(names) if name != "external"]


def _exported_rows() -> Iterator[str]:
    yield "| SkriptND | NNEF 1 |"
    yield "|---|---|"
    for row in EXPORTED:
        yield f"| `{_call(row)}` | {', '.join(f'`{each}`' for each in _operations(row))} |"


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
    """The standard operations and the exported operators that no example has."""
    found = {re.split(r"[<(]", call)[0] for call in EXAMPLES}
    written = {re.split(r"[{<(]", _call(each))[0] for each in EXPORTED}
    modules = {each.name for each in LIBRARIES}
    own = {name for name in table() if name.partition(".")[0] not in modules}
    return (set(standard()) - found - set(OUTSIDE)) | (own - written)


def main() -> int:
    """Write the page, or compare it."""
    if missing():
        print(f"no examples of {', '.join(sorted(missing()))}", file=sys.stderr)
        return 1

    def text() -> str:
        tables = ("\n".join(rows) for rows in (_rows(), _exported_rows()))
        return with_end(PAGE, SCRIPT, f"\n\n{EXPORT_TITLE}\n\n".join(tables) + "\n")

    return write(PAGE, text, __doc__)


if __name__ == "__main__":
    sys.exit(main())
