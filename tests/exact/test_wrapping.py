"""Arithmetic on elements in calls."""

from __future__ import annotations

from tvm import tirx

from tvm_nnef.exact.wrapping import opaque_elements
from tvm_nnef.tir.expressions import nodes, variables


def test_indices_keep_the_variable_of_a_let() -> None:
    x = tirx.decl_buffer((4,), "float32", name="x")
    position = tirx.Var("position", "int32")
    element = x[position] - x[position + 1]
    value = tirx.Let(position, tirx.Cast("int32", x[0] - x[1]), element - x[2])
    changed = opaque_elements(value)
    assert not nodes(changed, tirx.Sub)
    (let,) = nodes(changed, tirx.Let)
    used = [each for each in variables(changed) if each.name == "position"]
    assert len(used) >= 2
    assert all(each.same_as(let.var) for each in used)
