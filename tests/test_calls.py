"""Executables called with inputs by name, preallocated outputs and DLPack tensors, and clones."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.executable.runtime import Executable

# y = 2 * a - b, s = a + b; a pack of two, and a running sum for the state.
TEXT = """
import math;

graph Main {
    @attrib {
        batch: int = 1;
    }
    @input {
        a: real[batch, 2];
        b: real[batch, 2];
    }
    @output {
        y: real[batch, 2];
        s: real[batch, 2];
    }
    @variable {
        w: real[1, 2];
    }
    @compose {
        wa = math.mul(a, w);
        y = math.sub(wa, b);
        s = math.add(a, b);
    }
}
"""
W = {"main.Main.w": np.array([[2, 3]], "float32")}
A = np.array([[1, 2]], "float32")
B = np.array([[10, 20]], "float32")
Y = np.array([[-8, -14]], "float32")
S = np.array([[11, 22]], "float32")


@pytest.fixture(scope="module")
def exe() -> Executable:
    return tvm_nnef.build(TEXT, variables=W, progress=False)


CALLS: dict[str, Callable[[Any], Any]] = {
    "in order": lambda call: call(A, B),
    "by name": lambda call: call(b=B, a=A),
    "some by name": lambda call: call(A, b=B),
    "a mapping": lambda call: call({"b": B, "a": A}),
}


@pytest.mark.parametrize("way", CALLS)
def test_inputs_are_given_in_order_or_by_name(way: str, exe: Executable) -> None:
    outputs = CALLS[way](exe)
    np.testing.assert_array_equal(outputs[0], Y)
    np.testing.assert_array_equal(outputs["s"], S)


def test_the_reference_takes_a_mapping_and_returns_outputs_by_name() -> None:
    outputs = tvm_nnef.evaluate(TEXT, {"b": B, "a": A}, variables=W)
    np.testing.assert_array_equal(outputs["y"], Y)
    np.testing.assert_array_equal(outputs[1], S)


def test_outputs_are_a_tuple_a_mapping_and_can_be_pickled(exe: Executable) -> None:
    outputs = exe(A, B)
    y, s = outputs
    assert (isinstance(outputs, tuple), list(dict(outputs))) == (True, ["y", "s"])
    assert pickle.loads(pickle.dumps(outputs)).names == ("y", "s")
    np.testing.assert_array_equal(outputs[:1][0], y)
    with pytest.raises(KeyError, match="there is no output 'z'"):
        outputs["z"]
    assert s is outputs["s"]


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "unknown": (lambda call: call(A, bb=B), "no input 'bb'.*\n.*did you mean 'b'"),
    "unknown in a mapping": (lambda call: call({"a": A, "c": B}), "no input 'c'"),
    "twice": (lambda call: call(A, B, a=A), "'a' is given twice"),
    "missing": (lambda call: call(a=A), "no value is given for 'b'"),
    "too few": (lambda call: call(A), "takes 2 inputs"),
    "unknown output": (lambda call: call(A, B, out={"z": Y}), "no output 'z'"),
    "one array for two outputs": (lambda call: call(A, B, out=Y), "2 outputs .* got 1"),
    "output of another dtype": (
        lambda call: call(A, B, out={"y": np.empty((1, 2))}),
        "'y': expected float32, got float64",
    ),
    "output of another shape": (
        lambda call: call(A, B, out={"y": np.empty((2, 1), "float32")}),
        r"expected shape \(1, 2\), got \(2, 1\)",
    ),
    "output that is read-only": (
        lambda call: call(A, B, out={"y": np.broadcast_to(np.float32(0), (1, 2))}),
        "read-only",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_inputs_and_outputs_are_input_errors(case: str, exe: Executable) -> None:
    call, message = WRONG[case]
    with pytest.raises(tvm_nnef.InputError, match=message) as caught:
        call(exe)
    assert isinstance(caught.value, ValueError)


def test_a_wrong_batch_names_the_attribute(exe: Executable, tmp_path: Path) -> None:
    both = np.concatenate([A, A])
    exe.export(tmp_path / "m.so")
    graph = tvm_nnef.compose(TEXT)
    calls: list[Callable[..., Any]] = [
        exe,
        tvm_nnef.load(tmp_path / "m.so"),
        lambda *inputs: tvm_nnef.evaluate(graph, *inputs, variables=W),
    ]
    for call in calls:
        with pytest.raises(tvm_nnef.InputError, match=r"'batch' is .*--attr batch=2") as caught:
            call(both, both)
        assert "attributes={'batch': 2}" in str(caught.value)
    bigger = tvm_nnef.build(TEXT, variables=W, attributes={"batch": 2}, progress=False)
    np.testing.assert_array_equal(bigger(both, both)["s"], 2 * both)


def test_another_wrong_dimension_does_not_name_the_attribute(exe: Executable) -> None:
    with pytest.raises(tvm_nnef.InputError) as caught:
        exe(np.zeros((2, 3), "float32"), B)
    assert "--attr batch" not in str(caught.value)


def test_preallocated_outputs_receive_the_results(exe: Executable) -> None:
    y, strided = np.empty((1, 2), "float32"), np.zeros((1, 4), "float32")
    outputs = exe(A, B, out=[y, strided[:, ::2]])
    assert outputs["y"] is y
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(strided, [[11, 0, 22, 0]])
    only = np.empty((1, 2), "float32")
    outputs = exe(A, B, out={"s": only})
    np.testing.assert_array_equal(outputs["y"], Y)
    np.testing.assert_array_equal(only, S)


def test_tensors_share_memory_through_dlpack(exe: Executable) -> None:
    tensors = exe.tensors(a=A, b=B)
    views = [np.from_dlpack(tensors["y"]) for _ in range(2)]
    np.testing.assert_array_equal(views[0], Y)
    assert np.shares_memory(*views)
    for _ in range(3):  # Later runs do not write to memory that is still in use.
        exe(B, A)
    np.testing.assert_array_equal(views[0], Y)


STATEFUL = """
import math;

graph Main {
    @input {
        x: real[2];
    }
    @output {
        y: real[2];
    }
    @variable {
        total: real[2];
    }
    @compose {
        y = math.add(total, x);
    }
    @update {
        total = y;
    }
}
"""


@pytest.mark.parametrize("loaded", [False, True])
def test_clones_have_a_state_of_their_own(loaded: bool, tmp_path: Path) -> None:
    total = {"main.Main.total": np.array([100, 200], "float32")}
    exe = tvm_nnef.build(STATEFUL, variables=total, progress=False)
    if loaded:
        exe.export(tmp_path / "m.so")
        exe = tvm_nnef.load(tmp_path / "m.so")
    x = np.array([1, 2], "float32")
    exe(x)
    other = exe.clone()
    np.testing.assert_array_equal(other(x)[0], [101, 202])
    np.testing.assert_array_equal(exe(x)[0], [102, 204])
    np.testing.assert_array_equal(other(x)[0], [102, 204])


@pytest.mark.parametrize("make", [pickle.dumps, copy.copy, copy.deepcopy])
def test_the_error_of_pickle_and_copy_names_export_and_clone(
    make: Callable[[object], object], exe: Executable
) -> None:
    with pytest.raises(NnefError, match=r"(?s)cannot be pickled or copied.*export.*clone"):
        make(exe)


def test_clones_run_in_threads(exe: Executable) -> None:
    found: list[Any] = []

    def run(mine: Executable, factor: int) -> None:
        mine.threads = 1
        found.extend((factor, mine(A * factor, B * factor)["s"]) for _ in range(20))

    threads = [threading.Thread(target=run, args=(exe.clone(), n)) for n in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 80
    for factor, result in found:
        np.testing.assert_array_equal(result, S * factor)


def test_the_repr_of_an_executable_describes_its_inputs_and_outputs(exe: Executable) -> None:
    assert repr(exe) == (
        "<Executable (a: float32[1, 2], b: float32[1, 2]) -> (y: float32[1, 2], s: float32[1, 2])>"
    )


def test_the_reference_returns_intermediate_tensors() -> None:
    outputs = tvm_nnef.evaluate(TEXT, A, B, variables=W, tensors=["wa", "main.Main.s"])
    assert outputs.names == ("y", "s", "wa", "main.Main.s")
    np.testing.assert_array_equal(outputs["wa"], A * W["main.Main.w"])
    np.testing.assert_array_equal(outputs[3], S)
    with pytest.raises(tvm_nnef.InputError, match=r"tensor 'waa'.*\n.*did you mean 'wa'"):
        tvm_nnef.evaluate(TEXT, A, B, variables=W, tensors=["waa"])
