"""Constants without elements in libraries, and the fault of TVM on account of which they change."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import tvm_nnef

SHAPES = [(2, 0), (3, 0, 2), (0, 2)]


@pytest.mark.parametrize("shape", SHAPES[:2])
def test_tvm_cannot_read_back_some_tensors(shape: tuple[int, ...]) -> None:
    data = tvm.runtime.save_param_dict({"x": tvm.runtime.tensor(np.zeros(shape, np.float32))})
    with pytest.raises(tvm.error.InternalError, match="Invalid DLTensor"):
        tvm.runtime.load_param_dict(data)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_output_that_is_a_constant_without_elements(shape: tuple[int, ...]) -> None:
    text = (
        "graph G { @input { x: real[2]; } @output { y: real[2]; z: real[...]; } "
        "@variable { w: real[...]; } @compose { y = x; z = w; } }\n"
    ).replace("...", ", ".join(map(str, shape)))
    values = {"main.G.w": np.zeros(shape, np.float32)}
    executable = tvm_nnef.build(text, variables=values, progress=False, cache=False)
    y, z = executable(np.ones(2, np.float32))
    assert (y.tolist(), z.shape, z.dtype) == ([1, 1], shape, np.float32)
