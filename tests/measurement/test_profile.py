"""Profiles: operations by the names of the Graph, times that add up, for every kind of model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tvm_nnef
from tvm_nnef import NnefError, UnsupportedError
from tvm_nnef.cli import main
from tvm_nnef.graph.nodes import flatten, operations, operator_name
from tvm_nnef.profiling.profile import KernelTime, OperationTime, Profile

NETWORK = """
import nn;
import math;
import layout;

operator warp {
    @input { x: real[s..(d)]; }
    @output { y: real[s..(d)]; }
    @lower { y[i..(d)] = x[i..(d)] * x[i..(d)] + 1.0, i < s; }
}

operator twice {
    @input { x: real[s..(d)]; }
    @output { y: real[s..(d)]; }
    @compose {
        a = math.tanh(x);
        y = warp(a);
    }
}

graph G {
    @input { x: real[1,3,8,8]; }
    @output { y: real; z: real; }
    @variable { w: real[4,3,3,3]; b: real[4]; scale: real[4]; }
    @compose {
        c = nn.conv(x, w, b);
        m = math.mul{rhs_align=1}(c, scale);
        r = nn.relu(m);
        t = twice(r);
        u = math.add(t, r);
        y = nn.softmax{axes=[1]}(u);
        z = math.sum_reduce{axes=[1]}(c);
    }
}
"""

DYNAMIC = """
import linalg;
import nn;

graph G {
    @input { x: real[n|64,32]; }
    @output { y: real; }
    @variable { w: real[32,32]; }
    @compose {
        h = linalg.matmul(x, w);
        y = nn.softmax{axes=[1]}(h);
    }
}
"""

STATEFUL = """
import math;

graph G {
    @input { x: real[8]; }
    @output { y: real; }
    @variable { total: real[8]; }
    @compose {
        y = math.add(total, x);
    }
    @update {
        total = y;
    }
}
"""

CONTROL = """
import math;

graph G {
    @input { x: real[64]; c: bool[]; p: int[]; }
    @output { y: real; }
    @compose {
        a = if c then math.neg(x) else math.exp(x);
        y = with b = a do..(p) { t = math.mul(b, x); v = math.tanh(t); yield v; };
    }
}
"""


def network_weights() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    shapes = {"w": (4, 3, 3, 3), "b": (4,), "scale": (4,)}
    return {f"main.G.{name}": generator.random(shape, "float32") for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def executable() -> tvm_nnef.Executable:
    return tvm_nnef.build(NETWORK, variables=network_weights(), progress=False, cache=False)


def rows_of(profile: Profile) -> dict[str, OperationTime]:
    return {each.name: each for each in profile.operations}


def assert_sums_agree(profile: Profile) -> None:
    outer = sum(each.seconds for each in profile.operations if each.parent is None)
    kernels = sum(each.seconds for each in profile.kernels)
    assert outer == pytest.approx(kernels)
    assert profile.total == pytest.approx(kernels + profile.overhead)
    assert profile.overhead >= 0
    for each in profile.operations:
        inner = [other.seconds for other in profile.operations if other.parent == each.name]
        assert sum(inner) <= each.seconds * (1 + 1e-9)  # A loop counts its steps, too.
        if inner and each.operator not in ("if", "loop"):
            assert sum(inner) == pytest.approx(each.seconds)


def test_every_operation_appears_by_its_name_in_the_graph(executable: tvm_nnef.Executable) -> None:
    graph = tvm_nnef.compose(NETWORK, variables=network_weights())
    names = {
        flatten(node.results)[0].name: operator_name(node)
        for node in operations(graph)
        if not flatten(node.results)[0].name.startswith("main.G.y.")  # Inside of the softmax.
    }
    profile = executable.profile(repeat=2)
    assert {each.name: each.operator for each in profile.operations} == names
    assert all(each.kernels for each in profile.operations)
    assert_sums_agree(profile)


def test_inner_operations_belong_to_the_composite(executable: tvm_nnef.Executable) -> None:
    rows = rows_of(executable.profile(repeat=2))
    inner = {name for name, each in rows.items() if each.parent == "main.G.t"}
    assert inner == {"main.G.t.a", "main.G.t.y"}
    assert rows["main.G.t"].parent is None


def test_operations_of_a_fused_kernel_are_estimates(executable: tvm_nnef.Executable) -> None:
    profile = executable.profile(repeat=2)
    for each in rows_of(profile).values():
        shared = [k for k in profile.kernels if each.name in k.operations and len(k.operations) > 1]
        assert each.is_estimate == bool(shared) or each.name == "main.G.t"


def test_places_are_those_of_the_invocations(executable: tvm_nnef.Executable) -> None:
    row = rows_of(executable.profile(repeat=1))["main.G.c"]
    line = NETWORK.splitlines().index("        c = nn.conv(x, w, b);") + 1
    assert row.place == f"<text>:{line}:13"


def test_what_is_folded_into_a_convolution_leaves_it_most_of_the_time() -> None:
    text = NETWORK.replace("y: real; z: real;", "u: real;")
    text = text[: text.index("        y = nn.softmax")] + "    }\n}\n"
    variables = network_weights()
    executable = tvm_nnef.build(text, variables=variables, progress=False, cache=False)
    (kernel,) = [k for k in executable.profile(repeat=1).kernels if "main.G.c" in k.operations]
    rows = rows_of(executable.profile(repeat=1))
    assert {"main.G.c", "main.G.m", "main.G.r"} <= set(kernel.operations)
    assert max(rows.values(), key=lambda each: each.seconds).name == "main.G.c"


def test_a_common_subexpression_has_both_of_its_names() -> None:
    text = """
import math;

graph G {
    @input { x: real[64]; }
    @output { y: real; z: real; }
    @compose {
        a = math.exp(x);
        b = math.exp(x);
        y = math.sum_reduce{axes=[0]}(a);
        z = math.mul(b, x);
    }
}
"""
    executable = tvm_nnef.build(text, progress=False, cache=False)
    together = [k for k in executable.profile(repeat=1).kernels if "main.G.a" in k.operations]
    assert together
    assert all("main.G.b" in kernel.operations for kernel in together)


def test_a_loaded_library_has_the_same_operations(
    executable: tvm_nnef.Executable, tmp_path: Path
) -> None:
    executable.export(tmp_path / "model.so")
    loaded = tvm_nnef.load(tmp_path / "model.so")
    found = loaded.profile(np.zeros((1, 3, 8, 8), "float32"), repeat=2)
    ours = executable.profile(repeat=2)
    assert [(k.name, k.operations) for k in found.kernels] == [
        (k.name, k.operations) for k in ours.kernels
    ]
    assert rows_of(found).keys() == rows_of(ours).keys()


def test_dynamic_shapes() -> None:
    variables = {"main.G.w": np.eye(32, dtype="float32")}
    executable = tvm_nnef.build(DYNAMIC, variables=variables, progress=False, cache=False)
    profile = executable.profile(x=np.zeros((5, 32), "float32"), repeat=2)
    assert {"main.G.h", "main.G.y"} == {each.name for each in profile.operations}
    assert all(kernel.operations for kernel in profile.kernels)
    assert_sums_agree(profile)


def test_the_state_stays_as_it_is() -> None:
    variables = {"main.G.total": np.zeros(8, "float32")}
    executable = tvm_nnef.build(STATEFUL, variables=variables, progress=False, cache=False)
    ones = np.ones(8, "float32")
    executable(ones)
    assert rows_of(executable.profile(ones, repeat=2)).keys() == {"main.G.y"}
    assert executable.state["main.G.total"].tolist() == [1.0] * 8
    assert executable(ones)["y"].tolist() == [2.0] * 8


@pytest.mark.slow
def test_branches_and_loops_have_the_operations_that_ran() -> None:
    executable = tvm_nnef.build(CONTROL, progress=False, cache=False)
    profile = executable.profile(np.ones(64, "float32"), True, 3, repeat=2)
    rows = rows_of(profile)
    (branch,) = [each.name for each in rows.values() if each.operator == "if"]
    (loop,) = [each.name for each in rows.values() if each.operator == "loop"]
    inside = {each.operator: each for each in rows.values() if each.parent == branch}
    assert inside["math.neg"].kernels and not inside["math.exp"].kernels
    steps = [each for each in rows.values() if each.parent == loop]
    assert {each.operator for each in steps} == {"math.mul", "math.tanh"}
    assert all(each.kernels for each in steps)
    assert_sums_agree(profile)


def test_weights_as_parameters() -> None:
    executable = tvm_nnef.build(
        NETWORK, variables=network_weights(), keep_params_in_input=True, progress=False, cache=False
    )
    profile = executable.profile(repeat=1)
    assert all(kernel.operations for kernel in profile.kernels)
    assert_sums_agree(profile)


def test_operations_of_a_converted_model_name_their_nodes() -> None:
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Exp", ["x"], ["powers"], name="first"),
        helper.make_node("Softmax", ["powers"], ["y"], name="second", axis=1),
    ]
    shapes = [value(name, onnx.TensorProto.FLOAT, [4, 8]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", shapes[:1], shapes[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    profile = tvm_nnef.build(model, progress=False, cache=False).profile(repeat=1)
    sources = {each.operator: each.source for each in profile.operations}
    assert sources["math.exp"] == "Exp first"
    assert sources["nn.softmax"] == "Softmax second"


def test_a_gpu_is_not_profiled() -> None:
    executable = tvm_nnef.build(STATEFUL.replace("    @update {\n        total = y;\n    }\n", ""),
        "vulkan", variables={"main.G.total": np.zeros(8, "float32")}, progress=False)  # fmt: skip
    with pytest.raises(UnsupportedError, match="built for vulkan") as caught:
        executable.profile()
    assert "on the CPU" in str(caught.value)


def test_a_module_of_other_origin_has_no_operations() -> None:
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.exp(x)))
    executable = tvm_nnef.build(builder.get(), progress=False)
    with pytest.raises(NnefError, match="does not describe the operations"):
        executable.profile()


def made_profile() -> Profile:
    operations = (
        OperationTime("main.G.c", "nn.conv", 3e-3, True, ("conv_relu",), source="Conv n"),
        OperationTime("main.G.t", "main.twice", 4e-3, True, ("conv_relu", "warp")),
        OperationTime("main.G.t.a", "nn.relu", 1e-3, True, ("conv_relu",), "main.G.t"),
        OperationTime("main.G.t.y", "main.warp", 3e-3, False, ("warp",), "main.G.t"),
        OperationTime("main.G.v", "layout.reshape", 0.0),
    )
    kernels = (
        KernelTime("conv_relu", ("main.G.c", "main.G.t.a"), 4e-3),
        KernelTime("warp", ("main.G.t.y",), 3e-3),
    )
    return Profile(operations, kernels, 1e-3, 5)


def test_the_table_is_sorted_by_time() -> None:
    assert str(made_profile()).splitlines() == [
        "operation  operator               ms  share",
        "t          main.twice        ~4.0000  50.0%",
        "  t.y      main.warp          3.0000  37.5%",
        "  t.a      nn.relu           ~1.0000  12.5%",
        "c          nn.conv (Conv n)  ~3.0000  37.5%",
        "overhead                      1.0000  12.5%",
        "total                         8.0000",
        "",
        "~ estimated share of a kernel with other operations:",
        "  4.0000 ms  c, t.a",
        "",
        "1 operation takes no time: computed at build time, or a view",
    ]


def test_profiles_as_json_and_html() -> None:
    profile = made_profile()
    content = json.loads(json.dumps(profile.to_json()))
    assert content["total"] == pytest.approx(8e-3)
    assert content["operations"][0] == {
        "name": "main.G.c", "operator": "nn.conv", "seconds": 3e-3, "is_estimate": True,
        "kernels": ["conv_relu"], "parent": None, "place": "", "source": "Conv n",
    }  # fmt: skip
    assert "<td" in profile._repr_html_() and "nn.conv (Conv n)" in profile._repr_html_()


@pytest.mark.slow
def test_run_prints_and_writes_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, written = tmp_path / "main.sknd", tmp_path / "profile.json"
    model.write_text(CONTROL)
    options = ["run", str(model), "--quiet", "--profile", "--profile-json"]
    assert main([*options, str(written)]) == 0
    printed = capsys.readouterr().out
    assert "y: float32 [64]" in printed and "overhead" in printed
    content = json.loads(written.read_text())
    names = [each["name"] for each in content["operations"]]
    assert "main.G.y" in names
    assert main([*options, "-"]) == 0
    streams = capsys.readouterr()
    assert [each["name"] for each in json.loads(streams.out)["operations"]] == names
    assert "overhead" in streams.err


def test_the_evaluator_is_not_profiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "main.sknd").write_text(CONTROL)
    assert main(["run", str(tmp_path), "--profile", "--route", "reference"]) == 1
    assert "no kernels to profile" in capsys.readouterr().err
