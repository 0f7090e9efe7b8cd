"""Module image against NumPy: resampling by factor, by size, and at the positions of a grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import tvm_nnef

RANDOM = np.random.default_rng(5)


def real(*shape: int) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


# --- expectations ---------------------------------------------------------------------------


def triangle(distance: float) -> float:
    """The weight of an element at a distance from the position, linear."""
    return max(0.0, 1.0 - abs(distance))


def keys(distance: float, a: float = -0.75) -> float:
    """The weight of an element at a distance from the position, cubic convolution."""
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def position(i: int, extent: int, size: int, transform: str) -> float:
    """Where the middle of element i of the result lies in the input."""
    if transform == "ALIGNED":
        return i * (extent - 1) / (size - 1) if size > 1 else 0.0
    if transform == "SYMMETRIC":
        return (i + 0.5) * extent / size - 0.5
    return i * extent / size


def weighted(
    x: Any, axis: int, size: int, transform: str, kernel: Callable[[float], float], antialias: bool
) -> Any:
    """The input resampled along one axis: what all elements weigh, the border ones repeated.

    With ``antialias`` the kernel is stretched by the ratio of the sizes if they become smaller,
    and its weights are made to add up to 1, as onnxruntime and Pillow do; but aligned to one
    element, the first one is taken.
    """
    extent = x.shape[axis]
    antialias = antialias and not (transform == "ALIGNED" and size == 1)
    width = max(extent / size, 1.0) if antialias else 1.0
    reach = math.ceil(2 * width) + 1
    weights = np.zeros((size, extent))
    for i in range(size):
        r = position(i, extent, size, transform)
        for tap in range(math.floor(r) - reach, math.floor(r) + reach + 1):
            weights[i, min(max(tap, 0), extent - 1)] += kernel((r - tap) / width)
    weights /= weights.sum(1, keepdims=True)
    terms = weights * np.moveaxis(np.float64(x), axis, -1)[..., None, :]
    # what weighs nothing is not there, be it a number or not
    return np.moveaxis(np.where(weights == 0, 0, terms).sum(-1), -1, axis)


def resampled(
    x: Any,
    sizes: Mapping[int, int],
    transform: str = "SYMMETRIC",
    kernel: Callable[[float], float] = triangle,
    antialias: bool = True,
) -> Any:
    """The input resampled along each axis in turn."""
    for axis, size in sizes.items():
        if x.shape[axis] != size:
            x = weighted(x, axis, size, transform, kernel, antialias)
    return x


ROUNDINGS: Mapping[str, Callable[[float], int]] = {
    "FLOOR": math.floor,
    "CEIL": math.ceil,
    "ROUND_PREFER_FLOOR": lambda r: math.ceil(r - 0.5),
    "ROUND_PREFER_CEIL": lambda r: math.floor(r + 0.5),
}


def nearest(
    x: Any,
    sizes: Mapping[int, int],
    transform: str = "SYMMETRIC",
    rounding: str = "ROUND_PREFER_FLOOR",
) -> Any:
    """The elements nearest to the positions."""
    for axis, size in sizes.items():
        extent = x.shape[axis]
        positions = [ROUNDINGS[rounding](position(i, extent, size, transform)) for i in range(size)]
        x = np.take(x, np.clip(positions, 0, extent - 1), axis)
    return x


def scattered(x: Any, axis: int, factor: int, symmetric: bool, replicate: bool) -> Any:
    """linear_upsample along one axis as the draft lists it: triangles added to the output."""
    extent = x.shape[axis]
    x = np.moveaxis(np.float64(x), axis, 0)
    length = 2 * factor - factor % 2 if symmetric else 2 * factor - 1
    offset = 0.5 if symmetric and factor % 2 == 0 else 1.0
    filter = [1 - abs(j - factor + offset) / factor for j in range(length)]
    padding = factor - 1 if not symmetric else factor // 2 + (factor if replicate else 0)
    front = int(symmetric)
    output = np.zeros((factor * extent, *x.shape[1:]))
    for i, j in itertools.product(
        range(extent + front + 1 if replicate else extent), range(length)
    ):
        index = factor * i + j - padding
        if 0 <= index < factor * extent:
            source = min(max(i - front, 0), extent - 1) if replicate else i
            output[index] += x[source] * filter[j]
    return np.moveaxis(output, 0, axis)


PAD_MODES = {
    ("ZEROS", True): "constant",
    ("ZEROS", False): "constant",
    ("REPLICATE", True): "edge",
    ("REPLICATE", False): "edge",
    ("REFLECT", True): "reflect",
    ("REFLECT", False): "symmetric",
}


def sampled(x: Any, grid: Any, mode: str, padding: str, aligned: bool) -> Any:
    """The input, padded far beyond the positions, sampled at each of them in turn."""
    d, far = x.ndim - 2, 20
    padded = np.pad(np.float64(x), [(0, 0)] * 2 + [(far, far)] * d, PAD_MODES[padding, aligned])
    output = np.zeros((x.shape[0], x.shape[1], *grid.shape[1:-1]))
    reach = {"NEAREST": (0,), "LINEAR": (0, 1), "CUBIC": (-1, 0, 1, 2)}[mode]
    kernel = {"NEAREST": lambda _: 1.0, "LINEAR": triangle, "CUBIC": keys}[mode]
    for index in np.ndindex(*grid.shape[:-1]):
        at = []
        for g, extent in zip(grid[index][::-1], x.shape[2:], strict=True):
            r = (g + 1) / 2 * (extent - 1) if aligned else ((g + 1) * extent - 1) / 2
            base = math.floor(abs(r) + 0.5) * (-1 if r < 0 else 1) if mode == "NEAREST" else None
            at.append((r, math.floor(r) if base is None else base))
        for taps in itertools.product(reach, repeat=d):
            positions = [base + tap for (_, base), tap in zip(at, taps, strict=True)]
            weight = math.prod(kernel(r - p) for (r, _), p in zip(at, positions, strict=True))
            source = (index[0], slice(None), *(p + far for p in positions))
            output[(index[0], slice(None), *index[1:])] += weight * padded[source]
    return output


def pooled(x: Any, rois: Any, index: Any, output: Sequence[int], reduce: Any) -> Any:
    """The regions cut out, and cut into cells (NNEF 1.0, section 4.6.1)."""
    d = x.ndim - 2
    result = np.zeros((len(rois), x.shape[1], *output))
    for m, roi in enumerate(np.round(rois).astype(int)):
        crop = x[(index[m], slice(None), *map(slice, roi[:d], roi[d:]))]
        for spot in np.ndindex(*output):
            cells = [
                slice(i * (r // p), i * (r // p) + -(-r // p))
                for i, r, p in zip(spot, crop.shape[1:], output, strict=True)
            ]
            read, written = (slice(None), *cells), (m, slice(None), *spot)
            result[written] = reduce(crop[read], tuple(range(1, d + 1)))
    return result


# --- rows -----------------------------------------------------------------------------------

X = real(2, 3, 4, 6)
V = real(5)
ONE = real(2, 1)
BLOCKS = X.reshape(2, 3, 2, 2, 3, 2).mean((3, 5))

BY_FACTOR = {
    "nearest by factor": (
        {"x": X, "v": V},
        [
            ("image.nearest_downsample{axes=[2, -1], factor=[2, 3]}(x)", X[:, :, ::2, ::3]),
            ("image.nearest_downsample{factor=5}(v)", V[:1]),
            ("image.nearest_upsample{factor=3}(v)", V.repeat(3)),
            ("image.nearest_upsample{axes=[-1, 1], factor=[2, 3]}(x)", X.repeat(2, 3).repeat(3, 1)),
            ("image.area_downsample{axes=[2, 3], factor=2}(x)", BLOCKS),
            ("image.area_downsample{axes=[-1], factor=[6]}(x)", X.mean(3, keepdims=True)),
        ],
    ),
    "linear by factor": (
        {"v": V, "x": X, "one": ONE},
        [
            (
                f"image.linear_upsample{{axes=[0], factor=[{factor}], symmetric={symmetric}, "
                f"replicate_border={replicate}}}(v)".replace("T", "t").replace("F", "f"),
                scattered(V, 0, factor, symmetric, replicate),
            )
            for factor in (1, 2, 3, 4)
            for symmetric in (True, False)
            for replicate in (True, False)
        ]
        + [
            (
                "image.linear_upsample{axes=[3, -2], factor=[2, 3]}(x)",
                scattered(scattered(X, 2, 3, True, True), 3, 2, True, True),
            ),
            (
                "image.linear_upsample{axes=[2, 3], factor=2, symmetric=false, "
                "replicate_border=false}(x)",
                scattered(scattered(X, 2, 2, False, False), 3, 2, False, False),
            ),
            (
                "image.linear_upsample{factor=2}(one)",
                scattered(ONE.repeat(2, 1), 0, 2, True, True),
            ),
        ],
    ),
}

TRANSFORMS = ("SYMMETRIC", "ASYMMETRIC", "ALIGNED")
W = real(8)

BY_SIZE = {
    "nearest by size": (
        {"x": X, "w": W},
        [
            (
                f"image.nearest_resize{{size=[{size}], coordinate_transform='{transform}', "
                f"rounding_method='{rounding}'}}(w)",
                nearest(W, {0: size}, transform, rounding),
            )
            # positions at these sizes are exact in float32, halves included
            for size in (4, 16, 2)
            for transform in ("SYMMETRIC", "ASYMMETRIC")
            for rounding in ROUNDINGS
        ]
        + [
            (
                "image.nearest_resize{axes=[-1, 2], size=[3, 7], "
                "coordinate_transform='ALIGNED'}(x)",
                nearest(X, {3: 3, 2: 7}, "ALIGNED"),
            ),
            (
                "image.nearest_resize{size=1, coordinate_transform='ALIGNED'}(w)",
                W[:1],
            ),
        ],
    ),
    "linear by size": (
        {"x": X, "v": V},
        [
            (
                f"image.linear_resize{{size=[{size}], coordinate_transform='{transform}', "
                f"antialias={str(antialias).lower()}}}(v)",
                resampled(V, {0: size}, transform, antialias=antialias),
            )
            for size in (1, 3, 5, 9)
            for transform in TRANSFORMS
            for antialias in (True, False)
        ]
        + [
            ("image.linear_resize{axes=[3, -2], size=[4, 9]}(x)", resampled(X, {3: 4, 2: 9})),
            ("image.linear_resize{size=[2, 3, 4, 7]}(x)", resampled(X, {3: 7})),
            (
                "image.linear_resize{axes=[3, 2], size=[3, 5], antialias=false}(x)",
                resampled(X, {3: 3, 2: 5}, antialias=False),
            ),
        ],
    ),
    "cubic by size": (
        {"x": X, "v": V},
        [
            (
                f"image.cubic_resize{{size=[{size}], coordinate_transform='{transform}', "
                f"antialias={str(antialias).lower()}}}(v)",
                resampled(V, {0: size}, transform, keys, antialias),
            )
            for size in (1, 3, 5, 9)
            for transform in TRANSFORMS
            for antialias in (True, False)
        ]
        + [
            (
                "image.cubic_resize{axes=[3, -2], size=[4, 9], coeff_a=-0.5}(x)",
                resampled(X, {3: 4, 2: 9}, kernel=lambda d: keys(d, -0.5)),
            ),
        ],
    ),
    "resize and rescale": (
        {"x": X},
        [
            ("image.resize{axes=[2], size=[3]}(x)", nearest(X, {2: 3})),
            (
                "image.resize{axes=[2], size=[8], coordinate_transform='ASYMMETRIC', "
                "rounding_method='CEIL'}(x)",
                nearest(X, {2: 8}, "ASYMMETRIC", "CEIL"),
            ),
            (
                "image.resize{axes=[3], size=[9], mode='LINEAR', "
                "coordinate_transform='ALIGNED'}(x)",
                resampled(X, {3: 9}, "ALIGNED"),
            ),
            (
                "image.resize{axes=[2, 3], size=[5, 4], mode='CUBIC', cubic_coeff_a=-0.6}(x)",
                resampled(X, {2: 5, 3: 4}, kernel=lambda d: keys(d, -0.6)),
            ),
            ("image.rescale{axes=[2, 3], factor=0.5}(x)", nearest(X, {2: 2, 3: 3})),
            (
                "image.rescale{axes=[-1, -2], factor=[1.5, 0.7], mode='LINEAR'}(x)",
                resampled(X, {3: 9, 2: 3}),
            ),
            (
                "image.rescale{axes=[2], factor=[2.4], mode='CUBIC', "
                "coordinate_transform='ALIGNED'}(x)",
                resampled(X, {2: 10}, "ALIGNED", keys),
            ),
        ],
    ),
}

GRID = (real(2, 5, 3, 2) * 2.5).astype(np.float32)
X1 = real(1, 2, 6)
GRID1 = np.array([[[-1.0], [1.0], [0.0], [0.35], [-1.9], [2.6]]], np.float32)
X3 = real(1, 1, 2, 3, 4)
GRID3 = (real(1, 2, 2, 2, 3) * 1.3).astype(np.float32)

SAMPLING = {
    f"grid {mode}": (
        {"x": X, "g": GRID, "x1": X1, "g1": GRID1, "x3": X3, "g3": GRID3},
        [
            (
                f"image.grid_sample{{mode='{mode}', padding='{padding}', "
                f"aligned={str(aligned).lower()}}}({x}, {g})",
                sampled(image, grid, mode, padding, aligned),
            )
            for x, image, g, grid in (("x", X, "g", GRID), ("x1", X1, "g1", GRID1))
            for padding, aligned in PAD_MODES
        ]
        + [
            (
                f"image.grid_sample{{mode='{mode}'}}(x3, g3)",
                sampled(X3, GRID3, mode, "ZEROS", False),
            ),
        ],
    )
    for mode in ("NEAREST", "LINEAR", "CUBIC")
}

R = real(2, 2, 9, 8)
ROIS = np.array([[0, 0, 9, 8], [1.2, 2.4, 5.9, 7.6], [3, 1, 7, 6]], np.float32)
INDEX = np.array([1, 0, 1], np.int32)
R1, ROIS1 = real(1, 2, 10), np.array([[2, 9]], np.float32)

REGIONS = {
    "regions": (
        {"x": R, "r": ROIS, "i": INDEX, "x1": R1, "r1": ROIS1, "i1": np.zeros(1, np.int32)},
        [
            (
                "image.max_roi_pool{output_size=[2, 3]}(x, r, i)",
                pooled(R, ROIS, INDEX, (2, 3), np.max),
            ),
            (
                "image.avg_roi_pool{output_size=[2, 3]}(x, r, i)",
                pooled(R, ROIS, INDEX, (2, 3), np.mean),
            ),
            (
                "image.max_roi_pool{output_size=[3]}(x1, r1, i1)",
                pooled(R1, ROIS1, [0], [3], np.max),
            ),
            ("image.avg_roi_pool{output_size=1}(x1, r1, i1)", pooled(R1, ROIS1, [0], [1], np.mean)),
        ],
    ),
}

SOLID, CUT, DOT = real(1, 2, 3, 4, 2), real(2, 6, 4), real()
EXTENTS = {
    "other ranks": (
        {"x": SOLID, "y": CUT, "z": DOT, "v": W},
        [
            ("image.nearest_downsample{axes=[1, 2], factor=[3, 2]}(y)", CUT[:, ::3, ::2]),
            ("image.nearest_downsample{axes=[-2], factor=4}(x)", SOLID[:, :, :, ::4]),
            ("image.nearest_downsample{factor=[]}(z)", DOT),
            ("image.nearest_upsample{axes=[1], factor=2}(y)", CUT.repeat(2, 1)),
            ("image.nearest_upsample{axes=[2, 4], factor=2}(x)", SOLID.repeat(2, 2).repeat(2, 4)),
            ("image.area_downsample{axes=[1], factor=3}(y)", CUT.reshape(2, 2, 3, 4).mean(2)),
            ("image.area_downsample{axes=[3, 4], factor=2}(x)",
                SOLID.reshape(1, 2, 3, 2, 2, 1, 2).mean((4, 6))),
            ("image.area_downsample{factor=4}(v)", W.reshape(2, 4).mean(1)),
            ("image.area_downsample{factor=[]}(z)", DOT),
            ("image.linear_upsample{axes=[4, 2], factor=[2, 3]}(x)",
                scattered(scattered(SOLID, 4, 2, True, True), 2, 3, True, True)),
            ("image.linear_upsample{factor=[]}(z)", DOT),
            ("image.nearest_resize{axes=[2, 3, 4], size=[6, 2, 4]}(x)",
                SOLID[:, :, :, :4:2].repeat(2, 2).repeat(2, 4)),
            ("image.linear_resize{axes=[2, 3, 4], size=[5, 3, 4]}(x)",
                resampled(SOLID, {2: 5, 3: 3, 4: 4})),
            ("image.cubic_resize{axes=[4, 2], size=[5, 2]}(x)",
                resampled(SOLID, {4: 5, 2: 2}, kernel=keys)),
            ("image.resize{axes=[2, 3], size=[5, 3], mode='LINEAR'}(x)",
                resampled(SOLID, {2: 5, 3: 3})),
            ("image.resize{size=[5], mode='CUBIC'}(v)", resampled(W, {0: 5}, kernel=keys)),
            ("image.resize{size=[]}(z)", DOT),
            ("image.rescale{factor=1.5, mode='LINEAR'}(v)", resampled(W, {0: 12})),
            ("image.rescale{axes=[1], factor=[0.5], mode='CUBIC', cubic_coeff_a=-0.5}(y)",
                resampled(CUT, {1: 3}, kernel=lambda d: keys(d, -0.5))),
            ("image.rescale{axes=[3], factor=[0.5], rounding_method='CEIL'}(x)",
                nearest(SOLID, {3: 2}, rounding="CEIL")),
            ("image.rescale{factor=[]}(z)", DOT),
        ],
    ),
}  # fmt: skip
LOST = real(1, 2, 4, 6)
LOST[0, 0, 1, 1], LOST[0, 1, 2, 3], LOST[0, 1, 0, 3] = np.nan, np.inf, -np.inf
INSIDE = (real(1, 3, 3, 2) * 0.9).astype(np.float32)
CORNERS, FIRST = np.array([[0, 0, 4, 6], [1, 1, 3, 5]], np.float32), np.zeros(2, np.int32)

with np.errstate(invalid="ignore"):
    NO_NUMBERS = {
        "NaN": (
            {"x": LOST, "g": INSIDE, "r": CORNERS, "i": FIRST},
            [
                ("image.nearest_downsample{axes=[3], factor=3}(x)", LOST[:, :, :, ::3]),
                ("image.nearest_upsample{axes=[3], factor=3}(x)", LOST.repeat(3, 3)),
                ("image.area_downsample{axes=[2, 3], factor=2}(x)",
                    LOST.reshape(1, 2, 2, 2, 3, 2).mean((3, 5))),
                ("image.linear_upsample{axes=[3], factor=2}(x)",
                    scattered(LOST, 3, 2, True, True)),
                ("image.nearest_resize{axes=[2], size=8}(x)", LOST.repeat(2, 2)),
                ("image.linear_resize{axes=[2, 3], size=[8, 12]}(x)",
                    resampled(LOST, {2: 8, 3: 12})),
                ("image.cubic_resize{axes=[3], size=[9]}(x)", resampled(LOST, {3: 9}, kernel=keys)),
                ("image.resize{axes=[3], size=12, mode='LINEAR'}(x)", resampled(LOST, {3: 12})),
                ("image.rescale{axes=[2], factor=2.0}(x)", LOST.repeat(2, 2)),
                ("image.max_roi_pool{output_size=[2, 3]}(x, r, i)",
                    pooled(LOST, CORNERS, FIRST, (2, 3), np.max)),
                ("image.avg_roi_pool{output_size=[2, 3]}(x, r, i)",
                    pooled(LOST, CORNERS, FIRST, (2, 3), np.mean)),
                *((f"image.grid_sample{{mode='{mode}'}}(x, g)",
                    sampled(LOST, INSIDE, mode, "ZEROS", False))
                    for mode in ("NEAREST", "LINEAR", "CUBIC")),
            ],
        ),
    }  # fmt: skip

FAMILIES = BY_FACTOR | BY_SIZE | SAMPLING | REGIONS | EXTENTS | NO_NUMBERS


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "route", ["reference", "mapped", pytest.param("formula", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_numpy(family: str, route: str, judge: Any) -> None:
    """Of the many ways to sample, a sixth is compiled in the quick run."""
    inputs, rows = FAMILIES[family]
    judge(inputs, rows[::6] if family in SAMPLING and route == "mapped" else rows, route)


@pytest.mark.slow
@pytest.mark.parametrize("family", SAMPLING)
def test_all_samplings_agree_with_numpy(family: str, judge: Any) -> None:
    judge(*FAMILIES[family], "mapped")


def test_every_operator_is_judged(uncovered: Any) -> None:
    assert uncovered("image", FAMILIES) == set()


REJECTIONS = [
    ("image.nearest_downsample{axes=[2], factor=3}(x)", "must be divisible by 'factor'"),
    ("image.area_downsample{axes=[2], factor=3}(x)", "must be divisible by 'factor'"),
    ("image.nearest_upsample{axes=[2], factor=0}(x)", "'factor' must be positive"),
    ("image.linear_upsample{axes=[4], factor=2}(x)", "'axes' are out of range"),
    ("image.nearest_resize{axes=[2], size=[0]}(x)", "'size' must be positive"),
    ("image.nearest_resize{axes=[2], size=[3], rounding_method='EVEN'}(x)", "'rounding_method'"),
    ("image.linear_resize{axes=[2, -2], size=3}(x)", "'axes' must be distinct"),
    ("image.cubic_resize{axes=[2], size=[3], coordinate_transform='HALF'}(x)", "must be one of"),
    ("image.resize{axes=[2], size=[3], mode='AREA'}(x)", "'mode' must be one of"),
    ("image.rescale{axes=[2], factor=[0.1]}(x)", "leaves nothing of the input"),
    ("image.grid_sample{padding='BORDER'}(x, g)", "'padding' must be one of"),
    ("image.max_roi_pool{output_size=[2, 0]}(x, r, i)", "'output_size' must be positive"),
]


@pytest.mark.parametrize(("invocation", "words"), REJECTIONS)
def test_refuses(invocation: str, words: str, rejected: Any) -> None:
    rejected({"x": X, "g": GRID, "r": ROIS, "i": INDEX}, invocation, words)


# --- onnxruntime ----------------------------------------------------------------------------

ONNX_TRANSFORMS = {
    "SYMMETRIC": "half_pixel",
    "ASYMMETRIC": "asymmetric",
    "ALIGNED": "align_corners",
}
ONNX_PADDINGS = {"ZEROS": "zeros", "REPLICATE": "border", "REFLECT": "reflection"}


def onnx_result(operator: str, inputs: Mapping[str, Any], **attributes: Any) -> Any:
    """What onnxruntime makes of one operator; None stands for an input that is left out."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    helper = onnx.helper
    given = {name: value for name, value in inputs.items() if value is not None}
    names = [name if name in given else "" for name in inputs]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], **attributes)],
        "judge",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in given.items()
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    opset = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, given)[0]


def evaluated(invocation: str, **inputs: Any) -> Any:
    """What the reference route makes of an invocation."""
    declared = " ".join(
        f"{name}: real[{', '.join(map(str, value.shape))}];" for name, value in inputs.items()
    )
    text = f"""import image;
graph Judge {{
    @input {{ {declared} }}
    @output {{ y: real; }}
    @compose {{ y = {invocation}; }}
}}
"""
    return tvm_nnef.evaluate(text, *inputs.values())[0]


@pytest.mark.parametrize("transform", ONNX_TRANSFORMS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [True, False])
def test_resize_agrees_with_onnxruntime(antialias: bool, mode: str, transform: str) -> None:
    x = real(1, 2, 13, 11)
    # Aligned to one element, onnxruntime takes a mean with antialiasing, and the draft the first.
    least = 2 if antialias and transform == "ALIGNED" else 1
    for size in ([5, 11], [4, 17], [least, 2], [20, 12]):
        expected = onnx_result(
            "Resize",
            {"x": x, "roi": None, "scales": None, "sizes": np.array([1, 2, *size], np.int64)},
            mode=mode,
            coordinate_transformation_mode=ONNX_TRANSFORMS[transform],
            antialias=int(antialias),
        )
        actual = evaluated(
            f"image.resize{{axes=[2, 3], size={size}, mode='{mode.upper()}', "
            f"coordinate_transform='{transform}', antialias={str(antialias).lower()}}}(x)",
            x=x,
        )
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("mode", "filter", "reach"), [("LINEAR", 2, 1), ("CUBIC", 3, 2)])
def test_antialias_agrees_with_pillow_away_from_the_border(
    mode: str, filter: int, reach: int
) -> None:
    """Pillow leaves out what lies beyond the border."""
    pillow = pytest.importorskip("PIL.Image")
    x = real(40, 30)
    expected = np.asarray(pillow.fromarray(x).resize((9, 13), filter))
    actual = evaluated(f"image.resize{{size=[13, 9], mode='{mode}', cubic_coeff_a=-0.5}}(x)", x=x)
    inner = (slice(reach, -reach), slice(reach, -reach))
    np.testing.assert_allclose(actual[inner], expected[inner], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("padding", ONNX_PADDINGS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample_agrees_with_onnxruntime(mode: str, padding: str, aligned: bool) -> None:
    expected = onnx_result(
        "GridSample",
        {"x": X, "g": GRID},
        mode=mode,
        padding_mode=ONNX_PADDINGS[padding],
        align_corners=int(aligned),
    )
    actual = evaluated(
        f"image.grid_sample{{mode='{mode.upper()}', padding='{padding}', "
        f"aligned={str(aligned).lower()}}}(x, g)",
        x=X,
        g=GRID,
    )
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
