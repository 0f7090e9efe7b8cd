"""What cannot be converted is reported at once, node by node; and converters of a user's own."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.cli import main
from tvm_nnef.converters.onnx import Builder, Node, Unconvertible, operator
from tvm_nnef.diagnostics import NnefError

onnx = pytest.importorskip("onnx")
node = onnx.helper.make_node
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def wrong_in_five_ways(make_model: Any) -> Any:
    """An unknown operator, one of another domain, strings, an image, and a wrong attribute."""
    words = onnx.helper.make_tensor("words", onnx.TensorProto.STRING, [1], [b"a"])
    proto = make_model(
        [
            node("Frobnicate", ["x"], ["a"], name="unknown"),
            node("Neg", ["a"], ["b"], name="after"),
            node("Whiten", ["x"], ["c"], name="foreign", domain="own"),
            node("StringNormalizer", ["words"], ["d"], name="text"),
            node("ImageDecoder", ["x"], ["e"], name="image"),
            node("Softmax", ["x"], ["f"], name="axis", axis=7),
            node("Abs", ["x"], ["g"], name="fine"),
        ],
        [("x", "float32", [2, 3])],
        [("b", "float32", None), ("c", "float32", None), ("f", "float32", None),
         ("g", "float32", None)],
        opset=20,
    )  # fmt: skip
    proto.graph.initializer.append(words)
    return proto


REPORTED = (
    ("node 'unknown' (Frobnicate, opset 20): there is no converter", "{'Frobnicate': function}"),
    ("node 'foreign' (own::Whiten, opset 1): there is no converter", "{'own::Whiten': function}"),
    ("node 'text' (StringNormalizer, opset 20): it works on texts", "encode texts"),
    ("node 'image' (ImageDecoder, opset 20)", ""),
    ("node 'axis' (Softmax, opset 20): it is not valid ONNX: 'axis' must be in", "correct"),
)


def test_all_that_is_wrong_is_reported_at_once(
    wrong_in_five_ways: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(wrong_in_five_ways)
    found = [(each.message, each.hint or "") for each in caught.value.diagnostics]
    assert len(found) == len(REPORTED), "not 'after', whose input is not there"
    for (message, hint), (words, advice) in zip(found, REPORTED, strict=True):
        assert words in message
        assert advice in hint
    file = tmp_path / "m.onnx"
    onnx.save(wrong_in_five_ways, file)
    assert main(["convert", str(file), str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().err
    assert shown.count("m.onnx: error: ") == len(REPORTED)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def scale(make_model: Any) -> Any:
    """A model with an operator of a custom domain, which nothing knows, and one that is known."""
    return make_model(
        [
            node("Scale", ["x"], ["y"], name="own scale", domain="own.domain", factor=3.0),
            node("Relu", ["y"], ["z"], name="relu"),
        ],
        [("x", "float32", [2, 3])],
        [("z", "float32", [2, 3])],
    )


def _scale(source: Node, builder: Builder) -> Any:
    return builder.binary("math.mul", source.input(0), source.real("factor", 1.0))


@pytest.mark.parametrize("way", ["mapping", "decorator", "both"])
def test_an_operator_of_a_custom_domain(scale: Any, way: str) -> None:
    marked = operator("Scale", domain="own.domain")(_scale)
    converters: Any = {
        "mapping": {"own.domain::Scale": _scale},
        "decorator": [marked],
        "both": {"own.domain::Scale": marked, "Relu": lambda node, _: node.input(0)},
    }[way]
    (found,) = tvm_nnef.evaluate(tvm_nnef.convert(scale, converters=converters), X - 2)
    expected = 3 * (X - 2)
    np.testing.assert_array_equal(found, expected if way == "both" else np.maximum(expected, 0))


FORMULA = """# Moves everything towards 0.
operator shrink {
    @attrib { by: real; }
    @input { x: real[s..]; }
    @output { y: real[s..]; }
    @lower { y[i..] = x[i..] > by ? x[i..] - by : 0.0, i < s; }
}
"""


def _shrink(source: Node, builder: Builder) -> Any:
    return builder.call("own.shrink", source.input(0), by=source.real("factor"))


@pytest.mark.parametrize("as_mapping", [False, True])
def test_a_converter_with_a_module_of_formulas(
    scale: Any, as_mapping: bool, tmp_path: Path
) -> None:
    """The module becomes a part of the model, which is read again without the converter."""
    (tmp_path / "own.sknd").write_text(FORMULA, encoding="utf-8")
    marked = operator("Scale", domain="own.domain", module=tmp_path / "own.sknd")(_shrink)
    converters: Any = {"own.domain::Scale": marked} if as_mapping else [marked]
    tvm_nnef.convert(scale, tmp_path / "model", converters=converters)
    assert (tmp_path / "model" / "own.sknd").read_text(encoding="utf-8") == FORMULA
    (found,) = tvm_nnef.evaluate(tmp_path / "model", 4 * X)
    np.testing.assert_array_equal(found, np.maximum(4 * X - 3, 0))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("own.sknd", None, "there is no such file"),
        ("own.sknd", FORMULA.replace("by ?", "bi ?"), "'bi'"),
        ("math.sknd", FORMULA, "the module of a converter has a wrong name"),
        ("extra.sknd", FORMULA, "the module of a converter has a wrong name"),
        ("own.txt", FORMULA, "the module of a converter has a wrong name"),
    ],
)
def test_a_wrong_module_of_a_converter(
    scale: Any, tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    marked = operator("Scale", domain="own.domain", module=tmp_path / name)(_shrink)
    with pytest.raises(NnefError, match=message) as caught:
        tvm_nnef.convert(scale, converters=[marked])
    assert name in str(caught.value)


def test_a_converter_from_an_opset_on(make_model: Any) -> None:
    """The newest that is not newer than the model's opset counts, ours if there is none."""
    add = [
        operator("Relu", since)(
            lambda node, b, n=since: b.binary("math.add", node.input(0), float(n))
        )
        for since in (13, 15)
    ]
    for opset, expected in ((12, np.maximum(X, 0)), (14, X + 13), (17, X + 15)):
        inputs = [("x", "float32", [2, 3])]
        model = make_model([node("Relu", ["x"], ["y"])], inputs, [("y", "float32", [2, 3])],
                           opset=opset)  # fmt: skip
        (found,) = tvm_nnef.evaluate(tvm_nnef.convert(model, converters=add), X)
        np.testing.assert_array_equal(found, expected)


def _raises(source: Node, _: Builder) -> Any:
    raise KeyError(source.operator)


def _refuses(source: Node, _: Builder) -> Any:
    raise Unconvertible("factors of 3 are not known", "give another one")


WRONG: dict[str, tuple[Callable[..., Any], str, str]] = {
    "raises": (
        _raises,
        "its converter fails with KeyError: 'Scale'",
        "test_unsupported_models.py:",
    ),
    "refuses": (_refuses, "factors of 3 are not known", "give another one"),
    "nothing": (lambda node, _: None, "gives NoneType instead of a tensor", "return what"),
    "a number": (lambda node, _: [1.0], "gives float instead of a tensor", "return what"),
    "missing input": (lambda node, _: node.input(1), "input 1 is missing", "not valid ONNX"),
    "no arguments": (lambda: None, "its converter fails with TypeError", "failed in"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_converter_is_reported_with_its_node(scale: Any, name: str) -> None:
    function, words, hint = WRONG[name]
    with pytest.raises(NnefError) as caught:
        tvm_nnef.convert(scale, converters={"own.domain::Scale": function})
    (found,) = caught.value.diagnostics
    assert "node 'own scale' (own.domain::Scale, " in found.message
    assert words in found.message
    assert hint in (found.hint or "")


def test_a_wrong_converter_may_be_in_a_file_of_any_name(scale: Any, tmp_path: Path) -> None:
    file = tmp_path / "conversion.py"
    file.write_text("import re\ndef scale(node, builder):\n    re.compile('(')\n")
    found = runpy.run_path(str(file))
    with pytest.raises(NnefError, match="its converter fails with") as caught:
        tvm_nnef.convert(scale, converters={"own.domain::Scale": found["scale"]})
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.hint or "").endswith("it failed in conversion.py:3")


def test_what_is_not_a_converter(scale: Any) -> None:
    for converters in ({"own.domain::Scale": 3}, [_scale]):
        with pytest.raises(NnefError, match="is not a converter"):
            tvm_nnef.convert(scale, converters=converters)


def test_an_operator_that_there_is_not_is_shown_in_the_text(scale: Any) -> None:
    def misspelled(source: Node, builder: Builder) -> Any:
        return builder.call("math.mull", source.input(0), 3.0)

    with pytest.raises(NnefError, match=r"math\.mull") as caught:
        tvm_nnef.convert(scale, converters={"own.domain::Scale": misspelled})
    assert "y = math.mull(x, 3.0);" in str(caught.value)


def test_functions_that_call_functions_with_attributes_of_theirs(make_model: Any) -> None:
    """Outer, with alpha, calls Inner with slope = alpha, which has a default for its other one."""
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)]

    def refers(name: str, to: str) -> Any:
        attribute = onnx.AttributeProto(name=name, type=onnx.AttributeProto.FLOAT)
        attribute.ref_attr_name = to
        return attribute

    leaky, elu = node("LeakyRelu", ["a"], ["t"]), node("Elu", ["t"], ["b"])
    leaky.attribute.append(refers("alpha", "slope"))
    elu.attribute.append(refers("alpha", "bend"))
    inner = onnx.helper.make_function(
        "own", "Inner", ["a"], ["b"], [leaky, elu], imports, ["slope"],
        [onnx.helper.make_attribute("bend", 0.5)],
    )  # fmt: skip
    call = node("Inner", ["a"], ["s"], domain="own")
    call.attribute.append(refers("slope", "alpha"))
    outer = onnx.helper.make_function(
        "own", "Outer", ["a"], ["b"], [call, node("Neg", ["s"], ["b"])], imports, ["alpha"]
    )
    nodes = [
        node("Outer", ["x"], ["y"], domain="own", alpha=0.25),
        node("Outer", ["y"], ["z"], domain="own", alpha=2.0),
    ]
    proto = make_model(
        nodes, [("x", "float32", [2, 3])], [("z", "float32", [2, 3])], functions=[inner, outer]
    )
    (found,) = tvm_nnef.evaluate(tvm_nnef.convert(proto), X - 2)

    def expected(x: Any, alpha: float) -> Any:
        t = np.where(x < 0, alpha * x, x)
        return -np.where(t < 0, 0.5 * (np.exp(t) - 1), t)

    np.testing.assert_allclose(found, expected(expected(X - 2, 0.25), 2.0), rtol=1e-5)


def test_names_of_all_kinds(make_model: Any) -> None:
    """Keywords, numbers, signs, other scripts, names of modules, and names that become the same."""
    names = ["graph", "import", "7", "a/b", "a.b", "a_b", "::", "größe", "math", "_", "-", "x x"]
    chain = ["x", *names]
    proto = make_model(
        [node("Add", [before, "x"], [after]) for before, after in zip(chain, names, strict=False)],
        [("x", "float32", [2, 3])],
        [(names[-1], "float32", [2, 3])],
    )
    proto.graph.name = "0 graph!"
    model = tvm_nnef.convert(proto)
    (found,) = tvm_nnef.evaluate(model, X)
    np.testing.assert_array_equal(found, X * (len(names) + 1))
    assert set(model.metadata.source_names.values()) == {"x", *names}
    assert len(model.metadata.source_names) == len(names) + 1


def test_a_subgraph_may_use_names_that_are_used_elsewhere(make_model: Any) -> None:
    """Both branches call their result 'r', as another branch does, and read what is outside."""

    def body(operator: str) -> Any:
        value = onnx.helper.make_tensor_value_info("r", 1, [2, 3])
        made = [node("Add", ["x", "w"], ["t"]), node(operator, ["t"], ["r"])]
        return onnx.helper.make_graph(made, operator, [], [value])

    branches = {"then_branch": body("Neg"), "else_branch": body("Abs")}
    proto = make_model(
        [node("If", ["c"], ["y"], **branches), node("If", ["d"], ["z"], **branches)],
        [("x", "float32", [2, 3]), ("c", "bool", []), ("d", "bool", [])],
        [("y", "float32", [2, 3]), ("z", "float32", [2, 3])],
        {"w": np.full(3, -2, np.float32)},
    )  # fmt: skip
    found = tvm_nnef.evaluate(tvm_nnef.convert(proto), X, np.array(True), np.array(False))
    np.testing.assert_array_equal(found[0], 2 - X)
    np.testing.assert_array_equal(found[1], abs(X - 2))


@pytest.mark.parametrize("opset", range(7, onnx.defs.onnx_opset_version() + 1))
def test_every_opset_from_7_up(make_model: Any, opset: int) -> None:
    """Operators whose definitions have changed: axes were attributes, Dropout had a ratio."""
    constants = {"w": np.ones(3, np.float32)}
    axes: dict[str, Any] = {"axes": [1]} if opset < 13 else {}
    if opset >= 13:
        constants["axes"] = np.array([1], np.int64)
    proto = make_model(
        [
            node("Add", ["x", "w"], ["a"]),
            node("ReduceSum", ["a", *([] if axes else ["axes"])], ["s"], keepdims=0, **axes),
            node("Unsqueeze", ["s", *([] if axes else ["axes"])], ["u"], **axes),
            node("Dropout", ["u"], ["y"]),
        ],
        [("x", "float32", [2, 3])],
        [("y", "float32", [2, 1])],
        constants,
        opset=opset,
        ir_version=3 if opset < 9 else 8,
    )
    if opset < 9:
        info = onnx.helper.make_tensor_value_info("w", 1, [3])
        proto.graph.input.append(info)
    (found,) = tvm_nnef.evaluate(tvm_nnef.convert(proto), X)
    np.testing.assert_array_equal(found, (X + 1).sum(1, keepdims=True))


def test_the_command_writes_no_model_whose_shapes_do_not_fit(
    make_model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There are not as many elements as a shape says."""
    proto = make_model(
        [node("Reshape", ["x", "w"], ["y"])],
        [("x", "float32", [2, 7])],
        [("y", "float32", None)],
        {"w": np.array([5, 3], np.int64)},
    )
    onnx.save(proto, tmp_path / "m.onnx")
    assert main(["convert", str(tmp_path / "m.onnx"), str(tmp_path / "out")]) == 1
    shown = capsys.readouterr().err
    assert "node 'y' (Reshape, opset 17): [2, 7] cannot be reshaped to [5, 3]" in shown
    assert [each.name for each in tmp_path.iterdir()] == ["m.onnx"]


def test_data_dependent_dimensions_have_the_same_names_in_every_conversion(make_model: Any) -> None:
    nodes = [
        node("NonZero", ["x"], ["a"]),
        node("NonZero", ["a"], ["b"]),
        node("Det", ["b"], ["y"]),
    ]
    model = make_model(nodes, [("x", "float32", [2, 3])], [("y", "float32", None)])
    for _ in range(2):
        with pytest.raises(NnefError, match="it needs the dimension data_1 as a number"):
            tvm_nnef.convert(model)
