"""Small models built for CUDA, with or without a GPU."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

import tvm_nnef
from tvm_nnef.compilation.passes import passes, run_phases
from tvm_nnef.compilation.target import resolve
from tvm_nnef.diagnostics import NnefError
from tvm_nnef.schedules.gpu.product import tiles
from tvm_nnef.schedules.gpu.product.tiles import Sizes
from tvm_nnef.schedules.machine import cuda, gpu_model
from tvm_nnef.tvm_support import cuda as compiler
from tvm_nnef.tvm_support.build import cuda_arch

pytestmark = pytest.mark.sampled(3)

NETWORK = """
import nn;
graph G {
    @input { x: real[1, 3, 8, 8]; f: real[4, 3, 3, 3]; }
    @output { y: real; }
    @compose { c = nn.conv{padding=[1, 1, 1, 1]}(x, f); y = nn.relu(c); }
}
"""


def built(**options: Any) -> Any:
    """A small network for CUDA."""
    return tvm_nnef.build(NETWORK, "cuda", progress=False, **options)


def test_the_passes_for_cuda_are_dumped(tmp_path: Path) -> None:
    executable = built(dump_dir=tmp_path)
    names = {line.split()[2] for line in (tmp_path / "passes.txt").read_text().splitlines()}
    assert {"unify_threads", "insert_barriers", "split_device_code"} <= names
    assert not {"pack_weights", "move_channels_last", "use_dot_instructions"} & names
    assert (tmp_path / "kernels.txt").read_text().startswith("gpu.")
    assert executable.inputs[0].name == "x"


@pytest.mark.parametrize("operator", [relax.op.sort, relax.op.cumsum])
def test_kernels_that_tvm_has_bound_stay_as_they_are(operator: Any) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 100), "float32"))
    with builder.function("main", [x], attrs={"num_input": 1}):
        with builder.dataflow():
            output = builder.emit_output(operator(x, axis=1))
        builder.emit_func_output(output)
    code = run_phases(builder.get(), resolve("cuda"), "bind", "code")
    (device,) = code.mod.imports[0].imports
    assert "__global__" in device.inspect_source()


def test_kernels_are_timed_on_no_cpu() -> None:
    found: list[Any] = []
    built(verbose=found.append)
    assert found


@pytest.mark.slow
@pytest.mark.skipif(cuda_arch() is not None, reason="needs a machine without a GPU")
def test_a_call_without_a_gpu_is_an_error(tmp_path: Path) -> None:
    executable = built()
    given = [np.zeros(port.shape, port.dtype) for port in executable.inputs]
    with pytest.raises(NnefError, match="built for CUDA, and there is no such GPU here"):
        executable(*given)
    executable.export(tmp_path / "model.so")
    with pytest.raises(NnefError, match="is a library for cuda"):
        tvm_nnef.load(tmp_path / "model.so")


@pytest.mark.parametrize(
    ("arch", "version"), [("sm_75", 75), ("sm_90a", 90), ("sm_120", 100), ("sm_61", 75)]
)
def test_the_model_of_a_gpu_is_that_of_its_architecture(arch: str, version: int) -> None:
    assert gpu_model(resolve({"kind": "cuda", "arch": arch})) is cuda.MODELS[version]


@pytest.mark.parametrize("version", cuda.MODELS)
@pytest.mark.parametrize("width", [2, 4, 8])
@pytest.mark.parametrize("size", [(1, 1, 1, 1), (1, 512, 49, 4608), (12, 128, 128, 64)])
def test_the_best_tile_fits(version: int, width: int, size: tuple[int, int, int, int]) -> None:
    machine = cuda.MODELS[version]
    sizes = Sizes(*size, width, is_guarded=True)
    tile = tiles.best(sizes, machine)
    assert tile.threads <= machine.block_threads and tile.threads % machine.warp == 0
    assert tile.shared_bytes(sizes, machine) <= machine.block_shared_bytes
    assert tile.registers(machine) <= machine.thread_registers


def test_large_products_get_large_tiles() -> None:
    machine = cuda.MODELS[80]
    large, small = (tiles.best(Sizes(1, n, n, n, 4), machine) for n in (4096, 128))
    assert large.rows * large.columns > small.rows * small.columns


@pytest.mark.slow
@pytest.mark.skipif(not compiler.has_compiler(), reason="needs nvcc")
@pytest.mark.parametrize(("arch", "dtype"), [("sm_75", "float16"), ("sm_90a", "bfloat16")])
def test_tensor_cores_spill_no_registers(arch: str, dtype: str, tmp_path: Path) -> None:
    source = tmp_path / "kernels.cu"
    inputs = "x: real[4, 64, 28, 28]; f: real[128, 64, 3, 3];"
    source.write_text(source_of(inputs, "y = nn.conv{padding=1}(x, f);", dtype, arch))
    command = [compiler.find_compiler(), f"-arch={arch}", "-cubin", "-Xptxas", "-v", source]
    done = subprocess.run(
        [*command, "-o", tmp_path / "out"], check=True, capture_output=True, text=True
    )
    assert "mma.sync" in source.read_text()
    assert {*re.findall(r"(\d+) bytes spill", done.stderr)} == {"0"}


def source_of(inputs: str, body: str, dtype: str, arch: str = "sm_80") -> str:
    """The CUDA source of a graph with the output y."""
    graph = f"@input {{ {inputs} }} @output {{ y: real; }} @compose {{ {body} }}"
    text = f"import math; import linalg; import nn; graph G {{ {graph} }}"
    types = {"real": dtype, "int": "int32", "bool": "bool"}
    target = resolve({"kind": "cuda", "arch": arch})
    code = run_phases(tvm_nnef.from_nnef(text, dtypes=types), target, "bind", "code")
    return str(code.mod.imports[0].imports[0].inspect_source())


@pytest.mark.parametrize("size", ["12", "n|12"])
def test_memory_is_planned_once_for_equal_sizes(size: str) -> None:
    """Six tensors between kernels share two storages."""
    step = "m{0} = linalg.matmul(x{0}, f); x{1} = nn.softmax{{axes=[0]}}(m{0});"
    steps = [step.format(n, n + 1) for n in range(6)]
    ports = f"@input {{ x0: real[{size}, 8]; f: real[8, 8]; }} @output {{ x6: real; }}"
    text = f"import linalg; import nn; graph G {{ {ports} @compose {{ {' '.join(steps)} }} }}"
    target, module = resolve("cuda"), tvm_nnef.from_nnef(text)
    for each in passes(target):
        module = each.run(module)
        if each.name == "plan_memory":
            break
    planned = module["main"].script()
    found = re.findall(r"alloc_storage\(R.shape\(\[(.+?)\]\)", planned)
    assert found == ["384" if size == "12" else "32 * n"] * 2
    assert planned.count("R.memory.alloc_tensor(") == 11
