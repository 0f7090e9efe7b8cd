"""ONNX names tensors and nodes by any text; none of it reaches the names of compiled code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

NAMES = (
    "main", "metadata", "main_prepared", "initial_state", "Main", "MAIN", "a.b", "a_b", "a/b",
    "a:b", "_", "__", "é", "名前", "ﬁ", "😀", "x_1", "X", "x1", "0", "00", "1.5", "if", "int",
    "class", "None", "vm_load_executable", "self", "out", "input.1", "input_1", "input 1", "a\tb",
    "'q'", '"q"', "{x}", "\\", "%s", "..", "../x", "con", "ß", "İ", "real", "pi", "graph", "exp",
    "math", "extra", "e" * 2000,
)  # fmt: skip
X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]], np.float32)


def model() -> Any:
    """Chains of three, of which the last one is an output, then a branch and a matrix product."""
    kind = TensorProto.FLOAT
    nodes = [
        helper.make_node("Add", ["x" if n % 3 == 0 else NAMES[n - 1], "w.main"], [name], name=name)
        for n, name in enumerate(NAMES)
    ]
    branches = [
        helper.make_graph(
            [helper.make_node(operator, ["x"], [inner])],
            "main",
            [],
            [helper.make_tensor_value_info(inner, kind, [2, 3])],
        )
        for operator, inner in (("Neg", "main_then"), ("Exp", "metadata_"))
    ]
    nodes += [
        helper.make_node(
            "If", ["c"], ["main_if"], then_branch=branches[0], else_branch=branches[1]
        ),
        helper.make_node("MatMul", ["x", "main/w"], ["main_loop"]),
    ]
    outputs = [*NAMES[2::3], "main_if", "main_loop"]
    weights = {"w.main": np.ones((2, 3), np.float32), "main/w": np.eye(3, dtype=np.float32)}
    graph = helper.make_graph(
        nodes,
        "main",
        [
            helper.make_tensor_value_info("x", kind, [2, 3]),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info(name, kind, [2, 3]) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("route", ["mapped", "formula", "reference"])
def test_tensors_nodes_and_graphs_of_any_name(route: Any, tmp_path: Path) -> None:
    condition = np.array(False)
    if route == "reference":
        runs = [tvm_nnef.evaluate(model(), X, condition)]
    else:
        executable = tvm_nnef.build(model(), route=route, progress=False)
        executable.export(tmp_path / "model.so")
        loaded = tvm_nnef.load(tmp_path / "model.so")
        runs = [executable(X, condition), loaded(X, condition)]
    for found in runs:
        *chains, branch, product = found
        for tensor in chains:
            np.testing.assert_array_equal(tensor, X + 3)
        np.testing.assert_allclose(branch, np.exp(X), rtol=1e-6)
        np.testing.assert_allclose(product, X, rtol=1e-6)
