"""Small files that ask for much: refused, or converted to what computes it at run time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
node, helper = onnx.helper.make_node, onnx.helper
LONG = 10**9


def model(
    nodes: Sequence[Any],
    inputs: Sequence[tuple[str, int, Any]] = (),
    constants: dict[str, Any] | None = None,
    sparse: Sequence[Any] = (),
    opset: int = 17,
) -> Any:
    weights = [onnx.numpy_helper.from_array(np.asarray(value), name)
               for name, value in (constants or {}).items()]  # fmt: skip
    info = helper.make_tensor_value_info
    outputs = [info("y", 1, None)]
    graph = helper.make_graph(
        list(nodes), "net", [info(*each) for each in inputs], outputs, weights,
        sparse_initializer=list(sparse),
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def sparse(*dims: int) -> Any:
    value, position = helper.make_tensor("s", 1, [1], [2.0]), helper.make_tensor("p", 7, [1], [0])
    return helper.make_sparse_tensor(value, position, list(dims))


def _reshaped_to_a_shape() -> Any:
    """The length of the shape only follows from a reshape."""
    nodes = [node("Reshape", ["x", "m"], ["s"]), node("Expand", ["one", "s"], ["y"])]
    return model(nodes, [("one", 1, [1]), ("x", 7, [10**5, 10**4])], {"m": [-1]})


def _unrolled() -> Any:
    """A loop whose state grows, so that its steps are written out."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Concat", ["s", "x"], ["t"], axis=0), node("Identity", ["go"], ["on"])], "body",
        [info("i", 7, []), info("go", 9, []), info("s", 1, None)],
        [info("on", 9, []), info("t", 1, None)],
    )  # fmt: skip
    return model([node("Loop", ["n", "", "x"], ["y"], body=body)], [("x", 1, [3])], {"n": LONG})


def _inside_a_loop() -> Any:
    """A long shape in one body, under a name that is a short one in the body of another loop."""
    info = helper.make_tensor_value_info

    def loop(made: Any, state: str) -> Any:
        nodes = [made, node("Expand", ["one", "s"], ["e"]),
                 node("ReduceSum", ["e"], ["r"], keepdims=0), node("Add", ["c", "r"], ["d"]),
                 node("Identity", ["go"], ["on"])]  # fmt: skip
        body = helper.make_graph(
            nodes, "body", [info("i", 7, []), info("go", 9, []), info("c", 1, [])],
            [info("on", 9, []), info("d", 1, [])],
        )  # fmt: skip
        return node("Loop", ["n", "", "z"], [state], body=body)

    loops = [loop(node("Reshape", ["x", "m"], ["s"]), "y"), loop(node("Abs", ["k"], ["s"]), "w")]
    inputs = [("one", 1, [1]), ("x", 7, [10**5, 10**4]), ("n", 7, []), ("z", 1, [])]
    return model(loops, inputs, {"m": [-1], "k": [2]})


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    **{f"a shape of {length} elements": (
        lambda length=length: model([node("Expand", ["x", "s"], ["y"])],
                                    [("x", 1, [1]), ("s", 7, [length])]),
        f"its input 's' has {length} elements for the dimensions") for length in (65536, LONG)},
    "a long shape that is cast": (
        lambda: model([node("Cast", ["x"], ["s"], to=7), node("Expand", ["one", "s"], ["y"])],
                      [("one", 1, [1]), ("x", 1, [LONG])]),
        "its input 's' has 1000000000 elements"),
    "a long shape that is reshaped": (_reshaped_to_a_shape, "its input 's' has 1000000000 elem"),
    "a long shape inside a loop": (_inside_a_loop, "its input 's' has 1000000000 elem"),
    "long axes": (lambda: model([node("ReduceSum", ["x", "a"], ["y"])],
                                [("x", 1, [3, 4]), ("a", 7, [LONG])]),
                  "its input 'a' has 1000000000 elements"),
    "long starts": (lambda: model([node("Slice", ["x", "a", "a"], ["y"])],
                                  [("x", 1, [3, 4]), ("a", 7, [LONG])]),
                    "its input 'a' has 1000000000 elements"),
    "many axes": (lambda: model([node("Unsqueeze", ["x"], ["y"], axes=list(range(65536)))],
                                [("x", 1, [1])], opset=11), "its result 'y' has 65537 dimensions"),
    "an input of many dimensions": (
        lambda: model([node("Relu", ["x"], ["y"])], [("x", 1, [1] * 65536)]),
        "input 'x' has 65536 dimensions"),
    "a sparse tensor": (lambda: model([node("Relu", ["s"], ["y"])], sparse=[sparse(10**12)]),
                        "sparse tensors of the model take 4000000000000 bytes"),
    "a sparse matrix": (lambda: model([node("Relu", ["s"], ["y"])], sparse=[sparse(40000, 40000)]),
                        "sparse tensors of the model take 6400000000 bytes"),
    "a sparse constant": (
        lambda: model([node("Constant", [], ["y"], sparse_value=sparse(10**12))]),
        "sparse tensors of the model take 4000000000000 bytes"),
    "many parts": (lambda: model([node("Split", ["x"], ["y", "z"], num_outputs=LONG)],
                                 [("x", 1, [LONG])], opset=18),
                   "'num_outputs' is 1000000000, but it has 2 outputs"),
    "many steps": (_unrolled, "changes the shapes of what it carries, in 1000000000 steps"),
    "a range without steps": (lambda: model([node("Range", ["a", "b", "a"], ["y"])],
                                            constants={"a": 0, "b": 10**12}), "its step is 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(NnefError, match=words) as caught:
        tvm_nnef.convert(make())
    assert all(each.hint for each in caught.value.diagnostics)


COMPUTED_LATER: dict[str, Callable[[], Any]] = {
    "a range": lambda: model([node("Range", ["a", "b", "c"], ["y"])],
                             constants={"a": 0, "b": 10**12, "c": 1}),
    "a range of tiny steps": lambda: model(
        [node("Range", ["a", "b", "c"], ["y"])],
        constants={name: np.float32(x) for name, x in {"a": 0, "b": 1e30, "c": 1e-30}.items()}),
    "equal elements": lambda: model([node("ConstantOfShape", ["n"], ["y"])],
                                    constants={"n": [10**6, 10**6]}),
    "a tile": lambda: model([node("Tile", ["x", "n"], ["y"])],
                            constants={"x": np.ones(2, np.float32), "n": [10**12]}),
    "a diagonal": lambda: model([node("EyeLike", ["x"], ["y"])], [("x", 1, [10**6, 10**6])]),
    "a sum of many products": lambda: model(
        [node("Einsum", ["x"] * 10, ["y"], equation=",".join("abcdefghij") + "->")],
        constants={"x": np.ones(64, np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED_LATER)
def test_left_to_run_time(name: str) -> None:
    """Nothing of the size of the result is made."""
    converted = tvm_nnef.convert(COMPUTED_LATER[name]())
    assert sum(array.nbytes for array in converted.variables.values()) < 1000


SEQUENCES: dict[str, tuple[Sequence[Any], Any, str]] = {
    "a scalar": ([node("SplitToSequence", ["x"], ["q"])], [], "'axis' is 0, and the rank is 0"),
    "too many parts": ([node("SplitToSequence", ["x"], ["q"])], [LONG],
                       "the sequence has 1000000000 items"),
    "parts of nothing": ([node("SplitToSequence", ["x", "zero"], ["q"])], [10],
                         "it splits into parts of size 0"),
    "parts that are too long": ([node("SplitToSequence", ["x", "sizes"], ["q"])], [10],
                                "it splits 10 elements into parts of 9 in all"),
    "a negative part": ([node("SplitToSequence", ["x", "negative"], ["q"])], [10],
                        "a part has the size -2"),
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_that_cannot_be(name: str) -> None:
    nodes, shape, words = SEQUENCES[name]
    last = node("SequenceAt", ["q", "zero"], ["y"])
    constants = {"zero": 0, "sizes": [4, 5], "negative": [12, -2]}
    with pytest.raises(NnefError, match=words):
        tvm_nnef.convert(model([*nodes, last], [("x", 1, shape)], constants))


@pytest.mark.parametrize("axis", [2, -3, 5, -9])
def test_axes_that_sequences_do_not_have(axis: int) -> None:
    nodes = [node("SequenceConstruct", ["x", "x"], ["q"]),
             node("ConcatFromSequence", ["q"], ["y"], axis=axis)]  # fmt: skip
    with pytest.raises(NnefError, match=f"'axis' is {axis}, and the rank is 2"):
        tvm_nnef.convert(model(nodes, [("x", 1, [2, 3])]))


def test_a_version_of_the_format_beyond_all() -> None:
    proto = model([node("Pad", ["x"], ["y"])], [("x", 1, [3])], opset=6)
    proto.ir_version = 2**63 - 1
    with pytest.raises(NnefError, match="'pads' is missing"):
        tvm_nnef.convert(proto)
    bad = model([node("Softmax", ["x"], ["y"], axis=7)], [("x", 1, [3])])
    bad.ir_version = 2**63 - 1
    with pytest.raises(NnefError, match="not valid ONNX"):
        tvm_nnef.convert(bad)


def test_an_attribute_of_a_function_outside_of_one() -> None:
    proto = model([node("LeakyRelu", ["x"], ["y"], alpha=0.5)], [("x", 1, [3])])
    proto.graph.node[0].attribute[0].ref_attr_name = "slope"
    with pytest.raises(NnefError, match="'alpha' refers to one of a function"):
        tvm_nnef.convert(proto)


@pytest.mark.slow
def test_many_inputs_take_linear_time(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x0"], ["y"])], [(f"x{i}", 1, [2, 3]) for i in range(12000)])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    command = [sys.executable, "-m", "tvm_nnef", "convert", "m.onnx", "out"]
    assert subprocess.run(command, cwd=tmp_path, timeout=200, check=False).returncode == 0


def test_shapes_that_an_operator_does_not_expect() -> None:
    """A converter that trips over the shapes of its inputs says which they are."""
    names = ["x", "w", "r", "b"]
    inputs = [("x", 1, [1, 2, 4]), ("w", 1, [1, 12, 4]), ("r", 1, [1, 12, 3]), ("b", 1, [1])]
    lstm = node("LSTM", names, ["y"], hidden_size=3)
    with pytest.raises(NnefError, match=r"it cannot be converted with these inputs: .*'b' float32"):
        tvm_nnef.convert(model([lstm], inputs))


@pytest.mark.parametrize("opset", [11, 13])
def test_a_slice_at_computed_positions_inside_a_loop(opset: int) -> None:
    """The declared shape of what the body gives decides on that of the slice."""
    info = helper.make_tensor_value_info
    # Since opset 13 the axis is a constant, here one outside of the body.
    first = node("Unsqueeze", ["i"], ["a"], axes=[0])
    if opset == 13:
        first = node("Unsqueeze", ["i", "zero"], ["a"])
    nodes = [first, node("Add", ["a", "one"], ["b"]),
             node("Slice", ["x", "a", "b", "zero"], ["s"]), node("Add", ["c", "s"], ["d"]),
             node("Identity", ["go"], ["on"])]  # fmt: skip
    body = helper.make_graph(
        nodes, "body", [info("i", 7, []), info("go", 9, []), info("c", 1, [1])],
        [info("on", 9, []), info("d", 1, [1])],
    )  # fmt: skip
    made = model(
        [node("Loop", ["n", "", "c0"], ["y"], body=body)],
        [("x", 1, [5]), ("n", 7, []), ("c0", 1, [1])], {"one": [1], "zero": [0]}, opset=opset,
    )  # fmt: skip
    x = np.arange(5, dtype=np.float32)
    found = tvm_nnef.evaluate(tvm_nnef.convert(made), x, np.array(4), np.ones(1, np.float32))
    np.testing.assert_array_equal(found[0], [7])
