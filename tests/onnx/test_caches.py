"""Caches of decoders as state: against ONNX Runtime, which gets them as inputs and outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.executable.call_memory import needed_bytes

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

PAIR = {"past_key_values": "present"}
LENGTH = "cache_length"
ROOM = 12


@pytest.fixture(scope="module")
def decoders(request: Any) -> Any:
    """The script that writes decoders."""
    imported: Callable[[Path], Any] = request.getfixturevalue("imported")
    return imported(Path(__file__).parents[2] / "scripts" / "bench_decoder.py")


def small(decoders: Any, attention: str = "GroupQueryAttention", **more: Any) -> Any:
    """A decoder of one layer."""
    sizes = {"width": 16, "heads": 4, "groups": 2, "size": 16, "inner": 24, "words": 20}
    return decoders.llama(decoders.Shape(1, longest=32, **(sizes | more)), attention)


def joined(model: Any) -> Any:
    """A model of keys joined with past ones by Concat, as exporters of PyTorch write it."""
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("Concat", ["past_key_values.0.key", "x"], ["present.0.key"], axis=2),
        make("Transpose", ["present.0.key"], ["turned"], perm=[0, 1, 3, 2]),
        make("MatMul", ["x", "turned"], ["scores"]),
        make("Softmax", ["scores"], ["weights"], axis=-1),
        make("MatMul", ["weights", "present.0.key"], ["logits"]),
    ]
    inputs = [
        value("x", 1, [1, 2, "rows", 4]),
        value("past_key_values.0.key", 1, [1, 2, "past", 4]),
    ]
    outputs = [value("logits", 1, [1, 2, "rows", 4]), value("present.0.key", 1, [1, 2, "all", 4])]
    graph = onnx.helper.make_graph(nodes, "joined", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=10)


def pointers(executable: Any) -> list[int]:
    """The addresses of the caches."""
    tensors = zip(executable.state, executable.state.tensors, strict=True)
    return [np.from_dlpack(t).ctypes.data
            for name, t in tensors if not name.endswith(LENGTH)]  # fmt: skip


KINDS: dict[str, Callable[[Any], Any]] = {
    "GroupQueryAttention": small,
    "Attention": lambda decoders: small(decoders, "Attention"),
    "Concat": lambda decoders: joined(small(decoders)),
}
FOUR_BITS = {"bits": 4, "block": 16, "width": 32, "inner": 48}
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": FOUR_BITS,
    "Phi": {**FOUR_BITS, "packed": True, "size": 32, "rotary": 16},
    "Qwen 3": {**FOUR_BITS, "normed": True},
    "Gemma": {"softcap": 5.0, "window": 3, "gelu": True},
}
"""Decoders as the model builder of ONNX Runtime writes those of some families."""


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_decoders_of_a_family_agree_with_onnx_runtime(family: str, decoders: Any) -> None:
    proto = small(decoders, **FAMILIES[family])
    session = runtime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    random = np.random.default_rng(8)
    given: dict[str, Any] = {
        each.name: random.standard_normal((*each.shape[:2], 5, each.shape[3])).astype(np.float32)
        for each in session.get_inputs()
        if each.name.startswith("past")
    }
    given |= {"ids": random.integers(0, 20, (1, 4)), "mask": np.ones((1, 9), np.int64)}
    expected = session.run(None, given)
    routes = [tvm_nnef.build(proto, route=each, progress=False) for each in ("mapped", "formula")]
    calls = [*routes, lambda **inputs: tvm_nnef.evaluate(tvm_nnef.convert(proto), inputs)]
    for call_ in calls:
        for found, wanted in zip(call_(**given), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    executable = tvm_nnef.build(
        tvm_nnef.convert(proto, state=PAIR, bounds={"past": ROOM}), progress=False
    )
    for name in executable.state:
        if not name.endswith(LENGTH):
            past = given[next(own for own in given if own[-5:].replace(".", "_") in name)]
            cache = np.zeros((*past.shape[:2], ROOM, past.shape[3]), np.float32)
            cache[:, :, :5] = past
            executable.state[name] = cache
        else:
            executable.state[name] = np.array(5)
    names = {port.name: port.source or port.name for port in executable.inputs}
    (found,) = executable({name: given[source] for name, source in names.items()})
    np.testing.assert_allclose(found, expected[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["GroupQueryAttention", *(
    pytest.param(each, marks=pytest.mark.slow) for each in ("Attention", "Concat")
)])  # fmt: skip
def test_a_cache_as_state_agrees_with_one_that_is_passed(
    kind: str, decoders: Any, with_state: Callable[[str], Any]
) -> None:
    proto = KINDS[kind](decoders)
    session = runtime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = {each.name: each for each in session.get_inputs()}
    past = {name: np.zeros((*each.shape[:2], 0, each.shape[3]), np.float32)
            for name, each in inputs.items() if name.startswith("past")}  # fmt: skip
    executable = with_state(kind)
    executable.reset()
    assert [port.name for port in executable.inputs] == [n for n in inputs if n not in past]
    held = list(executable.state.tensors)  # Nothing else gets their memory.
    random, total, before = np.random.default_rng(3), 0, pointers(executable)
    for rows in (4, 1, 1, 3, 1):
        total += rows
        given: dict[str, Any] = {}
        if "ids" in inputs:
            given = {
                "ids": random.integers(0, 20, (1, rows)),
                "mask": np.ones((1, total), np.int64),
            }
        else:
            given["x"] = random.standard_normal((1, 2, rows, 4)).astype(np.float32)
        expected, *present = session.run(None, {**given, **past})
        past = dict(zip(past, present, strict=True))
        (found,) = executable(
            **{name: each for name, each in given.items() if _is_input(executable, name)}
        )
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        caches = [value for name, value in executable.state.items() if not name.endswith(LENGTH)]
        for own, theirs in zip(caches, present, strict=True):
            np.testing.assert_allclose(own[:, :, :total], theirs, rtol=1e-4, atol=1e-5)
    assert pointers(executable) == before
    del held


def _is_input(executable: Any, name: str) -> bool:
    return any(name in (port.name, port.source) for port in executable.inputs)


@pytest.fixture(scope="module")
def with_state(decoders: Any) -> Callable[[str], Any]:
    """The executable of a kind of model, whose cache is state."""

    @functools.cache
    def made(kind: str) -> Any:
        model = tvm_nnef.convert(KINDS[kind](decoders), state=PAIR, bounds={"past": ROOM})
        return tvm_nnef.build(model, progress=False)

    return made


@pytest.fixture(scope="module")
def built(with_state: Callable[[str], Any]) -> Any:
    """A decoder with a cache that is state."""
    return with_state("GroupQueryAttention")


def call(executable: Any, rows: int, total: int) -> Any:
    """The scores after so many rows, of the same words each time."""
    ids = np.arange(total - rows, total)[None]
    return executable(ids=ids, mask=np.ones((1, total), np.int64))[0]


def test_state_is_reset_cloned_saved_and_restored(built: Any, tmp_path: Path) -> None:
    built.reset()
    first, second = call(built, 3, 3), call(built, 1, 4)
    built.save_state(tmp_path / "state.npz")
    built.reset()
    np.testing.assert_array_equal(call(built, 3, 3), first)
    other = built.clone()
    assert int(other.state[f"main.llama.{LENGTH}"]) == 0
    np.testing.assert_array_equal(call(other, 3, 3), first)
    third = call(built, 1, 4), call(built, 1, 5)
    np.testing.assert_array_equal(third[0], second)
    built.load_state(tmp_path / "state.npz")
    np.testing.assert_array_equal(call(built, 1, 5), third[1])


def test_a_measurement_leaves_the_state(built: Any) -> None:
    built.reset()
    call(built, 3, 3)
    before = dict(built.state)
    built.benchmark(np.ones((1, 1), np.int64), np.ones((1, 4), np.int64), repeat=2)
    for name, value in built.state.items():
        np.testing.assert_array_equal(value, before[name])


def test_a_step_of_a_long_cache_copies_none_of_it(decoders: Any) -> None:
    """A step after 1,999 entries allocates scores of the entries, and no keys or values."""
    room = 2048
    model = tvm_nnef.convert(small(decoders, size=64), state=PAIR, bounds={"past": room})
    executable = tvm_nnef.build(model, progress=False)
    caches = [value for name, value in executable.state.items() if not name.endswith(LENGTH)]
    assert [cache.nbytes for cache in caches] == [2 * room * 64 * 4] * 2
    (symbol,) = executable.metadata["bounds"]
    needed = needed_bytes(executable.metadata["memory"], {"rows": 1, symbol: 1999})
    assert needed < caches[0].nbytes / 8
    executable.state[next(n for n in executable.state if n.endswith(LENGTH))] = np.array(1999)
    before, held = pointers(executable), list(executable.state.tensors)
    call(executable, 1, 2000)
    assert pointers(executable) == before
    del held


def test_a_full_cache_is_an_error_that_leaves_the_state(built: Any) -> None:
    built.reset()
    call(built, ROOM, ROOM)
    before = dict(built.state)
    with pytest.raises(tvm_nnef.NnefError, match=r"no room for 13.*larger bound, or reset"):
        call(built, 1, ROOM + 1)
    for name, value in built.state.items():
        np.testing.assert_array_equal(value, before[name])


def test_a_file_of_another_state_is_refused(built: Any, tmp_path: Path) -> None:
    file = tmp_path / "state.npz"
    np.savez(file, other=np.zeros(3))
    with pytest.raises(tvm_nnef.NnefError, match="the state of another model"):
        built.load_state(file)
    file.write_bytes(b"nothing")
    with pytest.raises(tvm_nnef.NnefError, match="has no state"):
        built.load_state(file)
    wrong = {name: value[..., :1] if value.ndim else value for name, value in built.state.items()}
    np.savez(file, **wrong)
    with pytest.raises(tvm_nnef.NnefError, match="shape"):
        built.load_state(file)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"state": {"past_keys": "present"}}, "no input of the model begins with 'past_keys'"),
        ({"state": {"past_key_values": "presents"}}, "no output 'presents.0.key'"),
        ({"state": PAIR}, "grows without a bound.*bounds={'past': 2048}, or --bound past=2048"),
        ({"state": PAIR, "bounds": {"past": -1}}, "grows without a bound"),
        ({"state": PAIR, "bounds": {"past": 8}, "input_shapes": {
            "past_key_values.0.key": ("N", 2, "past", 16)}}, "dynamic dimensions"),
    ],
)  # fmt: skip
def test_what_cannot_be_state_says_what_to_change(options: Any, words: str, decoders: Any) -> None:
    with pytest.raises(tvm_nnef.NnefError, match=f"(?s){words}"):
        tvm_nnef.convert(small(decoders), **options)


@pytest.mark.slow
def test_a_full_cache_of_one_size_is_an_error(decoders: Any) -> None:
    proto = small(decoders)
    for value in (*proto.graph.input[2:], *proto.graph.output[1:]):
        value.type.tensor_type.shape.dim[2].dim_value = ROOM
    executable = tvm_nnef.build(tvm_nnef.convert(proto, state=PAIR), progress=False)
    growing = tvm_nnef.build(
        tvm_nnef.convert(small(decoders), state=PAIR, bounds={"past": ROOM}), progress=False
    )
    for rows, total in ((ROOM - 1, ROOM - 1), (1, ROOM)):
        expected = call(growing, rows, total)
        np.testing.assert_allclose(call(executable, rows, total), expected, rtol=1e-4, atol=1e-5)
    before = dict(executable.state)
    with pytest.raises(tvm_nnef.NnefError, match=rf"a cache of {ROOM} entries is full.*reset"):
        call(executable, 1, ROOM + 1)
    for name, value in executable.state.items():
        np.testing.assert_array_equal(value, before[name])


def test_a_cache_of_one_size_is_state(tmp_path: Path) -> None:
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    node = make("TensorScatter", ["past", "x", "at"], ["present"], axis=1)
    total = make("ReduceSum", ["present"], ["total"], keepdims=0)
    inputs = [value("past", 1, [1, 4, 2]), value("x", 1, [1, 1, 2]), value("at", 7, [1])]
    outputs = [value("total", 1, []), value("present", 1, [1, 4, 2])]
    graph = onnx.helper.make_graph([node, total], "g", inputs, outputs)
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)])
    model = tvm_nnef.convert(proto, state={"past": "present"})
    executable = tvm_nnef.build(model, progress=False)
    held = list(executable.state.tensors)
    before = pointers(executable)
    for number in range(3):
        (found,) = executable(np.full((1, 1, 2), number + 1, np.float32), np.array([number]))
        assert float(found) == sum(range(number + 2)) * 2
    assert pointers(executable) == before
    values = dict(executable.state)
    with pytest.raises(tvm_nnef.NnefError, match=r"a cache of 4 entries is full.*reset"):
        executable(np.ones((1, 1, 2), np.float32), np.array([4]))
    for name, value in executable.state.items():
        np.testing.assert_array_equal(value, values[name])
    del held
