"""Models without device code: built without a compiler, nvcc, and the headers of TVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm.libinfo

import tvm_nnef
from tvm_nnef.compilation.options import Compiling
from tvm_nnef.compilation.passes import passes, run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.plan.plan import STRATEGY
from tvm_nnef.tvm_support.compat import prim_functions
from tvm_nnef.vulkan_runtime.launcher import missing_device

X = np.arange(6, dtype="float32").reshape(2, 3)
EMPTY = "layout.slice{axes=[1], begin=[3], end=[3]}(x)"
CASES: dict[str, tuple[str, str, Any]] = {
    "an input": ("real[2, 3]", "y = x;", X),
    "a constant": ("real[2]", "y = layout.constant{shape=[2], value=[3.0, 4.0]}();", [3, 4]),
    "a variable": ("real[2, 3]", "y = v;", X + 1),
    "a shape": ("int[2]", "y = layout.shape(x);", [2, 3]),
    "no elements": ("real[2, 0]", f"s = {EMPTY}; y = math.exp(s);", np.zeros((2, 0))),
}


TARGETS = ("native", "cuda", "vulkan")


@pytest.fixture
def no_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Lets no compiler be found, and no headers of TVM."""

    def missing(*_: object) -> None:
        raise AssertionError("the headers of TVM are not installed")

    monkeypatch.setattr(tvm.libinfo, "find_include_path", missing)
    monkeypatch.setenv("NVCC", "/no/such/nvcc")
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_compilers")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_compiled(name: str, target: str, tmp_path: Path) -> None:
    kind, body, wanted = CASES[name]
    ports = f"@input {{ x: real[2, 3]; }} @output {{ y: {kind}; }} @variable {{ v: real[2, 3]; }}"
    text = f"import math; import layout; graph G {{ {ports} @compose {{ {body} }} }}"
    variables = {"main.G.v": X + 1}
    executable = tvm_nnef.build(text, target, variables=variables, progress=False)
    executable.export(tmp_path / "model.tar")
    if target == "native":
        np.testing.assert_array_equal(executable(X)[0], wanted)


SIZES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "a shape": ("int[3]", "y = s;", lambda s: s),
    "a size": ("int", "y = layout.constant{shape=[], value=[n * m]}();", lambda s: s[0] * s[2]),
    "arithmetic": ("int[3]", "p = math.mul(s, s); y = math.sub(p, 1);", lambda s: s * s - 1),
    "a constant": ("int[3]", "y = math.mul(s, c);", lambda s: s * [5, 7, 9]),
    "a variable": ("real[3]", "r = layout.cast<real>(s); y = math.mul(r, v);", lambda s: s * 0.5),
    "some": ("int[2]", "y = layout.gather{axis=0}(s, i);", lambda s: s[[2, 0]]),
    "a sum": ("int[1]", "y = math.sum_reduce{axes=[0]}(s);", lambda s: [s.sum()]),
    "prefix sums": (
        "int[3]",
        "a = math.cumsum{axis=0}(s); b = math.cumsum{axis=0}(a); y = math.cumsum{axis=0}(b);",
        lambda s: s.cumsum().cumsum().cumsum(),
    ),
    "reals": ("real[3]", "r = layout.cast<real>(s); y = math.sqrt(r);", np.sqrt),
    "conditions": ("bool[3]", "y = math.gt(s, 3);", lambda s: s > 3),
    "twice": ("int[6]", "y = layout.concat{axis=0}([s, s]);", lambda s: [*s, *s]),
    "another shape": ("int[1, 3]", "y = layout.unsqueeze{axes=[0]}(s);", lambda s: [s]),
    "a branch": ("int[3]", "y = if m > 4 then s else c;", lambda s: s if s[2] > 4 else [5, 7, 9]),
}
"""Outputs made of sizes alone: the type, the body, and what they are for a shape."""


def of_sizes(name: str) -> tuple[str, dict[str, Any]]:
    """The text of a model, and its variables."""
    kind, body, _ = SIZES[name]
    ports = f"@input {{ x: real[n, 3, m]; }} @output {{ y: {kind}; }}"
    given = "@constant { i: int[2] = [2, 0]; c: int[3] = [5, 7, 9]; } @variable { v: real[3]; }"
    composed = f"@compose {{ s = layout.shape(x); {body} }}"
    text = f"import math; import layout; graph G {{ {ports} {given} {composed} }}"
    return text, {"main.G.v": np.full(3, 0.5, "float32")}


def check_sizes(name: str, run: Callable[[Any], Any]) -> None:
    """Raises AssertionError if a model of :data:`SIZES` computes something else for some shape."""
    for shape in ((4, 3, 5), (2, 3, 3), (0, 3, 7)):
        wanted = SIZES[name][2](np.array(shape, "float32" if name == "reals" else "int32"))
        np.testing.assert_array_equal(run(np.zeros(shape, "float32")), wanted)


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("no_compilers")
@pytest.mark.parametrize("name", SIZES)
def test_numbers_of_sizes_need_no_code_for_a_gpu(name: str, tmp_path: Path) -> None:
    text, variables = of_sizes(name)
    executable = tvm_nnef.build(text, "cuda", variables=variables, progress=False)
    assert executable._program.files.library.gpu_source is None
    executable.export(tmp_path / "model.tar")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("route", ["mapped", "formula", "simulated"])
def test_numbers_of_sizes(name: str, route: str, simulated_gpu: Callable[[], None]) -> None:
    text, variables = of_sizes(name)
    if route == "simulated":
        simulated_gpu()
    chosen = "mapped" if route == "simulated" else route
    executable = tvm_nnef.build(text, variables=variables, route=chosen, progress=False)
    check_sizes(name, lambda x: executable(x)[0])


def skip_without_vulkan() -> None:
    if missing_device() is not None:
        pytest.skip("needs a Vulkan device")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SIZES)
def test_numbers_of_sizes_on_vulkan(name: str, tmp_path: Path) -> None:
    skip_without_vulkan()
    text, variables = of_sizes(name)
    executable = tvm_nnef.build(text, "vulkan", variables=variables, progress=False)
    executable.export(tmp_path / "model.so")
    loaded = tvm_nnef.load(tmp_path / "model.so")
    for each in (executable, loaded):
        check_sizes(name, lambda x, each=each: each(x)[0])


@pytest.mark.parametrize("target", ["native", "simulated", "vulkan"])
def test_numbers_of_sizes_beside_launches(target: str, simulated_gpu: Callable[[], None]) -> None:
    """``z`` is read by a launch, ``w`` is not."""
    if target == "vulkan":
        skip_without_vulkan()
    if target == "simulated":
        simulated_gpu()
    ports = "@input { x: real[n, m]; } @output { y: real[n, m]; z: real[2]; w: real; }"
    body = (
        "s = layout.shape(x); z = layout.cast<real>(s); a = math.sum_reduce{axes=[0]}(z);"
        "b = layout.reshape{shape=[1, 1]}(a); y = math.mul(x, b);"
        "c = layout.constant{shape=[], value=[n * m]}(); w = layout.cast<real>(c);"
    )
    text = f"import math; import layout; graph G {{ {ports} @compose {{ {body} }} }}"
    kind = "native" if target == "simulated" else target
    executable = tvm_nnef.build(text, kind, progress=False)
    for n, m in ((2, 3), (5, 4)):
        x = np.arange(n * m, dtype="float32").reshape(n, m)
        y, z, w = executable(x)
        np.testing.assert_array_equal(y, x * (n + m))
        np.testing.assert_array_equal(z, [n, m])
        np.testing.assert_array_equal(w, n * m)


def test_what_a_launch_reads_is_made_by_a_launch() -> None:
    """As are results of dynamic length; but not the four numbers of ``w``."""
    ports = "@input { x: real[n, m]; } @output { y: real[n, m]; z: int[n]; w: int[4]; }"
    body = (
        "s = layout.shape(x); z = layout.range{first=0, last=n, stride=1}();"
        "r = layout.cast<real>(s); a = math.sum_reduce{axes=[0]}(r); y = math.mul(x, a);"
        "w = layout.range{first=n, last=n + 4, stride=1}();"
    )
    text = f"import math; import layout; graph G {{ {ports} @compose {{ {body} }} }}"
    module = tvm_nnef.from_nnef(text)
    scheduled = run_phases(module, resolve("cuda"), "bind", "schedule")
    taken = {n: str(f.attrs[STRATEGY]) for n, f in prim_functions(scheduled).items()}
    assert [name for name, strategy in taken.items() if strategy == "gpu.host"] == ["layout_range1"]
    assert any("sum" in name and strategy != "gpu.host" for name, strategy in taken.items())


def test_cuda_graphs_capture_no_numbers_of_sizes() -> None:
    """A graph would replay those of the first call."""
    text, variables = of_sizes("prefix sums")
    module: Any = tvm_nnef.from_nnef(text, variables=variables)
    for each in passes(resolve("cuda"), Compiling(cuda_graphs=True)):
        if each.name == "place_tensors_on_host":
            break
        module = each.run(module)
    captured = [
        str(name.name_hint) for name in module.functions if "capture" in str(name.name_hint)
    ]
    assert captured == []
