"""Relax operators whose kernels are made here: infinities and NaN."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tvm_nnef.compilation.pipeline import build_module

RANDOM = np.random.default_rng(2)
SPECIAL = np.array([[0.0, -0.0, 1.5, -np.inf, np.inf, np.nan, -2.0]], np.float32)
LOWEST = float(np.finfo(np.float32).min)
COLUMN = np.array([[1.0], [np.nan], [-np.inf]], np.float32)


def run(function: Callable[..., Any], *arrays: Any) -> Any:
    """The result of a Relax expression of parameters, compiled."""
    builder = relax.BlockBuilder()
    parameters = [
        relax.Var(f"x{n}", relax.TensorType(array.shape, str(array.dtype)))
        for n, array in enumerate(arrays)
    ]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(relax.Tuple([builder.emit(function(*parameters))]))
        builder.emit_func_output(result)
    module = builder.get()
    return np.asarray(build_module(described(module, len(arrays)))(*arrays)[0])


def described(module: Any, inputs: int) -> Any:
    """The module with the attributes that lowering gives ``main``."""
    names = [{"name": f"x{n}", "items": None} for n in range(inputs)]
    ports = {"inputs": names, "outputs": [{"name": "y", "items": None}]}
    main = module["main"].with_attr("nnef_ports", json.dumps(ports))
    module.update_func(module.get_global_var("main"), main.with_attr("num_input", inputs))
    return module


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "relu": (relax.op.nn.relu, (SPECIAL,), np.maximum(SPECIAL, 0)),
    "maximum": (relax.op.maximum, (SPECIAL, COLUMN), np.maximum(SPECIAL, COLUMN)),
    "minimum": (relax.op.minimum, (COLUMN, SPECIAL[0]), np.minimum(COLUMN, SPECIAL[0])),
    "number on the left": (
        lambda x: relax.op.minimum(relax.const(1.0), x), (SPECIAL,), np.minimum(SPECIAL, 1)),
    "number on the right": (
        lambda x: relax.op.maximum(x, relax.const(1.0)), (SPECIAL,), np.maximum(SPECIAL, 1)),
    "lowest finite number": (
        lambda x: relax.op.maximum(x, relax.const(LOWEST)), (SPECIAL,),
        np.maximum(SPECIAL, LOWEST)),
    "max of a row": (
        lambda x: relax.op.max(x, 1), (COLUMN,), np.array([1.0, np.nan, -np.inf], np.float32)),
    "min of a row": (
        lambda x: relax.op.min(x, 1, keepdims=True), (-COLUMN,), -COLUMN),
    "ints": (
        lambda x: relax.op.nn.relu(x), (np.array([-3, 4], np.int32),), np.array([0, 4], np.int32)),
    "no dimension": (
        relax.op.maximum, (np.float32(np.nan), np.array([1.0], np.float32)), np.array([np.nan])),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_nan_stays(name: str) -> None:
    function, arrays, expected = CASES[name]
    found = run(function, *map(np.asarray, arrays))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == arrays[-1].dtype


def pools() -> list[tuple[str, Any, Any, dict[str, Any]]]:
    x1, x2, x3 = (RANDOM.normal(size=(2, 3, *(5,) * d)).astype(np.float32) for d in (1, 2, 3))
    x2[0, 0], x2[1, 1, 2, 3], x2[1, 2, 0, 0] = -np.inf, np.nan, np.inf
    return [
        ("max_pool1d", x1, "NCW", {"pool_size": [2], "strides": [2], "padding": [1, 0]}),
        ("max_pool2d", x2, "NCHW", {"pool_size": [2, 3], "padding": [1, 0, 0, 2]}),
        ("max_pool2d", x2, "NCHW", {"pool_size": [2, 2], "dilation": [2, 1], "strides": [1, 2]}),
        ("max_pool3d", x3, "NCDHW", {"pool_size": [2, 1, 3], "padding": [1, 0, 1, 1, 0, 1]}),
    ]


def largest(
    x: Any, pool_size: Any, strides: Any = (), dilation: Any = (), padding: Any = ()
) -> Any:
    """The largest element of each window of the dimensions after the first two."""
    d = len(pool_size)
    strides, dilation = strides or [1] * d, dilation or [1] * d
    padding = padding or [0] * 2 * d
    widths = [(0, 0), (0, 0), *zip(padding[:d], padding[d:], strict=True)]
    padded = np.pad(x, widths, constant_values=-np.inf)
    spans = [(k - 1) * step + 1 for k, step in zip(pool_size, dilation, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, spans, tuple(range(2, d + 2)))
    every, cells = [slice(None)] * 2, [slice(None, None, step) for step in dilation]
    index = (*every, *(slice(None, None, step) for step in strides), *cells)
    seen = seen[index]
    return seen.max(tuple(range(-d, 0)))


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("last", [False, True])
def test_pooling(number: int, last: bool) -> None:
    name, x, layout, attributes = pools()[number]
    expected = largest(x, **attributes)
    if last:
        x, expected = (np.moveaxis(each, 1, -1).copy() for each in (x, expected))
        layout = layout[0] + layout[2:] + "C"
    operator = getattr(relax.op.nn, name)
    found = run(lambda data: operator(data, layout=layout, **attributes), x)
    np.testing.assert_array_equal(found, expected)
