"""Small forms of known networks, written as NNEF 1 and as ONNX; ONNX Runtime is the judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.storage.tensor_file import write_tensor

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
Pads = Sequence[tuple[int, int]]


class Network:
    """Writes a network down in both formats, layer after layer; names of tensors go around."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.random = np.random.default_rng(1)
        self.shape = list(shape)
        self.lines = [f"x = external(shape = {self.shape});"]
        self.nodes: list[Any] = []
        self.weights: dict[str, np.ndarray] = {}
        self.count = 0

    def layer(self, text: str, operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        self.count += 1
        name = f"t{self.count}"
        self.lines.append(f"{name} = {text};")
        self.nodes.append(onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def weight(self, *shape: int, scale: float = 1.0, offset: float = 0.0) -> str:
        name = f"block/w{len(self.weights)}"
        array = self.random.standard_normal(shape) * scale + offset
        self.weights[name] = array.astype(np.float32)
        short = name.replace("/", "_")
        self.lines.append(f"{short} = variable(shape = {list(shape)}, label = '{name}');")
        return short

    def channels(self, count: int, **how: float) -> str:
        """A vector, which NNEF 1 has as a matrix of one row."""
        return self.weight(1, count, **how)

    def conv(
        self, x: str, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1,
        pad: int | None = None,
    ) -> str:  # fmt: skip
        """A convolution; automatic padding without ``pad``."""
        w = self.weight(outputs, inputs // groups, size, size, scale=(inputs * size * size) ** -0.5)
        b = self.channels(outputs, scale=0.1)
        number = 0 if groups == inputs > 1 else groups
        pairs = "" if pad is None else f", padding = [({pad}, {pad}), ({pad}, {pad})]"
        text = f"conv({x}, {w}, {b}, stride = [{stride}, {stride}], groups = {number}{pairs})"
        pads = {"auto_pad": "SAME_UPPER"} if pad is None else {"pads": [pad] * 4}
        return self.layer(
            text, "Conv", [x, w, f"{b}_vector"], strides=[stride] * 2, group=groups, **pads
        )

    def relu(self, x: str) -> str:
        return self.layer(f"relu({x})", "Relu", [x])

    def norm(self, x: str, count: int) -> str:
        mean, variance = self.channels(count, scale=0.1), self.channels(count, scale=0.1, offset=1)
        offset, scale = self.channels(count, scale=0.1), self.channels(count, scale=0.1, offset=1)
        text = f"batch_normalization({x}, {mean}, {variance}, {offset}, {scale}, epsilon = 0.001)"
        vectors = [f"{each}_vector" for each in (scale, offset, mean, variance)]
        return self.layer(text, "BatchNormalization", [x, *vectors], epsilon=0.001)

    def pool(self, x: str, kind: str, size: int, stride: int, pad: int = 0) -> str:
        pads = f"[(0, 0), (0, 0), ({pad}, {pad}), ({pad}, {pad})]"
        text = (
            f"{kind}_pool({x}, size = [1, 1, {size}, {size}], stride = [1, 1, {stride}, {stride}], "
            f"padding = {pads}, border = 'ignore')"
        )
        operator = {"max": "MaxPool", "avg": "AveragePool"}[kind]
        more = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.layer(text, operator, [x], **more)

    def response(self, x: str) -> str:
        text = f"local_response_normalization({x}, size = [1, 5, 1, 1], alpha = 0.5, beta = 0.75)"
        return self.layer(text, "LRN", [x], size=5, alpha=0.5, beta=0.75, bias=1.0)

    def add(self, x: str, y: str) -> str:
        return self.layer(f"add({x}, {y})", "Add", [x, y])

    def concat(self, *parts: str) -> str:
        return self.layer(f"concat([{', '.join(parts)}], axis = 1)", "Concat", parts, axis=1)

    def mean(self, x: str) -> str:
        text = f"mean_reduce({x}, axes = [2, 3])"
        return self.layer(text, "GlobalAveragePool", [x])

    def flat(self, x: str) -> str:
        return self.layer(f"reshape({x}, shape = [0, -1])", "Flatten", [x])

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        w, b = self.weight(outputs, inputs, scale=inputs**-0.5), self.channels(outputs, scale=0.1)
        return self.layer(f"linear({x}, {w}, {b})", "Gemm", [x, w, f"{b}_vector"], transB=1)

    def softmax(self, x: str) -> str:
        return self.layer(f"softmax({x})", "Softmax", [x], axis=1)

    def write(self, folder: Path) -> None:
        """The folder of the NNEF 1 model."""
        body = "\n    ".join(self.lines)
        result = f"t{self.count}"
        text = f"version 1.0;\ngraph net(x) -> ({result})\n{{\n    {body}\n}}\n"
        (folder / "block").mkdir(parents=True)
        (folder / "graph.nnef").write_text(text, encoding="utf-8")
        for name, array in self.weights.items():
            (folder / f"{name}.dat").write_bytes(write_tensor(array))

    def judged(self, x: np.ndarray) -> np.ndarray:
        """What ONNX Runtime gives."""
        arrays = {name.replace("/", "_"): each for name, each in self.weights.items()}
        arrays |= {f"{name}_vector": each[0] for name, each in arrays.items() if each.ndim == 2}
        read = {name for node in self.nodes for name in node.input}
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            self.nodes, "net", [value("x", onnx.TensorProto.FLOAT, self.shape)],
            [value(f"t{self.count}", onnx.TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(a, name) for name, a in arrays.items() if name in read],
        )  # fmt: skip
        opset = [onnx.helper.make_opsetid("", 17)]
        model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
        (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
        return np.asarray(found)


def alexnet(net: Network) -> None:
    h = net.pool(net.response(net.relu(net.conv("x", 3, 8, 5, 2, pad=2))), "max", 3, 2)
    h = net.pool(net.relu(net.conv(h, 8, 12, 5, groups=2, pad=2)), "max", 3, 2)
    h = net.flat(net.relu(net.conv(h, 12, 12, 3, pad=1)))
    net.softmax(net.linear(net.relu(net.linear(h, 108, 20)), 20, 10))


def vgg(net: Network) -> None:
    h = "x"
    for inputs, outputs in ((3, 8), (8, 12)):
        h = net.relu(net.conv(h, inputs, outputs, 3))
        h = net.pool(net.relu(net.conv(h, outputs, outputs, 3)), "max", 2, 2)
    net.softmax(net.linear(net.flat(h), 12 * 64, 10))


def googlenet(net: Network) -> None:
    h = net.pool(net.relu(net.conv("x", 3, 8, 7, 2, pad=3)), "max", 3, 2, 1)
    one = net.relu(net.conv(h, 8, 4, 1))
    three = net.relu(net.conv(net.relu(net.conv(h, 8, 4, 1)), 4, 6, 3))
    five = net.relu(net.conv(net.relu(net.conv(h, 8, 2, 1)), 2, 4, 5))
    pooled = net.relu(net.conv(net.pool(h, "max", 3, 1, 1), 8, 4, 1))
    h = net.pool(net.concat(one, three, five, pooled), "avg", 3, 2, 1)
    net.softmax(net.linear(net.flat(net.mean(h)), 18, 10))


def resnet(net: Network) -> None:
    h = net.relu(net.norm(net.conv("x", 3, 8, 3, 2), 8))
    for inputs, outputs, stride in ((8, 8, 1), (8, 12, 2)):
        short = h if stride == 1 else net.norm(net.conv(h, inputs, outputs, 1, stride), outputs)
        h = net.relu(net.norm(net.conv(h, inputs, outputs, 3, stride), outputs))
        h = net.relu(net.add(net.norm(net.conv(h, outputs, outputs, 3), outputs), short))
    net.softmax(net.linear(net.flat(net.mean(h)), 12, 10))


def mobilenet(net: Network) -> None:
    h = net.relu(net.norm(net.conv("x", 3, 8, 3, 2), 8))
    for inputs, outputs, stride in ((8, 12, 1), (12, 16, 2)):
        h = net.relu(net.norm(net.conv(h, inputs, inputs, 3, stride, inputs), inputs))
        h = net.relu(net.norm(net.conv(h, inputs, outputs, 1), outputs))
    net.softmax(net.linear(net.flat(net.mean(h)), 16, 10))


NETWORKS: Sequence[Callable[[Network], None]] = (alexnet, vgg, googlenet, resnet, mobilenet)


def _model(form: Callable[[Network], None], folder: Path) -> tuple[Any, np.ndarray, np.ndarray]:
    net = Network((2, 3, 32, 32))
    form(net)
    net.write(folder / "model")
    x = net.random.standard_normal(net.shape).astype(np.float32)
    return tvm_nnef.convert(folder / "model"), x, net.judged(x)


@pytest.mark.parametrize("form", NETWORKS)
def test_networks(form: Callable[[Network], None], tmp_path: Path) -> None:
    model, x, expected = _model(form, tmp_path)
    (found,) = tvm_nnef.evaluate(model, x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", NETWORKS)
def test_networks_exported_again(form: Callable[[Network], None], tmp_path: Path) -> None:
    """Labels, names and results stay."""
    model, x, expected = _model(form, tmp_path)
    tvm_nnef.convert(model, tmp_path / "out.nnef1")
    files = [
        {each.relative_to(folder) for each in folder.rglob("*.dat")}
        for folder in (tmp_path / "model", tmp_path / "out.nnef1")
    ]
    assert files[0] == files[1]
    text = (tmp_path / "out.nnef1" / "graph.nnef").read_text(encoding="utf-8")
    assert all(f" {each} = " in text for each in ("x", "t1", "t2", "t3"))
    (found,) = tvm_nnef.evaluate(tmp_path / "out.nnef1", x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("form", NETWORKS)
def test_networks_compiled(form: Callable[[Network], None], route: Any, tmp_path: Path) -> None:
    model, x, expected = _model(form, tmp_path)
    (found,) = tvm_nnef.build(model, route=route, progress=False)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_labels_are_kept(tmp_path: Path) -> None:
    model, *_ = _model(resnet, tmp_path)
    names = model.metadata.source_names
    assert {names[each] for each in model.variables} == {
        f"block/w{number}" for number in range(len(model.variables))
    }
