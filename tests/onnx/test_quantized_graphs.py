"""Quantized graphs of all forms: integer kernels, with the codes of the evaluator."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_nnef
from tvm_nnef.compilation.passes import passes
from tvm_nnef.compilation.target import resolve

RANDOM = np.random.default_rng(5)
SCALES = {"x": 0.02, "y": 0.05, "z": 0.03}
WEIGHTS = RANDOM.integers(-127, 128, (8, 4, 3, 3)).astype("int8")
POINTWISE = RANDOM.integers(-127, 128, (6, 8, 1, 1)).astype("int8")
GROUPED = RANDOM.integers(-127, 128, (8, 4, 3, 3)).astype("int8")
MATRIX = RANDOM.integers(-127, 128, (10, 7)).astype("int8")
BIAS = RANDOM.integers(-5000, 5000, 8).astype("int32")


class Graph:
    """Nodes of an ONNX model that are added one by one."""

    def __init__(self, zero: np.generic) -> None:
        self.zero, self.nodes, self.constants = zero, [], {}

    def constant(self, array):
        name = f"constant_{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    def node(self, kind, *inputs, count=1, domain="", **attributes):
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        outputs = [f"t{len(self.nodes)}_{number}" for number in range(count)]
        made = helper.make_node(kind, names, outputs, domain=domain, **attributes)
        self.nodes.append(made)
        return outputs[0] if count == 1 else outputs

    def quantized(self, x, scale):
        return self.node("QuantizeLinear", x, np.float32(scale), self.zero)

    def real(self, x, scale):
        return self.node("DequantizeLinear", x, np.float32(scale), self.zero)

    def through(self, x, scale):
        return self.real(self.quantized(x, scale), scale)

    def weights(self, array, scale):
        return self.node(
            "DequantizeLinear", array, scale, np.zeros_like(scale, "int8"), axis=0
        )  # fmt: skip

    def model(self, output, shape):
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(
            self.nodes, "g", ports, [result], [*self.constants.values()]
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = 10
        return model


def scales(count, step):
    return np.linspace(step, 2 * step, count, dtype="float32")


def block(graph):
    """Two convolutions, the first with a bias, a max pooling and a residual addition."""
    x, own = graph.through("x", SCALES["x"]), scales(8, 0.004)
    bias = graph.node(
        "DequantizeLinear", BIAS, own * np.float32(SCALES["x"]), np.zeros(8, "int32"), axis=0
    )
    y = graph.node("Conv", x, graph.weights(WEIGHTS, own), bias, pads=[1, 1, 1, 1])
    y = graph.through(graph.node("Relu", y), SCALES["y"])
    y = graph.through(graph.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), SCALES["y"])
    z = graph.node("Conv", y, graph.weights(GROUPED, own), pads=[1, 1, 1, 1], group=2)
    z = graph.through(z, SCALES["z"])
    z = graph.through(graph.node("Relu", graph.node("Add", z, y)), SCALES["y"])
    z = graph.node("Conv", z, graph.weights(POINTWISE, scales(6, 0.003)))
    return graph.through(z, SCALES["z"]), SCALES["z"]


def separable(graph):
    """A convolution with a stride, a depthwise one, and one of size 1 with a residual addition."""
    x, own = graph.through("x", SCALES["x"]), scales(8, 0.004)
    y = graph.node("Conv", x, graph.weights(WEIGHTS, own), pads=[1] * 4, strides=[2, 2])
    y = graph.through(graph.node("Relu", y), SCALES["y"])
    z = graph.node("Conv", y, graph.weights(WEIGHTS[:, :1], own), pads=[1] * 4, group=8)
    z = graph.through(graph.node("Relu", z), SCALES["y"])
    z = graph.node("Conv", z, graph.weights(POINTWISE[[0, 1, 2, 3, 4, 5, 0, 1]], own))
    z = graph.through(graph.node("Add", z, y), SCALES["y"])
    z = graph.node("Conv", z, graph.weights(POINTWISE, scales(6, 0.003)))
    return graph.through(z, SCALES["z"]), SCALES["z"]


def joined(graph):
    """A concatenation of tensors of two scales."""
    x = graph.through("x", SCALES["x"])
    parts = [graph.through(x, SCALES["y"]), x]
    y = graph.through(graph.node("Concat", *parts, axis=1), SCALES["z"])
    y = graph.node("Conv", y, graph.weights(GROUPED.reshape(4, 8, 3, 3), scales(4, 0.002)))
    return graph.through(y, SCALES["z"]), SCALES["z"]


def product(graph):
    """A product with a bias, transposed weights and an average before."""
    x = graph.through("x", SCALES["x"])
    x = graph.node("Reshape", x, np.array([-1, 10]))
    weights = graph.node("Transpose", graph.weights(MATRIX.T.copy(), scales(7, 0.003)), perm=[1, 0])
    y = graph.node("Add", graph.node("MatMul", x, weights), scales(7, 0.1))
    return graph.through(y, SCALES["z"]), SCALES["z"]


def operators(graph):
    """QLinearConv, QLinearAdd and QLinearMatMul."""
    zero, own = graph.zero, scales(8, 0.004)
    x = graph.quantized("x", SCALES["x"])
    xs, ys, zs = (np.float32(SCALES[name]) for name in "xyz")
    y = graph.node(
        "QLinearConv", x, xs, zero, WEIGHTS, own, np.zeros(8, "int8"), ys, zero, BIAS,
        pads=[1, 1, 1, 1],
    )  # fmt: skip
    z = graph.node(
        "QLinearConv", y, ys, zero, POINTWISE.repeat(2, 0)[:8], own, np.zeros(8, "int8"), zs, zero
    )
    z = graph.node("QLinearAdd", y, ys, zero, z, zs, zero, ys, zero, domain="com.microsoft")
    z = graph.node(
        "QLinearMatMul", z, ys, zero, MATRIX, np.float32(0.01), np.int8(3), zs, zero
    )  # fmt: skip
    return graph.real(z, SCALES["z"]), SCALES["z"]


def dynamic(graph):
    """DynamicQuantizeLinear, ConvInteger and MatMulInteger."""
    codes, scale, zero = graph.node("DynamicQuantizeLinear", "x", count=3)
    y = graph.node("ConvInteger", codes, WEIGHTS, zero, np.int8(1), pads=[1, 1, 1, 1])
    y = graph.node("Mul", graph.node("Cast", y, to=TensorProto.FLOAT), scale)
    codes, scale, zero = graph.node("DynamicQuantizeLinear", y, count=3)
    z = graph.node("MatMulInteger", codes, MATRIX, zero, np.int8(-2))
    z = graph.node("Mul", graph.node("Cast", z, to=TensorProto.FLOAT), scale)
    return z, 20.0


def sequence(graph):
    """A product of one sequence with weights."""
    codes, scale, zero = graph.node("DynamicQuantizeLinear", "x", count=3)
    y = graph.node("MatMulInteger", codes, MATRIX, zero, np.int8(2))
    return graph.node("Mul", graph.node("Cast", y, to=TensorProto.FLOAT), scale), 20.0


CASES = {
    "block": (block, [2, 4, 10, 10]),
    "separable": (separable, [2, 4, 9, 16]),
    "joined": (joined, [1, 4, 9, 10]),
    "product": (product, [3, 4, 5, 10]),
    "operators": (operators, [1, 4, 9, 10]),
    "dynamic": (dynamic, [1, 4, 9, 10]),
    "sequence": (sequence, [1, 6, 10]),
}


def saved(case, zero, folder, dynamic=False):
    make, shape = CASES[case]
    graph = Graph(zero)
    output, step = make(graph)
    path = folder / f"{case}.onnx"
    declared = ["batch", shape[1], "rows", shape[3]] if dynamic else shape
    onnx.save(graph.model(output, declared), path)
    return tvm_nnef.convert(path), shape, step


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(117), np.int8(0), np.int8(-9)], ids=str)
def test_codes_are_those_of_the_evaluator(case, zero, tmp_path):
    if case in ("dynamic", "sequence") and zero:
        pytest.skip("has its own zero points")
    model, shape, step = saved(case, zero, tmp_path)
    x = np.random.default_rng(7).normal(0, 1, shape).astype("float32")
    found = np.asarray(tvm_nnef.build(model, progress=False)(x)[0])
    steps = np.abs(found - np.asarray(tvm_nnef.evaluate(model, x)[0])) / step
    # A real that is within a rounding error of the middle of two codes gets either.
    assert steps.max() <= 1.01
    assert (steps > 0.01).mean() <= 0.005


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", ["joined", "block", "separable", "dynamic"])
def test_sizes_may_be_dynamic(case, tmp_path):
    model, shape, step = saved(case, np.uint8(117), tmp_path, dynamic=True)
    executable = tvm_nnef.build(model, progress=False)
    for batch, rows in ((1, 8), (3, 13)):
        x = np.random.default_rng(rows).normal(0, 1, [batch, shape[1], rows, shape[3]])
        x = x.astype("float32")
        expected = np.asarray(tvm_nnef.evaluate(model, x)[0])
        steps = np.abs(np.asarray(executable(x)[0]) - expected) / step
        assert steps.max() <= 1.01
        assert (steps > 0.01).mean() <= 0.005


COUNTS = {
    "block": 3,
    "separable": 3,
    "joined": 1,
    "product": 1,
    "operators": 3,
    "dynamic": 2,
    "sequence": 1,
}


def fused(model, target):
    """The module of a model after fusion."""
    mod = tvm_nnef.from_nnef(model)
    for each in passes(resolve(target)):
        if each.phase in ("bind", "graph", "fuse"):
            mod = each.run(mod)
    return mod


def kernels(model, target):
    """The names of the kernels of a model."""
    return [str(variable.name_hint) for variable in fused(model, target).functions]


def in_words(names):
    return sum(len(re.findall("(?:conv|matmul)_int", name)) for name in names)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", COUNTS)
def test_contractions_are_those_of_integers(case, dynamic, tmp_path):
    if dynamic and case in ("product", "operators", "sequence"):
        pytest.skip("has its own size")
    model, _, _ = saved(case, np.uint8(117), tmp_path, dynamic)
    names = kernels(model, "x86-64-v3")
    assert in_words(names) == COUNTS[case]
    # Zero points are known, and codes computed by the kernel before: no operator saturates.
    assert any("saturate" in name for name in names) == (case in ("dynamic", "sequence"))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", ["block", "separable", "joined"])
def test_only_codes_are_between_kernels(case, dynamic, tmp_path):
    model, _, _ = saved(case, np.uint8(0), tmp_path, dynamic)
    text = str(fused(model, "x86-64-v3")["main"])
    # The last two kernels compute reals, and permute the result.
    *between, _, _ = re.findall(r'R.call_tir\(.*dtype="(\w+)"', text)
    assert between and "float32" not in between


@pytest.mark.parametrize(("zero", "dtype"), [(np.uint8(0), "uint8"), (np.int8(0), "int8")])
def test_codes_are_bytes_without_a_zero_point(zero, dtype, tmp_path):
    model, _, _ = saved("joined", zero, tmp_path)
    mod = tvm_nnef.from_nnef(model)
    for each in passes(resolve("x86-64-v3")):
        mod = each.run(mod)
        if each.name == "use_integers":
            break
    assert f'dtype="{dtype}"' in str(mod["main"])
    assert "int16" not in str(mod["main"])


def test_other_machines_compute_in_reals(tmp_path):
    model, shape, step = saved("block", np.uint8(117), tmp_path)
    names = kernels(model, "aarch64")
    assert not in_words(names)
    assert not any("pack" in name for name in names)  # Weights are packed when it is built.
    x = np.random.default_rng(7).normal(0, 1, shape).astype("float32")
    found = np.asarray(tvm_nnef.build(model, target="llvm", progress=False)(x)[0])
    steps = np.abs(found - np.asarray(tvm_nnef.evaluate(model, x)[0])) / step
    assert steps.max() <= 1.01


def test_memory_of_codes_is_not_reused_for_what_is_computed_from_them():
    graph = Graph(np.int8(0))
    product = graph.node("MatMul", graph.through("x", 0.25), "w")
    output = graph.real(graph.quantized(product, 1.0), 1.0)
    model = graph.model(output, [16, 3, 2, 1])
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [1, 1]))
    x = np.random.default_rng(3).integers(-9, 10, (16, 3, 2, 1)).astype("float32") / 4
    w = np.array([[-1.0]], "float32")
    found = np.asarray(tvm_nnef.build(model, progress=False)(x, w)[0])
    np.testing.assert_array_equal(found, np.rint(-x))
