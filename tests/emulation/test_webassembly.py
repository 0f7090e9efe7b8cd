"""Kernels for WebAssembly, executed by wasmtime: networks and operators give the right numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_nnef

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def modules(imported: Callable[[Path], Any]) -> dict[str, Any]:
    """The other modules of this folder, by name."""
    names = ("machines", "webassembly", "test_networks")
    return {name: imported(FOLDER / f"{name}.py") for name in names}


def run(modules: dict[str, Any], folder: Path, model: Any, given: Any, **options: Any) -> Any:
    """The outputs of a model whose kernels run in wasmtime."""
    wasm = modules["webassembly"]
    wasm.linker()
    built = tvm_nnef.build(model, "wasm32", progress=False, **options)
    built.export(folder / "model.tar")
    instance = wasm.Instance(wasm.linked(folder / "model.tar", folder))

    def kernel_of(name: str) -> Callable[..., Any]:
        return lambda *arguments: instance.call(name, arguments)

    with modules["machines"].calling(built, kernel_of) as executable:
        return executable(*given)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "cnn", "transformer"])
def test_networks_are_right(name: str, modules: dict[str, Any], tmp_path: Path) -> None:
    networks = modules["test_networks"]

    def execute(*given: Any) -> Any:
        return run(modules, tmp_path, networks.MODELS[name], given)

    networks.check(name, execute)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["block", "operators", "dynamic"])
def test_quantized_graphs_have_the_codes_of_the_evaluator(
    case: str, modules: dict[str, Any], imported: Callable[[Path], Any], tmp_path: Path
) -> None:
    networks = modules["test_networks"]

    def execute(model: Any, x: Any) -> Any:
        return run(modules, tmp_path, model, [x])

    saved = imported(networks.QUANTIZED).saved(case, np.uint8(0), tmp_path)
    networks.check_codes(saved, execute)


@pytest.mark.slow
def test_the_standard_library_is_right(
    modules: dict[str, Any], imported: Callable[[Path], Any], tmp_path: Path
) -> None:
    networks = modules["test_networks"]
    library = networks.operators(imported)

    def execute(model: Any, given: Any, types: Any) -> Any:
        return run(modules, tmp_path, model, given, dtypes=types)

    networks.check_operators(library, library[1], "float32", execute)
