"""Walks and maps: what ``tvm_ffi`` finds and makes, for one class, several, and in both orders."""

from __future__ import annotations

import pytest
import tvm_ffi
from tvm import tirx

from tvm_nnef.tvm_support import traversal

X, Y = tirx.Var("x", "int64"), tirx.Var("y", "int64")
EXPRESSION = tirx.floormod(tirx.floordiv(X * 4 + Y, 8), X + 1)
KINDS = [tirx.Var, tirx.Expr, (tirx.FloorDiv, tirx.FloorMod), (tirx.Add,)]


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("kinds", KINDS, ids=str)
def test_walks_find_the_nodes_in_order(kinds, order):
    found, expected = [], []
    traversal.walk(EXPRESSION, (kinds, found.append), order=order)
    tvm_ffi.structural_walk(EXPRESSION, (kinds, expected.append), order=order)
    assert len(found) == len(expected) > 0
    assert all(a.same_as(b) for a, b in zip(found, expected, strict=True))


def test_the_first_fitting_callback_replaces_a_node():
    entries = [
        (tirx.Add, lambda node: node.a),
        ((tirx.Expr, tirx.FloorDiv), lambda node: Y if node.same_as(X) else node),
    ]
    made = traversal.mapped(EXPRESSION, entries)
    assert tvm_ffi.structural_equal(made, tvm_ffi.structural_map(EXPRESSION, entries))
    assert tvm_ffi.structural_equal(made, tirx.floormod(tirx.floordiv(Y * 4, 8), Y))
