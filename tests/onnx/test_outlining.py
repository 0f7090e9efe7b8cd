"""Repeated blocks become operators: found where a person would see them, and nothing computed else.

Each model is converted twice, with its blocks and flat, and both must be the same computation.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

import tvm_nnef
from tvm_nnef import schedules
from tvm_nnef.cli import main
from tvm_nnef.compilation.pipeline import compile_phases
from tvm_nnef.converters.common.common_names import scopes_of, title
from tvm_nnef.converters.common.repeats import repeats
from tvm_nnef.graph.nodes import opened_nodes, operator_name
from tvm_nnef.syntax import parse, print_module

onnx = pytest.importorskip("onnx")
node = onnx.helper.make_node
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RANDOM = np.random.default_rng(0)


def blocks(model: Any) -> list[str]:
    """The operators of the model's own text."""
    found = model.program.modules["main"].definitions
    return [name for name, each in found.items() if not each.is_graph]


def text(model: Any) -> str:
    return str(model.modules["main"].source.text)


def compose_block(model: Any) -> list[str]:
    """The lines of the graph's own compose block, each operation as one."""
    (graph,) = (each for each in parse(text(model)).definitions if each.kind == "graph")
    (block,) = (each for each in graph.blocks if each.kind == "compose")
    return [" ".join(str(each.span.text).split()) for each in block.statements]


@pytest.fixture
def both(make_model: Any) -> Callable[..., tuple[Any, Any]]:
    """A model with its blocks and flat; they hold the same operations, and give the same bits."""

    def check(proto: Any, *inputs: np.ndarray, **options: Any) -> tuple[Any, Any]:
        model = tvm_nnef.convert(proto, **options)
        flat = tvm_nnef.convert(proto, outline=False, **options)
        assert blocks(flat) == []
        assert not [each for each in tvm_nnef.check(model) if each.severity == "error"]
        tree = parse(text(model))
        assert parse(print_module(tree)) == tree
        assert set(model.variables) == set(flat.variables)
        names = [set(each.metadata.source_names.values()) for each in (model, flat)]
        assert names[0] == names[1]
        graphs = [tvm_nnef.compose(each) for each in (model, flat)]
        operations = [Counter(map(operator_name, opened_nodes(each))) for each in graphs]
        assert operations[0] == operations[1]
        found, expected = (tvm_nnef.evaluate(each, *inputs) for each in (model, flat))
        for ours, theirs in zip(found, expected, strict=True):
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype
            np.testing.assert_array_equal(ours, theirs)
        return model, flat

    return check


def layer(number: int, read: str, width: int = 4) -> tuple[list[Any], dict[str, np.ndarray], str]:
    """Five nodes with their own two weights, as torch names them; what it gives."""
    path, weights = f"/net/layer.{number}", f"net.layer.{number}"
    nodes = [
        node("MatMul", [read, f"{weights}.up.weight"], [f"{path}/up/MatMul_output_0"]),
        node("Add", [f"{path}/up/MatMul_output_0", f"{weights}.up.bias"], [f"{path}/up/Add_out"]),
        node("Relu", [f"{path}/up/Add_out"], [f"{path}/act/Relu_output_0"]),
        node("MatMul", [f"{path}/act/Relu_output_0", f"{weights}.down.weight"],
             [f"{path}/down/MatMul_output_0"]),
        node("Add", [f"{path}/down/MatMul_output_0", read], [f"{path}/Add_output_0"]),
    ]  # fmt: skip
    arrays = {
        f"{weights}.up.weight": RANDOM.standard_normal((width, 6)).astype(np.float32),
        f"{weights}.up.bias": RANDOM.standard_normal(6).astype(np.float32),
        f"{weights}.down.weight": RANDOM.standard_normal((6, width)).astype(np.float32),
    }
    return nodes, arrays, f"{path}/Add_output_0"


def stack(count: int, read: str = "x") -> tuple[list[Any], dict[str, np.ndarray], str]:
    nodes, arrays = [], {}
    for number in range(count):
        more, weights, read = layer(number, read)
        nodes += more
        arrays |= weights
    return nodes, arrays, read


X = RANDOM.standard_normal((2, 4)).astype(np.float32)
FLOAT = [("x", "float32", [2, 4])]


def test_equal_layers_are_one_operator(make_model: Any, both: Any) -> None:
    nodes, arrays, last = stack(3)
    proto = make_model(
        [*nodes, node("Neg", [last], ["y"])], FLOAT, [("y", "float32", [2, 4])], arrays
    )
    model, _ = both(proto, X)
    assert blocks(model) == ["net_layer"]
    assert compose_block(model) == [
        "net_layer_0_Add = net_layer_0: net_layer(x, net_layer_0_up_weight, net_layer_0_up_bias, "
        "net_layer_0_down_weight);",
        "net_layer_1_Add = net_layer_1: net_layer(net_layer_0_Add, net_layer_1_up_weight, "
        "net_layer_1_up_bias, net_layer_1_down_weight);",
        "net_layer_2_Add = net_layer_2: net_layer(net_layer_1_Add, net_layer_2_up_weight, "
        "net_layer_2_up_bias, net_layer_2_down_weight);",
        "y = math.neg(net_layer_2_Add);",
    ]
    begin = text(model).index("public operator net_layer {")
    assert text(model)[begin : text(model).index("\n}\n", begin) + 3] == EXPECTED


EXPECTED = """\
public operator net_layer {
    @input {
        x: real[2, 4];
        up_weight: real[4, 6];
        up_bias: real[6];
        down_weight: real[6, 4];
    }
    @output {
        Add: real[2, 4];
    }
    @compose {
        up_MatMul = linalg.matmul(x, up_weight);
        up_Add_out = math.add(up_MatMul, up_bias);
        act_Relu = nn.relu(up_Add_out);
        down_MatMul = linalg.matmul(act_Relu, down_weight);
        Add = math.add(down_MatMul, x);
    }
}
"""


def test_names_of_the_source_lead_into_blocks(make_model: Any) -> None:
    nodes, arrays, last = stack(3)
    proto = make_model(
        [*nodes, node("Neg", [last], ["y"])], FLOAT, [("y", "float32", [2, 4])], arrays
    )
    names = tvm_nnef.convert(proto).metadata.source_names
    assert names["main.net.net_layer_1.up_MatMul"] == "/net/layer.1/up/MatMul_output_0"
    assert names["main.net.net_layer_1.Add"] == "/net/layer.1/Add_output_0"
    assert names["main.net.net_layer_1_Add"] == "/net/layer.1/Add_output_0"
    assert names["main.net.net_layer_1_up_weight"] == "net.layer.1.up.weight"


def test_two_blocks_that_alternate(make_model: Any, both: Any) -> None:
    """Two layers and five other nodes, three times: the layer is a part of the whole."""
    nodes, arrays, read = [], {}, "x"
    for number in range(6):
        more, weights, read = layer(number, read)
        nodes += more
        arrays |= weights
        if number % 2:
            between = [f"t{number}_{position}" for position in range(5)]
            kinds = ("Sigmoid", "Tanh", "Exp", "Neg", "Abs")
            for kind, result in zip(kinds, between, strict=True):
                nodes.append(node(kind, [read], [result]))
                read = result
    proto = make_model(
        [*nodes, node("Sin", [read], ["y"])], FLOAT, [("y", "float32", [2, 4])], arrays
    )
    model, _ = both(proto, X)
    inner, outer = blocks(model)
    lines = compose_block(model)
    assert [f"{outer}(" in line for line in lines] == [True] * 3 + [False]
    assert text(model).count(f": {inner}(") == 2


def test_a_block_may_read_what_all_share(make_model: Any, both: Any) -> None:
    """A tensor from outside, and one weight for all, are inputs under their own names."""
    nodes, read = [node("Sigmoid", ["x"], ["mask"])], "x"
    for number in range(3):
        results = [f"/l.{number}/{each}" for each in "abcde"]
        nodes += [
            node("MatMul", [read, "shared.weight"], [results[0]]),
            node("Mul", [results[0], "mask"], [results[1]]),
            node("Relu", [results[1]], [results[2]]),
            node("MatMul", [results[2], "shared.weight"], [results[3]]),
            node("Add", [results[3], read], [results[4]]),
        ]
        read = results[4]
    proto = make_model(
        [*nodes, node("Neg", [read], ["y"])], FLOAT, [("y", "float32", [2, 4])],
        {"shared.weight": RANDOM.standard_normal((4, 4)).astype(np.float32)},
    )  # fmt: skip
    model, _ = both(proto, X)
    lines = compose_block(model)
    assert [line.partition("(")[2] for line in lines[1:4]] == [
        "x, shared_weight, mask);", "l_0_e, shared_weight, mask);", "l_1_e, shared_weight, mask);"
    ]  # fmt: skip


def test_what_is_read_of_the_middle_is_an_output(make_model: Any, both: Any) -> None:
    nodes, arrays, last = stack(4)
    proto = make_model(
        [*nodes, node("ReduceSum", ["/net/layer.2/act/Relu_output_0"], ["z"], keepdims=0),
         node("Neg", [last], ["y"])],
        FLOAT, [("y", "float32", [2, 4]), ("z", "float32", [])], arrays,
    )  # fmt: skip
    model, _ = both(proto, X)
    results = [line.partition(" = ")[0] for line in compose_block(model)]
    assert results[:4] == [
        "~, net_layer_0_Add", "~, net_layer_1_Add", "net_layer_2_act_Relu, net_layer_2_Add",
        "~, net_layer_3_Add",
    ]  # fmt: skip


UNEQUAL: Mapping[str, Callable[[list[Any]], None]] = {
    "attribute": lambda nodes: nodes[6].attribute.append(onnx.helper.make_attribute("axis", 0)),
    "wiring": lambda nodes: nodes[8].input.__setitem__(0, nodes[6].output[0]),
    "operator": lambda nodes: setattr(nodes[7], "op_type", "Tanh"),
}


@pytest.mark.parametrize("what", UNEQUAL)
def test_what_is_not_equal_is_not_a_block(make_model: Any, both: Any, what: str) -> None:
    nodes, read = [], "x"
    for number in range(2):
        results = [f"/l.{number}/{each}" for each in "abcde"]
        nodes += [
            node("Sigmoid", [read], [results[0]]), node("Softmax", [results[0]], [results[1]]),
            node("Relu", [results[1]], [results[2]]), node("Exp", [results[2]], [results[3]]),
            node("Neg", [results[3]], [results[4]]),
        ]  # fmt: skip
        read = results[4]
    doubled = [*nodes, *stack(0)[0]]
    UNEQUAL[what](doubled)
    proto = make_model([*doubled, node("Sin", [read], ["y"])], FLOAT, [("y", "float32", [2, 4])])
    assert blocks(both(proto, X)[0]) == []


def test_dtypes_are_those_of_the_source_inside(make_model: Any, both: Any) -> None:
    """Blocks of float16 that count in int8, which wraps around; float32 ones are another block."""
    nodes: list[Any] = []
    for dtype, read in (("FLOAT16", "h"), ("FLOAT", "x")):
        for number in range(3):
            results = [f"/{dtype}.{number}/{each}" for each in "abcde"]
            to = getattr(onnx.TensorProto, dtype)
            nodes += [
                node("Exp", [read], [results[0]]),
                node("Cast", [results[0]], [results[1]], to=onnx.TensorProto.INT8),
                node("Mul", [results[1], results[1]], [results[2]]),
                node("Cast", [results[2]], [results[3]], to=to),
                node("Tanh", [results[3]], [results[4]]),
            ]
            read = results[4]
        nodes.append(node("Neg", [read], [f"y{dtype}"]))
    proto = make_model(
        nodes, [("h", "float16", [2, 4]), *FLOAT],
        [("yFLOAT16", "float16", [2, 4]), ("yFLOAT", "float32", [2, 4])],
    )  # fmt: skip
    x = np.full((2, 4), 3.0, np.float32)
    model, _ = both(proto, x.astype(np.float16), x)
    assert len(blocks(model)) == 2
    types = model.metadata.machine_types
    assert types["main.net.FLOAT16_1.b"] == types["main.net.FLOAT_1.b"] == "int8"
    assert types["main.net.FLOAT16_1.e"] == "float16"
    graph = tvm_nnef.compose(model)
    found = {tensor.name: dtype for tensor, dtype in graph.machine_types.items()}
    assert all(found[name] == dtype for name, dtype in types.items())


def test_numbers_of_elements_may_differ(make_model: Any, both: Any) -> None:
    nodes, arrays, read, width = [], {}, "x", 4
    for number in range(3):
        results = [f"/l.{number}/{each}" for each in "abcde"]
        arrays[f"l.{number}.weight"] = RANDOM.standard_normal((width, width + 2)).astype(np.float32)
        arrays[f"l.{number}.bias"] = RANDOM.standard_normal(width + 2).astype(np.float32)
        nodes += [
            node("MatMul", [read, f"l.{number}.weight"], [results[0]]),
            node("Add", [results[0], f"l.{number}.bias"], [results[1]]),
            node("Relu", [results[1]], [results[2]]),
            node("Sigmoid", [results[2]], [results[3]]),
            node("Softmax", [results[3]], [results[4]]),
        ]
        read, width = results[4], width + 2
    proto = make_model(
        [*nodes, node("Neg", [read], ["y"])], FLOAT, [("y", "float32", [2, 10])], arrays
    )
    model, _ = both(proto, X)
    assert "x: real[2, c];\n        weight: real[c, d];\n        bias: real[d];" in text(model)
    assert "e: real[2, d];" in text(model)


@pytest.mark.slow
def test_dynamic_dimensions_are_inferred_from_inputs_or_given(make_model: Any, both: Any) -> None:
    """Layers reshape to [n, 2, 2] and back; if no input has n, it is an attribute."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"]),
        node("Concat", ["n", "two", "two"], ["split"], axis=0),
        node("Concat", ["n", "four"], ["joined"], axis=0),
        node("Expand", ["one", "joined"], ["o"]),
    ]
    read = "x"
    for number in range(3):
        results = [f"/l.{number}/{each}" for each in "abcdef"]
        nodes += [
            node("Reshape", [read, "split"], [results[0]]),
            node("Tanh", [results[0]], [results[1]]),
            node("Reshape", [results[1], "joined"], [results[2]]),
            node("Sigmoid", [results[2]], [results[3]]),
            node("Add", [results[3], "o"], [results[4]]),
            node("Exp", [results[4]], [results[5]]),
        ]
        read = results[5]
    int64 = np.int64
    proto = make_model(
        [*nodes, node("Neg", [read], ["y"])], [("x", "float32", ["n", 4])],
        [("y", "float32", ["n", 4])],
        {"zero": np.array([0], int64), "two": np.array([2], int64), "four": np.array([4], int64),
         "one": np.ones((1, 1), np.float32)},
    )  # fmt: skip
    model, flat = both(proto, X, bounds=8)
    assert len(blocks(model)) == 1
    assert "x: real[n, 4];" in text(model)
    assert "layout.reshape{shape=[n, 2, 2]}(x)" in text(model)
    compiled = [tvm_nnef.build(each, progress=False) for each in (model, flat)]
    for size in (1, 5, 8):
        x = RANDOM.standard_normal((size, 4)).astype(np.float32)
        np.testing.assert_array_equal(compiled[0](x)[0], compiled[1](x)[0])


def test_other_steps_may_be_between_those_of_the_first_layer(make_model: Any, both: Any) -> None:
    """What all layers read is often made where the first one needs it."""
    nodes, arrays, read = [], {}, "x"
    for number in range(3):
        more, weights, read = layer(number, read)
        if number == 0:
            more.insert(2, node("Sigmoid", ["x"], ["gate"]))
        path = f"/net/layer.{number}"
        more.append(node("Mul", [read, "gate"], [f"{path}/Mul_output_0"]))
        read = f"{path}/Mul_output_0"
        nodes += more
        arrays |= weights
    proto = make_model(
        [*nodes, node("Neg", [read], ["y"])], FLOAT, [("y", "float32", [2, 4])], arrays
    )
    model, _ = both(proto, X)
    lines = compose_block(model)
    assert lines[0] == "gate = nn.sigmoid(x);"
    assert [line.count("net_layer(") for line in lines] == [0, 1, 1, 1, 0]


@pytest.mark.slow
def test_a_node_that_becomes_several_operations_is_not_cut(make_model: Any, both: Any) -> None:
    """A normalization is three operations, which stay together wherever it is cut."""
    names = ("scale", "offset")
    arrays = {name: RANDOM.standard_normal(4).astype(np.float32) for name in names}
    nodes = [node("LayerNormalization", ["x", *names], ["start"])]
    read = "start"
    for number in range(4):
        results = [f"t{number}{each}" for each in "abc"]
        weights = [f"w{number}{each}" for each in "abc"]
        shapes = ((4, 4), 4, 4)
        arrays |= {
            name: RANDOM.standard_normal(shape).astype(np.float32)
            for name, shape in zip(weights, shapes, strict=True)
        }
        nodes += [
            node("MatMul", [read, weights[0]], [results[0]]),
            node("Add", [results[0], read], [results[1]]),
            node("LayerNormalization", [results[1], *weights[1:]], [results[2]]),
        ]
        read = results[2]
    proto = make_model(
        [*nodes, node("Neg", [read], ["y"])], FLOAT, [("y", "float32", [2, 4])], arrays
    )
    model, _ = both(proto, X)
    (name,) = blocks(model)
    lines = compose_block(model)
    assert sum(f"{name}(" in line for line in lines) == 4
    body = text(model).split("graph ")[0]
    assert [f"{each} = " in body for each in ("mul", "add", "matmul", "add_2")] == [True] * 4
    assert body.index("standardize, ~") < body.index("math.mul")


@pytest.mark.slow
@pytest.mark.parametrize("period", [1, 7, 50_000])
def test_many_nodes_take_little_time(make_model: Any, period: int) -> None:
    """Hostile models: equal nodes, short periods, all alike but in one attribute."""
    kinds = ("Relu", "Neg", "Abs", "Exp", "Tanh", "Sigmoid", "Sin")
    count = 6_000
    nodes = [
        node(kinds[position % period % 7], [f"t{position}"], [f"t{position + 1}"])
        for position in range(count)
    ]
    proto = make_model(nodes, [("t0", "float32", [2])], [(f"t{count}", "float32", [2])])
    spent = []
    for outline in (False, True):
        start = time.process_time()
        tvm_nnef.convert(proto, outline=outline)
        spent.append(time.process_time() - start)
    assert spent[1] < 2 * spent[0] + 2


@pytest.mark.slow
def test_comparing_names_the_node_inside_of_a_block(make_model: Any) -> None:
    pytest.importorskip("onnxruntime")
    nodes, arrays, last = stack(3)
    nodes[7].op_type = nodes[12].op_type = nodes[2].op_type = "LeakyRelu"
    proto = make_model(
        [*nodes, node("Neg", [last], ["y"])], FLOAT, [("y", "float32", [2, 4])], arrays
    )
    options: Mapping[str, Any] = {"against": proto, "progress": False}
    routes = ("onnxruntime", "reference")
    right = tvm_nnef.compare(tvm_nnef.convert(proto), X, routes=routes, **options)
    assert right.agrees
    assert right.count == len(right.rows) == 16
    wrong = tvm_nnef.convert(
        proto, converters={"LeakyRelu": lambda n, b: b.call("nn.relu", n.input(0))}
    )
    assert blocks(wrong)
    row = tvm_nnef.compare(wrong, X, routes=routes, **options).first_difference
    assert row is not None
    assert row.origin is not None
    assert row.origin.tensor == "/net/layer.0/act/Relu_output_0"
    assert row.tensor.name == "main.net.net_layer_0.act_Relu"
    for chained in (False, True):
        report = tvm_nnef.compare(
            wrong, X, routes=("reference", "mapped"), chained=chained, progress=False
        )
        assert report.agrees
        assert sum(row.node is not None for row in report.rows) == 16


def kernels(model: Any) -> list[tuple[str, str | None]]:
    """The kernels and the rules that schedule them."""
    stages = compile_phases(tvm_nnef.from_nnef(model), "native", last="schedule")
    found = schedules.report(stages["schedule"])
    return sorted((each.name.rstrip("0123456789"), each.strategy) for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", pytest.param("resnet50", marks=pytest.mark.slow)])
def test_the_same_kernels_are_compiled(name: str) -> None:
    file = LIGHT / f"light_{name}.onnx"
    model, flat = (tvm_nnef.convert(file, outline=outline) for outline in (True, False))
    assert blocks(model)
    assert kernels(model) == kernels(flat)


NETWORKS: Mapping[str, tuple[int, Sequence[str]]] = {
    "densenet121": (1200, ["batch_norm_relu", "conv_block"]),
    "inception_v1": (250, ["inception"]),
    "resnet50": (520, ["res", "res_2"]),
    "squeezenet": (125, ["fire"]),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "squeezenet" else pytest.mark.slow) for n in NETWORKS],
)
def test_networks_are_as_short_as_their_blocks_allow(name: str) -> None:
    lines, expected = NETWORKS[name]
    model = tvm_nnef.convert(LIGHT / f"light_{name}.onnx")
    assert blocks(model) == expected
    assert len(text(model).splitlines()) < lines
    flat = tvm_nnef.convert(LIGHT / f"light_{name}.onnx", outline=False)
    graphs = [tvm_nnef.compose(each) for each in (model, flat)]
    operations = [Counter(map(operator_name, opened_nodes(each))) for each in graphs]
    assert operations[0] == operations[1]
    assert not tvm_nnef.check(model)


def test_saved_models_and_the_way_back(make_model: Any, tmp_path: Path, capsys: Any) -> None:
    runtime = pytest.importorskip("onnxruntime")
    nodes, arrays, last = stack(3)
    proto = make_model(
        [*nodes, node("Neg", [last], ["y"])], FLOAT, [("y", "float32", [2, 4])], arrays
    )
    file, folder, back = tmp_path / "net.onnx", tmp_path / "net.nnef2", tmp_path / "back.onnx"
    onnx.save(proto, file)
    assert main(["convert", str(file), str(folder)]) == 0
    assert (folder / "main.net.net_layer_1_up_weight.dat").is_file()
    (expected,) = tvm_nnef.evaluate(tvm_nnef.convert(proto), X)
    np.testing.assert_array_equal(tvm_nnef.evaluate(folder, X)[0], expected)
    assert main(["show", str(folder), "--svg", str(tmp_path / "net.svg")]) == 0
    assert (tmp_path / "net.svg").read_text().count("net_layer") >= 3
    assert main(["convert", str(folder), str(back)]) == 0
    (found,) = runtime.InferenceSession(str(back)).run(None, {"x": X})
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    (again,) = tvm_nnef.evaluate(tvm_nnef.convert(back), X)
    np.testing.assert_array_equal(again, expected)
    assert main(["convert", str(file), str(folder), "--flat"]) == 0
    assert "operator" not in (folder / "main.sknd").read_text()


TITLES = {
    ("net.layer.0.up", "net.layer.0.down"): "net_layer",
    ("net.h.0.attn", "net.h.0.mlp"): "net_block",
    ("net.layer1.layer1.0.a", "net.layer1.layer1.0.b"): "net_layer",
    ("fire2/squeeze", "fire2/expand"): "fire",
    ("inception_3a_pool_w", "inception_3a_conv_w"): "inception",
    ("up_weight", "down_weight"): "matmul_relu",
}


@pytest.mark.parametrize("names", TITLES)
def test_blocks_are_called_after_what_names_have_in_common(names: Sequence[str]) -> None:
    again = [re.sub(r"\d", lambda found: str(int(found[0]) + 1), name) for name in names]
    scopes = scopes_of([names, again])
    assert title(scopes, ["matmul", "relu", "matmul"]) == TITLES[tuple(names)]


LAYER_NORM = "mean_reduce sub pow mean_reduce add sqrt div mul add"
PURPOSES = {
    "mul add add max min mul div mul add": "hard_swish",
    "conv batch_norm add clamp div mul": "conv_batch_norm_hard_swish",
    "mean_reduce conv add relu conv add hard_sigmoid mul add": "squeeze_excite",
    "batch_norm hard_swish mean_reduce conv relu conv sigmoid mul conv deconv": "squeeze_excite",
    LAYER_NORM: "layer_norm",
    "matmul add div erf add mul mul matmul": "matmul_gelu",
    "matmul mul add softmax matmul transpose reshape": "attention",
    f"{LAYER_NORM} matmul matmul softmax matmul {LAYER_NORM} matmul": "transformer_layer",
    "div round_even cast add saturate cast sub cast mul": "quantize",
    "add mul add hard_sigmoid mul": "hard_sigmoid_block",
    "add mul sub": "add_mul_sub",
    "add mul sub div": "add_block",
}


@pytest.mark.parametrize("operators", PURPOSES)
def test_blocks_without_common_names_are_called_after_what_they_compute(operators: str) -> None:
    assert title([(), ()], operators.split()) == PURPOSES[operators]


@pytest.mark.slow
@given(lists(integers(0, 2), max_size=40), integers(1, 4))
def test_repeats_are_equal_stretches(letters: list[int], shortest: int) -> None:
    for each in repeats(letters, shortest):
        found = {tuple(letters[start : start + each.length]) for start in each.starts}
        assert len(found) == 1
        assert len(*found) == each.length
        assert list(each.starts) == sorted(set(each.starts))
        gaps = [b - a for a, b in zip(each.starts, each.starts[1:], strict=False)]
        assert min(gaps) == each.distance >= shortest


@given(integers(2, 5), integers(4, 9), integers(0, 3))
def test_what_repeats_without_a_gap_is_found(count: int, period: int, extra: int) -> None:
    letters = [90, *(list(range(period)) * count), *range(extra), 91]
    best = repeats(letters, 4)[0]
    assert best.unit == period
    assert len(best.starts) * period >= (count - 1) * period
