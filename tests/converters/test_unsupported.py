"""A valid model that cannot be converted is an UnsupportedError; an invalid one is a ModelError."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tvm_nnef

NNEF1 = """version 1.0;
{extensions}
graph g(x) -> (y)
{{
    x = external(shape = [4]);
    y = {operation};
}}
"""
OWN = "fragment own(x: tensor<scalar>) -> (y: tensor<scalar>);"

FORMULA = """
operator own {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @lower { y[i,] = x[i,] + x[n - 1 - i,], i < n; }
}

graph G {
    @input { x: real[4]; }
    @output { y: real[4]; }
    @compose { y = own(x); }
}
"""


def nnef1(operation: str) -> str:
    extensions = f"extension KHR_enable_fragment_definitions;\n{OWN}"
    return NNEF1.format(extensions=extensions, operation=operation)


def test_an_operation_without_a_converter() -> None:
    with pytest.raises(tvm_nnef.UnsupportedError, match="own"):
        tvm_nnef.convert(nnef1("own(x)"))


def test_a_mistake_is_reported_as_such() -> None:
    with pytest.raises(tvm_nnef.ModelError):
        tvm_nnef.convert(nnef1("onw(x)"))


def test_a_format_that_cannot_express_a_model(tmp_path: Path) -> None:
    with pytest.raises(tvm_nnef.UnsupportedError, match="cannot be exported to NNEF 1"):
        tvm_nnef.convert(FORMULA, tmp_path / "m.nnef1")


@pytest.fixture
def net() -> Any:
    """Makes an ONNX model of nodes from 'x' to 'y'."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    def make(*nodes: Any) -> Any:
        x, y = (helper.make_tensor_value_info(each, TensorProto.FLOAT, [4]) for each in "xy")
        graph = helper.make_graph([helper.make_node(*node) for node in nodes], "net", [x], [y])
        return onnx.helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])

    return make


UNKNOWN = ("Foo", ["x"], ["t"])


@pytest.mark.parametrize("call", [tvm_nnef.convert, tvm_nnef.compose, tvm_nnef.build])
def test_an_operator_of_onnx_without_a_converter(net: Any, call: Any) -> None:
    with pytest.raises(tvm_nnef.UnsupportedError) as caught:
        call(net(UNKNOWN, ("Bar", ["t"], ["y"])))
    assert len(caught.value.diagnostics) == 2


def test_an_invalid_node_beside_it_is_a_mistake_of_the_model(net: Any) -> None:
    with pytest.raises(tvm_nnef.ModelError) as caught:
        tvm_nnef.convert(net(UNKNOWN, ("Relu", ["x", "x"], ["y"])))
    assert len(caught.value.diagnostics) == 2
