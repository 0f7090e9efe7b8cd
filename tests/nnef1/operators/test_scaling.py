"""Up- and down-sampling and regions of interest (sections 4.3.4 and 4.6) against loops."""

from __future__ import annotations

import itertools
from math import ceil, floor
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.sampled(3)

Array = np.ndarray


def _data(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("factor", [(2, 3), (1, 2), (3, 1), (1, 1)], ids=str)
def test_nearest_and_area(run: Any, factor: tuple[int, int]) -> None:
    f, g = factor
    x = _data(1, 2, 3, 6, 6)
    text = f"factor = [{f}, {g}]"
    np.testing.assert_array_equal(
        run(f"y = nearest_downsample(x, {text})", x=x)[0], x[:, :, ::f, ::g]
    )
    (y,) = run(f"y = area_downsample(x, {text})", x=x)
    blocks = x.reshape(2, 3, 6 // f, f, 6 // g, g)
    np.testing.assert_allclose(y, blocks.mean((3, 5)), rtol=1e-5, atol=1e-6)
    (y,) = run(f"y = nearest_upsample(x, {text})", x=x)
    np.testing.assert_array_equal(y, x.repeat(f, 2).repeat(g, 3))


def judged_line(x: Array, f: int, method: str, border: str) -> Array:
    """Linear up-sampling of a vector as section 4.3.4 writes it."""

    def at(j: int) -> float:
        if 0 <= j < len(x):
            return float(x[j])
        if border == "constant":
            return 0.0
        if border == "reflect":
            return float(x[-j] if j < 0 else x[len(x) - 1 - (j - len(x) + 1)])
        return float(x[0 if j < 0 else -1])

    y = np.zeros(len(x) * f)
    for i in range(len(y)):
        shift = (f - 1) / 2 if method == "symmetric" else 0
        step = (len(x) * f - 1) / (len(x) - 1) if method == "aligned" else f
        j, u = floor((i - shift) / step), (i - shift) / step - floor((i - shift) / step)
        y[i] = (1 - u) * at(j) + (u * at(j + 1) if u else 0.0)
    return y


@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "reflect-even"])
@pytest.mark.parametrize("method", ["symmetric", "asymmetric", "aligned"])
@pytest.mark.parametrize("factor", [(2, 2), (3, 1), (2, 5)], ids=str)
def test_multilinear_upsample(run: Any, factor: tuple[int, int], method: str, border: str) -> None:
    x = _data(2, 1, 2, 3, 4)
    (y,) = run(
        f"y = multilinear_upsample(x, factor = {list(factor)}, method = '{method}', "
        f"border = '{border}')", x=x,
    )  # fmt: skip
    expected = x.astype(np.float64)
    for axis, times in enumerate(factor, 2):
        if times > 1:
            lines = np.apply_along_axis(judged_line, axis, expected, times, method, border)
            expected = lines
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_one_element_is_repeated(run: Any) -> None:
    x = _data(3, 1, 1, 1, 3)
    (y,) = run("y = multilinear_upsample(x, factor = [3, 1], method = 'aligned')", x=x)
    np.testing.assert_array_equal(y, x.repeat(3, 2))


# --- regions ----------------------------------------------------------------------------------

ROIS = np.float32([[0, 0, 6, 8], [1, 2, 5, 5], [0.6, 1.4, 4.4, 7.6], [2, 1, 3, 2], [1, 0, 6, 7]])
ITEMS = np.int32([[0], [1], [1], [0], [1]])


def judged_pool(x: Array, size: tuple[int, int], maximum: bool) -> Array:
    y = np.zeros((len(ROIS), x.shape[1], *size))
    for n, roi in enumerate(ROIS):
        y0, x0, y1, x1 = (floor(each + 0.5) for each in roi)
        for c, i, j in itertools.product(range(x.shape[1]), range(size[0]), range(size[1])):
            ch, cw = ceil((y1 - y0) / size[0]), ceil((x1 - x0) / size[1])
            top, left = y0 + i * ((y1 - y0) // size[0]), x0 + j * ((x1 - x0) // size[1])
            cell = x[ITEMS[n, 0], c, top : top + ch, left : left + cw]
            y[n, c, i, j] = cell.max() if maximum else cell.mean()
    return y


@pytest.mark.parametrize("size", [(2, 3), (1, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_roi_pool(run: Any, kind: str, size: tuple[int, int]) -> None:
    x = _data(4, 2, 3, 6, 8)
    (y,) = run(f"y = {kind}_roi_pool(x, r, i, output_size = {list(size)})", x=x, r=ROIS, i=ITEMS)
    np.testing.assert_allclose(y, judged_pool(x, size, kind == "max"), rtol=1e-5, atol=1e-6)


def judged_resample(x: Array, size: tuple[int, int], method: str) -> Array:
    """Positions of the regions as section 4.3.4 has them, beyond the border the border."""
    y = np.zeros((len(ROIS), x.shape[1], *size))
    for n, roi in enumerate(ROIS):
        for i, j in itertools.product(range(size[0]), range(size[1])):
            weights = []
            for k, begin, end, h, z in zip(
                (i, j), roi[:2], roi[2:], size, x.shape[2:], strict=True
            ):
                extent = float(end - begin)
                if method == "symmetric":
                    r = begin + (k + 0.5) * extent / h - 0.5
                elif method == "asymmetric":
                    r = begin + k * extent / h
                else:
                    r = begin + (k * (extent - 1) / (h - 1) if h > 1 else 0)
                w = np.zeros(z)
                for tap, part in ((floor(r), 1 - (r - floor(r))), (floor(r) + 1, r - floor(r))):
                    w[min(max(tap, 0), z - 1)] += part
                weights.append(w)
            y[n, :, i, j] = np.einsum("chw,h,w->c", x[ITEMS[n, 0]], *weights)
    return y


@pytest.mark.parametrize("method", ["symmetric", "asymmetric", "aligned"])
@pytest.mark.parametrize("size", [(4, 5), (1, 2), (12, 16)], ids=str)
def test_roi_resample(run: Any, size: tuple[int, int], method: str) -> None:
    x = _data(5, 2, 2, 6, 8)
    text = f"y = roi_resample(x, r, i, output_size = {list(size)}, method = '{method}')"
    (y,) = run(text, x=x, r=ROIS, i=ITEMS)
    np.testing.assert_allclose(y, judged_resample(x, size, method), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["symmetric", "asymmetric", "aligned"])
def test_a_region_of_the_whole_input_is_upsampled(run: Any, method: str) -> None:
    x = _data(5, 1, 2, 3, 4)
    roi, item = np.float32([[0, 0, 3, 4]]), np.int32([[0]])
    (y,) = run(
        f"y = roi_resample(x, r, i, output_size = [6, 12], method = '{method}')", x=x, r=roi, i=item
    )
    (z,) = run(f"y = multilinear_upsample(x, factor = [2, 3], method = '{method}')", x=x)
    np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["symmetric", "asymmetric", "aligned"])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_roi_align(run: Any, kind: str, method: str) -> None:
    x = _data(6, 2, 2, 6, 8)
    (y,) = run(
        f"y = {kind}_roi_align(x, r, i, output_size = [2, 3], sampling_rate = [2, 1], "
        f"resize_method = '{method}')", x=x, r=ROIS, i=ITEMS,
    )  # fmt: skip
    cells = judged_resample(x, (4, 3), method).reshape(5, 2, 2, 2, 3)
    expected = cells.mean(3) if kind == "avg" else cells.max(3)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_regions_of_a_list_of_items(run: Any) -> None:
    x = _data(4, 2, 3, 6, 8)
    for items in (ITEMS, ITEMS[:, 0]):
        (y,) = run("y = max_roi_pool(x, r, i, output_size = [2, 3])", x=x, r=ROIS, i=items)
        np.testing.assert_allclose(y, judged_pool(x, (2, 3), True), rtol=1e-5, atol=1e-6)
        (y,) = run("y = roi_resample(x, r, i, output_size = [4, 5])", x=x, r=ROIS, i=items)
        expected = judged_resample(x, (4, 5), "symmetric")
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_max_roi_pool_is_that_of_onnx(run: Any) -> None:
    """ONNX has the last element instead of the end, and the same cells if sizes divide regions."""
    x = _data(8, 2, 3, 9, 8)
    rois = np.float32([[0, 0, 6, 6], [3, 2, 7, 8], [5, 1, 9, 7]])
    items = np.int32([[1], [0], [1]])
    (y,) = run("y = max_roi_pool(x, r, i, output_size = [2, 3])", x=x, r=rois, i=items)
    theirs = np.hstack([items, rois[:, [1, 0]], rois[:, [3, 2]] - 1]).astype(np.float32)
    expected = _onnx_region("MaxRoiPool", {"x": x, "r": theirs}, pooled_shape=[2, 3])
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("rate", [(1, 1), (2, 2), (3, 3)], ids=str)
def test_avg_roi_align_is_that_of_onnx(run: Any, rate: tuple[int, int]) -> None:
    x = _data(9, 2, 3, 6, 8)
    text = f"y = avg_roi_align(x, r, i, output_size = [2, 3], sampling_rate = {list(rate)})"
    (y,) = run(text, x=x, r=ROIS, i=ITEMS)
    arrays = {"x": x, "r": ROIS[:, [1, 0, 3, 2]], "i": ITEMS[:, 0].astype(np.int64)}
    expected = _onnx_region(
        "RoiAlign", arrays, mode="avg", output_height=2, output_width=3, sampling_ratio=rate[0],
        coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def _onnx_region(operator: str, arrays: dict[str, Array], **attributes: Any) -> Array:
    """What ONNX Runtime computes for an operator."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(each.dtype), each.shape
        )
        for name, each in arrays.items()
    ]
    node = onnx.helper.make_node(operator, list(arrays), ["y"], **attributes)
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([node], "g", inputs, [result])
    opset = [onnx.helper.make_opsetid("", 16)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, arrays)[0]
