"""A graph of steps becomes a model: names, dtypes, operators that come along, text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.converters.common import operator_modules
from tvm_nnef.converters.common.assembly import assemble_graph
from tvm_nnef.converters.common.builder import Builder
from tvm_nnef.converters.common.operator_modules import EXTRA, Library, module_texts
from tvm_nnef.converters.common.steps import needed
from tvm_nnef.converters.common.tensors import Block, Branch, ConvertedGraph, Loop, Tensor
from tvm_nnef.graph.nodes import Graph, If, bodies, flatten
from tvm_nnef.graph.nodes import Loop as GraphLoop


def assembled(builder: Builder, inputs: list[Tensor], output: Tensor) -> tvm_nnef.Model:
    outputs = builder.outputs([output], ["y"])
    steps = tuple(needed(builder.steps, outputs))
    graph = ConvertedGraph(tuple(inputs), tuple(outputs), steps)
    return tvm_nnef.Model(*assemble_graph(graph, "net", path="<test>"))


@pytest.mark.slow
def test_a_model_is_made_without_any_foreign_library() -> None:
    builder, x = Builder(), Tensor("float32", (2, 1), "x")
    weight = builder.constant(np.arange(3, dtype=np.float32), source="fc.weight")
    y = builder.binary("math.mul", builder.expand(x, (2, 3)), weight)
    model = assembled(builder, [x], y)
    assert list(model.variables) == ["main.net.fc_weight"]
    assert list(model.modules["extra"].definitions) == ["expand"]
    given = np.array([[2], [3]], np.float32)
    (found,) = tvm_nnef.evaluate(model, given)
    np.testing.assert_array_equal(found, given * np.arange(3))
    assert model.metadata.source_names["main.net.fc_weight"] == "fc.weight"


def loop(start: Tensor, count: int, step: Block, inside: Tensor, name: str) -> Loop:
    index = Tensor("int64", (), hint=f"{name}_index")
    result = Tensor(start.dtype, start.shape, hint=name)
    return Loop(step, ((inside, start),), (), index, count, None, (result,))


def nested_model() -> tvm_nnef.Model:
    """A branch with a loop with a branch in it, all of float16."""
    builder = Builder()
    x, condition = Tensor("float16", (2,), "x"), Tensor("bool", (), "condition")

    def negated(value: Tensor, name: str) -> Block:
        inner = Builder(builder)
        result = inner.call("math.neg", value)
        result.hint = name
        return Block(tuple(inner.steps), (result,))

    inside = Tensor("float16", (2,), hint="inside")
    chosen = Tensor("float16", (2,), hint="chosen")
    branch = Branch(condition, negated(inside, "left"), negated(inside, "right"), (chosen,))
    around = loop(x, 3, Block((branch,), (chosen,)), inside, "looped")
    (looped,) = around.results
    assert isinstance(looped, Tensor)
    second = loop(x, 2, negated(inner := Tensor("float16", (2,), hint="inner"), "step"), inner, "z")
    outer = Tensor("float16", (2,), hint="outer")
    builder.steps += [
        second,
        Branch(condition, Block((around,), (looped,)), negated(x, "other"), (outer,)),
    ]
    (z,) = second.results
    assert isinstance(z, Tensor)
    return assembled(builder, [x, condition], builder.binary("math.add", outer, z))


def inner_tensors(graph: Graph) -> set[str]:
    """The names of the tensors that the branches and loops of a graph make."""
    found: set[str] = set()
    for node in graph.operations:
        if isinstance(node, (If, GraphLoop)):
            found |= {each.name for each in node.local} if isinstance(node, GraphLoop) else set()
            for body in bodies(node):
                found |= {each.name for n in body.operations for each in flatten(n.results)}
                found |= inner_tensors(body)
    return found


def test_names_inside_of_branches_and_loops_are_those_of_the_composed_graph() -> None:
    model = nested_model()
    graph = tvm_nnef.compose(model)
    inner = inner_tensors(graph)
    assert len(inner) == 10
    assert {name for name in model.machine_types if name.count(".") > 2} == inner
    assert tvm_nnef.check(model) == []


def test_a_format_has_a_module_of_its_own_that_invokes_the_common_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "import extra, nn;\n\n# Of this format.\noperator a {\n"
    own += "    @input { x: real[s..]; }\n    @output { y: real[s..]; }\n"
    own += "    @compose { y = extra.round_even(_b(x)); }\n}\n\noperator _b {\n"
    own += "    @input { x: real[s..]; }\n    @output { y: real[s..]; }\n"
    own += "    @compose { y = nn.relu(x); }\n}\n"
    (tmp_path / "form.sknd").write_text(own)
    (tmp_path / "extra.sknd").write_text(
        (Path(operator_modules.__file__).parent / "extra.sknd").read_text("utf-8"), "utf-8"
    )
    monkeypatch.setattr(operator_modules.resources, "files", lambda _: tmp_path)
    form = Library("form", "form", "Operators of the format")
    texts = module_texts((form, EXTRA), ["form.a", "nn.relu", "own"])
    assert list(texts) == ["extra", "form"]
    assert "import extra, nn;" in texts["form"] and "operator _b" in texts["form"]
    assert "operator round_even" in texts["extra"] and "operator expand" not in texts["extra"]
