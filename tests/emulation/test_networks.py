"""Networks and operators in libraries for other CPUs, whose machine code runs in an emulator."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.target import resolve
from tvm_nnef.executable import linking
from tvm_nnef.tvm_support.build import runs_here

ROOT = Path(__file__).resolve().parents[2]
STDLIB = ROOT / "tests" / "stdlib"
CNN = """
import math, nn;
graph Network {
    @input { x: real[1, 3, 12, 12]; w: real[8, 3, 3, 3]; d: real[8, 1, 3, 3]; p: real[5, 8, 1, 1]; }
    @output { y: real[1, 5]; }
    @compose {
        a = nn.conv{stride=2, padding=1}(x, w);
        b = nn.relu(a);
        c = nn.conv{padding=1, groups=8}(b, d);
        e = math.clamp(c, 0.0, 6.0);
        f = nn.conv{padding=0}(e, p);
        g = nn.max_pool{size=2, stride=2, padding=0}(f);
        h = math.mean_reduce{axes=[2, 3], squeeze=true}(g);
        y = nn.softmax(h);
    }
}
"""
TRANSFORMER = """
import layout, linalg, math, nn;
graph Transformer {
    @input { x: real[n|9, 16]; u: real[48, 16]; o: real[16, 16]; f: real[32, 16]; g: real[16, 32]; }
    @output { y: real[n, 16]; }
    @compose {
        qkv = nn.linear(x, u);
        parts = layout.reshape{axis=1, rank=1, shape=[3, 2, 8]}(qkv);
        heads = layout.transpose{perm=[1, 2, 0, 3]}(parts);
        [q, k, v] = layout.unstack{axis=0, squeeze=true}(heads);
        products = linalg.matmul{transB=true}(q, k);
        scores = math.mul(products, 0.35);
        weights = nn.softmax{axes=[-1]}(scores);
        mixed = linalg.matmul(weights, v);
        rows = layout.transpose{perm=[1, 0, 2]}(mixed);
        joined = layout.reshape{axis=1, rank=2, shape=[16]}(rows);
        attended = nn.linear(joined, o);
        residual = math.add(x, attended);
        normed = nn.mean_variance_norm{axes=[-1], epsilon=0.001}(residual);
        hidden = nn.linear(normed, f);
        active = nn.gelu(hidden);
        fed = nn.linear(active, g);
        y = math.add(normed, fed);
    }
}
"""
INPUTS: dict[str, Any] = {
    "digits": [(1, 1, 8, 8)],
    "cnn": [(1, 3, 12, 12), (8, 3, 3, 3), (8, 1, 3, 3), (5, 8, 1, 1)],
    "transformer": [(7, 16), (48, 16), (16, 16), (32, 16), (16, 32)],
}
MODELS = {"digits": ROOT / "docs" / "examples" / "digits", "cnn": CNN, "transformer": TRANSFORMER}
MACHINES = [
    "aarch64", "aarch64-dotprod-fp16", "armv7", "powerpc64le", "riscv64", "riscv64-v",
    "riscv64-v256", "x86-64-v4",
]  # fmt: skip
FLUSHES = {"armv7": 2e-3}
"""What NEON of 32-bit CPUs may lose of a norm: it takes numbers below 1.2e-38 for zeros."""


def inputs_of(name: str) -> list[Any]:
    generator = np.random.default_rng(len(name))
    return [generator.uniform(-1, 1, shape).astype("float32") for shape in INPUTS[name]]


def check(name: str, run: Callable[..., Any], tolerance: float = 2e-5) -> None:
    """Compare the outputs of a network with those of the evaluator."""
    given = inputs_of(name)
    for found, expected in zip(run(*given), tvm_nnef.evaluate(MODELS[name], *given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def run_emulated(name: str, emulator: Any, machine: str) -> None:
    with emulator(machine).executable(MODELS[name]) as executable:
        check(name, executable, FLUSHES.get(machine, 2e-5))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("machine", ["aarch64", "armv7"])
def test_a_network_of_convolutions_is_right(machine: str, emulator: Any) -> None:
    run_emulated("cnn", emulator, machine)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("machine", MACHINES)
def test_networks_are_right_on_other_cpus(name: str, machine: str, emulator: Any) -> None:
    run_emulated(name, emulator, machine)


QUANTIZED = ROOT / "tests" / "onnx" / "test_quantized_graphs.py"
BYTES = [
    "x86-64-v4", "x86-64-v4-vnni", "x86-64-v3-vnni", "aarch64-i8mm", "aarch64-dotprod-fp16",
]  # fmt: skip
"""Machines with instructions that multiply bytes or int16."""


def check_codes(saved: Any, run: Callable[..., Any]) -> None:
    """Compare the codes of a quantized graph, as ``saved`` returns it, with the evaluator's."""
    model, shape, step = saved
    x = np.random.default_rng(7).normal(0, 1, shape).astype("float32")
    found = np.asarray(run(model, x)[0])
    steps = np.abs(found - np.asarray(tvm_nnef.evaluate(model, x)[0])) / step
    assert steps.max() <= 1.01
    assert (steps > 0.01).mean() <= 0.005


@pytest.mark.sampled(50)
@pytest.mark.parametrize("zero", [np.uint8(117), np.int8(-9)], ids=str)
@pytest.mark.parametrize("case", ["block", "joined", "product", "operators", "dynamic"])
@pytest.mark.parametrize("machine", BYTES)
def test_quantized_graphs_have_the_codes_of_the_evaluator(
    machine: str, case: str, zero: Any, emulator: Any, imported: Any, tmp_path: Path
) -> None:
    def run(model: Any, x: Any) -> Any:
        with emulator(machine).executable(model) as executable:
            return executable(x)

    check_codes(imported(QUANTIZED).saved(case, zero, tmp_path), run)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "linker"),
    [("aarch64", "ld.lld"), ("riscv64", "ld.lld"), ("armv7", "ziglang"), ("riscv64", "ziglang")],
)
def test_libraries_of_other_linkers_are_right(
    machine: str, linker: str, emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(linker) is None and (linker == "ld.lld" or find_spec(linker) is None):
        pytest.skip(f"{linker} is not installed")
    monkeypatch.setattr(linking.Machine, "compilers", lambda self: [])
    if linker == "ld.lld":
        monkeypatch.setattr(linking, "_zig", lambda machine, here: [])
    run_emulated("transformer", emulator, machine)


@pytest.fixture(scope="module")
def library(imported: Callable[[Path], Any]) -> Any:
    """Returns what :func:`operators` returns."""
    return operators(imported)


def operators(imported: Callable[[Path], Any]) -> Any:
    """The module of test cases of the standard library, and all its rows."""
    rows, cases = imported(STDLIB / "test_every_operator.py"), imported(STDLIB / "conftest.py")
    return cases, [(*row, rows.RESULTS.get(row[0], rows.real())) for row in rows.ROWS]


CRASHES = ("math.round", "image.grid_sample", "quant.")
"""Operators that round to even: the emulator, QEMU 7.2, fails at the vector instruction for it."""


def check_operators(library: Any, chosen: Any, real: str, run: Callable[..., Any]) -> None:
    """Compare operators of the standard library with the evaluator, all in one graph."""
    cases, _ = library
    family = cases.Family.of(chosen)
    types = {"real": real, "int": "int32", "bool": "bool"}
    text = cases.graph_text(family.inputs, family.rows)
    model = tvm_nnef.load_model(text)
    given = [cases.machine_value(value, types) for value in family.inputs.values()]
    found = run(model, given, types)
    wanted = cases.run(model, family.inputs, "reference", types)
    results = cases.results_of(family.rows)
    for (invocation, _), value, expected in zip(results, found, wanted, strict=True):
        cases.assert_result(value, expected, invocation, types)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "real"),
    [("aarch64", "float32"), ("armv7", "float32"), ("riscv64", "float32"),
     ("riscv64-v", "float32"), ("powerpc64le", "float32"), ("x86-64-v4", "float32"),
     ("aarch64-dotprod-fp16", "float16"), ("armv7", "float16")],
)  # fmt: skip
def test_the_standard_library_is_right_on_other_cpus(
    machine: str, real: str, library: Any, emulator: Any
) -> None:
    skipped = CRASHES if machine.endswith("-v") else ()
    chosen = [
        row for row in library[1]
        if not row[0].startswith(skipped)
        and not (machine in FLUSHES and row[0] == "nn.mean_variance_norm")
    ]  # fmt: skip

    def run(model: Any, given: Any, types: Any) -> Any:
        with emulator(machine).executable(model, dtypes=types) as executable:
            return executable(*given)

    check_operators(library, chosen, real, run)


OLDER = [name for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4") if runs_here(resolve(name))]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", OLDER)
def test_a_network_of_convolutions_is_right_with_older_instructions(target: str) -> None:
    check("cnn", tvm_nnef.build(MODELS["cnn"], target, progress=False))


@pytest.mark.slow
@pytest.mark.parametrize("target", OLDER)
@pytest.mark.parametrize("name", MODELS)
def test_kernels_of_networks_are_right_with_older_instructions(name: str, target: str) -> None:
    check(name, tvm_nnef.build(MODELS[name], target, progress=False, verify=True))


@pytest.mark.slow
@pytest.mark.parametrize("target", OLDER)
def test_the_standard_library_is_right_with_older_instructions(target: str, library: Any) -> None:
    def run(model: Any, given: Any, types: Any) -> Any:
        return tvm_nnef.build(model, target, progress=False, dtypes=types)(*given)

    check_operators(library, library[1], "float32", run)
