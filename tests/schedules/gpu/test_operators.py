"""Every operator of the standard library for CUDA: bound, compiled, and right on threads that run
one after the other."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules.machine import gpu_model
from tvm_nnef.tvm_support import cuda
from tvm_nnef.tvm_support.compat import prim_functions

TARGET = {"kind": "cuda", "arch": "sm_80"}
STDLIB = Path(__file__).parents[2] / "stdlib"

pytestmark = pytest.mark.slow


def imported(name: str) -> ModuleType:
    """A module of the tests of the standard library."""
    spec = importlib.util.spec_from_file_location(f"stdlib_{name}", STDLIB / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def library() -> Any:
    """Returns the graph of all operators as text, and its inputs and rows."""
    rows, cases = imported("test_every_operator"), imported("conftest")
    family = cases.Family.of([(*row, rows.RESULTS.get(row[0], rows.real())) for row in rows.ROWS])
    return cases, family, cases.graph_text(family.inputs, family.rows)


def machine_types(real: str) -> dict[str, str]:
    return {"real": real, "int": "int32", "bool": "bool"}


@pytest.mark.parametrize(
    ("real", "route"),
    [("float32", "formula"), ("float16", "mapped"), ("bfloat16", "mapped")],
)
def test_every_operator_is_bound_and_compiles(
    real: str, route: Any, library: Any, gpu: Any, tmp_path: Path
) -> None:
    target = resolve(TARGET)
    module = tvm_nnef.from_nnef(library[2], route=route, dtypes=machine_types(real))
    fused = run_phases(module, target, "bind", "fuse")
    for each in ({"kind": "cuda", "arch": arch} for arch in ("sm_75", "sm_90a")):
        other = run_phases(fused, resolve(each), "schedule", "schedule")
        gpu.check_limits(prim_functions(other), gpu_model(resolve(each)))
    scheduled = run_phases(fused, target, "schedule", "schedule")
    gpu.check_limits(prim_functions(scheduled), gpu_model(target))
    (device,) = run_phases(scheduled, target, "bytecode", "code").mod.imports[0].imports
    if cuda.has_compiler():
        source = tmp_path / "kernels.cu"
        source.write_text(device.inspect_source())
        command = [
            cuda.find_compiler(),
            "-w",
            "-arch=sm_80",
            "-ptx",
            "-o",
            tmp_path / "out",
            source,
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("route", "reverse"), [("mapped", False), ("formula", True)])
def test_simulated_threads_compute_every_operator(
    route: str, reverse: bool, library: Any, simulated_gpu: Any
) -> None:
    cases, family, text = library
    wanted = cases.run(tvm_nnef.load_model(text), family.inputs, "reference")
    simulated_gpu(reverse=reverse)
    found = cases.run(text, family.inputs, route)
    names = [name for name, _ in cases.results_of(family.rows)]
    for name, actual, expected in zip(names, found, wanted, strict=True):
        cases.assert_result(actual, expected, name)


@pytest.mark.gpu
@pytest.mark.parametrize("route", ["mapped", "formula"])
def test_a_gpu_computes_every_operator(route: str, library: Any, on_gpu: None) -> None:
    cases, family, text = library
    wanted = cases.run(tvm_nnef.load_model(text), family.inputs, "reference")
    found = cases.run(text, family.inputs, route)
    names = [name for name, _ in cases.results_of(family.rows)]
    for name, actual, expected in zip(names, found, wanted, strict=True):
        cases.assert_result(actual, expected, name)


STEPS = """
import math;
graph G {
  @input { x: real[3]; n: int[]; }
  @output { y: real[3]; }
  @compose { y = with s = x do..(i -> n) { t = math.mul(s, 1.5); yield t; }; }
}
"""


def test_signals_are_polled_on_the_host(simulated_gpu: Any) -> None:
    code = run_phases(tvm_nnef.from_nnef(STEPS), resolve(TARGET), "bind", "code")
    (device,) = code.mod.imports[0].imports
    assert "Signals" not in device.inspect_source()
    simulated_gpu()
    x = np.float32([1, 2, 3])
    (found,) = tvm_nnef.build(STEPS, progress=False)(x, np.array(40, "int32"))
    np.testing.assert_allclose(found, x * 1.5**40, rtol=1e-5)
