"""Whole networks and the standard library for Vulkan: valid SPIR-V, and right numbers."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tvm_nnef
from tvm_nnef.compilation.passes import run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.vulkan_runtime import launcher
from tvm_nnef.vulkan_runtime.library import unpack

TESTS = Path(__file__).parents[1]
SCRIPTS = TESTS.parent / "scripts"
LIGHT = {"alexnet": "light_bvlc_alexnet.onnx", "resnet50": "light_resnet50.onnx"}
LAYERS = ("bert", "gpt2", "vit")
SHAPED = ("mobilenetv2", "lstm")
WRITTEN = ("unet", "detector")

pytestmark = pytest.mark.slow


def imported(path: Path, name: str) -> ModuleType:
    """A module of other tests."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def network() -> Any:
    """Makes the model of a network, with weights if it is to run."""
    onnx = pytest.importorskip("onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        models = importlib.import_module("bench_models")
    light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

    @functools.cache
    def made(name: str, **sizes: int) -> Any:
        if name in LIGHT:
            proto = onnx.load(light / LIGHT[name])
        elif name in LAYERS:
            proto = getattr(models, name)(layers=1, **sizes)
        elif name in WRITTEN:
            path = TESTS / "schedules" / "gpu" / "test_models.py"
            proto = getattr(imported(path, "vulkan_networks"), name)(models)
        else:
            proto = models.shaped_models()[name].make()
        return tvm_nnef.convert(proto.SerializeToString())

    return made


@pytest.fixture(scope="module")
def operators() -> Any:
    """The tests of the standard library, their inputs and rows, and the graph of all operators."""
    rows = imported(TESTS / "stdlib" / "test_every_operator.py", "vulkan_stdlib_rows")
    cases = imported(TESTS / "stdlib" / "conftest.py", "vulkan_stdlib_cases")
    family = cases.Family.of([(*row, rows.RESULTS.get(row[0], rows.real())) for row in rows.ROWS])
    return cases, family, cases.graph_text(family.inputs, family.rows)


def shaders_of(module: Any) -> Any:
    """The kernels of a module."""
    code = run_phases(module, resolve("vulkan"), "bind", "code")
    return unpack(launcher.kernels_of(code.mod)[1])


@pytest.mark.skipif(shutil.which("spirv-val") is None, reason="needs spirv-val (spirv-tools)")
@pytest.mark.parametrize("name", [*LIGHT, *LAYERS, *SHAPED, *WRITTEN])
def test_every_kernel_of_a_network_is_valid(name: str, network: Any, validate: Any) -> None:
    module = tvm_nnef.from_nnef(network(name), keep_params_in_input=True)
    for shader in shaders_of(module):
        validate(shader)


@pytest.mark.skipif(shutil.which("spirv-val") is None, reason="needs spirv-val (spirv-tools)")
@pytest.mark.parametrize("real", ["float32", "float16", "bfloat16"])
def test_every_kernel_of_the_standard_library_is_valid(
    real: str, operators: Any, validate: Any
) -> None:
    for shader in shaders_of(tvm_nnef.from_nnef(operators[2], dtypes={"real": real})):
        validate(shader)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("real", "route"),
    [
        ("float32", "mapped"),
        ("float32", "formula"),
        ("float16", "mapped"),
        ("bfloat16", "mapped"),
    ],
)
def test_every_operator_gives_what_the_evaluator_gives(
    real: str, route: Any, operators: Any
) -> None:
    cases, family, text = operators
    types = {"real": real, "int": "int32", "bool": "bool"}
    inputs = [cases.machine_value(value, types) for value in family.inputs.values()]
    wanted = cases.run(tvm_nnef.load_model(text), family.inputs, "reference", types)
    module = tvm_nnef.from_nnef(text, route=route, dtypes=types)
    found = tvm_nnef.build(module, "vulkan", progress=False)(*inputs)
    names = [name for name, _ in cases.results_of(family.rows)]
    for name, actual, expected in zip(names, found, wanted, strict=True):
        cases.assert_result(actual, expected, name, types)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("dynamic", [False, True])
def test_operators_of_larger_shapes(dynamic: bool) -> None:
    path = TESTS / "schedules" / "gpu" / "test_models_simulated.py"
    rows = imported(path, "vulkan_operator_rows")
    shapes = rows.DYNAMIC if dynamic else rows.STATIC
    executable = tvm_nnef.build(rows.text(shapes), "vulkan", progress=False)
    for n, h, w in ((1, 8, 8), (2, 37, 70), (2, 5, 100)) if dynamic else ((1, 1, 1),):
        rows.check(executable, rows.values_of({"n": n, "h": h, "w": w}, shapes))


@pytest.mark.usefixtures("runs")
def test_a_classifier_of_digits() -> None:
    folder = TESTS.parent / "docs" / "examples" / "digits"
    executable = tvm_nnef.build(folder, "vulkan", progress=False)
    generator = np.random.default_rng(0)
    shape = [each if isinstance(each, int) else 3 for each in executable.inputs[0].shape]
    image = generator.random(shape).astype("float32")
    (wanted,) = tvm_nnef.evaluate(folder, image)
    (found,) = executable(image)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_layer_of_a_transformer(name: str, network: Any) -> None:
    model = network(name, rows=16, width=96, heads=4)
    executable = tvm_nnef.build(model, "vulkan", progress=False)
    generator = np.random.default_rng(0)
    inputs = [
        generator.integers(0, 90, port.shape).astype(port.dtype) for port in executable.inputs
    ]
    for actual, expected in zip(
        executable(*inputs), tvm_nnef.evaluate(model, *inputs), strict=True
    ):
        np.testing.assert_allclose(actual, expected, 1e-4, 1e-4)
