"""Module image at the edges: no axes, sizes 0 and 1, all elements alike; regions by ONNX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tvm_nnef

RANDOM = np.random.default_rng(55)
Case = tuple[str, dict[str, Any], list[Any], Any]
TRANSFORMS = ("SYMMETRIC", "ASYMMETRIC", "ALIGNED")
RESIZES = ("nearest_resize", "linear_resize", "cubic_resize")


def real(*shape: int) -> Any:
    """Reals that are the same in every run and exact in float32."""
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def without_axes() -> Iterator[Case]:
    x = real(2, 3)
    for name in ("nearest_downsample", "nearest_upsample", "area_downsample", "linear_upsample"):
        yield f"image.{name}", {"axes": [], "factor": []}, [x], x
    for name in (*RESIZES, "resize"):
        yield f"image.{name}", {"axes": [], "size": []}, [x], x
    yield "image.rescale", {"axes": [], "factor": []}, [x], x
    scalar = real()
    yield "image.nearest_upsample", {"factor": []}, [scalar], scalar
    yield "image.linear_resize", {"size": []}, [scalar], scalar


def extents_of_0_and_1() -> Iterator[Case]:
    one, none = real(2, 1, 3), real(0, 4)
    for name in RESIZES:
        for transform in TRANSFORMS:
            given = {"axes": [1], "size": [4], "coordinate_transform": transform}
            yield f"image.{name}", given, [one], one.repeat(4, 1)
            given = {"axes": [1], "size": [3], "coordinate_transform": transform}
            yield f"image.{name}", given, [none], none[:, :3]
    yield "image.linear_upsample", {"axes": [1], "factor": [3]}, [one], one.repeat(3, 1)
    yield "image.nearest_upsample", {"axes": [1, 0], "factor": [3, 2]}, [none], none.repeat(3, 1)
    yield "image.area_downsample", {"axes": [1], "factor": [2]}, [none], none[:, :2]


def aligned_to_one() -> Iterator[Case]:
    """Aligned ends have a scale of 0 if there is one element, which is then the first."""
    x = real(5, 4)
    for antialias in (True, False):
        given = {"coordinate_transform": "ALIGNED", "antialias": antialias}
        for name in RESIZES[1:]:
            yield f"image.{name}", {"axes": [0], "size": [1], **given}, [x], x[:1]
            yield f"image.{name}", {"axes": [-1], "size": 1, **given}, [x], x[:, :1]
            yield f"image.{name}", {"size": [1, 1], **given}, [x], x[:1, :1]
            yield f"image.{name}", {"size": [5, 1], **given}, [x], x[:, :1]
        for mode in ("LINEAR", "CUBIC"):
            yield "image.resize", {"axes": [0], "size": [1], "mode": mode, **given}, [x], x[:1]
    given = {"coordinate_transform": "ALIGNED"}
    yield "image.nearest_resize", {"axes": [0], "size": [1], **given}, [x], x[:1]
    for mode in ("NEAREST", "LINEAR", "CUBIC"):
        given = {"mode": mode, "coordinate_transform": "ALIGNED"}
        yield "image.rescale", {"axes": [1], "factor": [0.25], **given}, [x], x[:, :1]


def constants() -> Iterator[Case]:
    """The weights of every resampling add up to 1."""
    x = np.full((7, 5), 3.25, np.float32)
    for name in RESIZES[1:]:
        for transform in TRANSFORMS:
            for size in ([3, 9], [1, 2], [15, 4]):
                for antialias in (True, False):
                    given = {
                        "size": size, "coordinate_transform": transform, "antialias": antialias,
                    }  # fmt: skip
                    yield f"image.{name}", given, [x], np.full(size, 3.25)
    grid = real(1, 4, 2)
    for mode in ("NEAREST", "LINEAR", "CUBIC"):
        for padding in ("REPLICATE", "REFLECT"):
            given = {"mode": mode, "padding": padding}
            yield (
                "image.grid_sample",
                given,
                [x[None, None], grid[:, None] * 3],
                np.full((1, 1, 1, 4), 3.25),
            )


def test_no_axes_at_all(agree: Any) -> None:
    agree(list(without_axes()))


@pytest.mark.slow
def test_dimensions_of_0_and_1(agree: Any) -> None:
    agree(list(extents_of_0_and_1()))


@pytest.mark.slow
def test_aligned_to_one_element(agree: Any) -> None:
    agree(list(aligned_to_one()))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["LINEAR", "CUBIC"])
def test_aligned_to_a_dynamic_size_of_one(mode: str) -> None:
    text = (
        "# dialect: tools\nimport image; graph G { @input { x: real[5]; n: real[s|4]; } "
        "@output { y: real; } @compose { y = image.resize{axes=[0], size=[n.shape[0]], "
        f"mode='{mode}', coordinate_transform='ALIGNED'}}(x); }} }}\n"
    )
    x, exe = real(5), tvm_nnef.build(text, progress=False)
    for size in (1, 3):
        given = x, np.zeros(size, np.float32)
        for (found,) in (exe(*given), tvm_nnef.evaluate(text, *given)):
            assert found.shape == (size,)
            if size == 1:
                np.testing.assert_allclose(found, x[:1], rtol=1e-6)


@pytest.mark.slow
def test_what_is_constant_stays(agree: Any) -> None:
    agree(list(constants()), tolerance=(1e-5, 1e-5))


def test_shrinking_takes_all_elements_into_account() -> None:
    """A single peak anywhere is seen with antialias, and mostly lost without it."""
    text = """import image;
graph G {{
    @input {{ x: real[{size}, {size}]; }}
    @output {{ y: real; }}
    @compose {{ y = image.resize{{axes=[1], size=[4], mode='LINEAR', antialias={flag}}}(x); }}
}}
"""
    peaks = np.eye(40, dtype=np.float32)
    (seen,) = tvm_nnef.evaluate(text.format(size=40, flag="true"), peaks)
    (lost,) = tvm_nnef.evaluate(text.format(size=40, flag="false"), peaks)
    assert seen.any(1).all()
    assert lost.any(1).sum() == 8


DYNAMIC = """import image, nn;
graph G {
    @input { x: real[n|3, h|40, w|40]; }
    @output { a: real; b: real; c: real; }
    @compose {
        a = image.resize{axes=[1, 2], size=[5, 9], mode='LINEAR'}(x);
        b = image.resize{axes=[1, 2], size=[5, 9], mode='CUBIC', antialias=false}(x);
        c = nn.avg_pool{axes=[1, 2], size=3, stride=2}(x);
    }
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("route", ["formula", "mapped"])
def test_one_model_serves_every_size(route: Any) -> None:
    """Whether a dimension becomes smaller is decided in the run."""
    module = tvm_nnef.from_nnef(DYNAMIC, route=route)
    executable = tvm_nnef.build(module, progress=False)
    for shape in ((1, 5, 9), (2, 17, 4), (3, 3, 40), (2, 4, 4)):
        x = real(*shape)
        fixed = DYNAMIC.replace("n|3, h|40, w|40", ", ".join(map(str, shape)))
        for found, expected in zip(executable(x), tvm_nnef.evaluate(fixed, x), strict=True):
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-5)


REGIONS = """import image;
graph G {
    @input { x: real[2, 3, 12, 16]; r: real[3, 4]; i: int[3]; }
    @output { y: real; }
    @compose { y = image.max_roi_pool{output_size=[3, 4]}(x, r, i); }
}
"""


def test_regions_that_divide_evenly_are_those_of_onnxruntime() -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    x = real(2, 3, 12, 16)
    regions = np.array([[0, 0, 12, 16], [3, 2, 9, 10], [6, 4, 9, 8]], np.float32)
    index = np.array([1, 0, 1], np.int32)
    # ONNX: batch, x and y of the first and of the last element
    (y0, x0, y1, x1) = regions.T
    rois = np.stack([index, x0, y0, x1 - 1, y1 - 1], 1).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[3, 4])],
        "judge",
        [
            helper.make_tensor_value_info("x", kind, x.shape),
            helper.make_tensor_value_info("r", kind, rois.shape),
        ],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = session.run(None, {"x": x, "r": rois})
    (actual,) = tvm_nnef.evaluate(REGIONS, x, regions, index)
    np.testing.assert_array_equal(actual, expected)
