"""One table of all standard operators, with every attribute off its default.

A row is held against float32 on the evaluator, which the tests beside this one judge by NumPy,
SciPy and ONNX Runtime: the results in float16 and bfloat16 are those in float32, rounded once, and
NaNs are at the same indices, on every route.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tvm_nnef.stdlib.library import standard_operators

RANDOM = np.random.default_rng(77)
Row = tuple[str, dict[str, Any], list[Any]]
LAST = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
DTYPES = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def real(*shape: int, low: float = 0.25, high: float = 2.0) -> Any:
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = 0, high: int = 2) -> Any:
    return RANDOM.integers(low, high, shape).astype(np.int32)


X, Y, UNIT, IMAGE = real(2, 3), real(2, 3), real(2, 3, low=-0.9, high=0.9), real(1, 4, 6, 6)
CUBE, VOLUME, TRUE = real(2, 3, 4), real(1, 2, 4, 4, 4), RANDOM.random((2, 3)) > 0.5
FUNCTIONS = (
    "iden neg rcp sqr sqrt rsqr rsqrt exp log log2 sin cos tan sinh cosh tanh abs sign floor ceil "
    "round atan asinh"
)
BINARY = "add sub mul div mod pow min max lt gt le ge eq ne"
COMPARISONS = "lt gt le ge eq ne not and or xor"
FOLDS = "sum_n prod_n min_n max_n argmin_n argmax_n"
REDUCTIONS = "min_reduce max_reduce sum_reduce prod_reduce mean_reduce moments"
ALIGNED = {"lhs_align": 0, "rhs_align": 1}
WINDOW: dict[str, Any] = {
    "axes": [-1, 2], "size": [3, 2], "stride": [2, 1], "dilation": [1, 2],
    "padding": [1, 0, 2, 1], "ceil_mode": True,
}  # fmt: skip
AUTOMATIC = {"size": [2, 3], "stride": [3, 2], "padding_align": "LOWER"}
REDUCED: dict[str, Any] = {"axes": [-1, 0], "squeeze": True}
SIZES: dict[str, Any] = {"axes": [3, 2], "size": [4, 9]}
POSITIONED: dict[str, Any] = {**SIZES, "coordinate_transform": "ALIGNED"}
RESIZED: dict[str, Any] = {
    "rounding_method": "CEIL", "antialias": False, "cubic_coeff_a": -0.5,
    "coordinate_transform": "ASYMMETRIC",
}  # fmt: skip
BLOCKS: dict[str, Any] = {"block_size": [2, 3], "blocks_first": False, "data_format": "NXC"}
DATA = [*(real(3, 2, 3), real(16, 3), real(16, 4), real(16))]
STATE = [real(2, 4), real(2, 4)]
ROIS = [np.float32([[0, 1, 6, 5], [1, 0, 4, 6]]), np.array([0, 0], np.int32)]
BOXES = np.float32([[[0, 0, 2, 2], [0, 0, 2, 1.75], [3, 3, 5, 5], [0, 1, 2, 3]]])
RUNNING = {"momentum": 0.5, "epsilon": 0.25}


def of_math() -> Iterator[Row]:
    yield from ((f"math.{name}", {}, [X]) for name in FUNCTIONS.split())
    yield from ((f"math.{name}", {}, [UNIT]) for name in ("asin", "acos", "atanh"))
    yield from ((f"math.{name}", ALIGNED, [real(3, 2), real(2)]) for name in BINARY.split())
    yield "math.acosh", {}, [X + 1]
    yield "math.not", {}, [TRUE]
    for name in ("and", "or", "xor"):
        yield f"math.{name}", ALIGNED, [TRUE, TRUE[0]]
    aligned = {"cond_align": 0, "lhs_align": 1, "rhs_align": -1}
    yield "math.select", aligned, [TRUE[:, 0], real(3), real(2)]
    yield "math.clamp", {"val_align": 0, "min_align": 1, "max_align": 0}, [X, real(3), real(2) + 1]
    yield "math.axpb", {"a_align": 0, "x_align": 0, "b_align": 1}, [real(2), X, real(3)]
    axes = {"a_align": 0, "x_align": 0, "b_align": 1, "y_align": 0}
    yield "math.axpby", axes, [real(2), X, real(3), Y]
    for name in FOLDS.split():
        yield f"math.{name}", {}, [[X, Y, X]]
    for name in ("any_n", "all_n"):
        yield f"math.{name}", {}, [[TRUE, ~TRUE]]
    for name in REDUCTIONS.split():
        yield f"math.{name}", REDUCED, [CUBE]
    yield "math.lp_reduce", {**REDUCED, "p": 3.0}, [CUBE]
    for name in ("any_reduce", "all_reduce"):
        yield f"math.{name}", REDUCED, [TRUE]
    for name in ("argmin", "argmax"):
        yield f"math.{name}", {"axis": -2, "squeeze": True}, [CUBE]
        yield f"math.{name}_nd", {"axes": [-1, 0], "squeeze": True}, [CUBE]
    yield "math.cumsum", {"axis": -2, "exclusive": True, "reverse": True}, [CUBE]


def of_layout() -> Iterator[Row]:
    yield "layout.constant", {"shape": [2, 2], "value": [0.5, 1.5, -2.0, 3.0]}, []
    yield "layout.uniform", {"shape": [2, 3]}, [np.float32(0.75)]
    yield "layout.range", {"first": 1.0, "last": 3.0, "stride": 0.5}, []
    yield "layout.shape", {}, [CUBE]
    yield "layout.cast<int>", {}, [CUBE * 8]
    yield "layout.reshape", {"axis": 1, "rank": 2, "shape": [6, -1]}, [CUBE]
    yield "layout.flatten", {"axis": -2, "rank": 2}, [CUBE]
    yield "layout.unflatten", {"axis": -1, "shape": [2, 2]}, [CUBE]
    yield "layout.squeeze", {"axes": [-2]}, [real(2, 1, 3)]
    yield "layout.unsqueeze", {"axes": [-2, 0]}, [X]
    yield "layout.concat", {"axis": -1}, [[X, real(2, 2)]]
    yield "layout.split", {"axis": -1, "count": 2}, [CUBE]
    yield "layout.split", {"axis": -1, "sizes": [3, 1]}, [CUBE]
    yield "layout.stack", {"axis": -1, "squeeze": True}, [[real(2, 1), real(2, 1)]]
    yield "layout.unstack", {"axis": -1, "squeeze": False}, [X]
    yield "layout.tile", {"axes": [-1], "repeats": [2]}, [X]
    yield "layout.broadcast", {"axes": [-1], "shape": [3]}, [real(2, 1)]
    sliced = {"axes": [-1, 0], "begin": [-1, 0], "end": [0, 2], "stride": [-2, 1]}
    yield "layout.slice", sliced, [CUBE]
    yield "layout.pad", {"axes": [-1], "padding": [2, 1], "method": "REFLECT"}, [CUBE]
    yield "layout.pad", {"padding": [1, 0, 0, 1]}, [X, 0.5]
    yield "layout.transpose", {"axis": 1, "perm": [2, 1]}, [CUBE]
    yield "layout.space_to_batch", {"block_size": [2, 3]}, [real(1, 2, 4, 6)]
    yield "layout.batch_to_space", {"block_size": [2, 3]}, [real(6, 2, 2, 2)]
    yield "layout.space_to_depth", BLOCKS, [real(1, 4, 6, 2)]
    yield "layout.depth_to_space", BLOCKS, [real(1, 2, 2, 12)]
    yield "layout.shuffle", {"axis": -1, "groups": 2}, [CUBE]
    yield "layout.nonzero", {}, [X * TRUE]
    yield "layout.gather", {"axis": -1}, [CUBE, whole(2, 2)]
    yield "layout.gather_nd", {"batch_dims": 1}, [CUBE, whole(2, 3, 1)]
    yield "layout.scatter", {"axis": -1}, [X, np.int32([[0], [2]]), real(2, 1)]
    yield "layout.scatter_nd", {"batch_dims": 1}, [CUBE, np.int32([[[1]], [[0]]]), real(2, 1, 4)]
    yield "misc.mesh_grid", {}, [[real(2), real(3)]]


def of_nn() -> Iterator[Row]:
    yield "linalg.dot", {}, [real(9), real(9), 0.5]
    yield "linalg.matvec", {"transA": True}, [X, real(2), real(3)]
    yield "linalg.matmul", {"transA": True, "transB": True}, [real(5, 3), real(4, 5), real(3, 4)]
    yield "linalg.outer", {}, [real(2), real(3)]
    yield "nn.linear", {}, [X, real(4, 3), real(4)]
    pads = {"stride": [2, 1], "dilation": [1, 2], "padding": [1, 0, 2, 1], "groups": 2}
    formats = {"data_format": "NXC", "filter_format": "XCN"}
    nxc = np.moveaxis(IMAGE, 1, -1).copy()
    yield "nn.conv", {**pads, **formats, "ceil_mode": True}, [nxc, real(3, 2, 2, 6), real(6)]
    yield "nn.conv", {"stride": [2, 3], "padding_align": "LOWER"}, [IMAGE, real(3, 4, 3, 2)]
    yield "nn.deconv", {**pads, **formats}, [nxc, real(3, 2, 3, 4), real(6)]
    yield "nn.deconv", {"stride": 2, "padding_align": "LOWER"}, [IMAGE, real(4, 2, 3, 3)]
    yield "nn.deconv", {"stride": 2, "padding": 1, "output_size": [12, 11]}, [
        IMAGE, real(4, 2, 3, 3),
    ]  # fmt: skip
    for name, extra in (("max", {}), ("sum", {}), ("avg", {"ignore_border": False}),
                        ("rms", {"ignore_border": False}), ("lp", {"p": 3.0})):  # fmt: skip
        yield f"nn.{name}_pool", {**WINDOW, **extra}, [IMAGE]
        yield f"nn.{name}_pool", {**AUTOMATIC, **({"p": 2.0} if "p" in extra else {})}, [IMAGE]
    yield "nn.relu", {"alpha": 0.5, "max": 0.5}, [UNIT]
    yield "nn.prelu", {"axis": -2}, [UNIT, real(2)]
    yield "nn.thresholded_relu", {"theta": 0.5}, [UNIT]
    yield "nn.elu", {"alpha": 0.5}, [UNIT]
    yield "nn.selu", {"alpha": 0.5, "lambda": 2.0}, [UNIT]
    for approximate in (None, "TANH", "SIGMOID"):
        yield "nn.gelu", {"approximate": approximate}, [UNIT]
    yield from ((f"nn.{name}", {}, [UNIT]) for name in ("silu", "sigmoid", "softplus", "erf"))
    batch = {"channel_axis": -1, "epsilon": 0.5}
    yield "nn.batch_norm", batch, [CUBE, real(4), real(4), real(4), real(4)]
    yield "nn.mean_variance_norm", {"axes": [-1, 0], "epsilon": 0.5}, [CUBE, real(3), real(3)]
    response = {"axes": [-1, 1], "size": [2, 3], "alpha": 0.5, "beta": 0.75, "bias": 2.0}
    yield "nn.local_response_norm", response, [CUBE]
    yield "nn.l1_norm", {"axes": [-1, 0], "bias": 0.5, "epsilon": 9.0}, [CUBE]
    yield "nn.l2_norm", {"axes": [-1, 0], "bias": 0.5, "epsilon": 2.0}, [CUBE]
    yield "nn.softmax", {"axes": [-1, 0]}, [CUBE]
    yield "nn.lstm_step", {}, [*STATE, DATA[0][0], *DATA[1:]]
    yield "nn.lstm_loop", {}, [*DATA, *STATE, np.array(2, np.int32)]
    yield "nn.lstm", {}, [*DATA, *STATE, np.array([1, 3], np.int32)]


def of_images() -> Iterator[Row]:
    for name in ("nearest_downsample", "nearest_upsample", "area_downsample"):
        yield f"image.{name}", {"axes": [-1, 2], "factor": [3, 2]}, [IMAGE]
    upsampled = {"axes": [-1, 2], "factor": [3, 2], "symmetric": False, "replicate_border": False}
    yield "image.linear_upsample", upsampled, [IMAGE]
    yield "image.nearest_resize", {**POSITIONED, "rounding_method": "CEIL"}, [IMAGE]
    yield "image.linear_resize", {**POSITIONED, "antialias": False}, [IMAGE]
    yield "image.cubic_resize", {**POSITIONED, "antialias": False, "coeff_a": -0.5}, [IMAGE]
    for mode in ("LINEAR", "CUBIC"):
        yield "image.resize", {**SIZES, **RESIZED, "mode": mode}, [IMAGE]
        scaled = {"axes": [3, 2], "factor": [0.75, 1.5], "mode": mode}
        yield "image.rescale", {**RESIZED, **scaled}, [IMAGE]
    yield "image.max_roi_pool", {"output_size": [2, 3]}, [IMAGE, *ROIS]
    yield "image.avg_roi_pool", {"output_size": [2, 3]}, [IMAGE, *ROIS]
    for mode in ("NEAREST", "CUBIC"):
        given = {"mode": mode, "padding": "REPLICATE", "aligned": True}
        yield "image.grid_sample", given, [IMAGE, real(1, 2, 3, 2, low=-1, high=1)]
    whole_steps = {"bits": 4, "signed": False, "symmetric": True, "channel_axis": -1}
    low, high = [0.0, 0.5, 0.25], [1.0, 2.0, 4.0]
    yield "quant.min_max_linear_quantize", {"min": low, "max": high, **whole_steps}, [X]
    steps = {"zero_point": [1, 2, 3], "scale": [0.125, 0.25, 0.5]}
    yield "quant.zero_point_linear_quantize", {**steps, **whole_steps}, [X]
    yield "algo.top_k", {"k": 2, "axis": -1, "largest": False, "sorted": False}, [CUBE]
    boxes = {"box_format": "CENTER", "max_outputs_per_class": 2, "iou_threshold": 0.25}
    scores = np.float32([[[0.5, 0.75, 0.25, 0.625]]])
    yield "algo.nonmax_suppress", {**boxes, "score_threshold": 0.375}, [BOXES, scores]


ROWS = [*of_math(), *of_layout(), *of_nn(), *of_images()]
INT, BOOL = np.array(0, np.int32), np.array(False)
RESULTS: dict[str, Any] = {
    **dict.fromkeys((f"math.{name}" for name in COMPARISONS.split()), BOOL),
    **dict.fromkeys((f"math.{n}_{m}" for n in ("any", "all") for m in ("n", "reduce")), BOOL),
    **dict.fromkeys((f"math.{n}{m}" for n in ("argmin", "argmax") for m in ("", "_n")), INT),
    **{name: [INT, INT] for name in ("math.argmin_nd", "math.argmax_nd")},
    **dict.fromkeys(("layout.shape", "layout.cast<int>", "layout.nonzero"), INT),
    **{name: [real(), real()] for name in ("layout.split", "misc.mesh_grid")},
    **dict.fromkeys(("math.moments", "nn.lstm_step"), (real(), real())),
    **dict.fromkeys(("nn.lstm", "nn.lstm_loop"), (real(), real(), real())),
    "layout.unstack": [real()] * 3,
    "algo.top_k": (real(), INT),
    "algo.nonmax_suppress": INT,
}
"""What has the types of the results; those of the others are one real tensor."""
ELSEWHERE = {"layer": "test_layer.py", "rand": "test_rand.py"}
"""Operators with their own variables or inputs; those tests cover attributes and halves too."""


def test_every_operator_has_a_row_with_every_attribute_off_its_default() -> None:
    missing = {
        (definition.qualified_name, attribute)
        for definition in standard_operators()
        if not definition.is_private and definition.module not in ELSEWHERE
        for attribute in ("", *(each.name.name for each in definition.attributes))
    }
    defaults = {
        (definition.qualified_name, each.name.name): each.default and each.default.span.text
        for definition in standard_operators()
        for each in definition.attributes
    }
    for name, attributes, _ in ROWS:
        operator = name.partition("<")[0]
        missing.discard((operator, ""))
        for attribute, value in attributes.items():
            if value is not None and str(value).lower() != str(defaults[operator, attribute]):
                missing.discard((operator, attribute))
    assert missing == set()


SPECIAL = np.float32([np.nan, np.inf, -np.inf])


def cases(change: Callable[[Any], Any]) -> list[Any]:
    """The rows with operands changed, and zeros of the type of each result in its place."""

    def changed(operand: Any) -> Any:
        if isinstance(operand, list):
            return [changed(item) for item in operand]
        is_real = isinstance(operand, np.ndarray | np.generic) and operand.dtype == np.float32
        return change(np.asarray(operand)) if is_real else operand

    return [
        (name, how, [changed(operand) for operand in operands], RESULTS.get(name, real()))
        for name, how, operands in ROWS
    ]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_halves_are_rounded_once(dtype: str, agree: Any, evaluated: Any) -> None:
    held = cases(lambda x: x.astype(DTYPES[dtype]).astype(np.float32))
    agree(evaluated(held), dtypes={"real": dtype}, tolerance=(LAST[dtype], LAST[dtype] / 8))


@pytest.mark.slow
@pytest.mark.parametrize("special", SPECIAL)
def test_nan_is_at_the_same_indices(special: float, agree: Any, evaluated: Any) -> None:
    def spoilt(x: Any) -> Any:
        x = x.copy()
        x.reshape(-1)[x.size // 2] = special
        return x

    agree(evaluated(cases(spoilt)))
