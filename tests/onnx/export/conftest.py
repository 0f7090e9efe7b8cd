"""A model exported, checked by onnx, run by ONNX Runtime, and held against the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.graph.nodes import Graph

TOLERANCES = {"float16": 2e-3, "float32": 1e-4, "float64": 1e-10}


def flat(values: Any) -> list[Any]:
    """Inputs or outputs with the items of packs in their place."""
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def stacked(graph: Graph, values: Any, exported: Any) -> list[Any]:
    """The values of outputs; a pack of dynamic length is one array, as it is in ONNX."""
    return [
        np.array(value or other) if port.stacked else value
        for port, value, other in zip(graph.outputs, values, exported, strict=False)
    ]


def run(proto: Any, inputs: Any) -> list[Any]:
    """What ONNX Runtime makes of a model that onnx has checked, as numbers by position."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    onnx.checker.check_model(proto, full_check=True)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in proto.graph.input]
    feeds = dict(zip(names, map(np.asarray, flat(inputs)), strict=False))
    return list(session.run(None, feeds))


def assert_close(name: str, actual: Any, expected: Any) -> None:
    """Type and shape are the same, whole numbers and truth values too, reals nearly."""
    assert actual.dtype == expected.dtype, name
    assert actual.shape == expected.shape, name
    tolerance = TOLERANCES.get(str(expected.dtype), 0)
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance / 10, err_msg=name)


@pytest.fixture
def onnx_run() -> Callable[..., list[Any]]:
    """Run a ModelProto on inputs."""
    return run


@pytest.fixture
def exported() -> Callable[..., Any]:
    """Export a model, and compare what ONNX Runtime gives with the evaluator.

    Takes the model, its inputs as ``evaluate`` does, and options of ``compose``; gives the
    ModelProto.
    """
    pytest.importorskip("onnx")
    from tvm_nnef.converters.onnx.export import export

    def check(
        model: Any, *inputs: Any, variables: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        loaded = tvm_nnef.load_model(model)
        graph = tvm_nnef.compose(loaded, **options)
        assert isinstance(graph, Graph)
        values = loaded.variables if variables is None else variables
        proto = export(graph, values)
        found = tvm_nnef.evaluate(graph, *inputs, variables=values)
        actual = run(proto, inputs)
        expected = flat(stacked(graph, found, actual))
        names = [each.name for each in proto.graph.output]
        for name, found, wanted in zip(names, actual, expected, strict=False):
            assert_close(name, found, wanted)
        return proto

    return check
