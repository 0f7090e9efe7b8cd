"""Operations compiled on both routes give what the reference evaluator gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

pytestmark = pytest.mark.sampled(3)

RANDOM = np.random.default_rng(7)


def reals(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("f")


def positive(*shape: int) -> np.ndarray:
    return (RANDOM.random(shape) + 0.5).astype("f")


X, Y = reals(2, 3, 6, 5), reals(2, 3, 6, 5)
CHANNELS = positive(1, 3)
TRUTH = X > 0
ROIS, ITEMS = np.float32([[0, 0, 6, 5], [1, 1, 4.4, 3.6]]), np.int32([[0], [1]])
INDEX = RANDOM.integers(0, 4, (2, 3, 3, 3)).astype(np.int32)
WINDOW = "size = [1, 1, 3, 2], stride = [1, 1, 2, 1], padding = [(0, 0), (0, 0), (1, 0), (-1, 2)]"
TWOS = "size = [1, 1, 2, 2], stride = [1, 1, 2, 2]"
ALL = "size = [1, 2, 3, 3]"

CASES: dict[str, dict[str, np.ndarray]] = {
    "y = conv(x, w, b, stride = [2, 1], padding = [(1, 0), (-1, 2)])":
        {"x": X, "w": reals(4, 3, 3, 2), "b": reals(1, 4)},
    "y = conv(x, w, 0.5, border = 'replicate', dilation = [2, 1])":
        {"x": X, "w": reals(4, 3, 3, 2)},
    "y = conv(x, w, border = 'reflect', groups = 0)": {"x": X, "w": reals(6, 1, 3, 3)},
    "y = deconv(x, w, b, stride = [2, 3], output_shape = [2, 4, 11, 15])":
        {"x": X, "w": reals(3, 4, 3, 4), "b": reals(1, 4)},
    "y = deconv(x, w, border = 'replicate', stride = [2, 1])": {"x": X, "w": reals(3, 2, 3, 3)},
    "y = separable_conv(x, p, q)": {"x": X, "p": reals(3, 1, 3, 3), "q": reals(4, 3, 1, 1)},
    "y = separable_deconv(x, p, q, stride = [2, 2])":
        {"x": X, "p": reals(4, 1, 3, 3), "q": reals(3, 4, 1, 1)},
    f"y = box(x, {WINDOW})": {"x": X},
    f"y = box(x, {ALL}, border = 'reflect-even', normalize = true)": {"x": X},
    f"y = box(x, {ALL}, border = 'ignore', normalize = true)": {"x": X},
    f"y = debox(x, {ALL}, border = 'replicate', normalize = true)": {"x": X},
    f"y = debox(x, {WINDOW})": {"x": X},
    f"y = max_pool(x, {WINDOW})": {"x": X},
    f"y = max_pool(x, {ALL}, border = 'ignore')": {"x": X},
    f"(y, i) = max_pool_with_index(x, {WINDOW}, border = 'ignore')": {"x": X},
    f"y = argmax_pool(x, {ALL}, border = 'reflect')": {"x": X},
    f"y = sample(x, i, {TWOS})": {"x": X, "i": INDEX},
    f"y = sample(x, i, {TWOS}, border = 'replicate')": {"x": X, "i": INDEX},
    f"y = desample(x, i, {TWOS}, output_shape = [2, 3, 6, 5])":
        {"x": reals(2, 3, 3, 3), "i": INDEX},
    f"y = avg_pool(x, {WINDOW})": {"x": X},
    f"y = rms_pool(x, {WINDOW}, border = 'replicate')": {"x": X},
    "y = nearest_downsample(x, factor = [3, 5])": {"x": X},
    "y = area_downsample(x, factor = [3, 1])": {"x": X},
    "y = nearest_upsample(x, factor = [2, 3])": {"x": X},
    "y = multilinear_upsample(x, factor = [2, 3])": {"x": X},
    "y = multilinear_upsample(x, factor = [2, 2], border = 'constant', method = 'asymmetric')":
        {"x": X},
    "y = multilinear_upsample(x, factor = [2, 2], border = 'reflect')": {"x": X},
    "y = multilinear_upsample(x, factor = [2, 3], method = 'aligned')": {"x": X},
    "y = add(x, c)": {"x": X, "c": CHANNELS},
    "y = pow(c, x)": {"x": X, "c": CHANNELS},
    "y = le(c, x)": {"x": X, "c": CHANNELS},
    "y = select(t, c, 0.5)": {"t": TRUTH, "c": CHANNELS},
    "y = clamp(x, a, c)": {"x": X, "a": -positive(2), "c": CHANNELS},
    "y = clamp(x, -0.5, 0.75)": {"x": X},
    "y = round(x)": {"x": np.round(X * 4) / 2},
    "y = prelu(x, c)": {"x": X, "c": CHANNELS},
    "y = prelu(x, c) ": {"x": X, "c": positive(2, 3)},
    "y = leaky_relu(x, alpha = 2.0)": {"x": X},
    "y = elu(x, alpha = 0.5)": {"x": X},
    "y = selu(x)": {"x": X},
    "y = gelu(x)": {"x": X},
    "y = softmax(x, axes = [2, 3])": {"x": X},
    "y = add_n([x, z, x])": {"x": X, "z": Y},
    "y = cast<integer>(x)": {"x": X},
    "y = log2(x)": {"x": positive(3, 4)},
    "y = and(x, z)": {"x": TRUTH, "z": Y > 0},
    "y = sum_reduce(x, axes = [1, 3])": {"x": X},
    "y = sum_reduce(x, axes = [0, 2], normalize = true)": {"x": X},
    "y = argmax_reduce(x, axes = [1])": {"x": X},
    "y = argmin_reduce(x, axes = [3, 1])": {"x": X},
    "y = all_reduce(x, axes = [1])": {"x": TRUTH},
    "(y, z) = moments(x, axes = [0, 2, 3])": {"x": X},
    "y = matmul(a, b, transposeA = true)": {"a": reals(2, 1, 5, 4), "b": reals(1, 3, 5, 6)},
    "y = linear(a, b, c)": {"a": reals(2, 5), "b": reals(3, 5), "c": CHANNELS},
    "y = reshape(x, shape = [-1, 2], axis_start = 1, axis_count = 2)": {"x": X},
    "y = transpose(x, axes = [2, 0, 1])": {"x": X},
    "[y, z] = split(x, axis = 2, ratios = [1, 2])": {"x": X},
    "y = concat([x, z], axis = 1)": {"x": X, "z": Y},
    "y = stack([x, z], axis = 1)": {"x": X, "z": Y},
    "[y, z] = unstack(x, axis = 0)": {"x": X},
    "y = slice(x, axes = [3, 2], begin = [-1, 1], end = [-99, 6], stride = [-2, 1])": {"x": X},
    "y = slice(x, axes = [3, 2], begin = [0, 1], end = [4, 0])": {"x": X},
    "y = pad(x, padding = [(0, 0), (1, 0), (-1, 2), (2, 2)], value = 0.5)": {"x": X},
    "y = pad(x, padding = [(0, 0), (1, 0), (-1, 2), (2, 2)], border = 'reflect')": {"x": X},
    "y = tile(x, repeats = [1, 2, 1, 3])": {"x": X},
    "y = gather(x, i, axis = 2)": {"x": X, "i": np.int32([[5, 0], [2, 2]])},
    "y = avg_roi_pool(x, r, i, output_size = [2, 2])": {"x": X, "r": ROIS, "i": ITEMS},
    "y = max_roi_pool(x, r, i, output_size = [3, 2])": {"x": X, "r": ROIS, "i": ITEMS},
    "y = roi_resample(x, r, i, output_size = [4, 3])": {"x": X, "r": ROIS, "i": ITEMS},
    "y = roi_resample(x, r, i, output_size = [4, 3], method = 'aligned')":
        {"x": X, "r": ROIS, "i": ITEMS},
    "y = avg_roi_align(x, r, i, output_size = [2, 2], sampling_rate = [2, 3])":
        {"x": X, "r": ROIS, "i": ITEMS},
    "y = max_roi_align(x, r, i, output_size = [2, 2], sampling_rate = [2, 3])":
        {"x": X, "r": ROIS, "i": ITEMS},
    f"y = local_response_normalization(x, {ALL}, alpha = 0.3)": {"x": X},
    f"y = local_mean_normalization(x, {ALL})": {"x": X},
    f"y = local_variance_normalization(x, {ALL}, epsilon = 0.1)": {"x": X},
    f"y = local_contrast_normalization(x, {ALL}, bias = 0.1)": {"x": X},
    "y = l1_normalization(x, axes = [1, 2], epsilon = 0.1)": {"x": X},
    "y = l2_normalization(x, axes = [1, 2], bias = 0.1)": {"x": X},
    "y = batch_normalization(x, m, v, o, s, epsilon = 0.01)":
        {"x": X, "m": CHANNELS, "v": CHANNELS, "o": CHANNELS, "s": CHANNELS},
    "y = batch_normalization(x, m, v, o, 1.0, epsilon = 0.01)":
        {"x": X, "m": positive(2, 3), "v": CHANNELS, "o": CHANNELS},
    "y = min_max_linear_quantize(x, a, b, bits = 8, signed = true, symmetric = true)":
        {"x": X, "a": -CHANNELS, "b": CHANNELS},
    "y = linear_quantize(x, -1.0, 1.0, bits = 4)": {"x": X},
    "y = zero_point_linear_quantize(x, zero_point = 3, scale = 0.25, bits = 4, signed = true, "
    "symmetric = false)": {"x": X},
    "y = logarithmic_quantize(x, m, bits = 3)": {"x": X, "m": CHANNELS},
}  # fmt: skip
QUICK = [
    text for text in CASES if text.split(" = ")[1].split("(")[0] in ("deconv", "debox", "sample")
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "text", [pytest.param(each, marks=[] if each in QUICK else pytest.mark.slow) for each in CASES]
)
def test_compiled(run: Any, text: str) -> None:
    model = run.model(text, **CASES[text])
    inputs = list(CASES[text].values())
    expected = tvm_nnef.evaluate(model, *inputs)
    for route in ("mapped", "formula"):
        executable = tvm_nnef.build(model, route=route, progress=False)
        for found, wanted in zip(executable(*inputs), expected, strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            if wanted.dtype.kind == "f":
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(found, wanted)
