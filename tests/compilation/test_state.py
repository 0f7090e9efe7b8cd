"""The state of an executable: threaded from call to call, read, set, reset and exported."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tvm_nnef.arguments.ports import TensorInfo
from tvm_nnef.compilation.pipeline import build_module
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.executable.loading import load
from tvm_nnef.graph.machine_types import assign
from tvm_nnef.graph.nodes import Graph, Operation, Port, Tensor
from tvm_nnef.lower import lower

COUNT, LAST = "main.G.counter.count", "main.G.last"


def counter(initial: int = 10) -> tvm.IRModule:
    """x: int[2] -> count + x, the last x; count becomes what is returned."""
    x = Tensor("main.G.x", "int", (2,), "input")
    total = Tensor("main.G.total", "int", (2,), "result")
    count, last = (Tensor(name, "int", (2,), "variable") for name in (COUNT, LAST))
    add = Operation(
        "math.add", {"lhs_align": None, "rhs_align": None}, {}, (count, x), (total,),
        ("int", "int"), ("int",), None, "add",
    )  # fmt: skip
    graph = Graph(
        "main.G", (Port("x", x),), (Port("total", total), Port("last", last)), (add,),
        variables=(count, last), updates=((count, total), (last, x)),
    )  # fmt: skip
    values = {COUNT: np.full(2, initial), LAST: np.zeros(2, "int32")}
    return lower(graph, machine_types=assign(graph), variables=values)


@pytest.fixture(scope="module")
def built():
    return build_module(counter())


@pytest.fixture
def executable(built):
    built.reset()
    return built


def pairs(results) -> list[list[int]]:
    return [array.tolist() for array in results]


def test_each_call_uses_and_replaces_the_state(executable):
    assert pairs(executable([1, 2])) == [[11, 12], [0, 0]]
    assert pairs(executable([1, 2])) == [[12, 14], [1, 2]]
    assert pairs(executable([5, 5])) == [[17, 19], [1, 2]]
    assert executable.state[COUNT].tolist() == [17, 19]
    assert executable.state[LAST].tolist() == [5, 5]


def test_the_state_is_described(executable):
    assert [TensorInfo(s["name"], tuple(s["shape"]), s["dtype"])
            for s in executable.metadata["state"]] == [
        TensorInfo(COUNT, (2,), "int32"), TensorInfo(LAST, (2,), "int32"),
    ]  # fmt: skip
    assert [port.name for port in executable.inputs] == ["x"]
    assert [port.name for port in executable.outputs] == ["total", "last"]
    assert list(executable.state) == [COUNT, LAST]
    assert COUNT in executable.state
    assert "main.G.x" not in executable.state


def test_what_is_set_is_used_by_the_next_call(executable):
    given = np.array([100, 200])
    executable.state[COUNT] = given
    given[:] = 0
    assert pairs(executable([1, 1]))[0] == [101, 201]
    executable.state[COUNT] = [7, 8]
    assert pairs(executable([0, 0]))[0] == [7, 8]


def test_what_is_read_is_a_copy(executable):
    executable.state[COUNT][:] = 5
    assert executable.state[COUNT].tolist() == [10, 10]


def test_reset_restores_what_the_model_was_made_with(executable):
    executable([1, 2])
    executable.reset()
    assert executable.state[COUNT].tolist() == [10, 10]
    assert pairs(executable([1, 2])) == [[11, 12], [0, 0]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("main.G.counter.cuont", [1, 2], "did you mean 'main.G.counter.count'"),
        (COUNT, [1, 2, 3], r"'main.G.counter.count': expected shape \(2\), got \(3\)"),
        (COUNT, np.ones(2), r"expected int \(int32\), got float64"),
        (COUNT, np.full(2, 1 << 40), "int32 cannot hold"),
    ],
)
def test_what_cannot_be_set(executable, name, value, message):
    with pytest.raises(NnefError, match=message):
        executable.state[name] = value
    assert executable.state[COUNT].tolist() == [10, 10]


def test_reading_an_unknown_variable_is_an_error(executable):
    with pytest.raises(NnefError, match="not a variable that @update changes"):
        executable.state["main.G.x"]


def test_wrong_inputs_and_benchmarks_leave_the_state(executable):
    with pytest.raises(NnefError):
        executable([1, 2, 3])
    executable.benchmark(repeat=2)
    assert executable.state[COUNT].tolist() == [10, 10]


def test_an_exported_library_starts_with_the_initial_values(executable, tmp_path):
    executable([1, 2])
    executable.export(tmp_path / "model.so")
    loaded = load(tmp_path / "model.so")
    assert loaded.metadata == executable.metadata
    assert pairs(loaded([1, 2])) == [[11, 12], [0, 0]]
    assert pairs(loaded([1, 2])) == [[12, 14], [1, 2]]
    loaded.state[COUNT] = [0, 0]
    assert pairs(loaded([3, 4])) == [[3, 4], [1, 2]]
    assert pairs(load(tmp_path / "model.so")([1, 2])) == [[11, 12], [0, 0]]
    assert executable.state[COUNT].tolist() == [11, 12]
