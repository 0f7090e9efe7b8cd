"""Variables that ``@update`` changes: the signature of ``main``, and updates inside of bodies."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tvm import relax

from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import If, Scan, Tensor
from tvm_nnef.lower import lower

W = "main.G.w"


@pytest.fixture
def w() -> Tensor:
    return Tensor(W, "real", (), "variable")


@pytest.mark.parametrize("keep", [False, True])
def test_main_takes_and_returns_the_state_after_all_else(m, w, keep):
    x, fixed = m.input(), Tensor("main.G.fixed", "real", (), "variable")
    following = m.call("add", w, x)
    scaled = m.call("mul", w, fixed)
    made = m.graph(m.made, [x], [scaled], [fixed, w], [(w, following)])
    values = {W: np.array(5.0), "main.G.fixed": np.array(3.0)}
    mod = lower(made, machine_types=assign(made), variables=values, keep_params_in_input=keep)
    main = mod["main"]
    names = [parameter.name for parameter in main.params]
    assert names == (["x0", "fixed", "w"] if keep else ["x0", "w"])
    assert (int(main.attrs["num_input"]), int(main.attrs["num_state"])) == (1, 1)
    assert len(main.ret_ty.fields) == 2
    assert json.loads(main.attrs["nnef_ports"])["state"] == [{"name": W, "items": None}]
    _, params = relax.frontend.detach_params(mod)
    assert [p.numpy().item() for p in params.get("main", [])] == ([3.0] if keep else [])


def test_no_state_without_updates(m, w):
    x = m.input()
    made = m.graph([], [x], [x], [w])
    mod = lower(made, machine_types=assign(made), variables={W: np.zeros(())})
    assert "num_state" not in mod["main"].attrs
    assert [v.name_hint for v in mod.get_global_vars()] == ["main"]


@pytest.mark.parametrize("keep", [False, True])
def test_outputs_read_the_old_value(m, make, w, keep):
    x, fixed = m.input(), Tensor("main.G.fixed", "real", (), "variable")
    following = m.call("add", w, x)
    scaled = m.call("mul", w, fixed)
    made = m.graph(m.made, [x], [scaled], [fixed, w], [(w, following)])
    values = {W: np.array(5.0), "main.G.fixed": np.array(3.0)}
    exe = make.compiled(made, variables=values, keep_params_in_input=keep)
    assert [float(exe(step)[0]) for step in (1, 10, 100)] == [15, 18, 48]
    assert exe.state == {W: 116}


def test_a_variable_may_become_an_input_another_variable_or_itself(m, make, w):
    v, u = (Tensor(f"main.G.{name}", "real", (), "variable") for name in "vu")
    x = m.input()
    made = m.graph([], [x], [w, v, u], [w, v, u], [(w, x), (v, w), (u, u)])
    exe = make.compiled(made, variables={W: 1.0 * np.ones(()), "main.G.v": np.array(2.0),
                                         "main.G.u": np.array(3.0)})  # fmt: skip
    rows = [[float(value) for value in exe(step)] for step in (7, 8, 9)]
    assert rows == [[1, 2, 3], [7, 1, 3], [8, 7, 3]]


def test_new_values_have_the_dtype_of_the_variable(m, make):
    w = Tensor(W, "int", (), "variable")
    x = m.input((), "int")
    made = m.graph([], [x], [x], [w], [(w, x)])
    exe = make.compiled(made, variables={W: np.array(1)}, named={W: "int8"})
    exe(300)
    assert exe.state[W].dtype == "int8"
    assert exe.state[W] == 44


def test_an_operator_updates_its_own_variable(m, make, w):
    x, y = m.input(), m.tensor()
    following = m.call("add", w, x)
    body = m.body([x], [w], [w], [(w, following)])
    made = m.graph([make.operation("my.delay", [x], [y], body)], [x], [y], [w])
    exe = make.compiled(made, variables={W: np.array(0.0)})
    assert [float(exe(step)[0]) for step in (1, 2, 3)] == [0, 1, 3]


def test_a_branch_updates_only_where_it_is_taken(m, make, w):
    condition, x = m.input((), "bool"), m.input()
    following = m.call("add", w, x)
    consequent = m.body([x], [following], [w], [(w, following)])
    node = If(condition, consequent, m.body([x], [x]), (m.tensor(),))
    made = m.graph([node], [condition, x], node.results, [w])
    exe = make.compiled(made, variables={W: np.array(0.0)})
    calls = ((True, 2), (False, 5), (True, 3))
    results = [float(exe(taken, number)[0]) for taken, number in calls]
    assert results == [2, 5, 5]
    assert exe.state[W] == 5


@pytest.mark.parametrize("items", [0, 3, 4, 20])
def test_a_loop_updates_with_the_last_step_that_does(m, make, w, items):
    """In each step in which the item is positive: w becomes the item plus its old value."""
    xs, item = tuple(m.input() for _ in range(items)), m.input()
    start, total = m.input(), m.input()
    zero = m.constant(0.0)
    positive = m.call("gt", item, zero, kind="bool")
    added = m.call("add", total, w)
    before, m.made = m.made, []
    following = m.call("add", w, item)
    consequent = m.body([item], [following], [w], [(w, following)])
    node = If(positive, consequent, m.body([item], [item]), (m.tensor(),))
    m.made = [*before, node]
    loop = m.loop(m.body([total, item], [added], [w]), [total], [start], [Scan(item, xs)])
    made = m.graph([loop], [xs, start], loop.results, [w])
    exe = make.compiled(made, variables={W: np.array(2.0)})
    state, data = 2.0, [float(k + 1) if k % 2 == 0 else -1.0 for k in range(items)]
    for _ in range(3):
        # The body reads the old value in every step.
        assert exe(data, 0.0)[0] == items * state
        positives = [value for value in data if value > 0]
        state = state + positives[-1] if positives else state
        assert exe.state[W] == state
