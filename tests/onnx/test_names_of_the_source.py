"""Names of the source in calls, options and files; names that are long, alike, or out of order."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.diagnostics import InputError, NnefError

onnx = pytest.importorskip("onnx")

Array = np.ndarray
X, B = np.ones((2, 3), np.float32), np.float32([1, 2, 3])


def node(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return onnx.helper.make_node(operator, inputs, outputs, **attributes)


@pytest.fixture(scope="module")
def proto() -> Any:
    """out:put/0 = in:put/0 + input.1 * 2, beside an output of a similar name."""
    ports = [
        onnx.helper.make_tensor_value_info(name, 1, [2, 3])
        for name in ("in:put/0", "in_put_0", "input.1")
    ]
    nodes = [node("Mul", ["input.1", "two"], ["d"]), node("Add", ["in:put/0", "d"], ["out:put/0"]),
             node("Sub", ["in_put_0", "d"], ["out_put_0"])]  # fmt: skip
    outputs = [onnx.helper.make_tensor_value_info(name, 1, [2, 3])
               for name in ("out:put/0", "out_put_0")]  # fmt: skip
    two = onnx.numpy_helper.from_array(np.float32(2), "two")
    graph = onnx.helper.make_graph(nodes, "net", ports, outputs, [two])
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


NAMED = {"in:put/0": X, "in_put_0": 5 * X, "input.1": 3 * X}


def check(outputs: Any) -> None:
    np.testing.assert_array_equal(outputs["out:put/0"], 7 * X)
    np.testing.assert_array_equal(outputs["out_put_0"], -X)


def test_every_call_takes_names_of_the_source(proto: Any, tmp_path: Path) -> None:
    check(tvm_nnef.evaluate(proto, NAMED))
    check(pickle.loads(pickle.dumps(tvm_nnef.evaluate(proto, NAMED))))
    executable = tvm_nnef.build(proto, progress=False)
    executable.export(tmp_path / "net.so")
    for each in (executable, executable.clone(), tvm_nnef.load(tmp_path / "net.so")):
        check(each(NAMED))
        check(each(**NAMED))
        found = np.from_dlpack(each.tensors(NAMED)["out:put/0"])
        np.testing.assert_array_equal(found, 7 * X)
        first = np.empty_like(X)
        each(NAMED, out={"out:put/0": first})
        np.testing.assert_array_equal(first, 7 * X)


def test_a_name_of_the_source_is_never_another_one_of_ours(proto: Any) -> None:
    """An input that has an identifier for a name keeps it, whatever comes before it."""
    assert list(tvm_nnef.convert(proto).inputs) == ["in_put_0_2", "in_put_0", "input_1"]


def test_names_of_the_source_in_options_of_composing(proto: Any) -> None:
    graph = tvm_nnef.compose(tvm_nnef.convert(proto), dtypes={"input.1": "float64"})
    assert [graph.machine_types[port.operand] for port in graph.inputs] == [
        "float32", "float32", "float64",
    ]  # fmt: skip


def test_mistakes_in_names(proto: Any) -> None:
    executable = tvm_nnef.build(proto, progress=False)
    with pytest.raises(InputError, match=r"no input 'input\.2'"):
        executable({**NAMED, "input.2": X})
    with pytest.raises(InputError, match="is given twice"):
        executable({**NAMED, "input_1": X})
    with pytest.raises(KeyError, match="there is no output 'out:put/1'"):
        executable(NAMED)["out:put/1"]


@pytest.mark.parametrize("form", ["files", "npz"])
def test_the_command_line_takes_names_of_the_source(
    form: str, proto: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(proto, "net.onnx")
    np.savez("all.npz", **NAMED)
    given = ["--input", "all.npz"]
    if form == "files":
        for number, (name, array) in enumerate(NAMED.items()):
            np.save(f"{number}.npy", array)
            given += ["--input", f"{name}={number}.npy"]
        given = given[2:]
    options = ["--route", "reference", "-o", "found.npz", "--quiet"]
    assert main(["run", "net.onnx", *given, *options]) == 0
    with np.load("found.npz") as found:
        np.testing.assert_array_equal(found["out_put_0_2"], 7 * X)


def test_long_names_and_names_that_differ_in_case(make_model: Any, tmp_path: Path) -> None:
    long = [f"{'layer/' * 60}{each}" for each in ("w", "v", "x", "y")]
    weights = {long[0]: B, long[1]: 2 * B, "Scale": 3 * B, "scale": 5 * B}
    nodes = [node("Add", [long[2], long[0]], ["a"]), node("Add", ["a", long[1]], ["b"]),
             node("Add", ["b", "Scale"], ["c"]),
             node("Add", ["c", "scale"], [long[3]])]  # fmt: skip
    inputs, outputs = [(long[2], "f4", [2, 3])], [(long[3], "f4", [2, 3])]
    model = tvm_nnef.convert(make_model(nodes, inputs, outputs, weights), tmp_path / "net")
    files = [each.name for each in (tmp_path / "net").glob("*.dat")]
    assert len({each.lower() for each in files}) == 4
    assert max(map(len, files)) < 255
    assert set(model.metadata.source_names.values()) >= set(weights)
    read = tvm_nnef.load_model(tmp_path / "net")
    outputs = tvm_nnef.evaluate(read, {long[2]: X})
    np.testing.assert_array_equal(outputs[long[3]], X + 11 * B)


def inner(nodes: list[Any]) -> Any:
    output = onnx.helper.make_tensor_value_info("z", 1, [2, 3])
    return onnx.helper.make_graph(nodes, "inner", [], [output])


def test_nodes_in_another_order_are_sorted(make_model: Any) -> None:
    yes = inner([node("Neg", ["s"], ["z"]), node("Add", ["p", "x"], ["s"])])
    no = inner([node("Identity", ["x"], ["z"])])
    proto = make_model(
        [
            node("Add", ["chosen", "q"], ["y"]),
            node("If", ["c"], ["chosen"], then_branch=yes, else_branch=no),
            node("Mul", ["p", "p"], ["q"]),
            node("Exp", ["x"], ["p"]),
        ],
        [("x", "f4", [2, 3]), ("c", "bool", [])],
        [("y", "f4", [2, 3])],
    )
    order = [each.op_type for each in proto.graph.node]
    with pytest.warns(tvm_nnef.NnefWarning, match="node '.*' .Add. reads '.*', which a later"):
        model = tvm_nnef.convert(proto)
    assert [each.op_type for each in proto.graph.node] == order
    e = np.exp(X)
    for condition, chosen in ((True, -(e + X)), (False, X)):
        (found,) = tvm_nnef.evaluate(model, X, condition)
        np.testing.assert_allclose(found, chosen + e * e, rtol=1e-6)


def test_a_cycle_is_named(make_model: Any) -> None:
    nodes = [
        node("Add", ["x", "c"], ["a"], name="first"),
        node("Neg", ["a"], ["b"]),
        node("If", ["t"], ["c"], then_branch=inner([node("Exp", ["b"], ["z"])]),
             else_branch=inner([node("Exp", ["x"], ["z"])])),
        node("Exp", ["c"], ["y"]),
    ]  # fmt: skip
    proto = make_model(nodes, [("x", "f4", [2, 3]), ("t", "bool", [])], [("y", "f4", [2, 3])])
    with pytest.raises(NnefError, match=r"'first' .Add. → 'b' .Neg. → 'c' .If. → 'first' .Add."):
        tvm_nnef.convert(proto)
