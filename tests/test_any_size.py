"""Dimensions without a bound: one program for every size, with memory for the sizes of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.converters.common.chosen_shapes import ChosenShapes
from tvm_nnef.converters.common.types import Type
from tvm_nnef.executable import runtime
from tvm_nnef.executable.call_memory import needed_bytes, shortage
from tvm_nnef.support import memory
from tvm_nnef.vulkan_runtime.launcher import missing_device

NET = """
import math, nn;
graph Net {
    @input { x: real[n, 3, h, w]; }
    @output { y: real; }
    @constant { f: real[4, 3, 3, 3] = 0.25; }
    @compose {
        a = nn.conv{padding=1}(x, f);
        b = nn.max_pool{axes=[2, 3], size=2, stride=2, padding=0}(a);
        y = math.tanh(b);
    }
}
"""


def net(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x.sum(axis=1), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    sums = 0.25 * windows.sum(axis=(-2, -1))
    n, h, w = sums.shape
    sums = sums[:, : h // 2 * 2, : w // 2 * 2].reshape(n, h // 2, 2, w // 2, 2).max(axis=(2, 4))
    return np.repeat(np.tanh(sums)[:, None], 4, axis=1)


@pytest.fixture(scope="module")
def exe() -> tvm_nnef.Executable:
    return tvm_nnef.build(NET, progress=False)


SIZES = [(1, 2, 2), (2, 17, 30), (7, 64, 3), (1, 200, 301), (3, 2, 2)]


@pytest.mark.parametrize("size", SIZES)
def test_a_call_takes_any_size(exe: tvm_nnef.Executable, size: tuple[int, int, int]) -> None:
    x = np.random.default_rng(1).standard_normal((size[0], 3, *size[1:])).astype(np.float32)
    np.testing.assert_allclose(exe(x)[0], net(x), atol=1e-5)
    np.testing.assert_allclose(tvm_nnef.evaluate(NET, x)[0], net(x), atol=1e-5)
    np.testing.assert_allclose(exe.clone()(x)[0], net(x), atol=1e-5)


GPUS = ("vulkan", "simulated")


@pytest.mark.parametrize("gpu", GPUS)
def test_a_call_on_a_gpu_takes_any_size(
    gpu: str, simulated_gpu: Callable[[], None], tmp_path: Path
) -> None:
    """Also one of a library that is loaded again."""
    built = built_for(gpu, simulated_gpu, NET)
    built.export(tmp_path / "net.so")
    for each in (built, tvm_nnef.load(tmp_path / "net.so")):
        assert each.inputs[0].shape == ("n", 3, "h", "w")
        for n, h, w in SIZES:
            x = np.random.default_rng(1).standard_normal((n, 3, h, w)).astype(np.float32)
            np.testing.assert_allclose(each(x)[0], net(x), atol=1e-5)


@pytest.mark.parametrize("gpu", GPUS)
def test_products_and_rows_of_any_size_on_a_gpu(
    gpu: str, simulated_gpu: Callable[[], None]
) -> None:
    text = """
    import linalg, nn;
    graph G {
        @input { x: real[n, k]; f: real[k, m]; }
        @output { y: real[n, m]; }
        @compose { z = linalg.matmul(x, f); y = nn.softmax{axes=[1]}(z); }
    }
    """
    built = built_for(gpu, simulated_gpu, text)
    for n, k, m in ((1, 1, 1), (5, 70, 3), (130, 33, 65), (2, 300, 1030)):
        x, f = (np.random.default_rng(2).random(s, np.float32) for s in ((n, k), (k, m)))
        e = np.exp(x @ f - (x @ f).max(axis=1, keepdims=True))
        wanted = e / e.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(built(x, f)[0], wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("gpu", GPUS)
def test_data_dependent_sizes_without_a_bound_on_a_gpu(
    gpu: str, simulated_gpu: Callable[[], None]
) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"]),
        helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "t"], ["y"]),
    ]
    built = built_for(gpu, simulated_gpu, tvm_nnef.convert(model(nodes, {"x": ["n", "m"]})))
    for n, m in ((1, 1), (30, 50), (3, 700)):
        x = np.random.default_rng(3).integers(-1, 2, (n, m)).astype(np.float32)
        np.testing.assert_array_equal(built(x)[0], x[x != 0])


def built_for(gpu: str, simulated_gpu: Callable[[], None], model: Any) -> tvm_nnef.Executable:
    """A model for a GPU that this machine has, or in loops that do as one does."""
    if gpu == "simulated":
        simulated_gpu()
    elif missing_device() is not None:
        pytest.skip("needs a Vulkan device")
    target = "native" if gpu == "simulated" else gpu
    return tvm_nnef.build(model, target, progress=False)


def test_no_bound_is_shown(exe: tvm_nnef.Executable, tmp_path: Path) -> None:
    assert exe.bounds == {}
    graph = tvm_nnef.compose(NET)
    assert graph.limits == {} and "2147483647" not in f"{graph} {exe} {exe.metadata}"
    exe.export(tmp_path / "net.so")
    loaded = tvm_nnef.load(tmp_path / "net.so")
    x = np.ones((1, 3, 40, 4), np.float32)
    np.testing.assert_allclose(loaded(x)[0], net(x), atol=1e-5)


def test_given_shapes_make_it_static() -> None:
    graph = tvm_nnef.compose(NET, input_shapes={"x": (1, 3, 8, 8)})
    assert graph.outputs[0].operand.shape == (1, 4, 4, 4)  # type: ignore[union-attr]


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_memory_of_many_sizes_is_that_of_the_largest(exe: tvm_nnef.Executable) -> None:
    largest = np.zeros((1, 3, 640, 640), np.float32)
    exe(largest)
    exe.trim()
    before = _resident()
    exe(largest)
    once = _resident() - before
    for size in range(100, 640, 9):
        exe(largest[:, :, :size, : size + 3])
    # Without classes of sizes, each of the 60 sizes would keep its own memory.
    assert _resident() - before < 3 * once + (16 << 20)
    exe.trim()
    assert _resident() - before < once + (16 << 20)


def test_memory_is_planned_for_the_sizes_of_the_call(exe: tvm_nnef.Executable) -> None:
    plan = exe.metadata["memory"]
    small = needed_bytes(plan, {"n": 1, "h": 10, "w": 10})
    large = needed_bytes(plan, {"n": 4, "h": 100, "w": 100})
    # Results of 4 channels of float32, one of them at least, and no more than all.
    assert 4 * 4 * 100 <= small <= 3 * 4 * 4 * 100
    assert large == 400 * small


def test_a_call_that_does_not_fit_is_an_error(
    exe: tvm_nnef.Executable, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed: list[bool] = []
    monkeypatch.setattr(runtime, "available_bytes", lambda: 1 << 20)
    monkeypatch.setattr(tvm_nnef.Executable, "trim", lambda _: trimmed.append(True))
    with pytest.raises(tvm_nnef.NnefError) as caught:
        exe(np.zeros((2, 3, 301, 401), np.float32))
    (found,) = caught.value.diagnostics
    assert found.message.startswith("not enough memory at n = 2, h = 301, w = 401: ")
    assert found.hint is not None and "'main.Net." in found.hint
    assert found.hint.endswith("make h or n or w smaller")
    assert trimmed == [True]
    exe(np.zeros((1, 3, 10, 10), np.float32))


@pytest.mark.parametrize("given", [[], ["-i", "x=ones"], ["-i", "x=random"]])
def test_inputs_that_do_not_fit_into_memory_are_an_error(
    given: list[str],
    picky: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 12 * 3 * 48 * 10**6 - 1)
    assert main(["run", picky, "--shape", "x=1,3,48,1000000", *given]) == 1
    shown = capsys.readouterr().err
    assert "not enough memory for values of 'x': 1.6 GiB needed, 1.6 GiB free\n  hint: " in shown


def test_the_memory_of_static_models_is_known(exe: tvm_nnef.Executable) -> None:
    static = tvm_nnef.build(NET, input_shapes={"x": (1, 3, 64, 64)}, progress=False)
    found = shortage(static.metadata, {}, 1000)
    assert found is not None and found.diagnostics[0].message.startswith("not enough memory: ")
    assert shortage(static.metadata, {}, 1 << 30) is None


def model(nodes: Sequence[Any], inputs: Mapping[str, Sequence[Any]], dtype: int = 1) -> Any:
    values = [helper.make_tensor_value_info(n, dtype, shape) for n, shape in inputs.items()]
    output = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph(nodes, "net", values, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


node = helper.make_node
COUNTED: dict[str, tuple[list[Any], Callable[[np.ndarray], np.ndarray]]] = {
    "nonzero": ([node("NonZero", ["x"], ["y"])], lambda x: np.stack(np.nonzero(x))),
    "compress": (
        [node("Greater", ["x", "z"], ["c"]), node("Cast", ["c"], ["c32"], to=1),
         node("ReduceMax", ["c32"], ["m"], axes=[1], keepdims=0),
         node("Cast", ["m"], ["b"], to=9), node("Compress", ["x", "b"], ["y"], axis=0)],
        lambda x: x[(x > 0).any(axis=1)],
    ),
    "unique": ([node("Unique", ["x"], ["y"])], lambda x: np.unique(x)),
    "sort": (
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["k"]),
         node("TopK", ["x", "k"], ["y", "i"])],
        lambda x: -np.sort(-x, axis=1),
    ),
    "cumulated": ([node("CumSum", ["x", "one0"], ["y"])], lambda x: np.cumsum(x, axis=1)),
    "reshaped": ([node("Reshape", ["x", "shape"], ["y"])], lambda x: x.reshape(-1, 2)),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", COUNTED)
def test_sizes_that_follow_from_inputs_without_a_bound(name: str) -> None:
    nodes, expected = COUNTED[name]
    proto = model(nodes, {"x": ["n", "m"]})
    for key, value in (
        ("z", np.float32(0)), ("one", np.array([1])), ("one0", np.array(1)),
        ("shape", np.array([-1, 2])),
    ):  # fmt: skip
        if any(key in each.input for each in nodes):
            proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), key))
    exe = tvm_nnef.build(proto, progress=False)
    generator = np.random.default_rng(0)
    for shape in ((1, 2), (3, 40), (2, 1500), (50, 6)):
        x = generator.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(exe(x)[0], expected(x), rtol=1e-5, atol=1e-4)
        np.testing.assert_allclose(tvm_nnef.evaluate(proto, x)[0], expected(x), atol=1e-4)


@pytest.mark.parametrize("end", [100_000, 1_000_000_000])
def test_memory_grows_with_the_sizes_of_a_call_only(end: int) -> None:
    """The end of a slice is more than any call has, as TensorFlow's converter writes it."""
    nodes = [
        node("Slice", ["x", "start", "end", "start"], ["t"]),
        node("Relu", ["t"], ["u"]), node("MatMul", ["u", "w"], ["v"]), node("Relu", ["v"], ["y"]),
    ]  # fmt: skip
    proto = model(nodes, {"x": ["n", 64]})
    for key, value in (("start", [0]), ("end", [end]), ("w", np.eye(64, dtype=np.float32))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), key))
    exe = tvm_nnef.build(proto, progress=False)
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    np.testing.assert_array_equal(exe(x)[0], np.maximum(x, 0))
    assert 0 < needed_bytes(exe.metadata["memory"], {"n": 3}) <= 3 * x.nbytes


def test_stacked_results_of_a_loop_have_memory_for_the_steps_of_a_call() -> None:
    """A network that reads every other column has a half of the largest size at most."""
    generator = np.random.default_rng(0)
    nodes = [
        node("Slice", ["x", "start", "end", "start", "two"], ["t"]),
        node("LSTM", ["t", "w", "r"], ["y"], hidden_size=4),
    ]
    proto = model(nodes, {"x": ["n", 1, 3]})
    values: dict[str, Any] = {"start": np.array([0]), "end": np.array([2**31]), "two": [2]}
    values |= {key: generator.standard_normal((1, 16, k)) for key, k in (("w", 3), ("r", 4))}
    for key, value in values.items():
        array = np.asarray(value, np.float32 if key in "wr" else np.int64)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, key))
    exe = tvm_nnef.build(proto, progress=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    assert needed_bytes(exe.metadata["memory"], {"n": 9}) < 1 << 16
    for size in (9, 20, 3):
        x = generator.standard_normal((size, 1, 3)).astype(np.float32)
        np.testing.assert_allclose(exe(x)[0], session.run(["y"], {"x": x})[0], atol=1e-5)


CHOSEN: list[tuple[dict[str, Sequence[Any]], dict[str, tuple[int, ...]]]] = [
    ({"x": ["batch", 3, "height", "width"]}, {"x": (1, 3, 224, 224)}),
    ({"x": ["N", 3, "H", "W"]}, {"x": (1, 3, 224, 224)}),
    ({"x": [None, 3, None, None]}, {"x": (1, 3, 32, 32)}),
    ({"x": ["p2o.DynamicDimension.0", 3, "p2o.DynamicDimension.1", 8]}, {"x": (1, 3, 32, 8)}),
    ({"ids": ["batch_size", "sequence_length"], "mask": ["batch_size", "sequence_length"]},
     {"ids": (1, 64), "mask": (1, 64)}),
    ({"ids": [None, None], "mask": [None, None]}, {"ids": (1, 32), "mask": (1, 32)}),
    ({"x": [None, None], "state": [2, None, 128]}, {"x": (1, 32), "state": (2, 1, 128)}),
    ({"x": ["sequence", 5]}, {"x": (64, 5)}),
    ({"x": ["n"]}, {"x": (1,)}),
    ({"x": ["anything"]}, {"x": (32,)}),
    ({"x": [2, 3]}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "expected"), CHOSEN)
def test_sizes_that_fit_what_names_say(
    declared: dict[str, Sequence[Any]], expected: dict[str, tuple[int, ...]]
) -> None:
    shapes = ChosenShapes({})
    shapes.complete({name: Type("float32", tuple(shape)) for name, shape in declared.items()})
    assert shapes.chosen == expected


def test_given_shapes_decide_sizes_of_the_same_name() -> None:
    shapes = ChosenShapes({"x": (5, 7)})
    shapes.complete({"x": Type("float32", ("b", "t")), "y": Type("float32", ("t", "d"))})
    assert shapes.chosen == {"y": (7, 32)}


@pytest.fixture
def picky(tmp_path: Path) -> str:
    """A model that rejects every height but 48, as networks that read lines of text do."""
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[48, 1], strides=[48, 1]),
        node("Squeeze", ["p", "axis"], ["q"]),
        node("ReduceMax", ["q"], ["y"], axes=[1], keepdims=0),
    ]
    proto = model(nodes, {"x": ["batch", 3, None, "width"]})
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2]), "axis"))
    onnx.save(proto, tmp_path / "picky.onnx")
    return str(tmp_path / "picky.onnx")


@pytest.mark.parametrize("command", [
    ["run", "--route", "reference"], ["show"], ["compare", "--routes", "formula", "reference"],
    ["bench", "--seconds", "0.01", "--threads", "1"],
])  # fmt: skip
def test_sizes_that_the_model_rejects_are_not_chosen(
    command: list[str], picky: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command[0], picky, *command[1:]]) == 0
    assert "chosen: --shape x=1,3,48,48\n" in capsys.readouterr().err


def test_rows_of_samples_may_be_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rejected sizes all give the same error."""
    nodes = [
        node("Slice", ["x", "start", "end", "axis"], ["s"]),
        node("Reshape", ["s", "to"], ["y"]),
    ]
    proto = model(nodes, {"x": ["batch", "samples"]})
    for name, values in {"start": [12000], "end": [10**6], "axis": [1], "to": [-1, 0]}.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(values), name))
    onnx.save(proto, tmp_path / "sound.onnx")
    assert main(["run", str(tmp_path / "sound.onnx"), "--route", "reference"]) == 0
    shown = capsys.readouterr()
    assert "chosen: --shape x=1,16000\n" in shown.err
    assert "y: float32 [1, 4000]" in shown.out


@pytest.mark.parametrize(("bounds", "chosen"), [
    (["batch=4"], "chosen: --shape x=batch,3,48,48\n"),
    (["x_2=64"], "chosen: --shape x=1,3,x_2,224\n"),
    (["64"], ""),
])  # fmt: skip
def test_sizes_with_a_bound_stay_dynamic(
    bounds: list[str], chosen: str, picky: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word for each in bounds for word in ("--bound", each)]
    assert main(["run", picky, "--route", "reference", "--quiet", *given]) == 0
    assert main(["run", picky, "--route", "reference", *given]) == 0
    assert (
        capsys.readouterr().err.removeprefix("note: the model does not fix all sizes; ") == chosen
    )


def test_dimensions_without_a_name_are_the_batch_that_has_a_bound() -> None:
    shapes = ChosenShapes({})
    declared = {"x": [None, None], "state": [2, None, 128], "rate": [None]}
    types = {name: Type("float32", tuple(shape)) for name, shape in declared.items()}
    shapes.complete(types, {"x_0": 16})
    assert shapes == {"x": ("x_0", 32), "state": (2, "x_0", 128), "rate": ("x_0",)}
    assert shapes.chosen == {"x": ("x_0", 32)}


def test_files_fix_the_shapes(
    picky: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 48, 100)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    for given in ("x.npy", "x=x.npy"):
        name, equals, file = given.rpartition("=")
        argument = f"{name}{equals}{tmp_path / file}"
        assert main(["run", picky, "-i", argument, "-o", str(tmp_path / "y.npy")]) == 0
        assert "chosen" not in capsys.readouterr().err
        session = onnxruntime.InferenceSession(picky)
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), session.run(None, {"x": x})[0])


def test_what_no_size_corrects_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = model([node("Squeeze", ["x", "axis"], ["y"])], {"x": [3, "width"]})
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "axis"))
    onnx.save(proto, tmp_path / "wrong.onnx")
    assert main(["run", str(tmp_path / "wrong.onnx")]) == 1
    assert capsys.readouterr().err.count("error: ") == 1


LOOP = """
import layout, math;
graph G {
    @input { x: real[n, 3]; }
    @output { last: real; rows: real; }
    @compose {
        last, ys = with a = x do..(n) { b = math.add(a, 1.0); yield b, b; };
        rows = layout.stack{axis=0}(ys);
    }
}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_loops_over_a_dimension_make_as_many_items(route: Any) -> None:
    loop = tvm_nnef.build(LOOP, progress=False, route=route)
    for count in (1, 7, 300):
        x = np.random.default_rng(0).standard_normal((count, 3)).astype(np.float32)
        last, rows = loop(x)
        expected = x + np.arange(1, count + 1, dtype=np.float32)[:, None, None]
        np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(last, expected[-1], rtol=1e-5, atol=1e-5)


def _stops_early() -> Any:
    """A loop over the rows of ``x`` that adds them, and stops when the sum is large."""
    names = {"i": (7, []), "c": (9, []), "acc": (1, [3])}
    made = {"go": (9, []), "acc2": (1, [3]), "row": (1, [3])}
    values = [
        [helper.make_tensor_value_info(name, *each) for name, each in group.items()]
        for group in (names, made)
    ]
    body = helper.make_graph(
        [node("Gather", ["x", "i"], ["xi"], axis=0), node("Add", ["acc", "xi"], ["acc2"]),
         node("ReduceSum", ["acc2"], ["sum"], keepdims=0), node("Less", ["sum", "limit"], ["go"]),
         node("Identity", ["acc2"], ["row"])],
        "body", *values,
    )  # fmt: skip
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["count"]),
        node("Loop", ["count", "yes", "start"], ["final", "y"], body=body),
    ]  # fmt: skip
    proto = model(nodes, {"x": ["n", 3]})
    for name, value in (
        ("zero", np.array(0)), ("yes", np.array(True)), ("start", np.zeros(3, np.float32)),
        ("limit", np.float32(20)),
    ):  # fmt: skip
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    return proto


def test_loops_that_data_end_have_room_for_the_dimension() -> None:
    proto = _stops_early()
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    exe = tvm_nnef.build(proto, progress=False)
    for count in (1, 6, 2000):
        x = np.random.default_rng(0).random((count, 3), np.float32)
        (expected,) = session.run(None, {"x": x})
        np.testing.assert_allclose(exe(x)[0], expected, rtol=1e-5)
        np.testing.assert_allclose(tvm_nnef.evaluate(proto, x)[0], expected, rtol=1e-5)


RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.slow
@pytest.mark.parametrize("operator", RECURRENT)
def test_recurrent_layers_take_any_number_of_steps(operator: str) -> None:
    gates, generator = RECURRENT[operator], np.random.default_rng(0)
    proto = model(
        [node(operator, ["x", "w", "r"], ["y"], hidden_size=5, direction="bidirectional")],
        {"x": ["steps", "batch", 3]},
    )
    for name, shape in (("w", (2, gates * 5, 3)), ("r", (2, gates * 5, 5))):
        value = generator.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    exe = tvm_nnef.build(proto, progress=False)
    for size in ((1, 1, 3), (7, 2, 3), (150, 3, 3)):
        x = generator.standard_normal(size).astype(np.float32)
        np.testing.assert_allclose(exe(x)[0], session.run(None, {"x": x})[0], atol=1e-5)
