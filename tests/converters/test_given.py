"""Shapes and dtypes of inputs that users give are checked before anything is converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import NnefError

ANTARES = 'einstein_v2("y[N] = x[N] * 2", {"x": {"dtype": "float32", "shape": [4]}})\n'
TILE = "Tensor f(const Tensor& x) { return x * 2; }\n"
NNEF1 = (
    "version 1.0;\ngraph g(x) -> (y)\n{\n    x = external(shape = [4]);\n    y = mul(x, 2.0);\n}\n"
)
SOURCES = {"antares": ANTARES, "tile": TILE, "nnef1": NNEF1}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"input_shapes": {"x": 4}}, "cannot have the shape 4"),
    ({"input_shapes": {"x": "4"}}, "cannot have the shape '4'"),
    ({"input_shapes": {"x": (-4,)}}, "cannot have a dimension of -4"),
    ({"input_shapes": {"x": (2.5,)}}, "cannot have a dimension of 2.5"),
    ({"input_shapes": [4]}, "'input_shapes' cannot be [4]"),
    ({"input_shapes": {"x": (4,)}, "dtypes": {"x": "flaot32"}}, "cannot have the dtype 'flaot32'"),
    ({"input_shapes": {"x": (4,)}, "dtypes": {"x": "complex64"}}, "dtype 'complex64'"),
    ({"input_shapes": {"x": (4,)}, "dtypes": {"x": 3}}, "cannot have the dtype '3'"),
    ({"input_shapes": {"x": (4,)}, "dtypes": "float32"}, "'dtypes' cannot be 'float32'"),
]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(("options", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_not_a_shape_or_dtype_is_an_error(
    source: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(source, **options)
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert found.hint


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("float64")], ids=str)
def test_shapes_and_dtypes_may_be_those_of_numpy(source: str, dtype: Any) -> None:
    x = np.arange(4, dtype=np.float64)
    model = tvm_nnef.convert(source, input_shapes={"x": np.shape(x)}, dtypes={"x": dtype})
    (y,) = tvm_nnef.evaluate(model, x)
    np.testing.assert_array_equal(y, 2 * x)
    assert y.dtype == np.float64
