"""Calls that no operation defines are reported with location and hint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef

pytestmark = pytest.mark.sampled(3)

X = np.zeros((1, 4, 6, 5), np.float32)
ROW, TWO = np.zeros((1, 5), np.float32), np.zeros((2, 2), np.float32)
WEIGHT, INDEX = np.zeros((6, 4, 3, 3), np.float32), np.zeros((1, 4, 3, 3), np.int32)
ROIS, ITEMS = np.zeros((2, 4), np.float32), np.zeros((2, 1), np.int32)
INPUTS = {
    "x": X,
    "r": ROW,
    "s": TWO,
    "w": WEIGHT,
    "i": INDEX,
    "p": ROIS,
    "n": ITEMS,
    "t": X > 0,
    "o": np.zeros((), np.float32),
}

INVALID = {
    "add(x, r)": "the shapes [1, 4, 6, 5], [1, 5] do not match",
    "max(r, s)": "do not match",
    "select(t, r, x)": "do not match",
    "prelu(x, r)": "do not match",
    "conv(x, s)": "the input has rank 4, the filter 2",
    "conv(x, w, groups = 4)": "6, is not divisible by 4 groups",
    "conv(x, w, groups = 2)": "the input has 4 channels, and the filter is for 8",
    "conv(x, w, groups = -1)": "'groups' is -1",
    "conv(x, w, r)": "do not match",
    "conv(x, w, x)": "the bias has the shape [1, 4, 6, 5]",
    "conv(x, w, border = 'ignore')": "'border' is 'ignore'",
    "conv(x, w, border = 'mirror')": "'border' is 'mirror'",
    "conv(x, w, stride = [2])": "'stride' is [2] for 2 dimensions",
    "conv(x, w, stride = [0, 1])": "'stride' is [0, 1]",
    "conv(x, w, dilation = [1, -1])": "'dilation' is [1, -1]",
    "conv(x, w, padding = [(1, 1)])": "'padding' has 1 pairs for 2 dimensions",
    "conv(x, w, padding = [(0, 0), (-2, -1)])": "its window covers 3 elements of dimension 3",
    "conv(x, w, dilation = [9, 1], border = 'reflect')": "of which 'reflect' defines 5",
    "deconv(x, w)": "the input has 4 channels, and the filter is for 6",
    "deconv(i2, w, output_shape = [1, 4, 9, 9])": "would not make 3 of it",
    "deconv(i2, w, output_shape = [1, 5, 5, 5])": "'output_shape' begins with [1, 5]",
    "deconv(i2, w, output_shape = [5, 5])": "'output_shape' has 2 items for 4 dimensions",
    "deconv(i2, w, padding = [(3, 3), (0, 0)])": "its paddings leave nothing of dimension 2",
    "separable_conv(x, w, w)": "filter",
    "box(x, size = [3, 3])": "'size' is [3, 3] for 4 dimensions",
    "box(x, size = [1, 1, 0, 1])": "'size' is [1, 1, 0, 1]",
    "box(x, size = [1, 1, 9, 1], padding = [(0, 0), (0, 0), (0, 0), (0, 0)])": "covers 9 elements",
    "max_pool(x, size = [1, 1, 3, 3], border = 'none')": "'border' is 'none'",
    "sample(x, i, size = [1, 1, 2, 2])": "'index' has the shape [1, 4, 3, 3]",
    "desample(x, i, size = [1, 1, 2, 2])": "'index' has the shape [1, 4, 3, 3]",
    "desample(x, i, size = [1, 1, 2, 2], border = 'replicate')": "'border' is 'replicate'",
    "nearest_downsample(x, factor = [4, 1])": "dimension 2 is 6, which its factor 4",
    "area_downsample(x, factor = [2])": "'factor' is [2] for a rank of 4",
    "nearest_upsample(x, factor = [0, 1])": "'factor' is [0, 1]",
    "multilinear_upsample(x, factor = [2, 2], method = 'cubic')": "'method' is 'cubic'",
    "multilinear_upsample(x, factor = [2, 2], border = 'ignore')": "'border' is 'ignore'",
    "sum_reduce(x, axes = [4])": "'axes' names dimension 4 of a tensor of rank 4",
    "max_reduce(x, axes = [-1])": "'axes' names dimension -1",
    "argmax_reduce(x, axes = [1, 1])": "'axes' is [1, 1]",
    "reshape(x, shape = [7, -1])": "cannot be reshaped",
    "reshape(x, shape = [7, 17])": "cannot be reshaped",
    "reshape(k, shape = [3])": "[4] cannot be reshaped to [3]",
    "reshape(x, shape = [-1, -1])": "'shape' is [-1, -1]",
    "reshape(x, shape = [-2])": "'shape' is [-2]",
    "reshape(x, shape = [1, 1, 1, 1, 0])": "has 4 dimensions",
    "reshape(x, shape = [1], axis_start = 5)": "exceed the rank 4",
    "reshape(x, shape = [1], axis_start = 3, axis_count = 2)": "exceed the rank 4",
    "squeeze(x, axes = [1])": "dimension 1 is 4",
    "squeeze(x, axes = [7])": "'axes' names dimension 7",
    "unsqueeze(x, axes = [6])": "'axes' names dimension 6",
    "transpose(x, axes = [0, 2])": "'axes' is [0, 2]",
    "concat([x, r], axis = 1)": "its operands have the shapes [1, 4, 6, 5], [1, 5]",
    "concat([r, s], axis = 1)": "its operands have the shapes",
    "concat([r, r], axis = 2)": "'axis' names dimension 2",
    "stack([r, s], axis = 0)": "its operands have the shapes",
    "slice(x, axes = [1], begin = [3], end = [1])": "'end' 1 is before 'begin' 3",
    "slice(x, axes = [1], begin = [1], end = [3], stride = [-1])": "'end' 3 is after 'begin' 1",
    "slice(x, axes = [1], begin = [1], end = [3], stride = [0])": "'stride' is 0",
    "slice(x, axes = [1], begin = [1, 2], end = [3])": "differ in length",
    "slice(x, axes = [1, 1], begin = [1, 2], end = [3, 3])": "'axes' is [1, 1]",
    "pad(x, padding = [(1, 1)])": "'padding' has 1 pairs for 4 dimensions",
    "pad(r, padding = [(0, 0), (-3, -3)])": "remove more than its 5 elements",
    "pad(r, padding = [(1, 0), (0, 0)], border = 'reflect')": "of which 'reflect' defines 0",
    "pad(r, padding = [(0, 0), (0, 6)], border = 'reflect-even')": "'reflect-even' defines 5",
    "pad(r, padding = [(0, 0), (0, 1)], border = 'ignore')": "'border' is 'ignore'",
    "concat<scalar>([], axis = 0)": "'values' is empty",
    "box(o, size = [])": "its input has no dimensions",
    "deconv(o, o)": "the input has rank 0, the filter 0",
    "linear(o, o)": "its operands have the ranks 0 and 0",
    "tile(r, repeats = [2])": "'repeats' is [2] for a rank of 2",
    "tile(r, repeats = [0, 1])": "'repeats' is [0, 1]",
    "gather(x, i, axis = 4)": "'axis' names dimension 4",
    "max_roi_pool(x, s, n, output_size = [2, 2])": "'rois' has the shape [2, 2]",
    "avg_roi_pool(x, p, i, output_size = [2, 2])": "'batch_index' has the shape [1, 4, 3, 3]",
    "roi_resample(x, p, n, output_size = [2])": "'output_size' is [2] for 2 dimensions",
    "roi_resample(x, p, n, output_size = [2, 2], method = 'x')": "'method' is 'x'",
    "max_roi_align(x, p, n, output_size = [2, 2], sampling_rate = [0, 1])": "'sampling_rate' is",
    "matmul(r, s)": "5 columns of the first operand meet 2 rows of the second",
    "matmul(x, r)": "its operands have the ranks 4 and 2",
    "matmul(w, x, transposeB = true)": "3 columns",
    "linear(r, s)": "5 columns",
    "local_mean_normalization(x, size = [3])": "'size' is [3] for 4 dimensions",
    "l2_normalization(x, axes = [9])": "'axes' names dimension 9",
    "softmax(x, axes = [4])": "'axes' names dimension 4",
    "batch_normalization(x, r, r, r, r, epsilon = 0.1)": "do not match",
    "linear_quantize(x, 0.0, 1.0, bits = 0)": "'bits' is 0",
    "linear_quantize(x, 0.0, r, bits = 8)": "do not match",
    "min_max_linear_quantize(x, 0.0, 1.0, bits = 1, signed = true, symmetric = true)":
        "its bits leave a single value",
    "zero_point_linear_quantize(x, zero_point = 0, scale = 0.0, bits = 8, signed = true, "
    "symmetric = true)": "'scale' is 0",
    "logarithmic_quantize(x, 1.0, bits = 99)": "'bits' is 99",
}  # fmt: skip


@pytest.mark.parametrize("text", INVALID)
def test_invalid_calls(run: Any, text: str) -> None:
    transposed = "i2 = copy(v); k = constant(shape = [4], value = [0.5]); "
    inputs = {**INPUTS, "v": np.zeros((1, 6, 3, 3), np.float32)}
    with pytest.raises(tvm_nnef.NnefError) as caught:
        run.model(f"{transposed}y = {text}", **inputs)
    (found,) = caught.value.diagnostics
    assert INVALID[text] in found.message
    assert found.span is not None and found.hint and "report this" not in found.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a, b, c] = split(x, axis = 1, ratios = [1, 1])", "it has 2 results, and 3 are named"),
        ("[a, b] = split(x, axis = 1, ratios = [1, 2])", "dimension 1 is 4, which 3"),
        ("[a, b] = split(x, axis = 1, ratios = [4, 0])", "'ratios' is [4, 0]"),
        ("[a, b] = split(x, axis = 4, ratios = [1, 1])", "'axis' names dimension 4"),
        ("[a, b] = unstack(x, axis = 1)", "it has 4 results, and 2 are named"),
        ("[a, b] = copy_n(x, times = 3)", "it has 3 results, and 2 are named"),
        (
            "y = constant(shape = [2, 2], value = [1.0, 2.0])",
            "it has 2 values for the shape [2, 2]",
        ),
    ],
)
def test_numbers_of_results_and_values(run: Any, text: str, message: str) -> None:
    with pytest.raises(tvm_nnef.NnefError) as caught:
        run.model(text, x=X)
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert found.span is not None and found.hint and "report this" not in found.hint
