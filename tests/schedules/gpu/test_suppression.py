"""Non-maximum suppression by the threads of blocks, run one after the other on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.tvm_support import cuda
from tvm_nnef.tvm_support.compat import prim_functions

pytestmark = pytest.mark.sampled(3)

CUDA, VULKAN = {"kind": "cuda", "arch": "sm_80"}, {"kind": "vulkan"}


def graph(batch: Any, classes: Any, count: Any, **attributes: Any) -> str:
    """A graph that chooses boxes."""
    given = ", ".join(f"{name}={value!r}" for name, value in attributes.items())
    return f"""
    import algo;
    graph G {{
        @input {{ boxes: real[{batch}, {count}, 4]; scores: real[{batch}, {classes}, {count}]; }}
        @output {{ y: int[~, 3]; }}
        @compose {{ y = algo.nonmax_suppress{{{given}}}(boxes, scores); }}
    }}
    """


def case(batch: int, classes: int, count: int) -> tuple[Any, Any]:
    """Boxes of which many overlap, and scores of which many are equal."""
    generator = np.random.default_rng(count)
    boxes = generator.random((batch, count, 4)).astype("float32")
    boxes[..., 2:] = boxes[..., :2] + 0.3 * boxes[..., 2:]
    return boxes, (generator.integers(0, 50, (batch, classes, count)) / 50).astype("float32")


def chosen(boxes: Any, scores: Any, most: int, overlap: float, least: float) -> Any:
    """What one box after the other gives, for corners."""
    found = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        kept: list[int] = []
        for box in np.argsort(-scores[batch, kind], kind="stable"):
            a = boxes[batch, box].astype("float64")
            others = boxes[batch, kept].astype("float64")
            low, high = np.maximum(a[:2], others[:, :2]), np.minimum(a[2:], others[:, 2:])
            common = np.prod(np.maximum(high - low, 0), 1)
            areas = np.prod(others[:, 2:] - others[:, :2], 1) + np.prod(a[2:] - a[:2])
            apart = (common <= overlap * (areas - common)).all()
            if scores[batch, kind, box] > least and len(kept) < most and apart:
                kept.append(int(box))
        found += [(batch, kind, box) for box in kept]
    return np.array(found, "int32").reshape(-1, 3)


@pytest.mark.parametrize(
    ("shape", "most", "least", "reverse"),
    [
        ((2, 3, 100), 7, 0.2, True),
        ((1, 1, 256), 256, -1.0, False),
        ((1, 2, 700), 700, 0.1, True),
        pytest.param((1, 1, 257), 3, 0.5, False, marks=pytest.mark.slow),
    ],
)
def test_boxes_that_overlap_no_better_one(
    shape: tuple[int, ...], most: int, least: float, reverse: bool, simulated_gpu: Any
) -> None:
    simulated_gpu(reverse=reverse)
    text = graph(*shape, max_outputs_per_class=most, iou_threshold=0.3, score_threshold=least)
    boxes, scores = case(*shape)
    (found,) = tvm_nnef.build(text, progress=False)(boxes, scores)
    np.testing.assert_array_equal(found, chosen(boxes, scores, most, 0.3, least))


@pytest.mark.slow
def test_dynamic_numbers_of_boxes(simulated_gpu: Any) -> None:
    simulated_gpu(reverse=True)
    text = graph("b|3", "c|3", "n|600", max_outputs_per_class=40, iou_threshold=0.5)
    run = tvm_nnef.build(text, progress=False)
    for shape in ((1, 1, 1), (0, 2, 3), (2, 0, 5), (2, 2, 0), (2, 1, 257), (1, 3, 600)):
        boxes, scores = case(*shape)
        wanted = chosen(boxes, scores, 40, 0.5, -1.0)
        np.testing.assert_array_equal(run(boxes, scores)[0], wanted)


@pytest.mark.parametrize("target", [CUDA, VULKAN], ids=lambda target: target["kind"])
@pytest.mark.parametrize("count", [4096, "n|9000"])
def test_threads_share_the_work(count: Any, target: Any, gpu: Any) -> None:
    text = graph(1, 1, count, max_outputs_per_class=100)
    scheduled = run_phases(tvm_nnef.from_nnef(text), resolve(target), "bind", "schedule")
    function = prim_functions(scheduled)["boxes_apart"]
    assert gpu.steps(function, 4096, of_a_thread=True) < 100 * 4096


@pytest.mark.slow
@pytest.mark.skipif(not cuda.has_compiler(), reason="needs nvcc")
@pytest.mark.parametrize("count", [300, "n|9000"])
def test_cuda_compiles(count: Any, gpu: Any) -> None:
    module = tvm_nnef.from_nnef(graph(2, 3, count, box_format="CENTER"))
    scheduled = run_phases(module, resolve(CUDA), "bind", "schedule")
    for function in prim_functions(scheduled).values():
        gpu.check_compiled(function, resolve(CUDA))
