"""Constant nodes become variables of any size, type and position, or numbers in the text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
node, helper = onnx.helper.make_node, onnx.helper
LARGE = 70_001
"""More than 2**16, which constant folding does not compute."""
DTYPES = ("float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
          "uint16", "uint32", "uint64", "bool")  # fmt: skip
POSITIONS = np.array([1, LARGE - 1, 3])


def numbers(dtype: str = "float32") -> np.ndarray:
    if dtype == "bfloat16":
        import ml_dtypes

        return (np.arange(LARGE) % 7).astype(ml_dtypes.bfloat16)
    return (np.arange(LARGE) % 7).astype(dtype)


def constant(array: np.ndarray, name: str = "c") -> Any:
    return node("Constant", [], [name], value=onnx.numpy_helper.from_array(array))


def picked(make_model: Any, *nodes: Any, dtype: str = "float32", **more: Any) -> np.ndarray:
    """Three elements of the constant ``c``, as the evaluator gives them."""
    picks = node("Gather", ["c", "i"], ["y"])
    inputs, outputs = [("i", "int64", [3])], [("y", dtype, [3])]
    model = tvm_nnef.convert(make_model([*nodes, picks], inputs, outputs, **more))
    assert len(model.variables) == 1
    return tvm_nnef.evaluate(model, POSITIONS)[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_constants_of_every_type(make_model: Any, dtype: str) -> None:
    array = numbers(dtype)
    proto = make_model([constant(array), node("Gather", ["c", "i"], ["y"])],
                       [("i", "int64", [3])], [("y", "float32", [3])])  # fmt: skip
    number = onnx.numpy_helper.from_array(array).data_type
    proto.graph.output[0].type.tensor_type.elem_type = number
    model = tvm_nnef.convert(proto)
    (found,) = tvm_nnef.evaluate(model, POSITIONS)
    assert list(model.variables) == ["main.net.c"]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array[POSITIONS])


@pytest.mark.parametrize(("attribute", "dtype"), [
    ("value_floats", "float32"), ("value_ints", "int64"), ("sparse_value", "float32"),
])  # fmt: skip
def test_large_constants_in_other_attributes(make_model: Any, attribute: str, dtype: str) -> None:
    array = numbers(dtype)
    value: Any = array.tolist()
    if attribute == "sparse_value":
        positions = np.flatnonzero(array)
        value = helper.make_sparse_tensor(
            onnx.numpy_helper.from_array(array[positions]),
            onnx.numpy_helper.from_array(positions),
            [LARGE],
        )
    found = picked(make_model, node("Constant", [], ["c"], **{attribute: value}), dtype=dtype)
    np.testing.assert_array_equal(found, array[POSITIONS])


def test_an_identity_of_a_large_initializer(make_model: Any) -> None:
    copy = node("Identity", ["w"], ["c"])
    found = picked(make_model, copy, constants={"w": numbers()})
    np.testing.assert_array_equal(found, numbers()[POSITIONS])


def test_a_large_constant_of_one_value_is_not_stored(make_model: Any) -> None:
    shape = np.array([LARGE], np.int64)
    full = node("ConstantOfShape", ["s"], ["c"], value=helper.make_tensor("v", 1, [1], [2.5]))
    proto = make_model([full, node("Gather", ["c", "i"], ["y"])], [("i", "int64", [3])],
                       [("y", "float32", [3])], {"s": shape})  # fmt: skip
    model = tvm_nnef.convert(proto)
    assert not model.variables
    np.testing.assert_array_equal(tvm_nnef.evaluate(model, POSITIONS)[0], [2.5] * 3)


def graph_of(nodes: Any, inputs: Any, outputs: Any) -> Any:
    info = helper.make_tensor_value_info
    return helper.make_graph(nodes, "inner", [info(*each) for each in inputs],
                             [info(*each) for each in outputs])  # fmt: skip


def test_large_constants_in_branches(make_model: Any) -> None:
    bodies = {
        name: graph_of([constant(numbers() + shift), node("Gather", ["c", "i"], ["r"])],
                       [], [("r", 1, [3])])
        for name, shift in (("then_branch", 0), ("else_branch", 10))
    }  # fmt: skip
    inputs = [("b", "bool", []), ("i", "int64", [3])]
    proto = make_model([node("If", ["b"], ["y"], **bodies)], inputs, [("y", "float32", [3])])
    model = tvm_nnef.convert(proto)
    for condition, shift in ((True, 0), (False, 10)):
        (found,) = tvm_nnef.evaluate(model, np.array(condition), POSITIONS)
        np.testing.assert_array_equal(found, numbers()[POSITIONS] + shift)


def test_large_constants_in_loops(make_model: Any) -> None:
    body = graph_of(
        [constant(numbers()), node("Gather", ["c", "i"], ["r"]), node("Add", ["s", "r"], ["t"]),
         node("Identity", ["go"], ["on"])],
        [("k", 7, []), ("go", 9, []), ("s", 1, [3])], [("on", 9, []), ("t", 1, [3])],
    )  # fmt: skip
    proto = make_model([node("Loop", ["n", "", "x"], ["y"], body=body)],
                       [("n", "int64", []), ("x", "float32", [3]), ("i", "int64", [3])],
                       [("y", "float32", [3])])  # fmt: skip
    x = np.ones(3, np.float32)
    (found,) = tvm_nnef.evaluate(tvm_nnef.convert(proto), np.array(4), x, POSITIONS)
    np.testing.assert_array_equal(found, x + 4 * numbers()[POSITIONS])


def test_large_constants_in_functions(make_model: Any) -> None:
    proto = make_model([node("Table", ["i"], ["y"], domain="own")], [("i", "int64", [3])],
                       [("y", "float32", [3])])  # fmt: skip
    body = [constant(numbers()), node("Gather", ["c", "i"], ["y"])]
    imports = [helper.make_opsetid("", 17)]
    proto.functions.append(helper.make_function("own", "Table", ["i"], ["y"], body, imports))
    (found,) = tvm_nnef.evaluate(tvm_nnef.convert(proto), POSITIONS)
    np.testing.assert_array_equal(found, numbers()[POSITIONS])


@pytest.mark.parametrize(("attributes", "words"), [
    ({"value_strings": ["a", "b"]}, "its value is text"),
    ({"value_int": 1, "value_float": 1.0}, "it has 2 values, not 1"),
    ({}, "it has 0 values, not 1"),
    ({"value": helper.make_tensor("t", onnx.TensorProto.COMPLEX64, [1], [1j])},
     "its attribute 'value': .* elements of type complex64"),
])  # fmt: skip
def test_what_is_not_a_constant(make_model: Any, attributes: Any, words: str) -> None:
    proto = make_model([node("Constant", [], ["y"], **attributes)], [], [("y", "float32", [1])])
    with pytest.raises(NnefError, match=words):
        tvm_nnef.convert(proto)
