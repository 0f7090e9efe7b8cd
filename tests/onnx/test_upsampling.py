"""Which resizings repeat each element, by what ONNX says of the places."""

from __future__ import annotations

import pytest

from tvm_nnef.converters.onnx.upsampling import repetitions

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
]


@pytest.mark.parametrize(("arguments", "expected"), CASES)
def test_repetitions(arguments, expected):
    assert repetitions(*arguments) == expected
