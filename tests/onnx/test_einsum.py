"""Einsum: ellipses, dimensions of 1, repeated letters and the order of the result.

The expected values are those of NumPy, with which ONNX Runtime agrees except for one order of
letters, where the specification sides with NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")

Array = np.ndarray
Shape = tuple[int, ...]
CASES: list[tuple[str, list[Shape]]] = [
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (1, 5, 4, 2)]),
    ("...ij,...jk", [(2, 1, 3, 4), (1, 5, 4, 2)]),
    ("i...,i...->...", [(3, 2, 1), (3, 1, 4)]),
    ("...,...->...", [(2, 1), (1, 3)]),
    ("...i,...i,...->...", [(2, 1, 3), (1, 4, 3), (1, 1)]),
    ("...i->...", [(2, 3)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("i...i->...", [(3, 2, 4, 3)]),
    ("bij,bjk->bik", [(1, 2, 3), (4, 3, 2)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]),
    ("ij,jk->ik", [(2, 3), (1, 4)]),
    ("ij,ij->j", [(2, 1), (1, 4)]),
    ("ij,ij,ij->", [(2, 1), (1, 4), (1, 1)]),
    ("ij,jk->ik", [(2, 1), (0, 4)]),
    ("ij,jk->ik", [(2, 0), (0, 4)]),
    ("iij,ijk->k", [(2, 2, 3), (2, 3, 4)]),
    ("iii->i", [(3, 3, 3)]),
    ("ii", [(3, 3)]),
    ("bA", [(2, 3)]),
    ("aB,Bc->ac", [(2, 3), (3, 4)]),
    (" i j , j k -> k i ", [(2, 3), (3, 4)]),
    ("i,j,k->kij", [(2,), (3,), (4,)]),
    (",i->i", [(), (3,)]),
]


def proto(make_model: Any, equation: str, shapes: list[Any]) -> Any:
    names = [f"x{number}" for number in range(len(shapes))]
    node = onnx.helper.make_node("Einsum", names, ["y"], equation=equation)
    inputs = [(name, "f4", shape) for name, shape in zip(names, shapes, strict=True)]
    return make_model([node], inputs, [("y", "f4", None)])


def numbers(shapes: list[Shape]) -> list[Array]:
    random = np.random.default_rng(0)
    return [random.integers(-4, 5, shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize(("equation", "shapes"), CASES)
def test_sums_of_products_agree(equation: str, shapes: list[Shape], make_model: Any) -> None:
    operands = numbers(shapes)
    expected = np.einsum(equation, *operands)
    (found,) = tvm_nnef.evaluate(proto(make_model, equation, shapes), *operands)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("route", ["mapped", pytest.param("formula", marks=pytest.mark.slow)])
def test_compiled_sums_of_products_of_dynamic_dimensions_agree(route: Any, make_model: Any) -> None:
    declared = [("a", 1, "i", "j"), (1, "b", "j", "k")]
    model = proto(make_model, "...ij,...jk->...ik", declared)
    executable = tvm_nnef.build(model, route=route, bounds=8, progress=False, cache=False)
    for a, b, i, j, k in ((2, 5, 3, 4, 2), (1, 1, 1, 1, 1), (3, 1, 2, 5, 4)):
        operands = numbers([(a, 1, i, j), (1, b, j, k)])
        expected = np.einsum("...ij,...jk->...ik", *operands)
        np.testing.assert_array_equal(executable(*operands)[0], expected)


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        # The specification: every ellipsis of an equation represents as many dimensions.
        ("...ij,...jk", [(2, 3, 4), (4, 2)], "represents 0 dimensions"),
        ("ii->i", [(1, 3)], "dimension 'i' of one input is 1 and 3"),
        ("ij,jk->ii", [(2, 3), (3, 4)], "names other dimensions"),
        ("ij->k", [(2, 3)], "names other dimensions|not valid ONNX"),
        ("i1->i", [(2, 3)], "not valid ONNX|a term of letters"),
        ("ij,jk->ik", [(2, 3), (2, 4)], "dimension 'j' is 3 and 2|not valid ONNX"),
        ("ij", [(2, 3, 4)], "not valid ONNX|names 2 dimensions"),
    ],
)
def test_equations_that_do_not_fit_are_errors(
    equation: str, shapes: list[Shape], message: str, make_model: Any
) -> None:
    with pytest.raises(NnefError, match=message):
        tvm_nnef.convert(proto(make_model, equation, shapes))
