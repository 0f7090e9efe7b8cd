"""Whole networks built for CUDA without a GPU: every kernel is bound, and within the limits.

With a GPU they run, and give what the CPU gives.
"""

from __future__ import annotations

import functools
import importlib
import re
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
from tvm_nnef.tvm_support import cuda
from tvm_nnef.tvm_support.compat import prim_functions

onnx = pytest.importorskip("onnx")

SCRIPTS = Path(__file__).parents[3] / "scripts"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FILES = {"alexnet": "light_bvlc_alexnet.onnx", "resnet50": "light_resnet50.onnx"}
NETWORKS = [(name, dynamic) for name in (*FILES, "bert") for dynamic in (False, True)]
OTHERS = ("mobilenetv2", "gpt2", "unet", "detector")
BUILDS = [
    *NETWORKS,
    *((name, dynamic) for name in OTHERS for dynamic in (False, True)),
    *((name, False) for name in ("vit", "lstm")),
]
FAT_BINARY = bytes.fromhex("50ed55ba")
"""How machine code for GPUs begins in a file."""

ARCHITECTURES = ("sm_75", "sm_80", "sm_90a")
COMPILED = [
    ("alexnet", True, "sm_75"),
    ("resnet50", False, "sm_80"),
    ("bert", True, "sm_90a"),
    ("lstm", False, "sm_80"),
    ("unet", True, "sm_80"),
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
        elif name in ("unet", "detector"):
            proto = {"unet": unet, "detector": detector}[name](models)
        elif name in ("gpt2", "vit"):
            proto = getattr(models, name)(layers=1)
        elif name not in FILES:
            proto = models.shaped_models()[name].make()
        else:
            proto = onnx.load(LIGHT / FILES[name])
        proto = models.with_batch(proto, "n") if dynamic and name != "bert" else proto
        names = ["n", "length"] if name == "bert" else ["n"]
        bounds = dict.fromkeys(names, 64) if dynamic else {}
        model = tvm_nnef.convert(proto.SerializeToString(), bounds=bounds)
        return tvm_nnef.from_nnef(model, keep_params_in_input=True)

    return made


def dynamic_bert(models: Any, width: int = 768, heads: int = 12) -> Any:
    """A layer of BERT with dynamic batch and length."""
    made = models.Network({"ids": ("n", "length")}, {"ids": "int64"})
    x = made.norm(made.add("Gather", made.normal(30522, width), "ids", axis=0), width)
    x = made.norm(made.add("Add", x, made.attention(x, -1, width, heads)), width)
    x = made.norm(made.add("Add", x, made.mlp(x, width, made.gelu)), width)
    return made.model(made.add("Tanh", made.dense(x, width, width)))


def unet(models: Any) -> Any:
    """A U-Net of two levels: convolutions, poolings, transposed convolutions, concatenations."""
    made = models.Network({"x": (1, 3, 64, 64)})

    def block(x: str, inputs: int, outputs: int) -> str:
        x = made.add("Relu", made.conv(x, inputs, outputs, 3))
        return made.add("Relu", made.conv(x, outputs, outputs, 3))

    def larger(x: str, inputs: int, outputs: int) -> str:
        weight = made.normal(inputs, outputs, 2, 2)
        return made.add("ConvTranspose", x, weight, kernel_shape=[2, 2], strides=[2, 2])

    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    first = block("x", 3, 16)
    second = block(made.add("MaxPool", first, **pool), 16, 32)
    x = block(made.add("MaxPool", second, **pool), 32, 64)
    x = block(made.add("Concat", second, larger(x, 64, 32), axis=1), 64, 32)
    x = block(made.add("Concat", first, larger(x, 32, 16), axis=1), 32, 16)
    return made.model(made.add("Sigmoid", made.conv(x, 16, 1, 1)))


def detector(models: Any, classes: int = 20, anchors: int = 3) -> Any:
    """The head of a detector, from features to the boxes that suppression leaves."""
    made = models.Network({"x": (1, 256, 16, 16)})
    x = made.add("Relu", made.conv("x", 256, 128, 3))

    def flat(channels: int) -> str:
        y = made.add("Transpose", made.conv(x, 128, anchors * channels, 1), perm=[0, 2, 3, 1])
        return made.add("Reshape", y, made.constant([1, 256 * anchors, channels], "int64"))

    boxes = made.add("Add", flat(4), made.normal(1, 256 * anchors, 4, scale=8.0))
    scores = made.add("Transpose", made.add("Sigmoid", flat(classes)), perm=[0, 2, 1])
    limits = made.constant(50, "int64"), made.constant(0.5), made.constant(0.3)
    chosen = made.add("NonMaxSuppression", boxes, scores, *limits, center_point_box=1)
    return made.model(made.add("Cast", chosen, to=1))


@pytest.mark.parametrize(("name", "dynamic"), BUILDS)
def test_every_kernel_is_bound_and_within_the_limits(
    name: str, dynamic: bool, lowered: Any, gpu: Any
) -> None:
    targets = [resolve({"kind": "cuda", "arch": arch}) for arch in ARCHITECTURES]
    fused = run_phases(lowered(name, dynamic), targets[0], "bind", "fuse")
    for target in targets:
        machine, scheduled = gpu_model(target), run_phases(fused, target, "schedule", "schedule")
        functions = prim_functions(scheduled)
        gpu.check_limits(functions, machine)
        taken = [str(function.attrs[STRATEGY]) for function in functions.values()]
        # A step of an LSTM is one row times a matrix: sums that threads share.
        assert name == "lstm" or "gpu.contraction" in taken
        # The results of a loop are stored step by step; a box is compared with those before it.
        if name not in ("lstm", "detector"):
            assert not {"gpu.sequential", "gpu.fallback"} & {*taken}
    run_phases(scheduled, targets[-1], "bytecode", "code")


@pytest.mark.skipif(not cuda.has_compiler(), reason="needs nvcc")
@pytest.mark.parametrize(("name", "dynamic", "arch"), COMPILED)
def test_registers_suffice(
    name: str, dynamic: bool, arch: str, lowered: Any, tmp_path: Path
) -> None:
    target = resolve({"kind": "cuda", "arch": arch})
    library = run_phases(lowered(name, dynamic), target, "bind", "code")
    source = tmp_path / "kernels.cu"
    (device,) = library.mod.imports[0].imports
    source.write_text(device.inspect_source())
    command = [
        cuda.find_compiler(),
        f"-arch={arch}",
        "-cubin",
        "-Xptxas",
        "-v",
        "-o",
        tmp_path / "out",
        source,
    ]
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
    written = (tmp_path / "model.so").read_bytes()
    assert (FAT_BINARY if cuda.has_compiler() else b"__global__") in written


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "dynamic"), BUILDS)
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
        if name == "detector":  # Boxes of nearly equal scores may change places.
            found, expected = (each[np.lexsort(each.T)] for each in (found, expected))
        scale = float(np.abs(expected).max(initial=0))
        np.testing.assert_allclose(found, expected, 1e-3, 1e-4 * scale)
