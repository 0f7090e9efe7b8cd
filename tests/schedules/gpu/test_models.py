"""Whole networks built for CUDA without a GPU: every kernel is bound, and within the limits.

With a GPU they run, and give what the CPU gives.
"""

from __future__ import annotations

import functools
import importlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.schedules import STRATEGY
from tvm_nnef.schedules.machine import gpu_model
from tvm_nnef.tvm_support.build import cuda_arch
from tvm_nnef.tvm_support.compat import prim_functions

onnx = pytest.importorskip("onnx")

SCRIPTS = Path(__file__).parents[3] / "scripts"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FILES = {"alexnet": "light_bvlc_alexnet.onnx", "resnet50": "light_resnet50.onnx"}
NETWORKS = [(name, dynamic) for name in (*FILES, "bert") for dynamic in (False, True)]
OTHERS = ("mobilenetv2", "gpt2", "vit", "lstm")
BUILDS = [
    *((name, False, "sm_80") for name in OTHERS),
    *((name, dynamic, "sm_80") for name, dynamic in NETWORKS),
    ("alexnet", False, "sm_75"),
    ("alexnet", False, "sm_90a"),
]
COMPILED = [
    ("alexnet", True, "sm_75"),
    ("resnet50", False, "sm_80"),
    ("bert", True, "sm_90a"),
    ("lstm", False, "sm_80"),
]
"""``ptxas`` takes a minute for a network."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lowered() -> Any:
    """Gives the module of a network, its weights as parameters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        models = importlib.import_module("bench_models")

    @functools.cache
    def made(name: str, dynamic: bool) -> Any:
        if name == "bert":
            proto = dynamic_bert(models) if dynamic else models.bert(layers=1)
        elif name in ("gpt2", "vit"):
            proto = getattr(models, name)(layers=1)
        elif name in OTHERS:
            proto = models.shaped_models()[name].make()
        else:
            proto = onnx.load(LIGHT / FILES[name])
            proto = with_dynamic_batch(proto) if dynamic else proto
        names = ["n", "length"] if name == "bert" else ["n"]
        bounds = dict.fromkeys(names, 64) if dynamic else {}
        model = tvm_nnef.convert(proto.SerializeToString(), bounds=bounds)
        return tvm_nnef.from_nnef(model, keep_params_in_input=True)

    return made


def dynamic_bert(models: Any, width: int = 768, heads: int = 12) -> Any:
    """A layer of BERT with dynamic batch and length."""
    made = models.Network({"ids": ("n", "length")}, {"ids": "int64"})
    made.constant, fixed = (
        (
            lambda value, dtype="float32": fixed(
                [0, *value[1:]] if dtype == "int64" else value, dtype
            )
        ),
        made.constant,
    )
    x = made.norm(made.add("Gather", made.normal(30522, width), "ids", axis=0), width)
    x = made.norm(made.add("Add", x, made.attention(x, -1, width, heads)), width)
    x = made.norm(made.add("Add", x, made.mlp(x, width, made.gelu)), width)
    return made.model(made.add("Tanh", made.dense(x, width, width)))


def with_dynamic_batch(model: Any) -> Any:
    """A network of the ONNX package with a dynamic batch."""
    from onnx import numpy_helper

    weights = {each.name: each for each in model.graph.initializer}
    for port in (model.graph.input[0], *model.graph.output):
        port.type.tensor_type.shape.dim[0].dim_param = "n"
    del model.graph.value_info[:]
    for node in model.graph.node:
        if node.op_type == "Reshape":
            shape = numpy_helper.to_array(weights[node.input[1]])
            changed = numpy_helper.from_array(np.array([-1, *shape[1:]], "int64"), node.input[1])
            weights[node.input[1]].CopyFrom(changed)
    return model


@pytest.mark.parametrize(("name", "dynamic", "arch"), BUILDS)
def test_every_kernel_is_bound_and_within_the_limits(
    name: str, dynamic: bool, arch: str, lowered: Any, gpu: Any
) -> None:
    target = resolve({"kind": "cuda", "arch": arch})
    machine = gpu_model(target)
    scheduled = run_phases(lowered(name, dynamic), target, "bind", "schedule")
    functions = prim_functions(scheduled)
    for kernel, function in functions.items():
        found = gpu.launches(function)
        assert found, kernel
        for launch in found:
            assert 1 <= launch.threads <= machine.block_threads, kernel
            assert launch.shared_bytes <= machine.block_shared_bytes, kernel
    taken = [str(function.attrs[STRATEGY]) for function in functions.values()]
    assert "gpu.contraction" in taken
    assert "gpu.sequential" not in taken
    # The results of a loop are stored step by step.
    assert name == "lstm" or "gpu.fallback" not in taken
    run_phases(scheduled, target, "bytecode", "code")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize(("name", "dynamic", "arch"), COMPILED)
def test_registers_suffice(
    name: str, dynamic: bool, arch: str, lowered: Any, tmp_path: Path
) -> None:
    target = resolve({"kind": "cuda", "arch": arch})
    library = run_phases(lowered(name, dynamic), target, "bind", "code")
    source = tmp_path / "kernels.cu"
    (device,) = library.mod.imports[0].imports
    source.write_text(device.inspect_source())
    command = ["nvcc", f"-arch={arch}", "-cubin", "-Xptxas", "-v", "-o", tmp_path / "out", source]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    registers = [int(each) for each in re.findall(r"Used (\d+) registers", report)]
    spilled = [int(each) for each in re.findall(r"(\d+) bytes spill", report)]
    assert registers and max(registers) <= gpu_model(target).thread_registers
    assert not any(spilled)


@pytest.mark.parametrize("name", ["alexnet", "bert"])
def test_a_network_is_built_and_exported_without_a_gpu(
    name: str, lowered: Any, tmp_path: Path
) -> None:
    executable = tvm_nnef.build(lowered(name, False), "cuda", progress=False)
    assert executable.inputs
    executable.export(tmp_path / "model.so")
    assert b"__global__" in (tmp_path / "model.so").read_bytes()


@pytest.mark.gpu
@pytest.mark.skipif(cuda_arch() is None, reason="needs a GPU for CUDA")
@pytest.mark.parametrize(("name", "dynamic"), NETWORKS)
def test_a_gpu_gives_what_the_cpu_gives(name: str, dynamic: bool, lowered: Any) -> None:
    module = lowered(name, dynamic)
    on_cpu, on_gpu = (tvm_nnef.build(module, each, progress=False) for each in ("native", "cuda"))
    generator = np.random.default_rng(0)
    sizes = {"n": 3, "length": 37}
    given = []
    for port in on_cpu.inputs:
        shape = [e if isinstance(e, int) else sizes[e] for e in port.shape]
        real = port.dtype.startswith("float")
        values = generator.standard_normal(shape) if real else generator.integers(0, 9, shape)
        given.append(values.astype(port.dtype) * (0.05 if real and len(shape) > 1 else 1))
    for found, expected in zip(on_gpu(*given), on_cpu(*given), strict=True):
        scale = float(np.abs(expected).max())
        np.testing.assert_allclose(found, expected, 1e-3, 1e-4 * scale)
