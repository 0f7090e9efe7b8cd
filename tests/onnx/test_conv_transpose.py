"""ConvTranspose, static and with dynamic sizes: ONNX Runtime's numbers, and no serial fallback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@dataclass(frozen=True)
class Case:
    """A transposed convolution: the weights ``[C, O / groups, K...]`` and the attributes."""

    weights: Sequence[int]
    stride: Sequence[int]
    pads: Sequence[int] | None = None
    dilation: Sequence[int] | None = None
    output_padding: Sequence[int] | None = None
    group: int = 1
    auto_pad: str = "NOTSET"
    constant: bool = True


CASES = {
    "stride 1": Case((3, 4, 3, 3), (1, 1), (1, 1, 1, 1)),
    "kernel as the stride": Case((3, 4, 2, 2), (2, 2)),
    "kernel below the stride": Case((3, 4, 2, 1), (3, 2)),
    "kernel a multiple of the stride": Case((3, 4, 4, 4), (2, 2), (1, 1, 1, 1)),
    "kernel above the stride": Case((3, 4, 5, 3), (3, 2), (2, 1, 0, 1), None, (2, 1)),
    "asymmetric padding": Case((3, 4, 4, 3), (2, 1), (0, 2, 1, 0)),
    "dilation with common factor": Case((3, 4, 3, 4), (2, 2), (2, 1, 2, 1), (2, 2)),
    "dilation without common factor": Case((3, 4, 4, 3), (3, 2), (1, 0, 2, 1), (2, 3)),
    "two groups": Case((4, 3, 4, 3), (2, 2), (1, 1, 1, 1), group=2),
    "depthwise": Case((4, 1, 4, 4), (2, 2), (1, 1, 1, 1), group=4),
    "same, upper": Case((3, 4, 3, 4), (2, 3), auto_pad="SAME_UPPER"),
    "same, lower": Case((3, 4, 4, 3), (3, 2), auto_pad="SAME_LOWER"),
    "weights as an input": Case((3, 4, 3, 4), (2, 2), (1, 1, 0, 1), constant=False),
    "one dimension": Case((3, 4, 5), (2,), (1, 2)),
    "three dimensions": Case((2, 3, 2, 3, 2), (2, 2, 1), (0, 1, 0, 0, 1, 1)),
}


def model(case: Case, spatial: Sequence[int | str], batch: int | str, weights: Any) -> Any:
    attributes = {
        "strides": case.stride, "pads": case.pads, "dilations": case.dilation,
        "output_padding": case.output_padding, "group": case.group, "auto_pad": case.auto_pad,
    }  # fmt: skip
    kept = {name: value for name, value in attributes.items() if value is not None}
    node = onnx.helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **kept)
    bias = np.arange(case.weights[1] * case.group, dtype=np.float32)
    kind = onnx.TensorProto.FLOAT
    inputs = [("x", (batch, case.weights[0], *spatial))]
    inputs += [] if case.constant else [("w", case.weights)]
    constants = {"b": bias, **({"w": weights} if case.constant else {})}
    graph = onnx.helper.make_graph(
        [node],
        "transposed",
        [onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs],
        [onnx.helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


def strategies(source: Any) -> set[str | None]:
    mod = run_phases(tvm_nnef.from_nnef(source), resolve("native"), "graph", "schedule")
    return {kernel.strategy for kernel in schedules.report(mod)}


# With a convolution for each phase, a build with dynamic sizes takes seconds.
QUICK = {"kernel a multiple of the stride", "depthwise", "one dimension"}
# The formula route recognizes the same transposed convolution, whatever its sizes.
BOTH_ROUTES = {*QUICK, "kernel above the stride", "dilation without common factor", "two groups"}


def is_quick(name: str, dynamic: bool, route: str) -> bool:
    return name in (QUICK if dynamic else BOTH_ROUTES if route == "formula" else CASES)


RUNS = [
    pytest.param(
        name, dynamic, route, marks=() if is_quick(name, dynamic, route) else pytest.mark.slow
    )
    for name in CASES
    for dynamic in (False, True)
    for route in ("mapped", "formula")
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "dynamic", "route"), RUNS)
def test_conv_transpose_gives_the_numbers_of_onnx_runtime(
    name: str, dynamic: bool, route: Any
) -> None:
    case, random = CASES[name], np.random.default_rng(3)
    weights = random.standard_normal(case.weights).astype(np.float32)
    rank = len(case.stride)
    sizes = [(5, 4, 3)[:rank], (1, 1, 1)[:rank], (2, 7, 2)[:rank]]
    symbols = ["h", "w", "d"][:rank]
    spatial: Sequence[int | str] = symbols if dynamic else sizes[0]
    proto = model(case, spatial, "n" if dynamic else 2, weights)
    bounds = dict.fromkeys(["n", *symbols], 64) if dynamic else {}
    machine = tvm_nnef.build(tvm_nnef.convert(proto, bounds=bounds), route=route)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for number, size in enumerate(sizes if dynamic else sizes[:1]):
        batch = (2, 1, 3)[number]
        x = random.standard_normal((batch, case.weights[0], *size)).astype(np.float32)
        feeds = {"x": x, **({} if case.constant else {"w": weights})}
        (expected,) = session.run(None, feeds)
        found = np.asarray(machine(*feeds.values())[0])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.constant])
def test_no_dynamic_conv_transpose_is_left_to_the_fallback(name: str) -> None:
    case = CASES[name]
    channels = (32 * case.weights[0], 16 * case.weights[1], *case.weights[2:])
    if case.group > 1:
        channels = case.weights
    wide = Case(**{**case.__dict__, "weights": channels})
    weights = np.ones(wide.weights, np.float32)
    symbols = ["h", "w", "d"][: len(wide.stride)]
    proto = model(wide, symbols, "n", weights)
    taken = strategies(tvm_nnef.convert(proto, bounds=dict.fromkeys(["n", *symbols], 64)))
    assert taken and "cpu.fallback" not in taken
