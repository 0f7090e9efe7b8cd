"""The models of the benchmark, as ONNX: networks of the onnx package, transformers, operators.

Each is what an exporter writes, so that ONNX Runtime recognises its patterns. Weights are random,
scaled so that activations neither vanish nor explode, and that a softmax at the end is not a vector
of one 1 and many 0, of which any error would be hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

SEED = 0
OPSET = 20

Array = Any


@dataclass(frozen=True)
class Entry:
    """A model of the suite: what makes it, and for single operators their work."""

    make: Callable[[], Any]
    flop: int | None = None


def suite() -> Mapping[str, Entry]:
    """All models by name."""
    return {**light_models(), **shaped_models(), **single_operators()}


def light_models() -> dict[str, Entry]:
    """The networks inside the onnx package, weights made up."""
    import onnx

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return {
        path.stem.removeprefix("light_"): Entry(partial(light_model, path))
        for path in sorted(folder.glob("light_*.onnx"))
    }


def light_model(path: Path) -> Any:
    """One of the networks inside the onnx package."""
    import onnx

    return with_varied_scores(with_weights(onnx.load(path)))


def with_weights(model: Any) -> Any:
    """A model whose constants of one value are initializers with random ones."""
    from onnx import numpy_helper

    generator = np.random.default_rng(SEED)
    graph = model.graph
    known = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    kept, made = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in known:
            kept.append(node)
            continue
        shape = [int(extent) for extent in known[node.input[0]]]
        if len(shape) > 1:
            values = generator.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        else:
            values = generator.uniform(0.5, 1.5, shape)
        made.append(numpy_helper.from_array(values.astype("float32"), node.output[0]))
    used = {name for node in kept for name in node.input}
    initializers = [item for item in (*graph.initializer, *made) if item.name in used]
    names = {item.name for item in initializers}
    inputs = [item for item in graph.input if item.name in used and item.name not in names]
    for part, items in (("node", kept), ("initializer", initializers), ("input", inputs)):
        del getattr(graph, part)[:]
        getattr(graph, part).extend(items)
    model.ir_version = max(model.ir_version, 4)
    return model


def with_batch(model: Any, batch: int | str) -> Any:
    """The model with another batch, a number or a symbol, in place."""
    from onnx import numpy_helper

    weights = {item.name: item for item in model.graph.initializer}
    del model.graph.value_info[:]
    for port in (*model.graph.input, *model.graph.output):
        dimensions = port.type.tensor_type.shape.dim
        if port.name not in weights and dimensions:
            name = "dim_param" if isinstance(batch, str) else "dim_value"
            setattr(dimensions[0], name, batch)
    for node in model.graph.node:
        if node.op_type == "Reshape" and node.input[1] in weights:
            item = weights[node.input[1]]
            shape = numpy_helper.to_array(item)
            if len(shape) > 1 and shape[0] == 1:
                # 0 keeps the dimension.
                changed = np.array([0, *shape[1:]], "int64")
                item.CopyFrom(numpy_helper.from_array(changed, item.name))
    return model


def with_varied_scores(model: Any) -> Any:
    """The model with its last layer scaled such that it gives a standard deviation of 1.

    How far random weights let activations grow in residual blocks, a run measures.
    """
    import onnxruntime
    from onnx import helper, numpy_helper

    last = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")][-1]
    model.graph.output.append(helper.make_empty_tensor_value_info(last.output[0]))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    model.graph.output.pop()
    port = session.get_inputs()[0]
    image = np.random.default_rng(SEED).random(port.shape, dtype="float32")
    deviation = session.run([last.output[0]], {port.name: image})[0].std()
    for item in model.graph.initializer:
        if item.name in last.input[1:]:
            scaled = numpy_helper.to_array(item) / deviation
            item.CopyFrom(numpy_helper.from_array(scaled.astype("float32"), item.name))
    return model


@dataclass
class Network:
    """An ONNX model in the making: nodes, weights, and names that are not taken yet."""

    inputs: Mapping[str, tuple[int, ...]]
    types: Mapping[str, str] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(SEED)

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; gives the name of its first output."""
        from onnx import helper

        number = len(self.nodes)
        names = [f"t{number}" if n == 0 else f"t{number}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0]

    def constant(self, value: Any, dtype: str = "float32") -> str:
        """A weight of these values."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value, dtype)
        return name

    def normal(self, *shape: int, scale: float = 0.05, around: float = 0.0) -> str:
        """A weight of normally distributed values."""
        return self.constant(around + scale * self.generator.standard_normal(shape))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """A matmul with weights, and a bias."""
        weight = self.normal(inputs, outputs, scale=inputs**-0.5)
        return self.add("Add", self.normal(outputs), self.add("MatMul", x, weight))

    def norm(self, x: str, width: int) -> str:
        """A layer norm over the last axis."""
        scale, bias = self.normal(width, around=1.0), self.normal(width)
        return self.add("LayerNormalization", x, scale, bias, axis=-1)

    def conv(self, x: str, inputs: int, outputs: int, kernel: int, **attributes: Any) -> str:
        """A convolution with weights and a bias, padded so that dimensions stay."""
        group = attributes.get("group", 1)
        fan = inputs // group * kernel * kernel
        weight = self.normal(outputs, inputs // group, kernel, kernel, scale=(2 / fan) ** 0.5)
        pads = attributes.pop("pads", [kernel // 2] * 4)
        return self.add("Conv", x, weight, self.normal(outputs), pads=pads, **attributes)

    def scores(self, x: str, channels: int) -> str:
        """The scores of 1000 classes, from the mean of each channel."""
        x = self.add("Flatten", self.add("GlobalAveragePool", x), axis=1)
        weight = self.normal(1000, channels, scale=channels**-0.5)
        return self.add("Gemm", x, weight, self.normal(1000), transB=1)

    def split_heads(self, x: str, shape: Sequence[int], order: Sequence[int]) -> str:
        """A reshape to heads, and a transposition."""
        return self.add(
            "Transpose", self.add("Reshape", x, self.constant(shape, "int64")), perm=order
        )

    def attention(self, x: str, rows: int, width: int, heads: int, mask: str | None = None) -> str:
        """Self-attention with its projections."""
        depth = width // heads
        shape = [0, rows, heads, depth]
        q = self.split_heads(self.dense(x, width, width), shape, [0, 2, 1, 3])
        k = self.split_heads(self.dense(x, width, width), shape, [0, 2, 3, 1])
        v = self.split_heads(self.dense(x, width, width), shape, [0, 2, 1, 3])
        scores = self.add("Div", self.add("MatMul", q, k), self.constant(depth**0.5))
        if mask is not None:
            scores = self.add("Add", scores, mask)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        joined = self.split_heads_back(mixed, rows, width)
        return self.dense(joined, width, width)

    def split_heads_back(self, x: str, rows: int, width: int) -> str:
        """Heads side by side again."""
        turned = self.add("Transpose", x, perm=[0, 2, 1, 3])
        return self.add("Reshape", turned, self.constant([0, rows, width], "int64"))

    def gelu(self, x: str) -> str:
        """Gelu by the error function, spelled out as exporters do."""
        inner = self.add("Erf", self.add("Div", x, self.constant(2**0.5)))
        product = self.add("Mul", x, self.add("Add", inner, self.constant(1.0)))
        return self.add("Mul", product, self.constant(0.5))

    def gelu_tanh(self, x: str) -> str:
        """Gelu by tanh, spelled out as in GPT-2."""
        cube = self.add("Pow", x, self.constant(3.0))
        inner = self.add("Add", x, self.add("Mul", cube, self.constant(0.044715)))
        inner = self.add("Tanh", self.add("Mul", inner, self.constant((2 / np.pi) ** 0.5)))
        half = self.add("Mul", x, self.constant(0.5))
        return self.add("Mul", half, self.add("Add", inner, self.constant(1.0)))

    def mlp(self, x: str, width: int, gelu: Callable[[str], str]) -> str:
        """Two dense layers with gelu between them."""
        return self.dense(gelu(self.dense(x, width, 4 * width)), 4 * width, width)

    def model(self, output: str) -> Any:
        """The ONNX model with one output."""
        from onnx import TensorProto, helper, numpy_helper, shape_inference

        kinds = {"int64": TensorProto.INT64, "float32": TensorProto.FLOAT}
        inputs = [
            helper.make_tensor_value_info(name, kinds[self.types.get(name, "float32")], shape)
            for name, shape in self.inputs.items()
        ]
        result = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        weights = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        graph = helper.make_graph(self.nodes, "model", inputs, [result], weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        made.ir_version = 9
        return shape_inference.infer_shapes(made)


def shaped_models() -> dict[str, Entry]:
    """Networks of the shapes of well-known ones."""
    return {
        "mobilenetv2": Entry(mobilenet),
        "bert base": Entry(bert),
        "vit base": Entry(vit),
        "gpt2": Entry(gpt2),
        "lstm": Entry(lstm),
    }


MOBILENET_STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, repetitions and first stride of each stage of MobileNetV2."""


def mobilenet() -> Any:
    """MobileNetV2 at 224 x 224, batch norms folded as exporters do."""
    made = Network({"x": (1, 3, 224, 224)})

    def relu6(x: str) -> str:
        return made.add("Clip", x, made.constant(0.0), made.constant(6.0))

    channels = 32
    x = relu6(made.conv("x", 3, channels, 3, strides=[2, 2]))
    for expansion, outputs, repeats, first in MOBILENET_STAGES:
        for number in range(repeats):
            stride = first if number == 0 else 1
            wide = channels * expansion
            y = relu6(made.conv(x, channels, wide, 1)) if expansion > 1 else x
            y = relu6(made.conv(y, wide, wide, 3, strides=[stride] * 2, group=wide))
            y = made.conv(y, wide, outputs, 1)
            x = made.add("Add", x, y) if stride == 1 and channels == outputs else y
            channels = outputs
    return made.model(made.scores(relu6(made.conv(x, channels, 1280, 1)), 1280))


def resnet50() -> Any:
    """ResNet-50 at 224 x 224, batch norms folded; its activations fit float16."""
    made = Network({"x": (1, 3, 224, 224)})

    def relu(x: str) -> str:
        return made.add("Relu", x)

    x = relu(made.conv("x", 3, 64, 7, strides=[2, 2]))
    x = made.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for outputs, repeats, first in ((256, 3, 1), (512, 4, 2), (1024, 6, 2), (2048, 3, 2)):
        for number in range(repeats):
            strides, narrow = [first if number == 0 else 1] * 2, outputs // 4
            y = relu(made.conv(x, channels, narrow, 1))
            y = relu(made.conv(y, narrow, narrow, 3, strides=strides))
            y = made.conv(y, narrow, outputs, 1)
            x = made.conv(x, channels, outputs, 1, strides=strides) if number == 0 else x
            x, channels = relu(made.add("Add", x, y)), outputs
    return made.model(made.scores(x, channels))


def bert(rows: int = 128, width: int = 768, heads: int = 12, layers: int = 12) -> Any:
    """BERT-base: embeddings, layers followed by norms, pooler."""
    made = Network({"ids": (1, rows)}, {"ids": "int64"})
    x = made.add("Gather", made.normal(30522, width), "ids", axis=0)
    x = made.norm(made.add("Add", x, made.normal(1, rows, width)), width)
    for _ in range(layers):
        x = made.norm(made.add("Add", x, made.attention(x, rows, width, heads)), width)
        x = made.norm(made.add("Add", x, made.mlp(x, width, made.gelu)), width)
    first = made.add("Gather", x, made.constant(0, "int64"), axis=1)
    return made.model(made.add("Tanh", made.dense(first, width, width)))


def vit(width: int = 768, heads: int = 12, layers: int = 12) -> Any:
    """ViT-base at 224 x 224 with patches of 16 x 16."""
    made = Network({"x": (1, 3, 224, 224)})
    patches = made.conv("x", 3, width, 16, strides=[16, 16], pads=[0] * 4)
    x = made.add("Reshape", patches, made.constant([1, width, 196], "int64"))
    x = made.add("Transpose", x, perm=[0, 2, 1])
    x = made.add("Concat", made.normal(1, 1, width), x, axis=1)
    x = made.add("Add", x, made.normal(1, 197, width))
    for _ in range(layers):
        x = made.add("Add", x, made.attention(made.norm(x, width), 197, width, heads))
        x = made.add("Add", x, made.mlp(made.norm(x, width), width, made.gelu))
    first = made.add("Gather", made.norm(x, width), made.constant(0, "int64"), axis=1)
    return made.model(made.dense(first, width, 1000))


def gpt2(rows: int = 64, width: int = 768, heads: int = 12, layers: int = 12) -> Any:
    """GPT-2: embeddings, causal layers with the norms in front, the logits of every row."""
    made = Network({"ids": (1, rows)}, {"ids": "int64"})
    table = made.normal(50257, width)
    x = made.add("Gather", table, "ids", axis=0)
    x = made.add("Add", x, made.normal(1, rows, width))
    mask = made.constant(np.triu(np.full((rows, rows), -1e4), 1)[None, None])
    for _ in range(layers):
        x = made.add("Add", x, made.attention(made.norm(x, width), rows, width, heads, mask))
        x = made.add("Add", x, made.mlp(made.norm(x, width), width, made.gelu_tanh))
    head = made.add("Transpose", table, perm=[1, 0])
    return made.model(made.add("MatMul", made.norm(x, width), head))


def lstm(rows: int = 64, width: int = 256) -> Any:
    """Two LSTM layers over a sequence, and a dense layer."""
    made = Network({"x": (rows, 1, width)})
    x = "x"
    for _ in range(2):
        weight = made.normal(1, 4 * width, width, scale=width**-0.5)
        recurrence = made.normal(1, 4 * width, width, scale=width**-0.5)
        bias = made.normal(1, 8 * width)
        y = made.add("LSTM", x, weight, recurrence, bias, outputs=3, hidden_size=width)
        x = made.add("Squeeze", y, made.constant([1], "int64"))
    return made.model(made.dense(x, width, 64))


def operator(
    name: str,
    *shapes: tuple[int, ...],
    weights: Sequence[tuple[int, ...]] = (),
    **attributes: Any,
) -> Callable[[], Any]:
    """Return a function that makes a model of one operator, of inputs and weights of shapes."""

    def make() -> Any:
        made = Network({f"x{number}": shape for number, shape in enumerate(shapes)})
        extra = [made.normal(*shape) for shape in weights]
        return made.model(made.add(name, *made.inputs, *extra, **attributes))

    return make


def reduce_mean(shape: tuple[int, ...]) -> Any:
    """A mean over the last axis."""
    made = Network({"x": shape})
    return made.model(made.add("ReduceMean", "x", made.constant([-1], "int64")))


def single_operators() -> dict[str, Entry]:
    """Models of one operator each, of sizes that networks have."""
    n, wide = 384, (1, 384, 3072)
    pooled: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    conv = operator("Conv", (1, 64, 56, 56), weights=[(64, 64, 3, 3)], pads=[1] * 4)
    depthwise = operator(
        "Conv", (1, 144, 56, 56), weights=[(144, 1, 3, 3)], pads=[1] * 4, group=144
    )
    pointwise = operator("Conv", (1, 256, 28, 28), weights=[(256, 256, 1, 1)])
    norm = operator("LayerNormalization", (1, n, 768), weights=[(768,), (768,)])
    return {
        "conv 3x3": Entry(conv, 2 * 56 * 56 * 64 * 64 * 9),
        "conv 1x1": Entry(pointwise, 2 * 28 * 28 * 256 * 256),
        "depthwise 3x3": Entry(depthwise, 2 * 56 * 56 * 144 * 9),
        "matmul": Entry(operator("MatMul", (n, 768), weights=[(768, 3072)]), 2 * n * 768 * 3072),
        "matmul of inputs": Entry(operator("MatMul", (n, 768), (768, 768)), 2 * n * 768 * 768),
        "gemv": Entry(operator("MatMul", (1, 2048), weights=[(2048, 1000)]), 2 * 2048 * 1000),
        "batched matmul": Entry(operator("MatMul", (12, n, n), (12, n, 64)), 24 * n * n * 64),
        "softmax": Entry(operator("Softmax", (12, n, n), axis=-1)),
        "layer norm": Entry(norm),
        "tanh": Entry(operator("Tanh", wide)),
        "sigmoid": Entry(operator("Sigmoid", wide)),
        "erf": Entry(operator("Erf", wide)),
        "gelu": Entry(operator("Gelu", wide)),
        "add": Entry(operator("Add", (1, n, 768), (1, n, 768))),
        "transpose": Entry(operator("Transpose", (1, n, 12, 64), perm=[0, 2, 1, 3])),
        "max pool": Entry(operator("MaxPool", (1, 64, 112, 112), **pooled)),
        "reduce mean": Entry(lambda: reduce_mean((1, n, 768))),
    }
