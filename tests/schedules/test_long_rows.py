"""A few long rows, and dynamic dimensions that may be long, are shared by threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import relax, tirx

from tvm_nnef.tvm_support.compat import prim_functions, runtime_tensor

LONG = 400_009


def softmax(x: np.ndarray) -> np.ndarray:
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def normed(x: Any) -> Any:
    mean = relax.op.mean(x, [0, 1, 2], keepdims=True)
    return relax.op.subtract(x, mean)


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[int, ...]]] = {
    "softmax": (lambda x: relax.op.nn.softmax(x, -1), softmax, (1, -1)),
    "two rows": (lambda x: relax.op.nn.softmax(x, -1), softmax, (2, -1)),
    "sum": (relax.op.sum, lambda x: x.sum(dtype="float64"), (-1,)),
    "sum of all": (relax.op.sum, lambda x: x.sum(dtype="float64"), (3, -1, 5)),
    "max": (lambda x: relax.op.max(x, [1]), lambda x: x.max(1), (3, -1)),
    "mean and others": (normed, lambda x: x - x.mean(dtype="float64"), (2, 1, -1)),
    "many rows": (
        lambda x: relax.op.sum(x, [1]),
        lambda x: x.sum(1, dtype="float64"),
        (10, -1),
    ),
    "elementwise": (relax.op.abs, np.abs, (-1,)),
    "elementwise in two dimensions": (relax.op.abs, np.abs, (-1, 2)),
}


def is_parallel(mod: Any) -> bool:
    """Whether each kernel has a parallel loop."""

    def loops(function: Any) -> list[Any]:
        found: list[Any] = []
        tvm_ffi.structural_walk(function.body, (tirx.For, found.append), order="post")
        return [loop for loop in found if loop.kind == tirx.ForKind.PARALLEL]

    return all(map(loops, prim_functions(mod).values()))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_long_rows_run_in_parallel(kernels: Any, name: str, dynamic: bool) -> None:
    build, expected, shape = CASES[name]
    size: Any = tirx.Var("n", "int64") if dynamic else LONG
    mod = kernels.scheduled(kernels.module(build, tuple(size if d < 0 else d for d in shape)))
    assert is_parallel(mod)
    main = kernels.compiled(mod)
    for extent in (1, 65, 131_071, LONG) if dynamic else (LONG,):
        (x,) = kernels.values(tuple(extent if d < 0 else d for d in shape))
        found = main(runtime_tensor(x)).numpy()
        np.testing.assert_allclose(found, expected(x), rtol=2e-5, atol=2e-5, err_msg=str(extent))


def test_a_nan_anywhere_in_a_long_row_is_kept(kernels: Any) -> None:
    mod = kernels.scheduled(kernels.module(lambda x: relax.op.max(x, [1]), (4, LONG)))
    (x,) = kernels.values((4, LONG))
    x[0, 8191], x[1, LONG - 1], x[2, 50_000] = np.nan, np.nan, np.inf
    np.testing.assert_array_equal(kernels.run(mod, [x]), x.max(1))
