"""Sorting, prefix sums and choosing on the device of this machine, which may be a software one."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_nnef

pytestmark = pytest.mark.usefixtures("runs")

TEXT = """
import algo; import layout; import math;
graph G {
    @input { x: real[n|9, m|9000]; }
    @output {
        v: real[~..]; i: int[~..]; w: real[~..]; j: int[~..]; p: int[~..]; f: real[~..];
        b: real[~..];
    }
    @compose {
        v, i = algo.top_k{k=100, axis=1}(x);
        w, j = algo.top_k{k=9000, axis=1, largest=false}(x);
        p = layout.nonzero(x);
        f = math.cumsum{axis=1}(x);
        b = math.cumsum{axis=1, exclusive=true, reverse=true}(x);
    }
}
"""


@pytest.mark.slow
def test_dynamic_rows() -> None:
    run = tvm_nnef.build(TEXT, "vulkan", progress=False)
    for shape in ((1, 1), (3, 2), (2, 300), (3, 513), (2, 7000), (0, 4), (2, 0)):
        x = np.random.default_rng(0).integers(-9, 10, shape).astype("float32")
        v, i, w, j, p, f, b = run(x)
        for values, found, key in ((v, i, -x), (w, j, x)):
            order = np.argsort(key, 1, kind="stable")[:, : values.shape[1]]
            np.testing.assert_array_equal(found, order)
            np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
        np.testing.assert_array_equal(p, np.nonzero(x))
        np.testing.assert_array_equal(f, np.cumsum(x, 1))
        np.testing.assert_array_equal(b, np.cumsum(x[:, ::-1], 1)[:, ::-1] - x)


def test_ints_at_their_limits() -> None:
    text = """
    import algo;
    graph G {
        @input { x: int[3, 700]; }
        @output { v: int[~..]; i: int[~..]; }
        @compose { v, i = algo.top_k{k=700, axis=1}(x); }
    }
    """
    x = np.random.default_rng(1).integers(-(2**31), 2**31, (3, 700)).astype("int32")
    x[0], x[1, :3], x[1, 7] = 0, -(2**31), 2**31 - 1
    order = np.argsort(-x.astype("int64"), 1, kind="stable")
    _, found = tvm_nnef.build(text, "vulkan", progress=False)(x)
    np.testing.assert_array_equal(found, order)


@pytest.mark.slow
def test_boxes_that_overlap_no_better_one() -> None:
    text = """
    import algo;
    graph G {
        @input { boxes: real[2, 200, 4]; scores: real[2, 3, 200]; }
        @output { y: int[~, 3]; }
        @compose {
            y = algo.nonmax_suppress{iou_threshold=0.3, score_threshold=0.2}(boxes, scores);
        }
    }
    """
    generator = np.random.default_rng(0)
    boxes = generator.random((2, 200, 4)).astype("float32")
    boxes[..., 2:] = boxes[..., :2] + 0.3 * boxes[..., 2:]
    scores = generator.random((2, 3, 200)).astype("float32")
    (wanted,) = tvm_nnef.evaluate(text, boxes, scores)
    (found,) = tvm_nnef.build(text, "vulkan", progress=False)(boxes, scores)
    np.testing.assert_array_equal(found, wanted)
