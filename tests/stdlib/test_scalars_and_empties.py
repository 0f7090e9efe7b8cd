"""Module layout at its smallest: tensors of rank 0, dimensions of 0, no dimensions, no tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError

SCALARS: list[Any] = [np.array(2.5, np.float32), np.array(-7, np.int32), np.array(True)]
NONE, CUBE = np.zeros(0, np.float32), np.zeros((2, 0, 3), np.float32)
ONE, MATRIX = np.ones(1, np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)


def scalars() -> list[Any]:
    cases: list[Any] = []
    for x in SCALARS:
        cases += [
            ("layout.reshape", {"shape": []}, [x], x),
            ("layout.reshape", {"shape": [1]}, [x], x.reshape(1)),
            ("layout.reshape", {"shape": [1, -1, 1]}, [x], x.reshape(1, 1, 1)),
            ("layout.reshape", {"shape": []}, [x.reshape(1, 1)], x),
            ("layout.flatten", {}, [x], x.reshape(1)),
            ("layout.unflatten", {"axis": 0, "shape": []}, [x.reshape(1)], x),
            ("layout.transpose", {}, [x], x),
            ("layout.transpose", {"perm": []}, [x], x),
            ("layout.broadcast", {"shape": []}, [x], x),
            ("layout.tile", {"repeats": []}, [x], x),
            ("layout.slice", {"begin": [], "end": []}, [x], x),
            ("layout.pad", {"padding": []}, [x], x),
            ("layout.squeeze", {"axes": []}, [x], x),
            ("layout.unsqueeze", {"axes": [0]}, [x], x[None]),
            ("layout.stack", {"axis": 0}, [[x, x]], np.stack([x, x])),
            ("layout.gather_nd", {}, [x, np.zeros((2, 0), np.int32)], np.stack([x, x])),
            ("layout.nonzero", {}, [x], np.zeros((0, 1), np.int32)),
            ("layout.shape", {}, [x], np.zeros(0, np.int32)),
        ]
    return cases


def empties() -> list[Any]:
    cases: list[Any] = [
        ("layout.broadcast", {"shape": [2, 0, 3]}, [CUBE], CUBE),
        ("layout.broadcast", {"shape": [2, 0, 3]}, [CUBE[:1]], CUBE),
        ("layout.broadcast", {"axes": [1], "shape": [0]}, [CUBE], CUBE),
        ("layout.tile", {"repeats": [2, 2, 2]}, [CUBE], np.tile(CUBE, (2, 2, 2))),
        ("layout.transpose", {}, [CUBE], CUBE.T),
        ("layout.flatten", {}, [CUBE], CUBE.reshape(-1)),
        ("layout.slice", {"begin": [0], "end": [9]}, [NONE], NONE),
        ("layout.pad", {"padding": [1, 1]}, [NONE], np.zeros(2)),
        ("layout.concat", {"axis": 0}, [[NONE, ONE, NONE]], ONE),
        ("layout.split", {"axis": 0, "count": 2}, [NONE], [NONE, NONE]),
        ("layout.shuffle", {"axis": 0, "groups": 2}, [NONE], NONE),
        ("layout.nonzero", {}, [CUBE], np.zeros((3, 0), np.int32)),
        ("layout.space_to_batch", {"block_size": [2]}, [np.zeros((1, 2, 0))], np.zeros((2, 2, 0))),
        ("layout.batch_to_space", {"block_size": [2]}, [np.zeros((0, 2, 4))], np.zeros((0, 2, 8))),
        ("layout.space_to_depth", {"block_size": [2]}, [np.zeros((0, 2, 4))], np.zeros((0, 4, 2))),
        ("layout.depth_to_space", {"block_size": [2]}, [np.zeros((1, 0, 4))], np.zeros((1, 0, 8))),
    ]
    # no spatial dimension
    for name in ("space_to_batch", "batch_to_space", "space_to_depth", "depth_to_space"):
        cases.append((f"layout.{name}", {"block_size": []}, [MATRIX], MATRIX))
    return cases


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", [scalars, empties])
def test_the_smallest_tensors_are_taken(make: Any, agree: Any) -> None:
    agree(make())


def model(inputs: str, component: str, outputs: str) -> str:
    return (
        f"import layout, math;\ngraph G {{ @input {{ {inputs} }} @output {{ {outputs} }}\n"
        f"@compose {{ {component} }} }}\n"
    )


NO_RESULTS = [
    ("y..(0) = layout.split{axis=0, sizes=[]}(x);", "y: real..(0);"),
    ("y..(0) = layout.unstack{axis=0}(x);", "y: real..(0);"),
    ("y..(0) = math.argmax_nd{axes=[]}(x);", "y: int..(0);"),
]


@pytest.mark.parametrize(("component", "outputs"), NO_RESULTS)
def test_a_result_may_be_an_empty_pack(component: str, outputs: str) -> None:
    text = model("x: real[0,3];", component, outputs)
    assert tvm_nnef.evaluate(text, np.zeros((0, 3), np.float32)) == ([],)
    assert list(tvm_nnef.build(text, progress=False)(np.zeros((0, 3), np.float32))) == [[]]


EMPTY_PACKS = [
    "layout.concat{axis=0}", "layout.concat<real>{axis=0}", "layout.stack{axis=0}",
    "layout.stack<real>{axis=0}", "math.sum_n", "math.sum_n<real>", "math.max_n<real>",
]  # fmt: skip


@pytest.mark.parametrize("operand", ["[]", "x"])
@pytest.mark.parametrize("invocation", EMPTY_PACKS)
def test_an_empty_pack_that_gives_no_shape_is_refused(invocation: str, operand: str) -> None:
    with pytest.raises(NnefError) as caught:
        tvm_nnef.compose(model("x: real[2]..(0);", f"y = {invocation}({operand});", "y: real;"))
    (found,) = caught.value.diagnostics
    assert found.message.endswith("is an empty pack") and "at least one tensor" in str(found.hint)
    assert found.line == 3
    assert found.notes[0].message.endswith("and defines 's'")
