"""The walk over a graph: ports, variables, routes, composites, user functions, errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_nnef.diagnostics import NnefError
from tvm_nnef.graph.formula import (
    Binary,
    Constant,
    Fill,
    Formula,
    Index,
    Load,
    Loop,
    Statement,
    Store,
    Subscript,
)
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import Graph, Port, Tensor
from tvm_nnef.lower import LoweringError, lower


def doubled(x: Tensor, y: Tensor, factor: float = 2.0) -> Formula:
    indices = tuple(Subscript(Index(f"i{n}")) for n in range(y.rank))
    loops = tuple(Loop(Index(f"i{n}"), Constant("int", e)) for n, e in enumerate(y.shape))
    value = Binary("mul", Load(x, indices), Constant("real", factor))
    statement = Statement(loops, (Store(y, indices, "=", value),))
    return Formula((Fill(y, Constant("real", 0.0)),), (statement,))


def lowered(graph: Graph, variables=None, **options) -> tvm.IRModule:
    return lower(graph, machine_types=assign(graph), variables=variables or {}, **options)


def test_packs_are_parameters_with_unique_names_and_attributes_list_them(make):
    a, b, c = (make.tensor(name, (2,)) for name in "abc")
    graph = Graph("G", (Port("x", (a, b)), Port("x_0", c)), (Port("y", (b, a)), Port("z", c)), ())
    main = lowered(graph)["main"]
    assert [parameter.name for parameter in main.params] == ["x_0", "x_1", "x_0_1"]
    assert json.loads(main.attrs["nnef_ports"]) == {
        "inputs": [{"name": "x", "items": 2}, {"name": "x_0", "items": None}],
        "outputs": [{"name": "y", "items": 2}, {"name": "z", "items": None}],
    }
    assert int(main.attrs["num_input"]) == 3


def test_packs_are_lists_on_the_way_in_and_out(make):
    a, b = make.tensor("a", (2,)), make.tensor("b", (3,))
    graph = Graph("G", (Port("x", (a, b)),), (Port("y", (b, a)), Port("z", a)), ())
    first, second = np.array([1, 2], "float32"), np.array([3, 4, 5], "float32")
    pack, single = make.compiled(graph)([first, second])
    assert isinstance(pack, list)
    np.testing.assert_array_equal(pack[0], second)
    np.testing.assert_array_equal(pack[1], first)
    np.testing.assert_array_equal(single, first)


@pytest.mark.parametrize("keep", [False, True])
def test_variables_are_constants_or_parameters_that_can_be_detached(make, keep):
    x, w, y = (
        make.tensor("x", (3,)),
        make.tensor("w", (3,), role="variable"),
        make.tensor("y", (3,)),
    )
    add = make.operation("math.add", (x, w), (y,), lhs_align=None, rhs_align=None)
    graph = make.graph([add], [x], [y], [w])
    weight = np.array([1, 2, 3], "float64")
    mod = lowered(graph, {"main.G.w": weight}, keep_params_in_input=keep)
    assert len(mod["main"].params) == (2 if keep else 1)
    _, params = relax.frontend.detach_params(mod)
    assert [p.numpy().dtype.name for p in params.get("main", [])] == (["float32"] if keep else [])
    exe = make.compiled(graph, variables={"main.G.w": weight}, keep_params_in_input=keep)
    np.testing.assert_array_equal(exe(np.ones(3, "float32"))[0], [2, 3, 4])


@pytest.mark.parametrize(
    ("variables", "message"),
    [({}, "variable 'main.G.w' has no value"),
     ({"main.G.w": np.zeros(4)}, r"variable 'main.G.w' has shape \(3,\), its value \(4,\)")],
)  # fmt: skip
def test_missing_and_misshapen_variables_are_named(make, variables, message):
    w = make.tensor("w", (3,), role="variable")
    with pytest.raises(NnefError, match=message):
        lowered(make.graph([], [], [w], [w]), variables)


def test_mapped_route_uses_relax_and_formula_route_the_body(make):
    x, y = make.tensor("x", (2, 3)), make.tensor("y", (2, 3))
    graph = make.graph([make.operation("math.neg", [x], [y], doubled(x, y, -1.0))], [x], [y])
    mapped, formula = lowered(graph), lowered(graph, route="formula")
    assert [v.name_hint for v in mapped.get_global_vars()] == ["main"]
    assert {v.name_hint for v in formula.get_global_vars()} == {"main", "math_neg"}
    data = np.arange(6, dtype="float32").reshape(2, 3)
    for route in ("mapped", "formula"):
        np.testing.assert_array_equal(make.compiled(graph, route=route)(data)[0], -data)


def test_equal_formulas_share_one_kernel(make):
    x, y, z = (make.tensor(name, (4,)) for name in "xyz")
    twice = [
        make.operation("my.double", [x], [y], doubled(x, y)),
        make.operation("my.double", [y], [z], doubled(y, z)),
    ]
    mod = lowered(make.graph(twice, [x], [z]))
    assert {v.name_hint for v in mod.get_global_vars()} == {"main", "my_double"}


def test_composite_without_a_mapping_is_opened(make):
    x, inner, y = (make.tensor(name, (3,)) for name in ("x", "inner", "y"))
    body = Graph(
        "body", (Port("x", x),), (Port("y", inner),),
        (make.operation("my.double", [x], [inner], doubled(x, inner)),),
    )  # fmt: skip
    graph = make.graph([make.operation("my.outer", [x], [y], body)], [x], [y])
    np.testing.assert_array_equal(make.compiled(graph)(np.ones(3, "float32"))[0], [2, 2, 2])


def test_functions_of_the_user_come_first_and_may_decline(make):
    x, y = make.tensor("x", (3,)), make.tensor("y", (3,))
    graph = make.graph([make.operation("math.neg", [x], [y], doubled(x, y))], [x], [y])
    seen = []

    def squared(builder, operation, operands):
        seen.append(operation.operator)
        return relax.op.square(operands[0])

    exe = make.compiled(graph, lowerings={"math.neg": squared})
    np.testing.assert_array_equal(exe(np.full(3, 3.0))[0], [9, 9, 9])
    assert seen == ["math.neg"]
    declining = make.compiled(graph, lowerings={"math.neg": lambda *_: None})
    np.testing.assert_array_equal(declining(np.full(3, 3.0))[0], [-3, -3, -3])


def test_wrong_shape_of_a_users_function_is_the_users_error(make):
    x, y = make.tensor("x", (3,)), make.tensor("y", (3,))
    graph = make.graph([make.operation("my.op", [x], [y])], [x], [y])
    with pytest.raises(NnefError, match=r"gave float32\[1\] for 'main.G.y'.* float32\[3\]"):
        lowered(graph, lowerings={"my.op": lambda b, o, xs: relax.op.sum(xs[0], 0, True)})


def test_result_of_another_shape_than_the_graphs_is_an_internal_error(make):
    x, y = make.tensor("x", (3,)), make.tensor("y", (4,))
    graph = make.graph([make.operation("math.neg", [x], [y])], [x], [y])
    with pytest.raises(LoweringError, match=r"math\.neg"):
        lowered(graph)


def test_operator_without_body_and_lowering_is_an_error_with_a_hint(make):
    x, y = make.tensor("x", (3,)), make.tensor("y", (3,))
    with pytest.raises(NnefError, match=r"operator 'my\.magic' has no body and no lowering"):
        lowered(make.graph([make.operation("my.magic", [x], [y])], [x], [y]))


def test_constants_and_null_results(make):
    x, y = make.tensor("x", (2, 2)), make.tensor("y", (2, 2))
    listed = Tensor("main.G.c", "real", (2, 2), "constant", (1.0, 2.0, 3.0, 4.0))
    uniform = Tensor("main.G.u", "real", (), "constant", 10.0)
    total = make.tensor("t", (2, 2))
    operations = [
        make.operation("math.add", (x, listed), (total,), lhs_align=None, rhs_align=None),
        make.operation("math.mul", (total, uniform), (y,), lhs_align=None, rhs_align=None),
    ]
    exe = make.compiled(make.graph(operations, [x], [y]))
    np.testing.assert_array_equal(exe(np.zeros((2, 2)))[0], [[10, 20], [30, 40]])
