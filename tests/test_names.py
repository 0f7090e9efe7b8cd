"""What a model calls its tensors, operators and dimensions means nothing to the compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

NAMES = (
    # functions of a library, and what TVM makes of their names
    "main", "metadata", "main_prepared", "main_transform_params", "initial_state", "main1", "main_",
    # the runtime
    "vm_load_executable", "vm_initialization", "__tvm_ffi_main", "TVMFFIEnvGetStream", "malloc",
    # words of C, CUDA, LLVM and Python
    "float", "extern", "class", "void", "half", "threadIdx", "__global__", "alloca", "i32", "ptr",
    "lambda", "None", "self", "out",
    # functions of C, TVM and Relax
    "exp", "expf", "tanh", "min", "NAN", "relax", "call_tir", "R", "T_exp", "math_neg", "lv0", "gv",
    # what is numbered
    "x", "x_1", "x1", "X", "_x", "x_", "op0_x", "op12_conv", "main_loop", "main_if_then", "i0",
    "q" * 1000,
)  # fmt: skip
X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]], np.float32)
FIRST = "import math;\n"


def graph(inputs: str, outputs: str, compose: str, more: str = "") -> str:
    return (
        f"{FIRST}graph G {{ @input {{ {inputs} }} {more} @output {{ {outputs} }} "
        f"@compose {{ {compose} }} }}\n"
    )


def intermediates() -> tuple[str, list[Any], Any]:
    """Chains of three, of which the last one is an output."""
    before = ("given" if n % 3 == 0 else NAMES[n - 1] for n in range(len(NAMES)))
    pairs = zip(NAMES, before, strict=True)
    compose = " ".join(f"{name} = math.mul({value}, 2.0);" for name, value in pairs)
    return packed("real[2,3]", NAMES[2::3], compose), [X], 8 * X


def ports() -> tuple[str, list[Any], Any]:
    inputs = " ".join(f"{name}: real[2,3];" for name in NAMES)
    outputs = " ".join(f"{name}_given: real[2,3];" for name in NAMES)
    compose = " ".join(f"{name}_given = math.neg({name});" for name in NAMES)
    return graph(inputs, outputs, compose), [X + n for n in range(len(NAMES))], -X


def outputs() -> tuple[str, list[Any], Any]:
    declared = " ".join(f"{name}: real[2,3];" for name in NAMES)
    compose = " ".join(f"{name} = math.neg(given);" for name in NAMES)
    return graph("given: real[2,3];", declared, compose), [X], -X


def operators() -> tuple[str, list[Any], Any]:
    own = "".join(
        f"operator {name} {{ @input {{ a: real[{name}_n..]; }} @output {{ b: real[{name}_n..]; }} "
        f"@lower {{ {name}_v = a[{name}_i..], b[{name}_i..] = {name}_v * {name}_v, "
        f"{name}_i < {name}_n; }} }}\n"
        for name in NAMES
    )
    compose = " ".join(f"r{n} = {name}(given);" for n, name in enumerate(NAMES))
    text = packed("real[2,3]", [f"r{n}" for n in range(len(NAMES))], compose)
    return text.replace(FIRST, FIRST + own), [X], X * X


def inside_of_formulas() -> tuple[str, list[Any], Any]:
    """Indices, local values and dimensions, as tensor expressions and as loops with an order."""
    own = "".join(
        f"operator o{n} {{ @input {{ a: real[{name}_m,{name}]; }} @output {{ b: real[{name}_m]; }} "
        f"@lower {{ b[{name}_i,] = 0.0, {name}_i < {name}_m; {name}_v = a[{name}_i,j] * 2.0, "
        f"b[{name}_i,] := {name}_v, {name}_i < {name}_m, j < {name} "
        f"| {name}_v + `exp`({name}_v) > b[{name}_i,]; }} }}\n"
        f"operator p{n} {{ @input {{ a: real[k,l]; }} @output {{ b: real[k]; }} "
        f"@lower {{ {name} = `exp`(a[i_,j_]), b[i_,] += {name} + {name}, i_ < k, j_ < l; }} }}\n"
        for n, name in enumerate(NAMES[::4])
    )
    count = len(NAMES[::4])
    compose = " ".join(f"r{n} = o{n}(given); s{n} = p{n}(given);" for n in range(count))
    compose += " ".join(f" sum{n} = math.add(r{n}, s{n});" for n in range(count))
    text = packed("real[2]", [f"sum{n}" for n in range(count)], compose)
    last = np.zeros(2)
    for row in range(2):
        for value in 2.0 * X[row].astype(float):
            last[row] = value if value + np.exp(value) > last[row] else last[row]
    sums = 2 * np.exp(X.astype(float)).sum(axis=1)
    return text.replace(FIRST, FIRST + own), [X], last + sums


def packed(kind: str, results: Sequence[str], compose: str) -> str:
    """A graph that returns some of its tensors as a pack."""
    listed = ", ".join(results)
    output = f"all_: {kind}..({len(results)});"
    return graph("given: real[2,3];", output, f"{compose} all_ = [{listed}];")


KINDS = [intermediates, ports, outputs, operators, inside_of_formulas]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", ["mapped", "formula"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_of_anything(kind: Any, route: Any, tmp_path: Path) -> None:
    text, inputs, expected = kind()
    executable = tvm_nnef.build(text, route=route, progress=False)
    runs = [executable(*inputs), tvm_nnef.evaluate(text, *inputs)]
    if route == "mapped":
        executable.export(tmp_path / "model.so")
        runs.append(tvm_nnef.load(tmp_path / "model.so")(*inputs))
    for found in runs:
        tensors = [t for each in found for t in (each if isinstance(each, list) else [each])]
        for number, tensor in enumerate(tensors):
            offset = number if kind is ports else 0
            np.testing.assert_allclose(tensor, expected - offset, rtol=1e-5)


@pytest.mark.parametrize("name", ["main", "initial_state", "main_prepared"])
def test_a_name_of_a_variable(name: str, tmp_path: Path) -> None:
    """Weights that stay parameters are prepared by functions of the library; state has one, too."""
    text = (
        f"import math; graph {name} {{ @input {{ x: real[2,3]; }} @variable {{ {name}: real[2,3]; "
        f"fixed: real[2,3]; }} @output {{ y: real[2,3]; }} @compose {{ {name}_1 = math.exp(fixed); "
        f"y = math.add({name}, {name}_1); }} @update {{ {name} = math.add({name}, x); }} }}"
    )
    variables = {f"main.{name}.{name}": X, f"main.{name}.fixed": X}
    executable = tvm_nnef.build(text, variables=variables, progress=False)
    executable.export(tmp_path / "model.so")
    for each in (executable, tvm_nnef.load(tmp_path / "model.so")):
        for step in range(3):
            np.testing.assert_allclose(each(X)[0], X + step * X + np.exp(X), rtol=1e-5)


@pytest.mark.parametrize("name", ["main", "metadata"])
def test_a_name_in_control_flow(name: str) -> None:
    compose = (
        f"{name} = if c then {{ {name} = math.exp(x); yield {name}; }} "
        f"else {{ {name} = math.neg(x); yield {name}; }}; "
        f"{name}_2 = with {name}: real[2,3] = 0.5 do..({name}_i -> k) "
        f"{{ {name}_1 = math.mul({name}, 2.0); yield {name}_1; }}; "
        f"y = math.add({name}_2, {name});"
    )
    text = graph("x: real[2,3]; c: bool[]; k: int[];", "y: real[2,3];", compose)
    executable = tvm_nnef.build(text, progress=False)
    for condition, expected in ((True, np.exp(X)), (False, -X)):
        found = executable(X, np.bool_(condition), np.int32(3))[0]
        np.testing.assert_allclose(found, expected + 4.0, rtol=1e-5)


@pytest.mark.parametrize("name", ["self", "metadata", "main"])
def test_an_input_is_given_by_its_name(name: str) -> None:
    text = graph(f"{name}: real[2,3];", "y: real;", f"y = math.neg({name});")
    executable = tvm_nnef.build(text, progress=False)
    np.testing.assert_array_equal(executable(**{name: X})[0], -X)
    np.testing.assert_array_equal(executable({name: X})["y"], -X)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["main", "found_0", "n", "extent0"])
def test_a_name_of_a_dynamic_dimension(name: str) -> None:
    text = (
        "import layout, nn, math; operator above { @input { x: real[n]; } @output { y: real[k|n]; }"
        " @lower { y[k,] = x[i,], i < n | x[i,] > 0.0; } }\n"
        f"graph G {{ @input {{ x: real[{name}|9]; z: real[{name}_1|9]; }} @output {{ y: real; "
        f"s: real[{name}]; }} @compose {{ a = above(x); b = layout.concat{{axis=0}}([a, z]); "
        "y = math.neg(b); s = nn.softmax{axes=[0]}(x); } }"
    )
    executable = tvm_nnef.build(text, progress=False)
    given, other = X.ravel(), np.ones(4, np.float32)
    y, s = executable(given, other)
    np.testing.assert_array_equal(y, -np.concatenate([given[given > 0], other]))
    np.testing.assert_allclose(s, np.exp(given) / np.exp(given).sum(), rtol=1e-5)


def test_a_name_of_a_function_that_prepares_weights() -> None:
    """Kernels are named after operators, with the module before the name."""
    own = "".join(
        f"operator {name} {{ @input {{ a: real[n]; w: real[n]; }} @output {{ b: real[n]; }} "
        f"@lower {{ b[i,] = a[i,] {sign} `exp`(w[i,]), i < n; }} }}\n"
        for name, sign in (("prepared", "*"), ("transform_params", "+"))
    )
    compose = "t = math.exp(w); u = prepared(x, t); y = transform_params(u, t);"
    text = graph("x: real[3];", "y: real;", compose, "@variable { w: real[3]; }")
    text = text.replace(FIRST, FIRST + own)
    module = tvm_nnef.from_nnef(
        tvm_nnef.load_model(text, variables={"main.G.w": X[0]}), keep_params_in_input=True
    )
    from tvm import relax

    bare, _ = relax.frontend.detach_params(module)
    executable = tvm_nnef.build(bare, progress=False)
    weight = np.exp(np.exp(X[0]))
    expected = X[1] * weight + weight
    given = executable.with_parameters(X[0])
    for found in (executable(X[1], X[0]), given(X[1])):
        np.testing.assert_allclose(found[0], expected, rtol=1e-5)
