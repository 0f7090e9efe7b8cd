"""Which resizings repeat each element, by what ONNX says about the positions."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvm_nnef
from tvm_nnef.converters.common.symbolic import symbol
from tvm_nnef.converters.onnx.upsampling import repetitions

H = symbol("h", 64, 0)

CASES = [
    ((4, 8, 2.0, "asymmetric", "floor"), 2),
    ((4, 8, None, "asymmetric", "floor"), 2),
    ((4, 8, 2.0, "half_pixel", "round_prefer_floor"), 2),
    ((4, 12, 3.0, "half_pixel", "round_prefer_ceil"), 3),
    # Place 1 / 2 is rounded up.
    ((4, 8, 2.0, "asymmetric", "ceil"), None),
    ((4, 8, 2.0, "asymmetric", "round_prefer_ceil"), None),
    ((4, 8, 2.0, "align_corners", "floor"), None),
    ((4, 8, 2.1, "asymmetric", "floor"), None),
    ((4, 9, 2.25, "asymmetric", "floor"), None),
    ((0, 0, 2.0, "asymmetric", "floor"), None),
    # A dynamic dimension repeats its elements if it does so at any size.
    ((H, H * 2, 2.0, "asymmetric", "floor"), 2),
    ((H, H * 3, None, "half_pixel", "round_prefer_floor"), 3),
    ((H, H * 2, 2.0, "asymmetric", "ceil"), None),
    ((H, H * 2 + 1, None, "asymmetric", "floor"), None),
    ((H, H * 3 // 2, 1.5, "asymmetric", "floor"), None),
    ((H, 8, None, "asymmetric", "floor"), None),
    ((4, H, None, "asymmetric", "floor"), None),
]


@pytest.mark.parametrize(("arguments", "expected"), CASES)
def test_repetitions(arguments, expected):
    assert repetitions(*arguments) == expected


@pytest.mark.parametrize(("shape", "scale"), [((1, 2, 5, 7), 2), ((1, 1, 1, 33), 3)])
def test_dynamic_images_are_repeated_without_indices(shape, scale):
    node = helper.make_node(
        "Resize", ["x", "", "scales"], ["y"], mode="nearest", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip
    scales = helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, scale, scale])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, shape[1], "h", "w"))
            for name in "xy")  # fmt: skip
    y.type.tensor_type.ClearField("shape")
    graph = helper.make_graph([node], "resized", [x], [y], [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    converted = tvm_nnef.convert(model, bounds={"h": 64, "w": 64})
    operators = [each.operator for each in tvm_nnef.compose(converted).operations]
    assert any("nearest_upsample" in each for each in operators)
    image = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    (found,) = tvm_nnef.build(converted, progress=False)(image)
    np.testing.assert_array_equal(found, image.repeat(scale, 2).repeat(scale, 3))
