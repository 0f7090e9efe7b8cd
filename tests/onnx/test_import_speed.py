"""How long importing takes, as a multiple of what others take for the same model in this process.

The goal is two seconds for ResNet-50 with its weights; a test cannot hold seconds on any machine.
Both sides are Python and NumPy, in processor time, so that neither load nor a slower machine
moves their ratio much.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

onnx = pytest.importorskip("onnx")
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
ROUNDS = 6


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def multiple(ours: Callable[[], object], theirs: Callable[[], object], most: float) -> float:
    """The quotient of the least times of both, in turns; further turns only where it is beyond."""
    least = [math.inf, math.inf]
    for turn in range(ROUNDS):
        for position, action in enumerate((ours, theirs)):
            least[position] = min(least[position], seconds(action))
        if turn and least[0] <= most * least[1]:
            break
    return least[0] / least[1]


@pytest.mark.slow
def test_nodes_are_imported_in_some_tens_of_times_what_an_evaluator_takes_to_look_at_them() -> None:
    """ONNX's reference evaluator makes an object of each node; measured: 29 to 33 times that."""
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(LIGHT / "light_resnet50.onnx")
    most = 65
    assert multiple(lambda: tvm_nnef.convert(model), lambda: ReferenceEvaluator(model), most) < most


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with 64 MiB of weights and one node."""
    weights = np.random.default_rng(0).standard_normal((1024, 16384), np.float32)
    info: Any = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "heavy",
        [info("x", 1, [4, 1024])], [info("y", 1, [4, 16384])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    path = tmp_path_factory.mktemp("heavy") / "model.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.slow
def test_weights_are_read_in_a_few_times_what_onnx_takes_to_read_them(heavy: Path) -> None:
    """Measured: 1.1 to 1.3 times."""

    def read() -> None:
        for tensor in onnx.load(heavy).graph.initializer:
            onnx.numpy_helper.to_array(tensor)

    assert multiple(lambda: tvm_nnef.convert(heavy), read, 3) < 3
